"""Stored records, converted back to the events and packets that were sent."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tallyroll.errors import Refused
from tallyroll.model.amounts import Summed, read_amount
from tallyroll.model.events import Event, event_body, message_body
from tallyroll.model.formats.payloads import CHUNKED, DAMAGED, Chunk, inflated, joined, manifest_in
from tallyroll.model.formats.references import FORMAT_REFERENCE, Reference, reference_in
from tallyroll.model.records import Record
from tallyroll.model.retractions import RetractionNote


@dataclass(frozen=True, slots=True)
class StoredEvent(Summed):
    """A stored event; `ts` in ms, `amount` its `value` in millionths, `payload` canonical JSON.

    An event of a packet has the id `{packet}:{index}`; so has one of a leaf of a log, and the id
    of its `message`. An uploaded payload has a `reference`.
    `retracted` is set by reads that ask whether the event was retracted, if it was.
    """

    id: str
    ts: int
    amount: int
    payload: str | None
    packet: str | None = None
    index: int | None = None
    reference: Reference | None = None
    retracted: RetractionNote | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class StoredPacket:
    """A stored packet."""

    id: str
    events: tuple[StoredEvent, ...]


def apart(what: StoredEvent | StoredPacket) -> tuple[StoredEvent, ...]:
    """The events of a packet, or an event alone."""
    return what.events if isinstance(what, StoredPacket) else (what,)


def whole(record: Record, chunks_of: Callable[[str, str, int], Iterable[Chunk]]) -> Record:
    """The record with its data, which may be in chunks. `chunks_of` gives those of a key and a
    record id, which should be so many. Raises Refused if they are missing or damaged.
    """
    try:
        manifest = manifest_in(record.data, record.format)
    except ValueError as error:
        raise _damaged(record, error) from None
    if manifest is None:
        return record
    chunks = list(chunks_of(manifest.key, record.id, manifest.count))
    try:
        data = joined(manifest, chunks)
    except Refused as error:
        raise _damaged(record, error) from None
    assert record.format
    return replace(record, data=data, format=record.format.removeprefix(CHUNKED))


def _damaged(record: Record, error: Exception) -> Refused:
    what = f"the payload of event {record.id!r} of key {record.key!r} is damaged"
    return Refused(f"{what}: {error}", DAMAGED)


def stored(record: Record) -> StoredEvent | StoredPacket:
    """The event or packet in a `whole` record. Raises Refused for damaged data."""
    if not record.packed:
        payload = reference = None
        try:
            if record.format == FORMAT_REFERENCE:
                reference = reference_in(record.data)
            elif record.data is not None:
                payload = inflated(record.data, record.format)
        except ValueError as error:
            raise _damaged(record, error) from None
        return StoredEvent(record.id, record.ts, record.amount, payload, reference=reference)
    if record.logged:
        return StoredPacket(record.id, tuple(event for event, _ in logged_events(record)))
    events = tuple(
        StoredEvent(f"{record.id}:{index}", ts, amount, payload, record.id, index)
        for index, (ts, amount, payload) in enumerate(packed_events(record)[1])
    )
    return StoredPacket(record.id, events)


def packed_events(record: Record) -> tuple[int, list[tuple[int, int, str | None]]]:
    """What a packet counts its times from (ms), and time, amount and payload of each event. Raises
    Refused for damaged data.
    """
    try:
        t0, entries = json.loads(zlib.decompress(record.data or b""))
        return t0, [(t0 + dt, read_amount(value), payload) for dt, value, payload in entries]
    except (zlib.error, ValueError, TypeError, ArithmeticError) as error:
        message = f"packet {record.id!r} of key {record.key!r} is damaged: {error}"
        raise Refused(message, "DamagedPacket") from None


def logged_events(record: Record) -> list[tuple[StoredEvent, int]]:
    """The events in a leaf of a log, each with the time (ms) at which its message was sent. Raises
    Refused for damaged data.
    """
    data = record.data or b""
    try:
        ids = [_uuid(data[at : at + 16].hex()) for at in range(0, 16 * record.n, 16)]
        begin, entries = json.loads(zlib.decompress(data[16 * record.n :]))
        events = [
            StoredEvent(
                id=f"{record.id}:{index}",
                ts=begin + dt,
                amount=read_amount(value),
                payload=payload,
                packet=record.id,
                index=index,
                message=message,
            )
            for index, (message, (dt, value, payload, _)) in enumerate(
                zip(ids, entries, strict=True)
            )
        ]
        return [(event, begin + entry[3]) for event, entry in zip(events, entries, strict=True)]
    except (zlib.error, ValueError, TypeError, ArithmeticError) as error:
        message = f"leaf {record.id!r} of the log of key {record.key!r} is damaged: {error}"
        raise Refused(message, "DamagedLog") from None


def _uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def packed_id(event_id: str) -> tuple[str, int] | None:
    """The packet's id and the index in a packed event's id; None for an id of another form."""
    packet, colon, number = event_id.rpartition(":")
    if not (packet and colon and number.isascii() and number.isdigit() and len(number) < 10):
        return None
    return (packet, int(number)) if str(int(number)) == number else None


def events_of(record: Record) -> tuple[StoredEvent, ...]:
    """The events in a record. Raises ValueError if a packet cannot be unpacked, or if its events do
    not agree with the record's count and sum.
    """
    try:
        one = stored(record)
    except (Refused, ValueError) as error:
        raise ValueError(f"record {record.id!r} cannot be unpacked: {error}") from None
    events = one.events if isinstance(one, StoredPacket) else (one,)
    check_held(record, len(events), sum(event.amount for event in events))
    return events


def check_held(record: Record, n: int, amount: int) -> None:
    """Raise ValueError unless a record has the count and the sum of the events in its data."""
    if (n, amount) != (record.n, record.amount):
        said = (record.n, record.amount)
        raise ValueError(
            f"record {record.id!r} says (events, amount) {said}, its data {(n, amount)}"
        )


def check_leaf(what: object) -> None:
    """Raise ValueError for a leaf of a log whose events do not agree with it."""
    if isinstance(what, Record) and what.logged:
        events_of(what)


def event_line(key: str, event: StoredEvent) -> str:
    """An event as one line of JSON that `tallyroll send` reads, with the exact value. The id of
    one of a log is that of its queue message, since logs of other windows and keys may have equal
    ids. `log` is its id there; `send` does not read it.
    """
    own = event.message or event.id
    sent = Event(key, own, event.ts, event.amount, event.payload, reference=event.reference)
    if event.message:
        return f'{event_body(sent)[:-1]},"message":"{event.message}","log":"{event.id}"}}'
    return message_body(sent) if event.reference else event_body(sent)
