"""A mapping: JMESPath expressions that say where the fields of an event are in another message.

    {"key": "detail.videoId", "id": "detail.viewId", "ts": "detail.at", "value": "detail.seconds"}
    {"keys": ["candidate:{detail.candidate}", "state:{detail.state}", "hour:{%H}"]}

`keys` are templates: the event counts under each of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tallyroll import limits
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.amounts import JsonFloat
from tallyroll.model.events import Envelope, Event, parse
from tallyroll.model.foreign.envelopes import (
    Unwrapped,
    completed,
    own_event,
    unwrap,
    unwrapped_exactly,
)
from tallyroll.model.foreign.expressions import Expression, compiled
from tallyroll.model.foreign.mappings import UNMAPPED, Fields, Mappings
from tallyroll.model.foreign.templates import Template, template_of
from tallyroll.model.foreign.times import read_time
from tallyroll.model.formats.fields import check_key
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.records import event_time
from tallyroll.reasons import Reason

FIELDS = ("key", "id", "ts", "value", "payload")
KEYS = "keys"
TIME_SCALE, TIME_SCALES = "ts_unit", ("ms", "s")
_NO_KEY_YET = "-"


def check_mapping(mapping: Fields) -> None:
    """Raise UsageError, which names the field, unless this is a mapping."""
    if KEYS in mapping:
        _check_templates(mapping)
    elif not mapping.get("key"):
        raise UsageError("key: give the expression that finds the key")
    if mapping.get(TIME_SCALE, "ms") not in TIME_SCALES:
        raise UsageError(f"{TIME_SCALE} {mapping[TIME_SCALE]!r}: must be ms or s")
    text = canonical(dict(mapping))
    if (size := len(text.encode())) > limits.MAPPING_BYTES_MAX:
        raise UsageError(f"the mapping has {size} bytes, over {limits.MAPPING_BYTES_MAX}")
    mapper_of(text)


def _check_templates(mapping: Fields) -> None:
    templates = mapping[KEYS]
    if "key" in mapping:
        raise UsageError(f"key, {KEYS}: give one of them")
    if isinstance(templates, str) or not templates or not all(templates):
        raise UsageError(f'{KEYS}: give a list of templates, ["state:{{detail.state}}"]')
    if len(templates) > limits.EVENT_KEYS_MAX:
        raise UsageError(
            f"{KEYS}: {len(templates)} counters of one event, over {limits.EVENT_KEYS_MAX}"
        )


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Mapper:
    """A compiled mapping: the fields' expressions, and the templates of keys if it has them.
    `fitted` is what is done to a value before it is read.
    """

    finds: Mapping[str, Expression]
    templates: tuple[Template, ...]
    time_scale: str
    fitted: Callable[[Any], Any] = _as_it_is

    def event(self, unwrapped: Unwrapped, body: str, sent: int) -> Envelope:
        """The event in an unwrapped message, which is that in `body` and was sent at `sent` (ms).

        Raises Rejected: mapping-failed if a field is not found or an expression fails, or what the
        field's value deserves.
        """
        document = unwrapped.document
        fields = {name: self._found(name, document) for name in self.finds}
        if isinstance(fields.get("value"), float):
            fields["value"] = self.fitted(self._exact_value(fields["value"], body))
        if "ts" in fields:
            fields["ts"] = self._time(fields["ts"])
        if self.templates:
            fields["key"] = _NO_KEY_YET
        event = completed(parse(fields), unwrapped)
        if self.templates and isinstance(event, Event):
            if (ts := event_time(event, sent)) > limits.TS_MS_MAX:
                raise Rejected(Reason.TOO_FAR_AHEAD, "its time lies after the year 9999")
            found = {check_key(template.key(document, ts)) for template in self.templates}
            first, *others = sorted(found)
            return replace(event, key=first, other_keys=tuple(others))
        return event

    def failing(self, document: Any) -> Expression | None:
        """The first expression that does not find what `event` needs."""
        parts = [part for template in self.templates for part in template.parts]
        inner = [part for part in parts if isinstance(part, Expression)]
        for expression in (*self.finds.values(), *inner):
            try:
                if expression in inner:
                    if not expression.required_text(document):
                        return expression
                else:
                    self._found(expression.name, document)
            except Rejected:
                return expression
        return None

    def _found(self, name: str, document: Any) -> Any:
        expression = self.finds[name]
        if name in ("key", "id"):
            return expression.required_text(document)
        return expression.value(document) if name == "payload" else expression.required(document)

    def _exact_value(self, found: float, body: str) -> float:
        """The value as it was written, if the expression takes it from the message unchanged."""
        try:
            exact = self.finds["value"].find(unwrapped_exactly(body).document)
        except Exception:  # noqa: BLE001 (functions of JMESPath do not take a JsonFloat)
            return found
        return exact if isinstance(exact, JsonFloat) else found

    def _time(self, found: Any) -> Any:
        if isinstance(found, str):
            return read_time(found, "ts")
        if self.time_scale == "s" and type(found) in (int, float) and abs(found) < limits.TS_MS_MAX:
            return round(found * 1000)
        return found


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
            return unmapped() if text == UNMAPPED else mapper_of(text).event(unwrapped, body, sent)
        except Rejected as rejected:
            failed = failed or rejected
    assert failed
    raise failed


@lru_cache(maxsize=limits.MAPPINGS_MAX)
def mapper_of(text: str) -> Mapper:
    """The compiled mapping of a text. Raises UsageError for fields that this version does not know,
    and for an expression that is not JMESPath.
    """
    mapping: dict[str, Any] = json.loads(text)
    if unknown := sorted(mapping.keys() - {*FIELDS, KEYS, TIME_SCALE}):
        known = ", ".join((FIELDS[0], KEYS, *FIELDS[1:]))
        raise UsageError(f"{unknown[0]}: the fields are {known} and {TIME_SCALE}")
    time_scale = mapping.pop(TIME_SCALE, "ms")
    templates: Sequence[str] = mapping.pop(KEYS, ())
    return Mapper(
        {name: compiled(name, text) for name, text in mapping.items()},
        tuple(template_of(f"{KEYS}[{at}]", text) for at, text in enumerate(templates)),
        time_scale,
    )
