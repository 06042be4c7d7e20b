"""Judges the statements of policies by AWS's own reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.infra.documents import Statement, statements_of
from tests.infra.reference import Action, matching, type_of_key
from tests.infra.templates import Template

# Operators by the type of a key. Source: IAM User Guide, "IAM JSON policy elements: Condition
# operators"; the set operators there are for keys of several values.
_STRING = ("StringEquals", "StringLike", "StringNotEquals", "StringNotLike")
_OPERATORS = {
    "ARN": ("ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike", *_STRING),
    "Bool": ("Bool",),
    "String": (*_STRING, "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase"),
}
_TRUTHS = ("true", "false")


class Problem(StrEnum):
    """What is wrong with a statement."""

    ACTION = "there is no such action"
    RESOURCE = "the action takes no such resource"
    WIDE = "the action takes resources that could be named"
    KEY = "the action and its resources have no such condition key"
    OPERATOR = "the operator or its value is not for keys of this type"


@dataclass(frozen=True, order=True)
class Finding:
    """A contradiction: `subject` is a resource, a condition key, or a key after its operator."""

    action: str
    problem: Problem
    subject: str
    where: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.where}: {self.action}, {self.subject}: {self.problem}"


def findings(statement: Statement) -> Iterator[Finding]:
    """What of a statement the reference contradicts."""
    taken = set()
    for pattern in statement.actions:
        meant = matching(pattern)
        taken |= {each for each in statement.resources if any(one.takes(each) for one in meant)}
        found = _of_action(statement, meant) if meant else [(Problem.ACTION, pattern)]
        for problem, subject in found:
            yield Finding(pattern, problem, subject, statement.where)
    for resource in statement.resources:
        if resource not in taken:
            together = " ".join(statement.actions)
            yield Finding(together, Problem.RESOURCE, resource, statement.where)


def _of_action(statement: Statement, meant: Sequence[Action]) -> Iterator[tuple[Problem, str]]:
    resources = statement.resources
    if resources and not any(one.takes(each) for one in meant for each in resources):
        yield Problem.RESOURCE, " ".join(resources)
    unnamed = "*" in resources and statement.of_identity and statement.allows
    if unnamed and all(one.types for one in meant):
        yield Problem.WIDE, "*"
    for operator, keys in statement.conditions.items():
        for key, wanted in keys.items():
            if not any(one.has(key, each) for one in meant for each in resources or ("*",)):
                yield Problem.KEY, key
            elif not _plausible(operator, wanted, type_of_key(key, meant[0].service)):
                yield Problem.OPERATOR, f"{operator} {key}"


def _plausible(operator: str, wanted: Any, type_: str) -> bool:
    """Whether an operator is for a key of this type, and its value one of the operator's."""
    several, _, plain = operator.rpartition(":")
    if plain in ("Null", "Bool") and wanted not in _TRUTHS:
        return False
    if plain == "Null":
        return not several
    if several not in (("ForAllValues", "ForAnyValue") if type_.startswith("ArrayOf") else ("",)):
        return False
    known = _OPERATORS.get(type_.removeprefix("ArrayOf"), ())
    return plain.removesuffix("IfExists") in known


def judged(template: Template) -> list[Finding]:
    """What of all statements in a template the reference contradicts, sorted, each once."""
    return sorted({one for statement in statements_of(template) for one in findings(statement)})
