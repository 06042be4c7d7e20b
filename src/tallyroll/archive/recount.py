"""Recounts an archive and finds what is wrong with it: compares files with manifests, records with
tallies and totals, and chunks with the records that have them.

`archive/proof.py` does this over several runs, and writes a proof only if nothing differs. Next on
the reading path: `lifecycle/proven.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tallyroll.archive.corrections import revised
from tallyroll.archive.layout import (
    ArchivedItem,
    DataFile,
    ItemSource,
    parse_prefix,
    read_files,
    read_items,
    read_summary,
)
from tallyroll.errors import ProofMismatch
from tallyroll.model.formats.payloads import Chunk, manifest_in, summed
from tallyroll.model.items import Content, Gate
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import WindowId, table_name
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.store import ItemCodec
from tallyroll.ports.totals import Totals

KEYS_PER_READ = 100
FINDINGS_KEPT = 100
Sums = dict[str, tuple[int, int]]
"""Two sums per key."""


@dataclass(slots=True)
class Recount:
    """Counts of an archive: (events, amount) per key by records and by tallies, and of those that
    were retracted by tombstones and by tallies, (chunks, sum of their digests) per key by chunks
    and by the manifests of records, gates, items.
    """

    records: Sums = field(default_factory=dict)
    tallies: Sums = field(default_factory=dict)
    chunks: Sums = field(default_factory=dict)
    declared: Sums = field(default_factory=dict)
    retracted: Sums = field(default_factory=dict)
    tombstones: Sums = field(default_factory=dict)
    gates_shut: int = 0
    gates_open: int = 0
    items: int = 0

    @property
    def sums(self) -> tuple[int, int]:
        """(events, amount) of all records, less what tombstones take from them."""
        events, amount = _sum(self.records)
        gone, value = _sum(self.tombstones)
        return events - gone, amount - value

    @property
    def taken(self) -> tuple[int, int]:
        """(events, amount) of all tombstones."""
        return _sum(self.tombstones)

    def net(self, key: str) -> tuple[int, int] | None:
        """(events, amount) of a key's records less its tombstones; None if it has neither."""
        if key not in self.tombstones:
            return self.records.get(key)
        (n, amount), (gone, value) = self.records.get(key, (0, 0)), self.tombstones[key]
        return n - gone, amount - value

    @property
    def kinds(self) -> dict[str, Sums]:
        """All sums per key, each by a letter of its own."""
        return {
            "r": self.records,
            "t": self.tallies,
            "x": self.retracted,
            "s": self.tombstones,
            "c": self.chunks,
            "d": self.declared,
        }

    @property
    def held(self) -> int:
        """How many sums it has in memory."""
        return sum(map(len, self.kinds.values()))

    def add(self, found: Content) -> None:
        """Count one item."""
        self.items += 1
        if isinstance(found, Gate):
            self.gates_open += found.open
            self.gates_shut += not found.open
            return
        if isinstance(found, Chunk):
            _add(self.chunks, found.key, 1, found.digest)
            return
        if isinstance(found, Tombstone):
            _add(self.tombstones, found.key, found.n, found.amount)
            return
        is_record = isinstance(found, Record)
        _add(self.records if is_record else self.tallies, found.key, found.n, found.amount)
        if isinstance(found, Tally) and any(found.retracted):
            _add(self.retracted, found.key, *found.retracted)
        if isinstance(found, Record) and found.in_chunks:
            self._declare(found)

    def _declare(self, record: Record) -> None:
        """Count the chunks that a record declares, once for the records of several keys."""
        try:
            manifest = manifest_in(record.data, record.format)
        except ValueError:
            _add(self.declared, record.key, 1, 0)  # so that it agrees with no chunks
            return
        if manifest and manifest.key == record.key:
            _add(self.declared, record.key, manifest.count, manifest.sum)


def _sum(sums: Sums) -> tuple[int, int]:
    return sum(n for n, _ in sums.values()), sum(amount for _, amount in sums.values())


def _add(sums: Sums, key: str, n: int, amount: int) -> None:
    before = sums.get(key, (0, 0))
    sums[key] = (before[0] + n, before[1] + amount)


