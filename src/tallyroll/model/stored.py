"""Stored records as what was sent: events, and packets of events."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass

from tallyroll.errors import Refused
from tallyroll.model.amounts import read_amount
from tallyroll.model.events import Event, event_body
from tallyroll.model.records import Record


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it is stored; `ts` in ms, `amount` in millionths, `payload` canonical JSON.

    One of a packet has the id `{packet}:{index}`.
    """

    id: str
    ts: int
    amount: int
    payload: str | None
    packet: str | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class StoredPacket:
    """A packet as it is stored."""

    id: str
    events: tuple[StoredEvent, ...]


def stored(record: Record) -> StoredEvent | StoredPacket:
    """What a record holds. Raises Refused for a packet that is damaged."""
    if not record.packed:
        payload = None if record.data is None else record.data.decode()
        return StoredEvent(record.id, record.ts, record.amount, payload)
    try:
        t0, entries = json.loads(zlib.decompress(record.data or b""))
        events = tuple(
            StoredEvent(
                f"{record.id}:{index}", t0 + dt, read_amount(value), payload, record.id, index
            )
            for index, (dt, value, payload) in enumerate(entries)
        )
    except (zlib.error, ValueError, TypeError, ArithmeticError) as error:
        message = f"packet {record.id!r} of key {record.key!r} is damaged: {error}"
        raise Refused(message, "DamagedPacket") from None
    return StoredPacket(record.id, events)


def packed_id(event_id: str) -> tuple[str, int] | None:
    """The packet's id and the index in the id of a packed event; None for an id of another form."""
    packet, colon, number = event_id.rpartition(":")
    if not (packet and colon and number.isascii() and number.isdigit() and len(number) < 10):
        return None
    return (packet, int(number)) if str(int(number)) == number else None


def events_of(record: Record) -> tuple[StoredEvent, ...]:
    """The events that a record holds. Raises ValueError if a packet cannot be unpacked, or does not
    agree with its record's count and sum.
    """
    try:
        one = stored(record)
    except (Refused, ValueError) as error:
        raise ValueError(f"record {record.id!r} cannot be unpacked: {error}") from None
    events = one.events if isinstance(one, StoredPacket) else (one,)
    held = (len(events), sum(event.amount for event in events))
    if held != (record.n, record.amount):
        raise ValueError(
            f"record {record.id!r} says (events, amount) {(record.n, record.amount)}, its data"
            f" {held}"
        )
    return events


def event_line(key: str, event: StoredEvent) -> str:
    """An event of a key as one line of JSON, as `tallyroll send` takes it; the value exact."""
    return event_body(Event(key, event.id, event.ts, event.amount, event.payload))
