"""A mapping: JMESPath expressions that say where the fields of an event are in another message.

    {"key": "detail.videoId", "id": "detail.viewId", "ts": "detail.at", "value": "detail.seconds"}

JMESPath (https://jmespath.org) is imported when a mapping is compiled. It comes with boto3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tallyroll import limits
from tallyroll.errors import Reason, Rejected, UsageError
from tallyroll.model.amounts import JsonFloat, shown
from tallyroll.model.events import Envelope, parse
from tallyroll.model.foreign.envelopes import (
    Unwrapped,
    completed,
    own_event,
    unwrap,
    unwrapped_exactly,
)
from tallyroll.model.foreign.mappings import UNMAPPED, Mappings
from tallyroll.model.foreign.times import read_time
from tallyroll.model.formats.json_texts import canonical

FIELDS = ("key", "id", "ts", "value", "payload")
TIME_SCALE, TIME_SCALES = "ts_unit", ("ms", "s")

Find = Callable[[Any], Any]


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raise UsageError, which names the field, unless this is a mapping."""
    if not mapping.get("key"):
        raise UsageError("key: give the expression that finds the key")
    if mapping.get(TIME_SCALE, "ms") not in TIME_SCALES:
        raise UsageError(f"{TIME_SCALE} {mapping[TIME_SCALE]!r}: must be ms or s")
    text = canonical(dict(mapping))
    if (size := len(text.encode())) > limits.MAPPING_BYTES_MAX:
        raise UsageError(f"the mapping has {size} bytes, over {limits.MAPPING_BYTES_MAX}")
    mapper_of(text)


@dataclass(frozen=True, slots=True)
class Mapper:
    """A compiled mapping: `finds` are the fields' expressions and what they find."""

    finds: Mapping[str, tuple[str, Find]]
    time_scale: str

    def event(self, unwrapped: Unwrapped, body: str) -> Envelope:
        """The event in an unwrapped message, which is that in `body`.

        Raises Rejected: mapping-failed if a field is not found or an expression fails, or what the
        field's value deserves.
        """
        document = unwrapped.document
        fields = {name: self._found(name, document) for name in self.finds}
        for name in ("key", "id"):
            value = fields.get(name, "")
            if not isinstance(value, str):
                raise self._failed(name, f"finds {shown(value)}, which is no text")
        if isinstance(fields.get("value"), float):
            fields["value"] = self._exact_value(fields["value"], body)
        if "ts" in fields:
            fields["ts"] = self._time(fields["ts"])
        return completed(parse(fields), unwrapped)

    def _found(self, name: str, document: Any) -> Any:
        expression, find = self.finds[name]
        try:
            found = find(document)
        except Exception as error:  # noqa: BLE001 (whatever a function of JMESPath does not take)
            raise self._failed(name, f"fails: {error}") from None
        if found is None and name != "payload":
            raise self._failed(name, f"finds nothing: {_missing(expression, document)}")
        return found

    def _exact_value(self, found: float, body: str) -> float:
        """The value as it was written, if the expression takes it from the message unchanged."""
        try:
            exact = self.finds["value"][1](unwrapped_exactly(body).document)
        except Exception:  # noqa: BLE001 (functions of JMESPath do not take a JsonFloat)
            return found
        return exact if isinstance(exact, JsonFloat) else found

    def _time(self, found: Any) -> Any:
        if isinstance(found, str):
            return read_time(found, "ts")
        if self.time_scale == "s" and type(found) in (int, float) and abs(found) < limits.TS_MS_MAX:
            return round(found * 1000)
        return found

    def _failed(self, name: str, how: str) -> Rejected:
        expression = shown(self.finds[name][0])
        return Rejected(Reason.MAPPING_FAILED, f"the mapping of {name}, {expression}, {how}")


def read_mapped(
    body: str,
    fields: dict[str, Any],
    mappings: Mappings,
    sent: int,
    unmapped: Callable[[], Envelope],
) -> Envelope:
    """The event in a body, whose JSON object is `fields`, by the first mapping that finds one.
    `unmapped` reads it where the list says that there is no mapping. Raises Rejected.
    """
    unwrapped = unwrap(fields, float)
    if unwrapped.holds_own and mappings.keep(unwrapped.own):
        return own_event(unwrapped_exactly(body))
    failed: Rejected | None = None
    for text in mappings.of(sent):
        try:
            return unmapped() if text == UNMAPPED else mapper_of(text).event(unwrapped, body)
        except Rejected as rejected:
            failed = failed or rejected
    assert failed
    raise failed


@lru_cache(maxsize=limits.MAPPINGS_MAX)
def mapper_of(text: str) -> Mapper:
    """The compiled mapping of a text. Raises UsageError for fields that this version does not know,
    and for an expression that is not JMESPath.
    """
    mapping: dict[str, str] = json.loads(text)
    if unknown := sorted(mapping.keys() - {*FIELDS, TIME_SCALE}):
        raise UsageError(f"{unknown[0]}: the fields are {', '.join(FIELDS)} and {TIME_SCALE}")
    time_scale = mapping.pop(TIME_SCALE, "ms")
    return Mapper(
        {name: (text, _compiled(name, text)) for name, text in mapping.items()}, time_scale
    )


def _compiled(name: str, expression: str) -> Find:
    from jmespath import compile as parsed  # type: ignore[import-untyped]
    from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

    try:
        found = parsed(expression)
    except JMESPathError as error:
        raise UsageError(f"{name} {expression!r}: {str(error).splitlines()[0]}") from None
    steps = _steps(found.parsed)
    if steps is None:
        search: Find = found.search
        return search
    return lambda document: _walked(document, steps)


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


def _missing(expression: str, document: Any) -> str:
    """Which part of an expression finds nothing."""
    from jmespath import compile as parsed

    steps = _steps(parsed(expression).parsed)
    if steps is None:
        return "give a default by `||` for what may be missing"
    found = next(end for end in range(1, len(steps) + 1) if _walked(document, steps[:end]) is None)
    return f"there is no {shown('.'.join(steps[:found]))}"
