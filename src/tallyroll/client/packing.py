"""Packs events into packets, in the envelopes that the writer reads.

Events with their own ids are deduplicated singly. Packed events have their packet's id. A packet is
stored as one record, so the more events it has, the less each costs (`make costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace

from tallyroll.client.receipts import Outgoing
from tallyroll.limits import (
    EXPANDED_BYTES_MAX,
    PACKET_BYTES_MAX,
    QUEUE_BATCH_MAX,
    QUEUE_CHARGED_BYTES,
)
from tallyroll.model.amounts import MICROS, format_amount
from tallyroll.model.events import ENVELOPE_VERSION, Event, _joined, message_body
from tallyroll.model.formats.compression import Compressor, compressed
from tallyroll.model.formats.json_texts import canonical

PACKET_EVENTS_MAX = 1_000
MINUTE_MS = 60_000
OPEN_BYTES_MAX = 32 * 1024 * 1024  # roughly, in memory, of all packets that are not full yet
_ENTRY_BYTES = 60  # of an entry in memory, beside its text
_OPEN_BYTES = 600  # of a packet, beside its key and entries
# Of the entries: id, key, t0 and the JSON around them take less than 4 KB, with escapes.
ENTRIES_BYTES_MAX = PACKET_BYTES_MAX - 4_096
ROOM_SHARE = 8  # a packet is compressed once more only for this part of a body's room
CLOSING = "]}"  # of a packet's body
COMPRESS_FROM = QUEUE_CHARGED_BYTES // QUEUE_BATCH_MAX


@dataclass(frozen=True, slots=True)
class PacketLimits:
    """What decides which events a packet holds. A load that goes on keeps those with which it
    began, also under another release: the ids of its packets follow from them.

    A packet has at most `events` events, whose entries have at most `entries_bytes`. All open
    packets take at most `open_bytes`: of each event the bytes of its entry and `entry_bytes`, of
    each packet those of its key and `packet_bytes`.
    """

    events: int = PACKET_EVENTS_MAX
    entries_bytes: int = ENTRIES_BYTES_MAX
    open_bytes: int = OPEN_BYTES_MAX
    entry_bytes: int = _ENTRY_BYTES
    packet_bytes: int = _OPEN_BYTES

    @property
    def way(self) -> str:
        """How these limits cut packets, as a text for the packets' ids: the most events, and each
        other limit that is not the first release's.
        """
        own, first = asdict(self), asdict(FIRST_LIMITS)
        events = own.pop("events")
        others = [f" {name}={limit}" for name, limit in own.items() if limit != first[name]]
        return f"{events}{''.join(others)}"


FIRST_LIMITS = PacketLimits(1_000, 258_048, 33_554_432, 60, 600)
"""Those of the first release: its packets' ids and its checkpoints do not name them."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The body of one message: a packet of `events` events of `key`, the first of them at `ts`, or
    a single event that no packet holds.
    """

    body: str
    key: str
    ts: int
    events: int


class Packer:
    """Gathers events into packets of one key and one span of time.

    `start_of` gives the start (ms) of the span in which a time lies. With `compress`, bodies are
    compressed where that saves something; their packets hold the same events. Which events a packet
    has follows from the order of the events and from `limits` alone: a packet is complete at its
    most events, at 256 KB, or, the oldest one first, when all open packets take too much memory.
    """

    def __init__(
        self,
        new_id: Callable[[], str],
        start_of: Callable[[int], int],
        limits: PacketLimits = PacketLimits(),
        *,
        compress: bool = False,
    ) -> None:
        self._new_id = new_id
        self._compress = compress
        self._start_of = start_of
        self._limits = limits
        self._open: dict[tuple[str, int], _Open] = {}
        self._held = 0

    def add(self, event: Event, packet_id: str | None = None) -> list[Packed]:
        """Add an event; return the packets that are complete by now.

        `packet_id` is for the packet that begins with this event. An event that is too large for a
        packet, or refers to an uploaded payload, is returned alone, under such an id. Raises
        ValueError for an event without a time or with an id of its own.
        """
        if event.ts is None or event.id is not None:
            raise ValueError(
                f"event of key {event.key!r}: only events with a time and without an id are packed"
            )
        t0 = self._start_of(event.ts)
        entry = entry_text(event.ts - t0, event)
        size = len(entry.encode()) + 1
        limits = self._limits
        if size > limits.entries_bytes or event.reference:
            single = replace(event, id=packet_id or self._new_id())
            return [Packed(message_body(single), event.key, event.ts, 1)]
        done: list[Packed] = []
        place = event.key, t0
        packet = self._open.get(place)
        if packet and packet.size + size > limits.entries_bytes:
            done.append(self._close(place))
            packet = None
        if packet is None:
            packet = self._open[place] = _Open(event.key, t0, event.ts, packet_id)
            self._held += limits.packet_bytes + len(event.key)
        packet.entries.append(entry)
        packet.size += size
        self._held += limits.entry_bytes + size
        if len(packet.entries) >= limits.events:
            done.append(self._close(place))
        while self._held > limits.open_bytes:
            done.append(self._close(next(iter(self._open))))
        return done

    def rest(self) -> Iterator[Packed]:
        """The packets that are not complete, in the order in which they were begun."""
        while self._open:
            yield self._close(next(iter(self._open)))

    @property
    def waiting(self) -> int:
        """The number of events in packets that are not complete."""
        return sum(len(packet.entries) for packet in self._open.values())

    def _close(self, place: tuple[str, int]) -> Packed:
        packet = self._open.pop(place)
        limits = self._limits
        self._held -= limits.packet_bytes + len(packet.key) + packet.size
        self._held -= limits.entry_bytes * len(packet.entries)
        body = packet.body(packet.id or self._new_id())
        if self._compress:
            body = smaller(queueable(body))
        return Packed(body, packet.key, packet.ts, len(packet.entries))


def pack(
    events: Iterable[Event],
    new_id: Callable[[], str],
    *,
    events_max: int = PACKET_EVENTS_MAX,
    span_ms: int = MINUTE_MS,
) -> Iterator[str]:
    """Bodies of packets of at most `events_max` events and 256 KB, each of one key and time span.

    Spans begin at multiples of `span_ms` (by default a UTC minute, which fits every grid of whole
    minutes). `new_id` makes the packets' ids. An event that no packet holds goes alone, with such
    an id. Raises ValueError for an event without a time or with an id of its own.
    """
    packer = Packer(new_id, lambda ts: ts // span_ms * span_ms, PacketLimits(events_max))
    for event in events:
        for packed in packer.add(event):
            yield packed.body
    for packed in packer.rest():
        yield packed.body


@dataclass(slots=True)
class _Open:
    key: str
    t0: int
    ts: int
    id: str | None
    entries: list[str] = field(default_factory=list)
    size: int = 0

    def body(self, packet_id: str) -> str:
        return packet_body(packet_id, self.key, self.t0, self.entries)


def packet_body(packet_id: str, key: str, t0: int, entries: Iterable[str]) -> str:
    """The message body of a packet of these entries, texts that `entry_text` made."""
    return _joined(
        v=str(ENVELOPE_VERSION),
        id=canonical(packet_id),
        key=canonical(key),
        t0=str(t0),
        events="[" + ",".join(entries) + "]",
    )


def entry_text(dt: int, event: Event) -> str:
    """The text of an event in a packet, `dt` ms after the packet's t0."""
    if event.payload is not None:
        return f"[{dt},{format_amount(event.amount)},{event.payload}]"
    return f"[{dt}]" if event.amount == MICROS else f"[{dt},{format_amount(event.amount)}]"


