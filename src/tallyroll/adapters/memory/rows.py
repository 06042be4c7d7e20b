"""Single rows in memory: each statement is done at once, and nothing else is done with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from tallyroll.adapters.memory.tables import Items, MemoryTables
from tallyroll.adapters.rows import statements
from tallyroll.adapters.rows.folding import tally_of
from tallyroll.adapters.rows.metering import reading_of
from tallyroll.adapters.rows.statements import Seal, each_inserted
from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.items import Gate
from tallyroll.model.records import Record, RecordPage
from tallyroll.model.sharding import stable_hash
from tallyroll.model.tallies import Stripe, Tally, gathered
from tallyroll.ports.effects import Effects

PAGE_ROWS = 200
Place = tuple[int, str, int, str]
"""The token of a row's partition, its key, shard and id: rows are listed in this order."""


class _Held(Items):
    """What ends with a window's table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[Place, Record] = {}
        self.chunks: dict[tuple[str, str, bytes | None], tuple[Chunk, ...]] = {}
        self.lists: dict[tuple[int, str, int], bytes] = {}
        self.stripes: dict[int, dict[str, Tally]] = {}
        self.folded = False


class MemoryRows(MemoryTables):
    """The statements of a store on single rows. Listings come in pages of `page_rows`."""

    def __init__(
        self,
        effects: Effects,
        *,
        creating_ms: float = 0,
        deleting_ms: float = 0,
        page_rows: int = PAGE_ROWS,
    ) -> None:
        super().__init__(effects, creating_ms, deleting_ms, _Held)
        self._page_rows = page_rows
        self._gates: dict[str, dict[int, bool]] = {}
        self._seals: dict[tuple[str, int], Seal] = {}

    def insert(self, table: str, row: Record) -> bytes | None:
        rows, place = self._held(table).rows, _place(row.key, row.shard, row.id)
        if place in rows:
            return rows[place].digest
        rows[place] = row
        return None

    def insert_all(self, table: str, rows: Sequence[Record]) -> list[bytes | StoreError | None]:
        return each_inserted(self, table, rows, self._effects)

    def put_chunks(self, table: str, row: Record) -> None:
        self._held(table).chunks[row.key, row.id, row.data] = row.chunks

    def chunks(self, table: str, row: Record, count: int) -> Sequence[Chunk]:
        found = self._held(table).chunks.get((row.key, row.id, row.data), ())
        return [chunk for chunk in found if chunk.number < count]

    def row(self, table: str, key: str, shard: int, record_id: str) -> Record | None:
        return self._held(table).rows.get(_place(key, shard, record_id))

    def page(self, table: str, key: str, shard: int, after: str, limit: int) -> RecordPage:
        rows, (token, *_) = self._held(table).rows, _place(key, shard, "")
        ours = (place for place in rows if place[:3] == (token, key, shard) and place[3] > after)
        found = sorted(ours)
        return RecordPage(tuple(rows[place] for place in found[:limit]), more=len(found) > limit)

    def tally(self, table: str, key: str, shards: int) -> Tally:
        rows = self._held(table).rows.items()
        ours = [row for (_, of, shard, _), row in rows if of == key and shard <= shards]
        sums = gathered(key, list(map(tally_of, ours)))
        return replace(sums, reading=reading_of(len(ours), sums.cost))

    def segment(self, key: str, shard: int) -> int:
        return _token(key, shard) % statements.SEGMENTS

    def listed(self, table: str, segment: int) -> Iterator[list[Record]]:
        return self.scan(table, segment, statements.SEGMENTS)

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[Record]]:
        """Each page shows what is there when it is read, after the page before."""
        last: Place = (-1, "", 0, "")
        while True:
            rows = self._held(table).rows
            ahead = (place for place in rows if place[0] % segments == segment and place > last)
            found = sorted(ahead)[: self._page_rows]
            yield [rows[place] for place in found]
            if len(found) < self._page_rows:
                return
            last = found[-1]

    def gate(self, table: str, number: int) -> bool | None:
        return self._gates.get(table, {}).get(number)

    def gates(self, table: str) -> Sequence[Gate]:
        return [Gate(number, there) for number, there in sorted(self._gates.get(table, {}).items())]

    def open_gate(self, table: str, number: int) -> bool:
        self._held(table)
        return self._gates.setdefault(table, {}).setdefault(number, True)

    def shut_gate(self, table: str, number: int) -> None:
        self._gates.setdefault(table, {})[number] = False

    def seal(self, table: str, segment: int) -> Seal | None:
        return self._seals.get((table, segment))

    def put_seal(self, table: str, segment: int, seal: Seal) -> Seal:
        return self._seals.setdefault((table, segment), seal)

    def put_list(self, table: str, segment: int, attempt: str, part: int, marks: bytes) -> None:
        self._held(table).lists[segment, attempt, part] = marks

    def list_part(self, table: str, segment: int, attempt: str, part: int) -> bytes:
        try:
            return self._held(table).lists[segment, attempt, part]
        except KeyError:
            raise Missing(f"a list of {table} is gone") from None

    def put_stripes(self, table: str, bucket: int, stripes: Sequence[Stripe]) -> None:
        there = self._held(table).stripes.setdefault(bucket, {})
        there.update({stripe.place: stripe.tally for stripe in stripes})

    def stripes(self, table: str, bucket: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        while True:
            there = self._held(table).stripes.get(bucket, {})
            found = sorted(place for place in there if place > after)[:limit]
            yield [Stripe(place, there[place]) for place in found]
            if len(found) < limit:
                return
            after = found[-1]

    def scan_stripes(
        self, table: str, segment: int, segments: int
    ) -> Iterator[list[tuple[int, Stripe]]]:
        for bucket, there in sorted(self._held(table).stripes.items()):
            if bucket % segments == segment:
                yield [(bucket, Stripe(place, there[place])) for place in sorted(there)]

    def stripe(self, table: str, bucket: int, place: str) -> Tally | None:
        return self._held(table).stripes.get(bucket, {}).get(place)

    def put_folded(self, table: str) -> None:
        self._held(table).folded = True

    def folded(self, table: str) -> bool:
        return self._held(table).folded

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        super().check_table(table, tags)
        if self._gates.get(table):
            raise Refused(f"table {table} is there, with gates", "UsedBefore")

    def _held(self, table: str) -> _Held:
        return cast("_Held", self._usable(table).items)


def _place(key: str, shard: int, record_id: str) -> Place:
    return _token(key, shard), key, shard, record_id


def _token(key: str, shard: int) -> int:
    return stable_hash(f"{key}.{shard}")
