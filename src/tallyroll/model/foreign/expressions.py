"""A mapping's expressions, in JMESPath (https://jmespath.org).

JMESPath comes with boto3. It is imported when an expression is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tallyroll.errors import Rejected, UsageError
from tallyroll.model.amounts import shown
from tallyroll.reasons import Reason

Find = Callable[[Any], Any]
_GIVE_A_DEFAULT = "give a default by `||` for what may be missing"


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `name` and `written` tell where it is in the mapping. `steps` are the
    names in it if it is only a path of names.
    """

    name: str
    text: str
    written: str
    find: Find
    steps: tuple[str, ...] | None = None

    def value(self, document: Any) -> Any:
        """What it finds, or None. Raises Rejected (mapping-failed) if a function fails."""
        try:
            return self.find(document)
        except Exception as error:  # noqa: BLE001 (whatever a function of JMESPath does not take)
            raise self.failed(f"fails: {error}") from None

    def required(self, document: Any) -> Any:
        """What it finds. Raises Rejected (mapping-failed), with the missing path, for nothing."""
        found = self.value(document)
        if found is None:
            raise self._nothing(document)
        return found

    def required_text(self, document: Any) -> str:
        """The text that it finds. Raises Rejected (mapping-failed) for anything else."""
        found = self.value(document)
        if isinstance(found, str):
            return found
        if found is None:
            raise self._nothing(document)
        raise self.failed(f"finds {shown(found)}, which is no text")

    def _nothing(self, document: Any) -> Rejected:
        missing = self.missing(document)
        reason = f"there is no {shown('.'.join(missing))}" if missing else _GIVE_A_DEFAULT
        return self.failed(f"finds nothing: {reason}")

    def missing(self, document: Any) -> tuple[str, ...]:
        """The shortest part of its path that finds nothing; empty if it is no path, or finds it."""
        steps = self.steps or ()
        parts = (steps[:end] for end in range(1, len(steps) + 1))
        return next((part for part in parts if _walked(document, part) is None), ())

    def failed(self, how: str) -> Rejected:
        """The rejection of a message for which it fails."""
        return Rejected(
            Reason.MAPPING_FAILED, f"the mapping of {self.name}, {shown(self.written)}, {how}"
        )


def compiled(name: str, text: str, written: str | None = None) -> Expression:
    """The expression in a text. Raises UsageError, which names it, if it is not JMESPath."""
    from jmespath import compile as parsed  # type: ignore[import-untyped]
    from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

    written = text if written is None else written
    try:
        found = parsed(text)
    except JMESPathError as error:
        raise UsageError(f"{name} {written!r}: {str(error).splitlines()[0]}") from None
    steps = _steps(found.parsed)
    if steps is None:
        return Expression(name, text, written, found.search)
    return Expression(name, text, written, lambda document: _walked(document, steps), steps)


def _steps(parsed: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The names in an expression that is only a path of names; None for any other."""
    if parsed["type"] == "field":
        return (parsed["value"],)
    if parsed["type"] != "subexpression":
        return None
    parts = [_steps(child) for child in parsed["children"]]
    return None if None in parts else tuple(step for part in parts for step in part or ())


def _walked(document: Any, steps: tuple[str, ...]) -> Any:
    """What a path of names finds: as JMESPath does, without its tree of calls."""
    for step in steps:
        if not isinstance(document, dict):
            return None
        document = document.get(step)
    return document
