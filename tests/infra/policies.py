"""What IAM decides of a request by a role's statements, as far as our conditions need it.

Sources: IAM User Guide, "Policy evaluation logic", "IAM JSON policy elements: Condition operators"
and "Set operators for multivalued context keys".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from tests.infra.grants import label
from tests.infra.templates import Template, actions, resource, statements

Context = Mapping[str, str | Sequence[str]]
"""Condition keys by name: one value, or a list for a key of several values."""


class UnknownOperatorError(Exception):
    """A condition that is not known here."""


class Role:
    """A function's role: `may` answers for one action on a resource, as `label` names it."""

    def __init__(self, template: Template, function: str) -> None:
        self._allowed = _by_place(template, statements(template, function))
        self._denied = _by_place(template, statements(template, function, "Deny"))

    def may(self, action: str, where: str, context: Context | None = None) -> bool:
        """Whether a statement allows it, and none denies it."""
        asked = (action, where, context or {})
        return _any(self._allowed, *asked) and not _any(self._denied, *asked)


def _by_place(
    template: Template, found: Sequence[dict[str, Any]]
) -> list[tuple[str, dict[str, Any]]]:
    return [(label(template, resource(one)), one) for one in found]


def _any(
    found: Sequence[tuple[str, dict[str, Any]]], action: str, where: str, context: Context
) -> bool:
    return any(
        place == where
        and any(fnmatchcase(action, pattern) for pattern in actions(one))
        and meets(one.get("Condition", {}), context)
        for place, one in found
    )


def meets(conditions: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    """Whether a request with this context meets all conditions of a statement."""
    return all(
        _meets(operator, wanted, context.get(key))
        for operator, keys in conditions.items()
        for key, wanted in keys.items()
    )


def _meets(operator: str, wanted: Any, found: str | Sequence[str] | None) -> bool:
    patterns = [wanted] if isinstance(wanted, str) else list(wanted)
    if operator == "Null":
        return (not found) is (patterns == ["true"])
    quantifier, _, rest = operator.rpartition(":")
    optional = rest.endswith("IfExists")
    values = [found] if isinstance(found, str) else list(found or ())
    if optional and not values:
        return True
    matched = [_matches(rest.removesuffix("IfExists"), patterns, value) for value in values]
    if quantifier == "ForAllValues":
        return all(matched)  # also without any value
    if quantifier in ("", "ForAnyValue"):
        return any(matched)
    raise UnknownOperatorError(operator)


def _matches(operator: str, patterns: Sequence[str], value: str) -> bool:
    match operator:
        case "StringEquals" | "Bool":
            return value in patterns
        case "StringLike":
            return any(_like(pattern, value) for pattern in patterns)
        case _:
            raise UnknownOperatorError(operator)


def _like(pattern: str, value: str) -> bool:
    return _regex(pattern).fullmatch(value) is not None


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    """IAM's patterns have `*` and `?` only; brackets are plain there."""
    signs = {"*": ".*", "?": "."}
    return re.compile("".join(signs.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL)
