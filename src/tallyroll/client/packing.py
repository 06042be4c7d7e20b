"""Packs events into packets, in the envelopes that the writer reads.

Events with their own ids are deduplicated singly. Packed events have their packet's id, and cost a
fiftieth to a hundredth once packets are full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tallyroll.limits import PACKET_BYTES_MAX
from tallyroll.model.amounts import MICROS, format_amount
from tallyroll.model.events import ENVELOPE_VERSION, Event, _joined, event_body
from tallyroll.model.json_texts import canonical

PACKET_EVENTS_MAX = 1_000
_MINUTE_MS = 60_000
_OPEN_PACKETS_MAX = 1_000
# Of the entries: id, key, t0 and the JSON around them take less than 4 KB, with escapes.
_ENTRIES_BYTES_MAX = PACKET_BYTES_MAX - 4_096


def pack(
    events: Iterable[Event],
    new_id: Callable[[], str],
    *,
    events_max: int = PACKET_EVENTS_MAX,
    span_ms: int = _MINUTE_MS,
) -> Iterator[str]:
    """Bodies of packets of at most `events_max` events and 256 KB, each of one key and time span.

    Spans begin at multiples of `span_ms` (by default a UTC minute, which fits every grid of whole
    minutes). `new_id` makes the packets' ids. An event too large for a packet goes alone, with such
    an id. Raises ValueError for an event without a time or with an id of its own.
    """
    open_packets: dict[tuple[str, int], _Open] = {}
    for event in events:
        if event.ts is None or event.id is not None:
            raise ValueError(
                f"event of key {event.key!r}: only events with a time and without an id are packed"
            )
        t0 = event.ts // span_ms * span_ms
        entry = _entry_text(event.ts - t0, event)
        size = len(entry.encode()) + 1
        if size > _ENTRIES_BYTES_MAX:
            yield event_body(replace(event, id=new_id()))
            continue
        packet = open_packets.get((event.key, t0))
        if packet and packet.size + size > _ENTRIES_BYTES_MAX:
            yield open_packets.pop((event.key, t0)).body(new_id())
        packet = open_packets.setdefault((event.key, t0), _Open(event.key, t0))
        packet.entries.append(entry)
        packet.size += size
        if len(packet.entries) >= events_max:
            yield open_packets.pop((event.key, t0)).body(new_id())
        elif len(open_packets) > _OPEN_PACKETS_MAX:
            yield open_packets.pop(next(iter(open_packets))).body(new_id())
    for packet in open_packets.values():
        yield packet.body(new_id())


@dataclass(slots=True)
class _Open:
    key: str
    t0: int
    entries: list[str] = field(default_factory=list)
    size: int = 0

    def body(self, packet_id: str) -> str:
        return _joined(
            v=str(ENVELOPE_VERSION),
            id=canonical(packet_id),
            key=canonical(self.key),
            t0=str(self.t0),
            events="[" + ",".join(self.entries) + "]",
        )


def _entry_text(dt: int, event: Event) -> str:
    if event.payload is not None:
        return f"[{dt},{format_amount(event.amount)},{event.payload}]"
    return f"[{dt}]" if event.amount == MICROS else f"[{dt},{format_amount(event.amount)}]"