@dataclass(slots=True)
class Findings:
    """What is wrong with an archive: the first findings, and the number of all."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, finding: str) -> None:
        """Add one finding."""
        self.count += 1
        if len(self.first) < FINDINGS_KEPT:
            self.first.append(finding)


class ArchivePass:
    """One pass over an archive: yields its items, counts them, and collects findings.

    Proof and verification share it. `source` reads an archive in another layout. Of DynamoDB's,
    only items are decoded whose lines hold the `needle`: ten times as many a second.
    """

    source: ItemSource | None = None
    needle: bytes = b""

    def __init__(self, bucket: Bucket, prefix: str, codec: ItemCodec) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._codec = codec
        self.counted = Recount()
        self.findings = Findings()
        self.expected: int | None = None
        """The number of items by the summary, once it is read."""
        self.data_dir = ""
        """The prefix that holds the data files and nothing else, once the summary is read."""
        self.ends: list[int] = []
        """Where the gzip members end of the file that is read."""

    def __iter__(self) -> Iterator[ArchivedItem]:
        """Stream the items that are valid. Raises StoreError if the bucket fails."""
        for file in self.files():
            yield from self.items_of(file)

    def files(self) -> list[DataFile]:
        """The data files that the manifests list; none if a manifest is missing or malformed.

        Also compares the two manifests with each other.
        """
        if self.source:
            if found := self.source.files(self.findings.add):
                self.expected = sum(file.items for file in found)
            return found
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
                text = f"{summary.key}: an export of the table {summary.table!r}, not of {table!r}"
                self.findings.add(text)
        if (lines := sum(file.items for file in files)) != summary.items:
            self.findings.add(f"{lines} items in the files, the summary says {summary.items}")
        return files

    def items_of(self, file: DataFile) -> Iterator[ArchivedItem]:
        """Stream the valid items of one data file."""
        for found in self.read(file):
            self.counted.add(found.holds)
            yield found

    def read(self, file: DataFile) -> Iterator[ArchivedItem]:
        """The same, counting nothing, so that memory does not grow with the keys."""
        if self.source:
            return self.source.read(file, self.findings.add)
        self.ends = []
        place = (self._bucket, file, self._codec)
        return read_items(*place, self.findings.add, self.needle, self.ends)

    def uncounted(self) -> Iterator[ArchivedItem]:
        """Stream the valid items, counting nothing. Raises StoreError if the bucket fails."""
        for file in self.files():
            yield from self.read(file)


def keys_differing_from_totals(
    window: WindowId, counted: Recount, totals: Totals | None, *, noted: bool = False
) -> Iterator[str]:
    """The findings of each key whose records, tallies and total (if `totals` is given) disagree on
    what is there or was retracted, or whose chunks are not those that its records have. A total
    that does not say what was retracted, as of an earlier release, must only if it is `noted`.
    """
    keys = sorted({key for sums in counted.kinds.values() for key in sums})
    corrected = bool(totals and totals.revision(revised(window)))
    for first in range(0, len(keys), KEYS_PER_READ):
        batch = keys[first : first + KEYS_PER_READ]
        stored = totals.of_window(window, batch, corrected=corrected) if totals else {}
        for key in batch:
            sums = {"records": counted.net(key), "tallies": counted.tallies.get(key)}
            gone, tallied = counted.tombstones.get(key), counted.retracted.get(key)
            taken = {"tombstones": gone, "tallies": tallied}
            if totals:
                total = stored.get(key)
                sums["total"] = (total.n, total.amount) if total else None
                before = total.corrections.before if total else (0, 0)
                if noted or any(before):
                    taken["total"] = before if any(before) else None
            if len(set(sums.values())) > 1:
                yield f"key {key!r}: (events, amount) {sums}"
            if len(set(taken.values())) > 1:
                yield f"key {key!r}: retracted (events, amount) {taken}"
            if difference := _chunks_differing(key, counted):
                yield difference


def _chunks_differing(key: str, counted: Recount) -> str:
    found, there = counted.chunks.get(key, (0, 0))
    declared, written = counted.declared.get(key, (0, 0))
    if found != declared:
        return f"key {key!r}: {found} chunks of payloads, its records have {declared}"
    if summed([there]) != summed([written]):
        return f"key {key!r}: its {found} chunks of payloads are not those that were written"
    return ""
