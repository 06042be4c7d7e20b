"""Notes about members of messages that are no faults, and that a producer hardly meant: a member
that no writer reads, and one that an object has twice.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from tallyroll.errors import Rejected
from tallyroll.model.amounts import shown
from tallyroll.model.foreign.envelopes import is_enveloped, unwrap

NOTES_MAX = 100
"""How many notes are kept: messages can have any number of names."""
_EVENT_MEMBERS = ("v", "key", "id", "ts", "value", "payload")
_PACKET_MEMBERS = ("v", "key", "id", "t0", "events")
_OTHER_NAMES = {"timestamp": "ts", "time": "ts", "amount": "value", "data": "payload"}
_NAME_MAX = 40


@dataclass(slots=True)
class Note:
    """How many lines have a member, and the first of them."""

    name: str
    first_line: int
    lines: int = 0
    meant: str | None = None
    """The member that Tallyroll reads and that has a similar name."""
    packed: bool = False
    """Whether the first of them is a packet."""


@dataclass(slots=True)
class Notes:
    """The notes about the lines so far, by the member's name.

    `unread` are members of an event or a packet that no writer reads, `repeated` members that one
    object has several times: only the last of them is read.
    """

    unread: dict[str, Note] = field(default_factory=dict)
    repeated: dict[str, Note] = field(default_factory=dict)

    def look_at(self, number: int, line: bytes | None) -> None:
        """Look for notes about one line."""
        repeated: set[str] = set()

        def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                counts = Counter(name for name, _ in pairs)
                repeated.update(name for name, count in counts.items() if count > 1)
            return found

        try:
            text = (line or b"").decode("utf-8-sig")
            fields = json.loads(text, object_pairs_hook=members)
        except (ValueError, RecursionError):
            return
        for name in repeated:
            _add(self.repeated, Note(name, number))
        if not isinstance(fields, dict):
            return
        own = _own(fields)
        known = _PACKET_MEMBERS if "events" in own else _EVENT_MEMBERS
        left = [each for each in known if each not in own]
        for name in own.keys() - known:
            meant = _near(name, left)
            if meant or "key" in own:  # without a key it is most likely a message for a mapping
                _add(self.unread, Note(name, number, meant=meant, packed="events" in own))

    def as_json(self) -> list[dict[str, Any]]:
        """The notes for machines."""
        return [
            {
                "note": kind,
                "member": note.name,
                "lines": note.lines,
                "first_line": note.first_line,
                "meant": note.meant,
            }
            for kind, notes in (("unread", self.unread), ("repeated", self.repeated))
            for note in _in_order(notes)
        ]

    def texts(self) -> list[str]:
        """The notes for people, a sentence each."""
        unread = [
            f"{_lines(note)} a member that Tallyroll does not read: {_name(note)}"
            f" ({_first(note)}{_remedy(note)})"
            for note in _in_order(self.unread)
        ]
        repeated = [
            f"{_lines(note)} a member twice or more in one object, of which only the last is read:"
            f" {_name(note)} ({_first(note)})"
            for note in _in_order(self.repeated)
        ]
        return unread + repeated


def _own(fields: dict[str, Any]) -> dict[str, Any]:
    """The event or packet in a message, with or without an envelope; empty if there is none."""
    if "key" in fields or not is_enveloped(fields):
        return fields
    try:
        own = unwrap(fields, float).own
    except Rejected:
        return {}
    return own if isinstance(own, dict) else {}


def _add(notes: dict[str, Note], note: Note) -> None:
    if note.name in notes or len(notes) < NOTES_MAX:
        notes.setdefault(note.name, note).lines += 1


def _near(name: str, left: list[str]) -> str | None:
    """The member of `left`, those that the message does not have, whose name is similar."""
    lower = name.lower()
    if _OTHER_NAMES.get(lower) in left:
        return _OTHER_NAMES[lower]
    return next(iter(get_close_matches(lower, left, n=1)), None)


def _in_order(notes: dict[str, Note]) -> list[Note]:
    return sorted(notes.values(), key=lambda note: (note.first_line, note.name))


def _lines(note: Note) -> str:
    return "1 line has" if note.lines == 1 else f"{note.lines:,} lines have"


def _name(note: Note) -> str:
    return shown([note.name], _NAME_MAX)[1:].removesuffix("]")


def _first(note: Note) -> str:
    return f"line {note.first_line}" if note.lines == 1 else f"first in line {note.first_line}"


def _remedy(note: Note) -> str:
    if note.meant:
        return f'; did you mean "{note.meant}"?'
    place = 'an entry of "events"' if note.packed else '"payload"'
    return f"; what is yours belongs into {place}"
