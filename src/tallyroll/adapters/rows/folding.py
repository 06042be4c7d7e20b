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
    digest = blake2b(f"{row.key}.{row.shard}#{row.id}\0".encode(), digest_size=MARK_BYTES)
    digest.update(row.digest)
    return digest.digest()


def part_of(row_mark: bytes, parts: int) -> int:
    """The part, 0..parts-1, of a list that has this mark, if the list has it at all."""
    return int.from_bytes(row_mark[:8], "big") * parts >> 64


def fold(rows: Rows, spec: Spec, chance: Chance, progress: str) -> Iterator[str]:
    """Seal one segment after the other, and put its stripes; yield the number of those done.

    Any number of runs may do so at once: each finds the winning lists, and sums up what they have.
    A run that wins reads a segment once.
    """
    table = spec.table
    for segment in range(int(progress or 0), statements.SEGMENTS):
        attempt = f"{chance.getrandbits(ATTEMPT_BITS):032x}"
        seal, found = rows.seal(table, segment), _Found()
        if seal is None:
            found.add(rows.listed(table, segment))
            seal = _attempted(rows, table, segment, attempt, found.marks)
        if seal.attempt != attempt:
            found = _refound(rows, table, segment, seal)
        _put_stripes(rows, spec, found)
        if segment == statements.SEGMENTS - 1:
            rows.put_folded(table)
        yield str(segment + 1)


class _Found:
    """Rows of a segment: their marks, and the sums of each partition."""

    def __init__(self) -> None:
        self.marks: list[bytes] = []
        self.tallies: dict[tuple[str, int], Tally] = {}

    def add(
        self, pages: Iterable[Sequence[Record]], counted: Collection[bytes] | None = None
    ) -> None:
        """Add rows; if `counted` is given, those alone that have these marks."""
        for page in pages:
            parts: dict[tuple[str, int], list[Tally]] = {}
            for row in page:
                row_mark = mark(row)
                if counted is None or row_mark in counted:
                    self.marks.append(row_mark)
                    parts.setdefault((row.key, row.shard), []).append(tally_of(row))
            for place, tallies in parts.items():
                before = [self.tallies[place]] if place in self.tallies else []
                self.tallies[place] = gathered(place[0], before + tallies)


def _attempted(rows: Rows, table: str, segment: int, attempt: str, marks: Sequence[bytes]) -> Seal:
    """Put a list; the seal that wins, be it of this attempt or of another."""
    parts = -(-len(marks) // PART_MARKS)
    divided: list[list[bytes]] = [[] for _ in range(parts)]
    for each in marks:
        divided[part_of(each, parts)].append(each)
    for part, inside in enumerate(divided):
        rows.put_list(table, segment, attempt, part, b"".join(inside))
    return rows.put_seal(table, segment, Seal(attempt, len(marks), parts))


def _refound(rows: Rows, table: str, segment: int, seal: Seal) -> _Found:
    """The rows in the winning list of another attempt. Raises Refused if some are not there."""
    found, counted = _Found(), listed_marks(rows, table, segment, seal)
    found.add(rows.listed(table, segment), counted)
    if len(found.marks) != len(counted):
        what = f"{len(found.marks)} of {len(counted)} rows in the list of segment {segment}"
        raise Refused(f"only {what} of {table} are there", "RowsMissing")
    return found


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


def _put_stripes(rows: Rows, spec: Spec, found: _Found) -> None:
    """Put a stripe for each partition of a segment."""
    buckets: dict[int, list[Stripe]] = {}
    for (key, shard), tally in found.tallies.items():
        buckets.setdefault(spec.bucket(key, shard), []).append(Stripe(f"{key}.{shard}", tally))
    for bucket, stripes in buckets.items():
        rows.put_stripes(spec.table, bucket, stripes)


def tally_of(row: Record) -> Tally:
    """What one row adds to its key's tally."""
    return Tally(row.key, row.n, row.amount, row.series, METERING.record_cost(row))
