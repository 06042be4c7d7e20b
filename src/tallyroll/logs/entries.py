"""The entries of logs: which events have one, where it belongs, and the leaves that hold them.

All deliveries of a message have the same id, body and time of sending. So an event without an id of
its own is known by its message id, and its slot follows from the time at which it was sent. No
clock, no setting and no delivery takes part in that.

    leaf   id ~log.{group, 13 digits}.{slot in its group}.{position}
            data: 16 bytes a message id, then zlib of [begin, [[dt, value, payload, sent], ...]]

`begin` is when the slot begins (ms); `dt` and `sent` follow it.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from tallyroll import limits
from tallyroll.errors import Rejected
from tallyroll.model.amounts import format_amount
from tallyroll.model.events import DIGEST_VERSION, Envelope, Event
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.formats.payloads import FORMAT_LOG, FORMAT_LOG_END
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, event_time
from tallyroll.model.specs import Spec
from tallyroll.model.stored import logged_events
from tallyroll.model.windows import Span
from tallyroll.reasons import Reason

# What decides between log and record holds for all releases: another rule is another `LOGS_RULE`.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ID_BYTES = 16
_NUMBERS_BYTES = 40  # of an entry's two times and its brackets, at the most


class SlotName(NamedTuple):
    """A slot of a key's log in a window: its number since 1970, by the rule of the window."""

    key: str
    number: int


class LogEntry(NamedTuple):
    """A plain event, by the id of its message; `ts` and `sent` in ms, `amount` in millionths."""

    message: str
    ts: int
    amount: int
    payload: str | None
    sent: int

    @property
    def size(self) -> int:
        """The bytes that it takes in a leaf at the most, before that is compressed."""
        return _size(self.amount, self.payload)


@lru_cache(maxsize=256)  # events of a hot key are often equal
def _size(amount: int, payload: str | None) -> int:
    held = len(payload.encode()) if payload else 0
    return _ID_BYTES + _NUMBERS_BYTES + len(format_amount(amount)) + 2 * held


def entry_of(
    envelope: Envelope, message: Message, spec: Spec, home: Span | None = None
) -> LogEntry | None:
    """The entry of an event that is logged in a window; None for one that gets a record. Pure in
    what all deliveries of a message share, and in the window's spec. Of a redriven one, `home` is
    the window of its time: elsewhere it gets a record.
    """
    rule = spec.logs.get(envelope.key)
    if rule is None or not is_plain(envelope) or (home and home != spec.span):
        return None
    assert isinstance(envelope, Event)
    message_id, sent = message.first_id, message.first_sent
    ts = event_time(envelope, sent)
    entry = LogEntry(message_id, ts, envelope.amount, envelope.payload, sent)
    fits = _UUID.fullmatch(message_id) and sent >= 0 and entry.size <= rule.entry_bytes
    return entry if fits else None


def check_id(envelope: Envelope, message: Message) -> None:
    """Raise Rejected (bad-id) for an id that looks like that of a leaf, in a window with logs."""
    record_id = envelope.id or message.first_id
    if record_id.startswith(limits.LOG_PREFIX):
        why = f"must not begin with {limits.LOG_PREFIX!r}, as those of logs do"
        raise Rejected(Reason.BAD_ID, f"id {record_id!r}: {why}: send it under another id")


def check_claimed(envelope: Envelope, message: Message, claimed: int | None, home: Spec) -> None:
    """Raise Rejected (not-claimed) if a redriven event of a logged key has the claim of another: a
    plain one names when it was sent (ms), by which it has its place in the log, and no other does.
    `home` is the window of its time.
    """
    sent = message.first_sent if is_plain(envelope) else None
    if envelope.key in home.logs and sent != claimed:
        detail = f"says it was first sent at {sent} ms, its claim {claimed}, and its key is logged"
        raise Rejected(Reason.NOT_CLAIMED, detail)


def is_plain(envelope: Envelope) -> bool:
    """Whether it is an event of one key without an id of its own and an uploaded payload."""
    if not isinstance(envelope, Event):
        return False
    return envelope.id is None and not envelope.other_keys and envelope.reference is None


def slot_of(spec: Spec, key: str, sent: int) -> SlotName:
    """The slot of what was sent at `sent` (ms) for a key that the window logs."""
    return SlotName(key, sent // spec.logs[key].slot_ms)


def group_prefix(spec: Spec, slot: SlotName) -> str:
    """What the ids of all leaves of the slot's group begin with."""
    return f"{limits.LOG_PREFIX}{slot.number // spec.logs[slot.key].slots:013d}."


def slot_prefix(spec: Spec, slot: SlotName) -> str:
    """What the ids of all leaves of the slot begin with."""
    return f"{group_prefix(spec, slot)}{slot.number % spec.logs[slot.key].slots:02d}."


def leaf_record(
    spec: Spec, slot: SlotName, position: int, entries: Sequence[LogEntry], *, ends: bool
) -> Record:
    """The record that holds these entries at a position of their slot."""
    begin = slot.number * spec.logs[slot.key].slot_ms
    rows = [
        [each.ts - begin, format_amount(each.amount), each.payload, each.sent - begin]
        for each in entries
    ]
    ids = bytes.fromhex("".join(each.message for each in entries).replace("-", ""))
    text = canonical([begin, rows]).encode()
    sixtieths = Counter(spec.slot(each.ts) for each in entries)
    record_id = f"{slot_prefix(spec, slot)}{position:02d}"
    return Record(
        key=slot.key,
        id=record_id,
        shard=spec.shard(slot.key, record_id),
        ts=entries[0].ts,
        n=len(entries),
        amount=sum(each.amount for each in entries),
        digest=DIGEST_VERSION + blake2b(ids + text + b"e" * ends, digest_size=16).digest(),
        series=tuple(sorted(sixtieths.items())),
        data=ids + zlib.compress(text),
        format=FORMAT_LOG_END if ends else FORMAT_LOG,
        slot=next(iter(sixtieths)) if len(sixtieths) == 1 else None,
    )


def group_of(record: Record) -> int:
    """The number of a leaf's group: the first slot's, by the slots of a group."""
    return int(record.id.split(".")[1])


def position_of(record: Record) -> int:
    """The position of a leaf in its slot."""
    return int(record.id.rpartition(".")[2])


def entries_in(record: Record) -> list[LogEntry]:
    """The entries of a leaf. Raises Refused for damaged data."""
    return [
        LogEntry(event.message or "", event.ts, event.amount, event.payload, sent)
        for event, sent in logged_events(record)
    ]
