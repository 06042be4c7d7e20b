"""The lists of counted rows: written once the gates are shut, and asked ever after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b

from tallyroll.adapters.rows import statements
from tallyroll.adapters.rows.metering import METERING
from tallyroll.adapters.rows.statements import Rows, Seal
from tallyroll.errors import Refused, Throttled
from tallyroll.model.records import Record
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Stripe, Tally, gathered

MARK_BYTES = 16
PART_MARKS = 1_000  # of a part, on average: a lookup reads 16 KB
ATTEMPT_BITS = 128
NOT_FOLDED = "NotFolded"


def mark(row: Record) -> bytes:
    """A digest of a row's place and content."""
    told = blake2b(f"{row.key}.{row.shard}#{row.id}\0".encode(), digest_size=MARK_BYTES)
    told.update(row.digest)
    return told.digest()


def part_of(row_mark: bytes, parts: int) -> int:
    """The part, 0..parts-1, of a list that has this mark, if the list has it at all."""
    return int.from_bytes(row_mark[:8], "big") * parts >> 64


def fold(rows: Rows, spec: Spec, chance: Chance, progress: str) -> Iterator[str]:
    """Seal one segment after the other, and put its stripes; yield the number of those done.

    Any number of runs may do so at once: each finds the winning lists, and sums up what they have.
    """
    for segment in range(int(progress or 0), statements.SEGMENTS):
        seal = rows.seal(spec.table, segment) or _attempted(rows, spec.table, segment, chance)
        _put_stripes(rows, spec, segment, listed_marks(rows, spec.table, segment, seal))
        if segment == statements.SEGMENTS - 1:
            rows.put_folded(spec.table)
        yield str(segment + 1)


def _attempted(rows: Rows, table: str, segment: int, chance: Chance) -> Seal:
    """List a segment and put the list; the seal that wins, be it of this attempt or of another."""
    marks = [mark(row) for page in rows.listed(table, segment) for row in page]
    attempt = f"{chance.getrandbits(ATTEMPT_BITS):032x}"
    parts = -(-len(marks) // PART_MARKS)
    divided: list[list[bytes]] = [[] for _ in range(parts)]
    for each in marks:
        divided[part_of(each, parts)].append(each)
    for part, inside in enumerate(divided):
        rows.put_list(table, segment, attempt, part, b"".join(inside))
    return rows.put_seal(table, segment, Seal(attempt, len(marks), parts))


def listed_marks(rows: Rows, table: str, segment: int, seal: Seal) -> frozenset[bytes]:
    """All marks of a segment's winning list."""
    return marks_in(
        rows.list_part(table, segment, seal.attempt, part) for part in range(seal.parts)
    )


def marks_in(parts: Iterable[bytes]) -> frozenset[bytes]:
    """The marks in parts of a list."""
    return frozenset(
        part[at : at + MARK_BYTES] for part in parts for at in range(0, len(part), MARK_BYTES)
    )


class Lists:
    """The winning lists of one window, as far as they are asked for."""

    def __init__(self, rows: Rows, table: str) -> None:
        self._rows = rows
        self._table = table
        self._seals: dict[int, Seal] = {}
        self._parts: dict[tuple[int, int], frozenset[bytes]] = {}

    def counted(self, rows: Sequence[Record]) -> list[Record]:
        """Those of the rows that count. Raises Throttled if that is not settled yet, and Missing if
        the list is gone with its table.
        """
        return [row for row in rows if self._has(row)]

    def _has(self, row: Record) -> bool:
        segment = self._rows.segment(row.key, row.shard)
        seal = self._seals.get(segment) or self._rows.seal(self._table, segment)
        if seal is None:
            why = f"{self._table} is being closed: which of its records count is not settled yet"
            raise Throttled(why, NOT_FOLDED)
        self._seals[segment] = seal
        if not seal.parts:
            return False
        row_mark = mark(row)
        part = part_of(row_mark, seal.parts)
        if (segment, part) not in self._parts:
            text = self._rows.list_part(self._table, segment, seal.attempt, part)
            self._parts[segment, part] = marks_in([text])
        return row_mark in self._parts[segment, part]


def _put_stripes(rows: Rows, spec: Spec, segment: int, counted: Collection[bytes]) -> None:
    """Put a stripe for each partition of a segment: the sums of its counted rows."""
    tallies: dict[tuple[str, int], list[Tally]] = {}
    found = 0
    for page in rows.listed(spec.table, segment):
        for row in page:
            if mark(row) in counted:
                found += 1
                tallies.setdefault((row.key, row.shard), []).append(tally_of(row))
    if found != len(counted):
        what = f"{found} of {len(counted)} rows in the list of segment {segment} of {spec.table}"
        raise Refused(f"only {what} are there", "RowsMissing")
    buckets: dict[int, list[Stripe]] = {}
    for (key, shard), parts in tallies.items():
        stripe = Stripe(f"{key}.{shard}", gathered(key, parts))
        buckets.setdefault(spec.bucket(key, shard), []).append(stripe)
    for bucket, stripes in buckets.items():
        rows.put_stripes(spec.table, bucket, stripes)


def tally_of(row: Record) -> Tally:
    """What one row adds to its key's tally."""
    return Tally(row.key, row.n, row.amount, row.series, METERING.record_cost(row))
