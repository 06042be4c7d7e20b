"""The statements of a store on single rows, for Cassandra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tallyroll.adapters.cassandra import cql
from tallyroll.adapters.cassandra.places import (
    BUCKETS,
    CHUNKS_OF_BLOCK,
    FOLDED,
    LIST,
    STRIPES,
    chunk_block,
    chunk_prefix,
    list_partition,
    segment_of,
    tokens_of,
)
from tallyroll.adapters.cassandra.session import Answer, Connection, NamedRow
from tallyroll.adapters.cassandra.tables import CassandraTables
from tallyroll.adapters.rows.metering import METERING, reading_of
from tallyroll.adapters.rows.statements import SEGMENTS, Seal
from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.items import Gate
from tallyroll.model.records import Record, RecordPage
from tallyroll.model.tallies import ReadCost, Series, Stripe, Tally, added

SUM_ROWS = 5_000  # of a page without data
GATE_FACT = "gate."  # begins the names of facts that are gates' numbers
APPLIED = "[applied]"


class CassandraRows(CassandraTables):
    """The statements of a store on single rows. Listings come in pages of `page_rows`."""

    def __init__(self, connection: Connection, *, page_rows: int = cql.PAGE_ROWS) -> None:
        super().__init__(connection)
        self._page_rows = page_rows

    def insert(self, table: str, row: Record) -> bytes | None:
        [answer] = self.insert_all(table, [row])
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def insert_all(self, table: str, rows: Sequence[Record]) -> list[bytes | StoreError | None]:
        """Sent once: a second try could find the row of the first, and take it for another's."""
        chains: dict[tuple[str, int], list[int]] = {}
        for at, row in enumerate(rows):
            chains.setdefault((row.key, row.shard), []).append(at)
        texts = [[_insertion(rows[at]) for at in chain] for chain in chains.values()]
        found: list[bytes | StoreError | None] = [None] * len(rows)
        for chain, answers in zip(
            chains.values(), self._connection.chained(table, texts), strict=True
        ):
            for at, answer in zip(chain, answers, strict=True):
                found[at] = answer if isinstance(answer, StoreError) else _there(answer)
        return found

    def put_chunks(self, table: str, row: Record) -> None:
        prefix = chunk_prefix(row)
        puts = [
            (*chunk_block(row, each.number), _chunk_id(prefix, each.number), each.shard, each.data)
            for each in row.chunks
        ]
        for _ in self._connection.gathered(cql.PUT_DATA, table, puts):
            pass

    def chunks(self, table: str, row: Record, count: int) -> Sequence[Chunk]:
        prefix = chunk_prefix(row)
        bounds = (_chunk_id(prefix, 0), _chunk_id(prefix, count))
        blocks = [(*chunk_block(row, first), *bounds) for first in range(0, count, CHUNKS_OF_BLOCK)]
        found = self._connection.gathered(cql.DATA_BETWEEN, table, blocks, self._page_rows)
        return [
            Chunk(row.key, row.id, int(chunk_id.rpartition("#")[2]), shard, data)
            for _, page in found
            for chunk_id, shard, data in page
        ]

    def row(self, table: str, key: str, shard: int, record_id: str) -> Record | None:
        found = self._connection.run(cql.ROW, table, key, shard, record_id)
        return _record(found[0]) if found else None

    def page(self, table: str, key: str, shard: int, after: str, limit: int) -> RecordPage:
        """The first page of the server that has rows: a full one would need more requests."""
        text, values = _from(cql.ROWS, cql.ROWS_AFTER, key, shard, after)
        rows, state = min(limit, cql.PAGE_ROWS), None
        while True:
            found, state = self._connection.read(text, table, values, rows, state)
            if found or state is None:
                return RecordPage(tuple(map(_record, found)), more=state is not None)

    def tally(self, table: str, key: str, shards: int) -> Tally:
        """Reads every row of the key, since Keyspaces has no aggregates."""
        n = amount = cost = rows = units = 0
        series: Counter[str] = Counter()
        each = [(key, shard) for shard in range(1, shards + 1)]
        for _, page in self._connection.gathered(cql.SUMS, table, each, SUM_ROWS):
            before = cost
            for row_n, row_amount, row_cost, row_series in page:
                n += row_n
                amount += row_amount
                cost += row_cost
                series[row_series] += 1
            reading = reading_of(len(page), cost - before)
            rows, units = rows + reading.rows, units + reading.cost_max
        slots = [
            tuple((slot, events * rows) for slot, events in _series(text))
            for text, rows in series.items()
        ]
        return Tally(key, n, amount, added(slots), cost, ReadCost(rows, units))

    def segment(self, key: str, shard: int) -> int:
        return segment_of(key, shard, SEGMENTS)

    def listed(self, table: str, segment: int) -> Iterator[list[Record]]:
        return self.scan(table, segment, SEGMENTS)

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[Record]]:
        """Pages have rows only. Stripes, lists and chunks, which are read too, are left out."""
        tokens = tokens_of(segment, segments)
        for page in self._connection.pages(cql.ROWS_BETWEEN, table, tokens, self._page_rows):
            yield [_record(answer) for answer in page if answer[1] > 0]

    def gate(self, table: str, number: int) -> bool | None:
        found = self._connection.run(cql.GATE, "", table, number)
        return bool(found[0][0]) if found else None

    def gates(self, table: str) -> Sequence[Gate]:
        facts = self.facts(table)
        numbers = [(table, int(name[len(GATE_FACT) :])) for name in facts if _is_gate(name)]
        found = self._connection.gathered(cql.GATE, "", numbers)
        gates = [Gate(number, bool(answer[0][0])) for (_, number), answer in found if answer]
        return sorted(gates, key=lambda gate: gate.number)

    def open_gate(self, table: str, number: int) -> bool:
        self._check_there(table)
        self._note_gate(table, number)
        there = self._connection.condition(cql.PUT_GATE, "", table, number, True)  # noqa: FBT003
        return bool(there.get("open", True))

    def shut_gate(self, table: str, number: int) -> None:
        """By conditions, as it was opened, so that both are in one order."""
        self._note_gate(table, number)
        there = self._connection.condition(cql.PUT_GATE, "", table, number, False)  # noqa: FBT003
        if there.get("open", False):
            self._connection.condition(cql.SHUT_GATE, "", table, number)

    def _note_gate(self, table: str, number: int) -> None:
        self._connection.run(cql.PUT_FACT, "", table, f"{GATE_FACT}{number}", "")

    def seal(self, table: str, segment: int) -> Seal | None:
        found = self._connection.run(cql.SEAL, "", table, segment)
        return Seal(*found[0]) if found else None

    def put_seal(self, table: str, segment: int, seal: Seal) -> Seal:
        values = (table, segment, seal.attempt, seal.count, seal.parts)
        there = self._connection.condition(cql.PUT_SEAL, "", *values)
        return seal if there[APPLIED] else Seal(there["attempt"], there["listed"], there["parts"])

    def put_list(self, table: str, segment: int, attempt: str, part: int, marks: bytes) -> None:
        place = list_partition(segment, attempt, part)
        self._connection.run(cql.PUT_DATA, table, *place, LIST, part, marks)

    def list_part(self, table: str, segment: int, attempt: str, part: int) -> bytes:
        place = list_partition(segment, attempt, part)
        found = self._connection.run(cql.DATA, table, *place, LIST)
        if not found:
            raise Missing(f"part {part} of the list of segment {segment} of {table} is gone")
        data: bytes = found[0][0]
        return data

    def put_stripes(self, table: str, bucket: int, stripes: Sequence[Stripe]) -> None:
        """The bucket is noted first, so that a scan finds all stripes."""
        self._connection.run(cql.PUT_DATA, table, BUCKETS, -1, str(bucket), bucket, b"")
        puts = [
            (STRIPES, -bucket, each.place, tally.n, tally.amount, tally.cost, _text(tally.series))
            for each in stripes
            for tally in [each.tally]
        ]
        self._connection.batched(cql.PUT_STRIPE, table, puts)

    def stripes(self, table: str, bucket: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        text, values = _from(cql.STRIPES, cql.STRIPES_AFTER, STRIPES, -bucket, after)
        for page in self._connection.pages(text, table, values, limit):
            yield list(map(_stripe, page))

    def scan_stripes(
        self, table: str, segment: int, segments: int
    ) -> Iterator[list[tuple[int, Stripe]]]:
        for noted in self._connection.pages(cql.STRIPES, table, (BUCKETS, -1), self._page_rows):
            for bucket in (answer[1] for answer in noted if answer[1] % segments == segment):
                for page in self.stripes(table, bucket, "", self._page_rows):
                    yield [(bucket, stripe) for stripe in page]

    def stripe(self, table: str, bucket: int, place: str) -> Tally | None:
        found = self._connection.run(cql.STRIPE, table, STRIPES, -bucket, place)
        return _stripe(found[0]).tally if found else None

    def put_folded(self, table: str) -> None:
        self._connection.run(cql.PUT_DATA, table, *FOLDED, 1, b"")

    def folded(self, table: str) -> bool:
        return bool(self._connection.run(cql.DATA, table, *FOLDED))

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        super().check_table(table, tags)
        if self.gates(table):
            raise Refused(f"table {table} is there, with gates", "UsedBefore")


def _insertion(row: Record) -> tuple[str, list[Any]]:
    """The text and values that insert a row."""
    values: list[Any] = [row.key, row.shard, row.id, row.ts, row.n, row.amount, row.digest]
    values += [_text(row.series), METERING.record_cost(row)]
    if row.data is None and row.format is None:
        return cql.INSERT, values
    return cql.INSERT_WITH_DATA, [*values, row.data, row.format]


def _there(answer: NamedRow) -> bytes | None:
    """The digest of the row that was there before an insert."""
    digest: bytes = answer.get("h", b"")
    return None if answer[APPLIED] else digest


def _from(whole: str, rest: str, key: str, shard: int, after: str) -> tuple[str, tuple[Any, ...]]:
    """The text and values that read a partition after a position. Keyspaces takes no empty text for
    a value of a key's column.
    """
    return (rest, (key, shard, after)) if after else (whole, (key, shard))


def _record(answer: Answer) -> Record:
    key, shard, record_id, ts, n, amount, digest, data, form, series = answer
    return Record(
        key=key,
        id=record_id,
        shard=shard,
        ts=ts,
        n=n,
        amount=amount,
        digest=digest,
        series=_series(series),
        data=data,
        format=form,
    )


def _stripe(answer: Answer) -> Stripe:
    place, n, amount, cost, series = answer
    return Stripe(place, Tally(place.rpartition(".")[0], n, amount, _series(series), cost))


def _text(series: Series) -> str:
    """A series as it is stored: `{slot}:{events}`, divided by spaces."""
    return " ".join(f"{slot}:{events}" for slot, events in series)


def _series(text: str | None) -> Series:
    pairs = (each.partition(":") for each in (text or "").split())
    return tuple((int(slot), int(events)) for slot, _, events in pairs)


def _chunk_id(prefix: str, number: int) -> str:
    return f"{prefix}#{number:04d}"


def _is_gate(name: str) -> bool:
    return name.startswith(GATE_FACT)
