"""Finds messages that no writer would count: the line, the path of the wrong field, the reason.

The verdict is that of the writer's own parser for a pipeline without a mapping, so an event may be
in an envelope of SNS, EventBridge or CloudEvents. What depends on the time, on the settings or on
other messages is left to the writer: whether a window takes the event, whether a packet lies in one
window, whether `ts` is required, and whether another event has the id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tallyroll.client.jsonlines import Source, envelope_of
from tallyroll.client.notes import Notes
from tallyroll.errors import Reason, Rejected
from tallyroll.model.events import ENTRY_FIELDS_MAX, Event, parse
from tallyroll.model.foreign.envelopes import is_enveloped
from tallyroll.model.foreign.reading import read
from tallyroll.model.formats.json_texts import load_json

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


@dataclass(slots=True)
class Validation:
    """The messages of a source. `lines` to `notes` are about what has been read so far."""

    source: Source
    lines: int = 0
    events: int = 0
    packets: int = 0
    packed_events: int = 0
    bad: Counter[Reason] = field(default_factory=Counter)
    notes: Notes = field(default_factory=Notes)

    def bad_lines(self) -> Iterator[BadLine | None]:
        """What each line is: the bad line, or None for a message. Raises UnreadableInput."""
        for number, line in self.source.lines():
            self.lines += 1
            self.notes.look_at(number, line)
            try:
                envelope, _ = envelope_of(line, read)
            except Rejected as rejected:
                self.bad[rejected.reason] += 1
                path = path_of(line, rejected)
                yield BadLine(number, path, rejected.reason, rejected.detail)
                continue
            if isinstance(envelope, Event):
                self.events += 1
            else:
                self.packets += 1
                self.packed_events += len(envelope.entries)
            yield None


def path_of(line: bytes | None, rejected: Rejected) -> str:
    """The JSONPath (RFC 9535) of what a line was rejected for; `$` is the message as a whole."""
    try:
        fields = load_json((line or b"").decode("utf-8-sig").strip())
    except (Rejected, UnicodeDecodeError):
        return ROOT
    if not isinstance(fields, dict):
        return ROOT
    if "key" not in fields and is_enveloped(fields):
        return ROOT + _path_in_envelope(fields, rejected.reason)
    return ROOT + _path_in_message(fields, rejected.reason)


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
