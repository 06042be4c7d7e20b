"""The statements that a store on single rows needs of its database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tallyroll.errors import StoreError
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.items import Gate
from tallyroll.model.records import Record, RecordPage
from tallyroll.model.tallies import Stripe, Tally
from tallyroll.ports.effects import Effects
from tallyroll.ports.table_listing import TableFacts

AT_ONCE = 16
SEGMENTS = 8  # into which a window's partitions are divided; stored windows depend on it


@dataclass(frozen=True, slots=True)
class Seal:
    """The attempt whose list counts in a segment; its list has so many marks and parts."""

    attempt: str
    count: int
    parts: int


class Rows(Protocol):
    """Statements, each on one row, or a listing. All but `describe_table` are consistent: a read
    shows every write that was answered before it began.

    Raises StoreError. After Unknown, a write may have been carried out, or be carried out later.
    """

    def insert(self, table: str, row: Record) -> bytes | None:
        """Insert a row if its place is free; else give the digest of the row that is there."""

    def insert_all(self, table: str, rows: Sequence[Record]) -> Sequence[bytes | StoreError | None]:
        """`insert` for each of these rows, side by side; for each its answer, or its error."""

    def put_chunks(self, table: str, row: Record) -> None:
        """Put a row's chunks, under names that have a digest of its manifest: another content of
        its id, and another division of its data, have chunks of their own.
        """

    def chunks(self, table: str, row: Record, count: int) -> Sequence[Chunk]:
        """The stored ones of the chunks 0..count-1 of a row, in no order."""

    def row(self, table: str, key: str, shard: int, record_id: str) -> Record | None:
        """One row."""

    def page(self, table: str, key: str, shard: int, after: str, limit: int) -> RecordPage:
        """At most `limit` rows of a partition whose ids follow `after`, in code point order."""

    def tally(self, table: str, key: str, shards: int) -> Tally:
        """The sums of a key's rows on the shards 1..shards."""

    def segment(self, key: str, shard: int) -> int:
        """The segment, 0..SEGMENTS-1, of a partition."""

    def listed(self, table: str, segment: int) -> Iterator[list[Record]]:
        """The rows of a segment, each once, in pages."""

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[Record]]:
        """The rows of one of `segments` other segments, each once, in pages."""

    def gate(self, table: str, number: int) -> bool | None:
        """Whether a gate is open; None if there is none. Gates do not end with their table."""

    def gates(self, table: str) -> Sequence[Gate]:
        """All gates."""

    def open_gate(self, table: str, number: int) -> bool:
        """Insert a gate, open, if there is none; whether the gate is open. Raises Missing if there
        is no table.
        """

    def shut_gate(self, table: str, number: int) -> None:
        """Shut a gate, also one that is not there yet."""

    def seal(self, table: str, segment: int) -> Seal | None:
        """The seal of a segment. Seals do not end with their table."""

    def put_seal(self, table: str, segment: int, seal: Seal) -> Seal:
        """Insert the seal of a segment if there is none; the one that is there then."""

    def put_list(self, table: str, segment: int, attempt: str, part: int, marks: bytes) -> None:
        """Put a part of an attempt's list."""

    def list_part(self, table: str, segment: int, attempt: str, part: int) -> bytes:
        """A part of an attempt's list. Raises Missing."""

    def put_stripes(self, table: str, bucket: int, stripes: Sequence[Stripe]) -> None:
        """Put stripes of one bucket."""

    def stripes(self, table: str, bucket: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        """The stripes of a bucket whose places follow `after`, in pages of at most `limit`."""

    def scan_stripes(
        self, table: str, segment: int, segments: int
    ) -> Iterator[list[tuple[int, Stripe]]]:
        """The stripes, each with its bucket, of one of `segments` segments, in pages."""

    def stripe(self, table: str, bucket: int, place: str) -> Tally | None:
        """One stripe."""

    def put_folded(self, table: str) -> None:
        """Note that all stripes are put."""

    def folded(self, table: str) -> bool:
        """Whether all stripes are put."""

    def make_table(self, table: str, tags: Mapping[str, str], peak: int = 0) -> None:
        """As `Store.make_table`; so the following."""

    def describe_table(self, table: str) -> TableFacts | None: ...

    def check_table(self, table: str, tags: Mapping[str, str]) -> None: ...

    def recover_table(self, table: str) -> None: ...

    def reduce_capacity(self, table: str) -> None: ...

    def tags(self, table: str) -> Mapping[str, str] | None: ...

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None: ...

    def drop_table(self, table: str) -> None: ...


def each_inserted(
    rows: Rows, table: str, many: Sequence[Record], effects: Effects
) -> list[bytes | StoreError | None]:
    """`insert_all` by means of `insert`."""
    return effects.together([partial(_tried, rows, table, row) for row in many], AT_ONCE)


def _tried(rows: Rows, table: str, row: Record) -> bytes | StoreError | None:
    try:
        return rows.insert(table, row)
    except StoreError as error:
        return error
