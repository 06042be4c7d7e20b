"""Lists a key's events in order: merges the records of its shards and unpacks packets.

The order is that of record ids by code point, then of events within a packet. Every shard is sorted
this way, so merging holds few records at a time. Ids that begin with their time (UUIDv7) are in
time order. A window's spec fixes its number of shards, so one position, "after this record", serves
all shards.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass
from math import ceil, sqrt

from tallyroll.model.records import Record, RecordPage
from tallyroll.model.stored import StoredEvent, StoredPacket, stored
from tallyroll.reads.cursor import Position

EVENTS_MAX = 1_000
# A Lambda function's response has at most 6 MB (AWS Lambda Developer Guide, "Quotas"). Escaping a
# text twice can make it 3.5 times as long, and the last event of an answer may have 400 KB: a
# larger one is an answer of its own.
BYTES_MAX = 1024 * 1024
LAST_BYTES_MAX = 400 * 1024
_EVENT_BYTES = 64  # of an event's JSON besides its id and payload


def page_limit(events: int, shards: int) -> int:
    """How many records to read per shard, so that `events` events seldom need a second page.

    Ids spread evenly over shards: the share, plus three standard deviations.
    """
    share = events / max(1, shards)
    return max(1, min(events, ceil(share + 3 * sqrt(share))))


@dataclass(frozen=True, slots=True)
class Part:
    """The events (or packets) of one answer, and the position to continue at; None at the end."""

    found: tuple[StoredEvent | StoredPacket, ...]
    then: Position | None


@dataclass(eq=False)
class Merge:
    """The first records after a position, from pages of shards in any order.

    `shards` are those that may hold records. Holds the records of `most` events (with `packed`, of
    `most` records) or of `size` bytes, rounded up to a whole record. Later records are dropped, and
    shards are not read beyond them. `begun` is the packet that contains the position, if one does.
    """

    shards: InitVar[Iterable[int]]
    position: Position
    most: int
    size: int
    packed: bool = False
    begun: Record | None = None

    def __post_init__(self, shards: Iterable[int]) -> None:
        self._skipped = (self.position.index or 0) + 1 if self.begun else 0
        self._held: list[Record] = [self.begun] if self.begun else []
        self._read_to = dict.fromkeys(shards, self.position.record_id)
        self._beyond = False  # whether later records were left out
        self._cut()

    @property
    def done(self) -> bool:
        """Whether no shard needs further reading."""
        return not self._read_to

    def due(self, most: int) -> list[tuple[int, str]]:
        """The least advanced shards, at most `most`, each with the id to read after."""
        return heapq.nsmallest(most, self._read_to.items(), key=lambda item: (item[1], item[0]))

    def add(self, pages: Mapping[int, RecordPage]) -> None:
        """Add the pages that due shards returned."""
        for shard, page in pages.items():
            if page.more and page.records:
                self._read_to[shard] = page.records[-1].id
            else:
                del self._read_to[shard]
        runs = [self._held, *(page.records for page in pages.values())]
        self._held = list(heapq.merge(*runs, key=lambda record: record.id))
        self._cut()

    def _cut(self) -> None:
        number, size = -self._skipped, 0
        for at, record in enumerate(self._held, 1):
            number += 1 if self.packed else record.n
            size += len(record.id) + record.weight
            if number >= self.most or size >= self.size:
                wanted = {i: last for i, last in self._read_to.items() if last < record.id}
                self._beyond |= len(self._held) > at or len(wanted) < len(self._read_to)
                self._held, self._read_to = self._held[:at], wanted
                return

    def known(self) -> Sequence[Record]:
        """The records whose order is final: up to the id that every shard has been read to."""
        if self.done:
            return self._held
        frontier = min(self._read_to.values())
        return [record for record in self._held if record.id <= frontier]

    def part(self, read: Callable[[Record], Record | None]) -> Part:
        """One answer. `read` gives a record with its whole data, None to end the answer before it.

        Raises Refused for damaged data, and what `read` raises.
        """
        found: list[StoredEvent | StoredPacket] = []
        taken, position, most_bytes = 0, self.position, self.size + LAST_BYTES_MAX
        for record in self.known():
            if len(found) >= self.most or taken >= self.size:
                return Part(tuple(found), position)
            one = None
            if not found or taken + record.weight <= most_bytes:
                one = read(record)
            if one is None:
                return Part(tuple(found), position)
            for after, each in _items(one, position, packed=self.packed):
                size = event_bytes(each)
                if found and (
                    len(found) >= self.most or taken >= self.size or taken + size > most_bytes
                ):
                    return Part(tuple(found), position)
                found.append(each)
                taken += size
                position = after
        more = self._beyond or not self.done
        return Part(tuple(found), position if more else None)


def _items(
    record: Record, position: Position, *, packed: bool
) -> Iterator[tuple[Position, StoredEvent | StoredPacket]]:
    """The events (or packet) of a record after a position, each with the position after it."""
    one = stored(record)
    if packed or isinstance(one, StoredEvent):
        yield Position(record.id), one
        return
    begun = position.record_id == record.id and position.index is not None
    first = (position.index or 0) + 1 if begun else 0
    for index, event in enumerate(one.events[first:], first):
        last = index == len(one.events) - 1
        yield Position(record.id, None if last else index), event


def event_bytes(one: StoredEvent | StoredPacket) -> int:
    """About how many bytes an event or packet takes in an answer."""
    if isinstance(one, StoredPacket):
        return len(one.id) + sum(len(event.payload or "") + 16 for event in one.events)
    return _EVENT_BYTES + len(one.id.encode()) + len((one.payload or "").encode())
