"""What a proof checks of the leaves in an archive: that they can be what writers put.

Each leaf is a row of twelve bytes: ten of a digest of its key and slot, its position, and whether
it ends the slot. So the rows of a slot come one after the other if all are sorted, and memory does
not grow with the slots.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from hashlib import blake2b

from tallyroll import limits
from tallyroll.model.formats.payloads import FORMAT_LOG_END
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.stored import logged_events

ROW_BYTES = 12
_SLOT_BYTES = ROW_BYTES - 2
_ID = re.compile(
    re.escape(limits.LOG_PREFIX) + r"(?P<group>[0-9]{13})\.(?P<slot>[0-9]{2})\.(?P<at>[0-9]{2})"
)
_WHY = {b"g": "no leaf is directly below it in its slot", b"e": "it is above the end of its slot"}


def row_of(record: Record) -> bytes | None:
    """The row of a leaf; None for a record that is none, or has not the id of one."""
    named = _ID.fullmatch(record.id) if record.logged else None
    if named is None:
        return None
    slot = f"{len(record.key)} {record.key}{record.id[:-2]}".encode()
    place = bytes([int(named["at"]), record.format == FORMAT_LOG_END])
    return blake2b(slot, digest_size=_SLOT_BYTES).digest() + place


def misplaced(rows: Iterable[bytes]) -> Iterator[bytes]:
    """The sorted rows of those leaves that are directly above a gap, or above an end; each with a
    byte more, which says why.
    """
    slot, free, ended = b"", 0, False
    for row in rows:
        if row[:_SLOT_BYTES] != slot:
            slot, free, ended = row[:_SLOT_BYTES], 0, False
        *_, position, ends = row
        if position >= free and (ended or position > free):
            yield row + (b"e" if ended else b"g")
        free, ended = max(free, position + 1), ended or bool(ends)


def wrong_places(record: Record, found: Container[bytes]) -> Iterator[tuple[bytes, str]]:
    """What is wrong with the place of a record, by what was found of all leaves."""
    if row := row_of(record):
        yield from (
            (row + why, f"{_named(record)}: {text}")
            for why, text in _WHY.items()
            if row + why in found
        )


def strange(spec: Spec, record: Record) -> str | None:
    """What cannot be of a leaf by the spec of its window, if anything."""
    if not record.logged:
        return None
    rule, named = spec.logs.get(record.key), _ID.fullmatch(record.id)
    if not (
        rule
        and named
        and int(named["slot"]) < rule.slots
        and int(named["at"]) < limits.LOG_POSITIONS
    ):
        return f"{_named(record)}: its window has no such log"
    slot = int(named["group"]) * rule.slots + int(named["slot"])
    for event, sent in logged_events(record):
        if sent // rule.slot_ms != slot:
            said = f"the event of message {event.message!r} was first sent at {sent} ms"
            return f"{_named(record)}: {said}, outside its slot"
    return None


def _named(record: Record) -> str:
    return f"leaf {record.id!r} of the log of key {record.key!r}"
