"""What an archive holds, recounted, and what is wrong with it: files against manifests, records
against tallies and totals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tallyroll.archive.layout import DataFile, parse_prefix, read_files, read_items, read_summary
from tallyroll.errors import ProofMismatch
from tallyroll.model.items import Gate, Item, parse_item
from tallyroll.model.records import Record
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import WindowId, table_name
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.totals import Totals

KEYS_PER_READ = 100
FINDINGS_KEPT = 100


@dataclass(slots=True)
class Recount:
    """What an archive holds: per key (events, amount) by its records and by its tallies, and its
    gates.
    """

    records: dict[str, tuple[int, int]] = field(default_factory=dict)
    tallies: dict[str, tuple[int, int]] = field(default_factory=dict)
    gates_shut: int = 0
    gates_open: int = 0
    items: int = 0

    def add(self, found: Record | Tally | Gate) -> None:
        """Count one item."""
        self.items += 1
        if isinstance(found, Gate):
            self.gates_open += found.open
            self.gates_shut += not found.open
            return
        sums = self.records if isinstance(found, Record) else self.tallies
        n, amount = sums.get(found.key, (0, 0))
        sums[found.key] = (n + found.n, amount + found.amount)


@dataclass(slots=True)
class Findings:
    """What is wrong with an archive: the first of it, and how much there is."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, finding: str) -> None:
        """Note one difference."""
        self.count += 1
        if len(self.first) < FINDINGS_KEPT:
            self.first.append(finding)


@dataclass(frozen=True, slots=True)
class ArchivedItem:
    """One item of an archive, and where it stands: data file and line, from 1."""

    item: Item
    holds: Record | Tally | Gate
    file: str
    line: int


class Reading:
    """One pass over an archive, the one that proves it as well as all later ones: gives its items,
    counts them, and notes what is wrong instead of ending there.
    """

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self.counted = Recount()
        self.findings = Findings()
        self.expected: int | None = None
        """How many items the summary promises, once it is read."""
        self.data_dir = ""
        """Where the data files lie, and nothing else, once the summary is read."""

    def __iter__(self) -> Iterator[ArchivedItem]:
        """Stream the items that are ours and whole. Raises StoreError if the bucket fails."""
        for file in self.files():
            yield from self.items_of(file)

    def files(self) -> list[DataFile]:
        """The data files that the manifests list, which are compared with one another; none if one
        is missing.
        """
        try:
            summary = read_summary(self._bucket, self._prefix)
            files = read_files(self._bucket, summary)
        except ProofMismatch as mismatch:
            for finding in mismatch.findings:
                self.findings.add(finding)
            return []
        self.expected = summary.items
        self.data_dir = f"{summary.key.rpartition('/')[0]}/data/"
        if place := parse_prefix(self._prefix):
            table = table_name(place.pipeline, place.window)
            if summary.table != table:
                self.findings.add(
                    f"{summary.key}: an export of the table {summary.table!r}, not of {table!r}"
                )
        lines = sum(file.items for file in files)
        if lines != summary.items:
            self.findings.add(f"{lines} items in the files, the summary says {summary.items}")
        return files

    def items_of(self, file: DataFile) -> Iterator[ArchivedItem]:
        """Stream those of one data file."""

        def fault(line: int | None, what: str) -> None:
            place = "" if line is None else f" line {line}"
            self.findings.add(f"{file.key}{place}: {what}")

        for line, item in read_items(self._bucket, file, fault):
            try:
                holds = parse_item(item)
            except ValueError as error:
                fault(line, str(error))
                continue
            self.counted.add(holds)
            yield ArchivedItem(item, holds, file.key, line)


def recount(bucket: Bucket, prefix: str) -> Recount:
    """Stream an archive once, checking files against manifests. Raises ProofMismatch with all that
    is wrong.
    """
    reading = Reading(bucket, prefix)
    for _ in reading:
        pass
    if reading.findings.count:
        raise ProofMismatch(reading.findings.first)
    return reading.counted


def keys_differing_from_totals(
    window: WindowId, counted: Recount, totals: Totals | None
) -> Iterator[str]:
    """A finding for each key whose records, tallies and total (where totals are given) disagree."""
    keys = sorted(counted.records.keys() | counted.tallies.keys())
    for first in range(0, len(keys), KEYS_PER_READ):
        some = keys[first : first + KEYS_PER_READ]
        stand = totals.of_window(window, some) if totals else {}
        for key in some:
            of = {"records": counted.records.get(key), "tallies": counted.tallies.get(key)}
            if totals:
                total = stand.get(key)
                of["total"] = (total.n, total.amount) if total else None
            if len(set(of.values())) > 1:
                yield f"key {key!r}: (events, amount) {of}"