def smaller(body: str) -> str:
    """The body, compressed if that saves something.

    SQS charges a request by 64 KB. So bodies under a tenth of that, ten of which are a full
    request, would cost the same.
    """
    size = _size(body)
    if size < COMPRESS_FROM:
        return body
    shrunk = compressed(body)
    return shrunk if _size(shrunk) < size else body


def _size(body: str) -> int:
    """The bytes of a body, of which a character may take four."""
    return len(body) if body.isascii() else len(body.encode())


def queueable(body: str) -> str:
    """The same JSON, with the two characters escaped that JSON allows and SQS does not.

    Source: Amazon SQS API Reference, SendMessage.
    """
    return body.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def fits(packet: Outgoing, size: int, most: int, *, compress: bool) -> bool:
    """Whether an entry of this size fits into an open packet of at most `most` bytes.

    To `compress`, what the packet has is compressed where that is needed. Then its size is that of
    the compressed body.
    """
    if packet.size + size <= most or not compress:
        return packet.size + size <= most
    assert packet.t0 is not None
    text = packet_body(packet.id, packet.key, packet.t0, packet.entries)[: -len(CLOSING)]
    compressor = packet.compressor = packet.compressor or Compressor()
    compressor.add(text[compressor.characters :])
    # What comes may not shrink. Then base64 makes three bytes four.
    packet.size = compressor.size + (most - compressor.size) // 4
    room = most - packet.size
    largest = compressor.raw + room + len(CLOSING)
    return room >= max(size, most // ROOM_SHARE) and largest <= EXPANDED_BYTES_MAX


def sent_body(packet: Outgoing, body: str, *, compress: bool) -> str:
    """The body of a packet as it is sent.

    A packet in a spool may have grown too large to be sent as it is, even if this process does not
    compress.
    """
    plain = queueable(body)
    if packet.compressor:
        shrunk = packet.compressor.body(body[packet.compressor.characters :])
        return min(shrunk, plain, key=_size)  # one that does not shrink is small enough as it is
    if _size(plain) > PACKET_BYTES_MAX:
        return compressed(body)
    return smaller(plain) if compress else plain
