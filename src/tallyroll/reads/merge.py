"""A key's events in order: its shards' records merged, packets unpacked, and the cursor that goes
on from one answer to the next.

The order is that of record ids by code point, which every shard has by itself, so that merging
holds little at a time; within a packet it is that of its events. Ids that begin with their time
(UUIDv7) come in its order. N is frozen in the window's spec, so a position is the same in every
shard: after this record.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from tallyroll.model.records import Page, Record
from tallyroll.model.stored import StoredEvent, StoredPacket, stored
from tallyroll.reads.cursor import Position

EVENTS_MAX = 1_000
# A Lambda function answers with at most 6 MB (AWS Lambda Developer Guide, "Quotas"); escaped twice,
# a text may grow three and a half times, and the last event of an answer has up to 400 KB.
BYTES_MAX = 1024 * 1024
_EVENT_BYTES = 64  # of an event's JSON beside its id and payload


# --- positions and cursors


# --- the merge


def page_limit(events: int, shards: int) -> int:
    """How many records to read of each of the shards, over which ids spread evenly, so that a
    second page of one is seldom needed for this many events.
    """
    share = events / shards
    return max(1, min(events, ceil(share + 3 * sqrt(share))))


class Merge:
    """The first records after a position, from pages of shards that come in any order.

    It holds what `most` events (or packets as they are, if `packed`) or `size` bytes take, up to a
    whole record: what comes after that is dropped, and shards are read no further. `begun` is the
    packet inside which the position lies.
    """

    def __init__(
        self,
        shards: int,
        position: Position,
        most: int,
        size: int,
        *,
        packed: bool = False,
        begun: Record | None = None,
    ) -> None:
        self._most = most
        self._size = size
        self._packed = packed
        self._skipped = (position.index or 0) + 1 if begun else 0
        self._held: list[Record] = [begun] if begun else []
        self._read_to = dict.fromkeys(range(1, shards + 1), position.record_id)
        self.beyond = False  # whether records were left out that come later
        self._cut()

    @property
    def done(self) -> bool:
        """Whether no shard has to be read on."""
        return not self._read_to

    def due(self, most: int) -> list[tuple[int, str]]:
        """Shards to read on, at most so many, and after which id: those least far first."""
        return heapq.nsmallest(most, self._read_to.items(), key=lambda item: (item[1], item[0]))

    def add(self, pages: Mapping[int, Page]) -> None:
        """Take in what shards that are due gave for their positions."""
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
            number += 1 if self._packed else record.n
            size += len(record.id) + len(record.data or b"")
            if number >= self._most or size >= self._size:
                wanted = {i: last for i, last in self._read_to.items() if last < record.id}
                self.beyond |= len(self._held) > at or len(wanted) < len(self._read_to)
                self._held, self._read_to = self._held[:at], wanted
                return

    def known(self) -> Sequence[Record]:
        """The records that certainly come first: as far as every shard has been read."""
        if self.done:
            return self._held
        frontier = min(self._read_to.values())
        return [record for record in self._held if record.id <= frontier]


@dataclass(frozen=True, slots=True)
class Part:
    """Events (or packets as they are) that make one answer, and where to go on; None at the end."""

    found: tuple[StoredEvent | StoredPacket, ...]
    then: Position | None


def cut(merge: Merge, position: Position, most: int, size: int, *, packed: bool = False) -> Part:
    """What of a merge makes one answer: at most so many events, or packets, and about `size` bytes.

    Raises Refused for a packet that is damaged.
    """
    found: list[StoredEvent | StoredPacket] = []
    taken = 0
    for there, one in _items(merge.known(), position, packed=packed):
        if len(found) >= most or taken >= size:
            return Part(tuple(found), position)
        found.append(one)
        taken += _bytes(one)
        position = there
    more = merge.beyond or not merge.done
    return Part(tuple(found), position if more else None)


def _items(
    records: Sequence[Record], position: Position, *, packed: bool
) -> Iterator[tuple[Position, StoredEvent | StoredPacket]]:
    """What records hold after a position, each with the position behind it."""
    for record in records:
        one = stored(record)
        if packed or isinstance(one, StoredEvent):
            yield Position(record.id), one
            continue
        begun = position.record_id == record.id and position.index is not None
        first = (position.index or 0) + 1 if begun else 0
        for index, event in enumerate(one.events[first:], first):
            last = index == len(one.events) - 1
            yield Position(record.id, None if last else index), event


def _bytes(one: StoredEvent | StoredPacket) -> int:
    if isinstance(one, StoredPacket):
        return len(one.id) + sum(len(event.payload or "") + 16 for event in one.events)
    return _EVENT_BYTES + len(one.id.encode()) + len((one.payload or "").encode())
