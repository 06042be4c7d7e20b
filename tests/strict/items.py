"""Rules about items of tables: which questions a request for them asks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.strict.values import (
    Account,
    Parts,
    Question,
    Reading,
    Request,
    Value,
    question,
    seen,
    table_arn,
)

ACTION_OF = {
    "ConditionCheck": "ConditionCheckItem",
    "Delete": "DeleteItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
}
SINGLE = frozenset({"DeleteItem", "GetItem", "PutItem", "UpdateItem"})
EXPRESSIONS = ("UpdateExpression", "ProjectionExpression")
CONDITIONS = ("ConditionExpression", "FilterExpression")
_NAME = re.compile(r"(?<![:#\w])[#A-Za-z_]\w*")
_WORDS = frozenset(
    (
        *("SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "IN", "BETWEEN"),
        *("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with"),
        *("contains", "if_not_exists", "list_append", "size"),
    )
)


def single_items(request: Request, account: Account, reading: Reading) -> Iterator[Question]:
    """A request for one item asks for its own action, with the item's partition key and the
    attributes that it names.
    """
    if request.operation in SINGLE:
        params = request.params
        yield _asked(account, request.operation, params["TableName"], _of_item(params, reading))


def transactions(request: Request, account: Account, reading: Reading) -> Iterator[Question]:
    """A transaction has no action of its own: each part asks for the one of its kind, and says
    that TransactWriteItems encloses it.
    """
    if request.operation != "TransactWriteItems":
        return
    parts = [part for each in request.params["TransactItems"] for part in each.items()]
    own = [_of_item(given, reading) for _, given in parts]
    together = _joined(own)
    for (part, given), its in zip(parts, own, strict=True):
        context: dict[str, Value] = dict(
            {Parts.OWN: its, Parts.ALL: together, Parts.NONE: {}}[reading.parts]
        )
        if part != "ConditionCheck" or reading.checks_enclosed:
            context["dynamodb:EnclosingOperation"] = "TransactWriteItems"
        yield _asked(account, ACTION_OF[part], given["TableName"], context)


def many_items(request: Request, account: Account, _reading: Reading) -> Iterator[Question]:
    """A batch asks once for each table, with the partition keys of all its items; a Query with the
    one that it names; a Scan with none.
    """
    match request.operation:
        case "BatchGetItem":
            for table, wanted in request.params["RequestItems"].items():
                keys = tuple(sorted({key["pk"]["S"] for key in wanted["Keys"]}))
                yield _asked(account, "BatchGetItem", table, {"dynamodb:LeadingKeys": keys})
        case "Query":
            params = request.params
            [value] = re.findall(
                r"#?pk = (:\w+)", params["KeyConditionExpression"]
            )  # the only form that is sent
            leading = (params["ExpressionAttributeValues"][value]["S"],)
            context: dict[str, Value] = {"dynamodb:LeadingKeys": leading}
            yield _asked(account, "Query", params["TableName"], context)
        case "Scan":
            yield _asked(account, "Scan", request.params["TableName"], {})


def _asked(account: Account, operation: str, table: str, context: Mapping[str, Value]) -> Question:
    arn = table_arn(table)
    return question(f"dynamodb:{operation}", arn, {**context, **seen(account, arn)})


def _of_item(params: Mapping[str, Any], reading: Reading) -> dict[str, Value]:
    item = params.get("Item") or params["Key"]
    named = {*item, *_named(params, EXPRESSIONS)}
    if reading.conditions_count:
        named |= _named(params, CONDITIONS)
    return {
        "dynamodb:LeadingKeys": (item["pk"]["S"],),
        "dynamodb:Attributes": tuple(sorted(named)),
        "dynamodb:ReturnValues": params.get("ReturnValues", ""),
    }


def _named(params: Mapping[str, Any], expressions: tuple[str, ...]) -> set[str]:
    """The attributes that expressions name."""
    names = params.get("ExpressionAttributeNames", {})
    text = " ".join(params.get(expression) or "" for expression in expressions)
    found = set(_NAME.findall(text)) - _WORDS
    return {names[name] if name.startswith("#") else name for name in found}


def _joined(own: list[dict[str, Value]]) -> dict[str, Value]:
    values = {name: {one for each in own for one in each[name]} for name in _OF_PARTS}
    return {name: tuple(sorted(found)) for name, found in values.items()}


_OF_PARTS = ("dynamodb:LeadingKeys", "dynamodb:Attributes")
