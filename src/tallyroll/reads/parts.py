"""Parts of a window's listing: the next events of a key after a position, from all its shards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.model.records import Record, RecordPage
from tallyroll.model.specs import Spec
from tallyroll.model.stored import StoredEvent, StoredPacket, whole
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.reads.cursor import Position
from tallyroll.reads.found import least_key
from tallyroll.reads.hints import shards_to_list
from tallyroll.reads.merge import BYTES_MAX, Merge, page_limit

SHARDS_PER_ROUND = 64  # their pages, of at most 1 MB each, are in memory together
SHARDS_AT_ONCE = 16
CHUNKED_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class PartAsked:
    """Which events are asked for: those of `key` after `position`, at most `most`, and at most
    about `size` bytes; from `deadline` (ms) on nothing more is read.
    """

    key: str
    position: Position
    most: int
    deadline: int
    packed: bool = False
    size: int = BYTES_MAX


@dataclass(frozen=True, slots=True)
class ListedPart:
    """Events (or packets), and the position to go on at; None at the end. It is not `complete` if
    time ran out. `least_keys` has those of events of several keys, by their ids.
    """

    found: tuple[StoredEvent | StoredPacket, ...]
    then: Position | None
    complete: bool
    least_keys: dict[str, str]


class Parts:
    """Reads parts of windows' listings."""

    def __init__(self, store: Store, effects: Effects) -> None:
        self._store = store
        self._effects = effects

    def whole(self, spec: Spec, record: Record) -> Record:
        """The record with its data, for which its chunks are read. Raises Missing and Refused."""
        return whole(record, partial(self._store.chunks, spec))

    def read(self, spec: Spec, asked: PartAsked) -> ListedPart:
        """The part of a window that is asked for. Records in chunks are read side by side.

        Raises Missing if the window's table is not there, Refused for damaged data, and StoreError
        if chunks cannot be read.
        """
        merge = self._merged(spec, asked)
        chunked = [record for record in merge.known() if record.in_chunks]
        jobs = [partial(self._in_time, spec, record, asked.deadline) for record in chunked]
        names = [record.id for record in chunked]
        wholes = dict(zip(names, self._effects.together(jobs, CHUNKED_AT_ONCE), strict=True))
        late = False
        least_keys: dict[str, str] = {}

        def taken(record: Record) -> Record | None:
            nonlocal late
            least_keys.update(least_key(record))
            found = wholes[record.id] if record.in_chunks else record
            late = found is None
            return found

        part = merge.part(taken)
        complete = not late and (merge.done or len(part.found) == asked.most)
        return ListedPart(part.found, part.then, complete, least_keys)

    def _in_time(self, spec: Spec, record: Record, deadline: int) -> Record | None:
        return None if self._effects.now() >= deadline else self.whole(spec, record)

    def _merged(self, spec: Spec, asked: PartAsked) -> Merge:
        key, position = asked.key, asked.position
        shards = shards_to_list(self._store, spec, key)
        begun = None
        if position.index is not None:
            begun = self._store.record(spec, key, position.record_id)
        merge = Merge(shards, position, asked.most, asked.size, packed=asked.packed, begun=begun)
        limit = page_limit(asked.most, len(shards))
        while due := merge.due(SHARDS_PER_ROUND):
            jobs = [partial(self._page, spec, key, *place, limit, asked.deadline) for place in due]
            pages = self._effects.together(jobs, SHARDS_AT_ONCE)
            read = {place[0]: page for place, page in zip(due, pages, strict=True) if page}
            merge.add(read)
            if len(read) < len(due):
                break
        return merge

    def _page(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, deadline: int
    ) -> RecordPage | None:
        if self._effects.now() >= deadline:
            return None
        try:
            return self._store.records(spec, key, shard, after, limit)
        except (Missing, Refused):  # going on from a cursor would meet it again
            raise
        except StoreError:
            return None
