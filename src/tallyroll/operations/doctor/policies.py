"""Reads resource policies: whether they deny or allow what the pipeline's functions need.

Only denials without a condition are judged, as those with one depend on the request. What is
allowed under a condition counts as allowed. Source: IAM User Guide, "IAM JSON policy element
reference".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any


def denials(policy: str, actions: Sequence[str], roles: Collection[str]) -> list[str]:
    """Those of the actions that a policy (JSON; "" for none) denies everybody, or one of these
    roles.
    """
    denied: set[str] = set()
    for statement in _statements(policy):
        if statement.get("Effect") != "Deny" or statement.get("Condition"):
            continue
        if _concerns(statement, roles):
            denied.update(action for action in actions if _names(statement, action))
    return [action for action in actions if action in denied]


def not_granted(policy: str, actions: Sequence[str], principals: Collection[str]) -> Sequence[str]:
    """Those of the actions that no statement of a policy (JSON) allows one of the principals: ARNs
    of roles, accounts or services, as the policy may name them.
    """
    granted: set[str] = set()
    for statement in _statements(policy):
        if statement.get("Effect") == "Allow" and "Principal" in statement:
            named = _principals(statement["Principal"])
            if "*" in named or named & {*principals}:
                granted.update(action for action in actions if _names(statement, action))
    return [action for action in actions if action not in granted]


def _statements(policy: str) -> Iterator[Mapping[str, Any]]:
    found = json.loads(policy).get("Statement", ()) if policy else ()
    yield from [found] if isinstance(found, dict) else found


def _concerns(statement: Mapping[str, Any], roles: Collection[str]) -> bool:
    if "NotPrincipal" in statement:
        named = _principals(statement["NotPrincipal"])
        return not named & {*roles} if roles else True
    named = _principals(statement.get("Principal", ()))
    return "*" in named or bool(named & {*roles})


def _principals(principal: object) -> set[str]:
    if isinstance(principal, dict):
        return {one for each in principal.values() for one in _texts(each)}
    return {*_texts(principal)}


def _names(statement: Mapping[str, Any], action: str) -> bool:
    def matched(patterns: object) -> bool:
        return any(fnmatchcase(action.lower(), one.lower()) for one in _texts(patterns))

    if "NotAction" in statement:
        return not matched(statement["NotAction"])
    return matched(statement.get("Action", ()))


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(one) for one in value] if isinstance(value, list | tuple) else []
