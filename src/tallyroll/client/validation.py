"""Finds messages that no writer would count: the line, the path of the wrong field, the reason.

The verdict is that of the writer's own parser, so an event may be in an envelope of SNS,
EventBridge or CloudEvents. With a mapping, it is that of a pipeline that had this mapping from its
beginning, and for each message it says which keys it counts under.

What depends on the time, on the settings or on other messages is left to the writer: whether a
window takes the event, whether a packet lies in one window, whether `ts` is required, and whether
another event has the id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tallyroll.client.jsonlines import LineSource, envelope_of
from tallyroll.client.notes import Notes
from tallyroll.errors import Rejected
from tallyroll.model.events import ENTRY_FIELDS_MAX, ENVELOPE_VERSION, Event, parse
from tallyroll.model.foreign.envelopes import is_enveloped, unwrap
from tallyroll.model.foreign.mapping import mapper_of
from tallyroll.model.foreign.mappings import UNMAPPED, founded_with
from tallyroll.model.foreign.reading import read
from tallyroll.model.formats.json_texts import load_json
from tallyroll.reasons import Reason

ROOT = "$"
_OWN_FIELDS = ("detail", "data")  # of EventBridge and CloudEvents: where an event lies as JSON
_FIELDS = {
    Reason.UNKNOWN_VERSION: ".v",
    Reason.BAD_KEY: ".key",
    Reason.BAD_ID: ".id",
    Reason.BAD_TS: ".ts",
    Reason.TS_IN_SECONDS: ".ts",
    Reason.BAD_VALUE: ".value",
    Reason.BAD_PAYLOAD: ".payload",
}
_PACKET_FIELDS = {**_FIELDS, Reason.BAD_TS: ".t0", Reason.TS_IN_SECONDS: ".t0"}
_ENTRY_FIELDS = {
    Reason.BAD_TS: "[0]",
    Reason.TS_IN_SECONDS: "[0]",
    Reason.BAD_VALUE: "[1]",
    Reason.BAD_PAYLOAD: "[2]",
    Reason.PACKET_MIXED_KEYS: ".key",
    Reason.PACKET_OWN_IDS: ".id",
}


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no message; `path` is the JSONPath of what is wrong in it."""

    number: int
    path: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class GoodLine:
    """A line that is a message, and the keys under which it counts."""

    number: int
    keys: tuple[str, ...]
    id: str | None


@dataclass(slots=True)
class Validation:
    """The messages of a source, which are read by a `mapping` if it is given, as if they were sent
    at `sent` (ms). `lines` to `notes` are about what has been read so far.
    """

    source: LineSource
    mapping: str = UNMAPPED
    sent: int = 0
    lines: int = 0
    events: int = 0
    packets: int = 0
    packed_events: int = 0
    bad: Counter[Reason] = field(default_factory=Counter)
    notes: Notes = field(default_factory=Notes)

    def verdicts(self) -> Iterator[BadLine | GoodLine]:
        """What each line is. Raises UnreadableInput.

        There are no notes with a mapping: messages of other systems have members of their own.
        """
        decoded = partial(read, mappings=founded_with(self.mapping), sent=self.sent)
        for number, line in self.source.lines():
            self.lines += 1
            if self.mapping == UNMAPPED:
                self.notes.look_at(number, line)
            try:
                envelope, _ = envelope_of(line, decoded)
            except Rejected as rejected:
                self.bad[rejected.reason] += 1
                path = path_of(line, rejected, self.mapping)
                yield BadLine(number, path, rejected.reason, rejected.detail)
                continue
            if isinstance(envelope, Event):
                self.events += 1
                yield GoodLine(number, (envelope.key, *envelope.other_keys), envelope.id)
            else:
                self.packets += 1
                self.packed_events += len(envelope.entries)
                yield GoodLine(number, (envelope.key,), envelope.id)


def path_of(line: bytes | None, rejected: Rejected, mapping: str = UNMAPPED) -> str:
    """The JSONPath (RFC 9535) of what a line was rejected for; `$` is the message as a whole."""
    try:
        fields = load_json((line or b"").decode("utf-8-sig").strip())
    except (Rejected, UnicodeDecodeError):
        return ROOT
    if not isinstance(fields, dict):
        return ROOT
    if mapping != UNMAPPED and not _is_own(fields):
        return ROOT + _path_in_mapped(fields, rejected, mapping)
    if "key" not in fields and is_enveloped(fields):
        return ROOT + _path_in_envelope(fields, rejected.reason)
    return ROOT + _path_in_message(fields, rejected.reason)


def _is_own(fields: dict[str, Any]) -> bool:
    """Whether a message is Tallyroll's own for a pipeline that always had a mapping."""
    return "key" in fields and fields.get("v") == ENVELOPE_VERSION


def _path_in_mapped(fields: dict[str, Any], rejected: Rejected, mapping: str) -> str:
    """The path that an expression of the mapping reads and that is missing or wrong: as far as the
    expression is a plain path, and no text holds what it reads.
    """
    try:
        unwrapped = unwrap(fields, float)
    except Rejected:
        return ""
    if unwrapped.document is fields:
        begin = ""
    elif fields.get("Records"):
        begin = ".Records[0]"
    else:
        return ""
    mapper = mapper_of(mapping)
    if rejected.reason is Reason.MAPPING_FAILED:
        expression = mapper.failing(unwrapped.document)
    else:
        expression = mapper.finds.get(_FIELDS.get(rejected.reason, "").removeprefix("."))
    if expression is None:
        return begin
    steps = expression.missing(unwrapped.document) or expression.steps or ()
    return begin + "".join(f".{step}" if step.isidentifier() else f"[{step!r}]" for step in steps)


def _path_in_envelope(fields: dict[str, Any], reason: Reason) -> str:
    for name in _OWN_FIELDS:
        own = fields.get(name)
        if isinstance(own, dict) and _reason_of(own) is reason:
            return f".{name}{_path_in_message(own, reason)}"
    return ""  # in the envelope itself, or in a text


def _path_in_message(fields: dict[str, Any], reason: Reason) -> str:
    if "events" in fields:
        return _path_in_packet(fields, reason)
    return _FIELDS.get(reason, "")


def _path_in_packet(fields: dict[str, Any], reason: Reason) -> str:
    if reason in (Reason.ITEM_TOO_LARGE, Reason.PACKET_TOO_LARGE):
        return ""
    entries = fields["events"]
    head = _reason_of({**fields, "events": []})
    if head is not Reason.PACKET_EMPTY:
        if head is not Reason.BAD_PACKET:
            return _PACKET_FIELDS.get(reason, "")
        return ".id" if fields.get("id") is None else ".t0"
    if isinstance(entries, list):
        for index, entry in enumerate(entries):
            if _reason_of({**fields, "events": [entry]}):
                return f".events[{index}]{_path_in_entry(entry, reason)}"
    return ".events"


def _path_in_entry(entry: Any, reason: Reason) -> str:
    if reason is Reason.BAD_PACKET:
        is_entry = isinstance(entry, list) and 1 <= len(entry) <= ENTRY_FIELDS_MAX
        return "[0]" if is_entry else ""
    return _ENTRY_FIELDS.get(reason, "")


def _reason_of(fields: dict[str, Any]) -> Reason | None:
    try:
        parse(fields)
    except Rejected as rejected:
        return rejected.reason
    return None
