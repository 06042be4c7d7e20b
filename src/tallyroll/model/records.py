"""Records: what the writer stores for a message, one event or one packet."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tallyroll.errors import Rejected
from tallyroll.limits import COPIES_BYTES_MAX, PACKET_BYTES_MAX, TRANSACTION_ACTIONS_MAX
from tallyroll.model.amounts import format_amount
from tallyroll.model.events import Event, Packet, digest
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.formats.payloads import (
    CHUNKED,
    FORMAT_PACKET,
    LAYOUT,
    LOGS,
    PACKETS,
    Chunk,
    ChunkManifest,
    PayloadLayout,
    chunk_count,
    deflated,
    divided,
    manifest_in,
    summed,
)
from tallyroll.model.formats.references import FORMAT_REFERENCE, Mark
from tallyroll.model.ids import IdentityItem, expires_of, identity_names, uuid7_time
from tallyroll.model.messages import Message
from tallyroll.model.specs import IdentityScope, Spec
from tallyroll.model.tallies import Series, added
from tallyroll.model.windows import Span
from tallyroll.reasons import Reason

RecordName = tuple[str, str]
"""A record's name within its window: its key and its id."""


@dataclass(frozen=True, slots=True)
class Record:
    """One event or packet under `{key}.{shard}`: `n` events, `amount` their sum, in millionths.

    `size` is the bytes of its item; 0 until it is computed. An event of several keys has a record
    for each: the first has the `others`, and what is stored with them: as `attachments` the chunks
    of their data, or the mark of an uploaded payload, and as `identities` the items that keep its
    id taken beyond the window. All of that is stored in one transaction, or nothing. A record that
    was read from a store has none of it.

    `keys` is empty for an event of one key; of several, the record of the least key has all of
    them, ascending, and each other one the least. `slot` is the sixtieth in which its events count,
    if it is the same for all, and `stripe` the one that they were added to, which the store chooses
    (None: not stored yet, or by a release that did not note it). By these a retraction finds what
    it takes back. A `plain` one is that of an event of a logged key, for which its log had no room.
    """

    key: str
    id: str
    shard: int
    ts: int
    n: int
    amount: int
    digest: bytes
    series: Series = ()
    data: bytes | None = None
    format: str | None = None
    keys: tuple[str, ...] = ()
    slot: int | None = None
    plain: bool = False
    stripe: int | None = field(default=None, compare=False)
    size: int = field(default=0, compare=False)
    identities: tuple[IdentityItem, ...] = field(default=(), compare=False)
    others: tuple[Record, ...] = field(default=(), compare=False)
    attachments: tuple[Chunk | Mark, ...] = field(default=(), compare=False)

    @property
    def packed(self) -> bool:
        """Whether the record is a packet, or a leaf of a log, which is read as one."""
        return self.format in PACKETS

    @property
    def logged(self) -> bool:
        """Whether the record is a leaf of a log."""
        return self.format in LOGS

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks of its data, before it is stored."""
        return tuple(each for each in self.attachments if isinstance(each, Chunk))

    @property
    def in_chunks(self) -> bool:
        """Whether its data is a manifest of chunks."""
        return self.format is not None and self.format.startswith(CHUNKED)

    @property
    def weight(self) -> int:
        """The bytes of its data; once expanded, if they are in chunks."""
        if self.in_chunks:
            with suppress(ValueError):  # damaged: whatever reads it says so
                manifest = manifest_in(self.data, self.format)
                return manifest.expanded if manifest else 0
        return len(self.data or b"")

    @property
    def group(self) -> tuple[Record, ...]:
        """All records of its event."""
        return (self, *self.others)

    @property
    def group_size(self) -> int:
        """The bytes of all their items, and of those beside them."""
        beside = (*self.attachments, *self.identities)
        return sum(each.size for each in self.group) + sum(each.size for each in beside)


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records of one shard, ascending by id. If `more`, there is a last record, and others may
    follow it.
    """

    records: tuple[Record, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Increment:
    """What one transaction adds to one stripe of a key's tally."""

    key: str
    n: int
    amount: int
    series: Series


def event_time(envelope: Event | Packet, sent: int) -> int:
    """The time (ms) of an envelope, which chooses its window: its own time, else the time in its
    UUIDv7 id, else `sent`.
    """
    if isinstance(envelope, Packet):
        return envelope.t0 + envelope.entries[0][0]
    if envelope.ts is not None:
        return envelope.ts
    inside = uuid7_time(envelope.id) if envelope.id else None
    return sent if inside is None else inside


def record_of(
    envelope: Event | Packet,
    message: Message,
    spec: Spec,
    home: Span | None = None,
    layout: PayloadLayout = LAYOUT,
) -> Record:
    """The record of an envelope in the window of `spec`; an event of several keys has others. For a
    redriven message, `home` is the window of its time.

    Raises Rejected for a packet that spans windows or is too large.
    """
    return (
        _of_packet(envelope, message, spec, home, layout)
        if isinstance(envelope, Packet)
        else _of_event(envelope, message, spec, home, layout)
    )


def _of_event(
    event: Event, message: Message, spec: Spec, home: Span | None, layout: PayloadLayout
) -> Record:
    ts = event_time(event, message.first_sent)
    record_id = event.id or message.first_id
    data = form = None
    attachments: tuple[Chunk | Mark, ...] = ()
    if event.reference:
        data, form = event.reference.encode(), FORMAT_REFERENCE
        attachments = (Mark(event.reference.key),)
    elif event.payload is not None:
        data, form = deflated(event.payload.encode(), layout)
    keys = (event.key, *event.other_keys)
    slot = spec.slot(_shown_at(ts, message, spec, home))
    record = Record(
        key=event.key,
        id=record_id,
        shard=spec.shard(event.key, record_id),
        ts=ts,
        n=1,
        amount=event.amount,
        digest=digest(event),
        series=((slot, 1),),
        data=data,
        format=form,
        keys=keys if event.other_keys else (),
        slot=slot,
        attachments=attachments,
    )
    if data is not None and len(data) > min(layout.chunk_over, COPIES_BYTES_MAX // len(keys)):
        size = len((event.payload or "").encode())
        record = _chunked(record, data, size, spec, layout, len(keys))
    others = tuple(
        replace(record, key=key, shard=spec.shard(key, record_id), keys=keys[:1], attachments=())
        for key in event.other_keys
    )
    if taken := identities(event, message, spec):
        return replace(record, others=others, identities=taken)
    return replace(record, others=others) if others else record


def identities(envelope: Event | Packet, message: Message, spec: Spec) -> tuple[IdentityItem, ...]:
    """The items that keep an envelope's own id taken in the scope of a window. Ids that are made of
    message ids are unique by themselves, and have none.
    """
    if spec.identity == IdentityScope.WINDOW or envelope.id is None:
        return ()
    keys = (envelope.key, *envelope.other_keys) if isinstance(envelope, Event) else (envelope.key,)
    content, least, expires = digest(envelope), min(keys), expires_of(spec, message.sent)
    return tuple(
        IdentityItem(name, spec.window, least, content, expires)
        for name in identity_names(spec, keys, envelope.id)
    )


def _chunked(
    record: Record, data: bytes, expanded: int, spec: Spec, layout: PayloadLayout, keys: int
) -> Record:
    """The record with its data in chunks; there is room in its transaction for records, tallies and
    identities of so many keys.
    """
    taken = {IdentityScope.WINDOW: 0, IdentityScope.KEY: keys, IdentityScope.PIPELINE: 1}
    most = TRANSACTION_ACTIONS_MAX - 1 - 2 * keys - taken[spec.identity]
    parts = divided(data, chunk_count(len(data), layout, most))
    chunks = tuple(
        Chunk(record.key, record.id, at, spec.chunk_shard(record.key, record.id, at), part)
        for at, part in enumerate(parts)
    )
    total = summed(chunk.digest for chunk in chunks)
    manifest = ChunkManifest(record.key, len(chunks), len(data), expanded, total)
    form = f"{CHUNKED}{record.format}"
    return replace(record, data=manifest.encode(), format=form, attachments=chunks)


def all_records(records: Iterable[Record]) -> tuple[Record, ...]:
    """The records, each followed by the others of its event."""
    return tuple(each for record in records for each in record.group)


def _of_packet(
    packet: Packet, message: Message, spec: Spec, home: Span | None, layout: PayloadLayout
) -> Record:
    if (size := len(message.body.encode(errors="surrogatepass"))) > PACKET_BYTES_MAX:
        raise Rejected(
            Reason.PACKET_TOO_LARGE,
            f"packet {packet.id!r} has {size} bytes, over {PACKET_BYTES_MAX}",
        )
    times = [packet.t0 + dt for dt, _, _ in packet.entries]
    span = home or spec.span
    for index, ts in enumerate(times):
        if ts not in span:
            raise Rejected(
                Reason.PACKET_MIXED_WINDOWS,
                f"event {index} of packet {packet.id!r} is not in {span.id}, as its first is",
            )
    slots = [spec.slot(_shown_at(ts, message, spec, home)) for ts in times]
    entries = [[dt, format_amount(amount), payload] for dt, amount, payload in packet.entries]
    data = zlib.compress(canonical([packet.t0, entries]).encode())
    record = Record(
        key=packet.key,
        id=packet.id,
        shard=spec.shard(packet.key, packet.id),
        ts=times[0],
        n=len(entries),
        amount=sum(amount for _, amount, _ in packet.entries),
        digest=digest(packet),
        series=tuple(sorted(Counter(slots).items())),
        data=data,
        format=FORMAT_PACKET,
        slot=slots[0] if len(set(slots)) == 1 else None,
    )
    if len(data) > layout.chunk_over:
        record = _chunked(record, data, len(data), spec, layout, 1)
    taken = identities(packet, message, spec)
    return replace(record, identities=taken) if taken else record


def _shown_at(ts: int, message: Message, spec: Spec, home: Span | None) -> int:
    """The time at which an event counts in its window's series: its own, or the time of its redrive
    if it comes from another window.
    """
    if home is None or home.start == spec.start:
        return ts
    return min(max(message.sent, spec.start), spec.end - 1)


def blocks_of(spec: Spec, records: Iterable[Record]) -> dict[str, set[int]]:
    """The blocks of the shards of each key's records; none, if the window's tallies name none."""
    blocks: dict[str, set[int]] = {}
    if spec.own_stripes:
        for record in records:
            blocks.setdefault(record.key, set()).add(spec.block(record.key, record.shard))
    return blocks


def increments_of(records: Iterable[Record]) -> tuple[Increment, ...]:
    """The increments of these records, one per key, in the order of the keys' first records."""
    by_key: dict[str, list[Record]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    return tuple(
        Increment(
            key=key,
            n=sum(record.n for record in group),
            amount=sum(record.amount for record in group),
            series=added(record.series for record in group),
        )
        for key, group in by_key.items()
    )
