"""Plain values as DynamoDB's attributes, and the expressions of conditional writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields
from typing import Any

from tallyroll.adapters.dynamodb.items import Item, binary_of

ABSENT = "attribute_not_exists(pk)"

Facts = dict[str, Any]
"""The attributes of an item by name: numbers, texts, truth values, bytes, sets of texts, and lists
and mappings of these.
"""


def attributes_of(facts: Mapping[str, Any]) -> Item:
    """These facts as attributes, without those that are None."""
    return {name: _attribute(value) for name, value in facts.items() if value is not None}


def facts_of(attributes: Mapping[str, Any]) -> Facts:
    """What attributes hold. Numbers must be whole."""
    return {name: _value(attribute) for name, attribute in attributes.items()}


def known_fields(values: Any, facts: Mapping[str, Any]) -> Facts:
    """The facts that are fields of a dataclass."""
    return {each.name: facts[each.name] for each in fields(values) if each.name in facts}


def expressed(update: str = "", condition: str = "", **values: Any) -> dict[str, Any]:
    """The parameters of a write with these expressions, in which `#n` is the attribute n, and `:n`
    the value n.
    """
    names = re.findall(r"#(\w+)", f"{update} {condition}")
    parameters = {
        "UpdateExpression": update,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        "ExpressionAttributeValues": {f":{name}": _attribute(of) for name, of in values.items()},
    }
    return {name: given for name, given in parameters.items() if given}


def _attribute(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": str(value)}
        case bytes():
            return {"B": value}
        case AbstractSet():
            return {"SS": list(value)}
        case Mapping():
            return {"M": attributes_of(value)}
        case _:
            return {"L": [_attribute(each) for each in value]}


def _value(attribute: Mapping[str, Any]) -> Any:
    [(kind, value)] = attribute.items()
    match kind:
        case "N":
            return int(value)
        case "L":
            return [_value(each) for each in value]
        case "M":
            return facts_of(value)
        case "B":
            return binary_of(value)
        case _:
            return value
