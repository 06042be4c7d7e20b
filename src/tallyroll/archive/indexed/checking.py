"""Compares the index of an archive with the archive, once its items are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tallyroll.archive.indexed.entries import (
    ENTRY_BYTES,
    NAME_BYTES,
    Partition,
    entry_of,
    lengths_of,
    partition_of,
    proven_partition,
)
from tallyroll.archive.layout import ArchivedItem, DataFile, index_key
from tallyroll.archive.runs import SortedRuns
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.ports.bucket import Bucket

ENTRIES_HELD = 500_000  # in memory, some 30 MB


class IndexCheck:
    """The entries that an index must have, by the items of its archive."""

    def __init__(self, bucket: Bucket, prefix: str, digests: Sequence[str]) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._digests = digests
        self._entries = SortedRuns[bytes](ENTRIES_HELD)
        self._files: list[tuple[str, list[int]]] = []

    def add(self, found: ArchivedItem) -> None:
        """Add an item of the file that is read."""
        if entry := entry_of(found, len(self._files)):
            self._entries.add(entry)

    def end_file(self, file: DataFile, ends: Sequence[int]) -> None:
        """Go on to the next file, in the manifest's order."""
        self._files.append((file.key.rpartition("/")[2], lengths_of(ends)))

    def findings(self) -> Iterator[str]:
        """What is wrong with the index. Call it once, at the end."""
        wanted = (entry for entry, _ in groupby(self._entries.rows()))
        parts = groupby(wanted, lambda entry: partition_of(entry, len(self._digests)))
        number, rows = next(parts, (-1, iter(())))
        for partition in range(len(self._digests)):
            of_it = set(rows) if number == partition else set[bytes]()
            yield from self._compared(partition, of_it)
            if number == partition:
                number, rows = next(parts, (-1, iter(())))

    def _compared(self, number: int, wanted: set[bytes]) -> Iterator[str]:
        key = index_key(self._prefix, number, len(self._digests))
        try:
            partition = proven_partition(self._bucket, self._prefix, self._digests, number)
        except Missing:
            yield f"index: {key}: missing"
            return
        except ProofMismatch as mismatch:
            yield from mismatch.findings
            return
        if partition.files != self._files:
            yield f"index: {key}: the members of its data files are not those that there are"
            return
        there = set(partition)
        for what, some in (("lacks", wanted - there), ("has in excess", there - wanted)):
            if some:
                yield f"index: {key}: {what} {len(some):,} entries, as of {self._place(min(some))}"
        if len(there) * ENTRY_BYTES != len(partition.entries) or list(partition) != sorted(there):
            yield f"index: {key}: its entries are not ascending"

    def _place(self, entry: bytes) -> str:
        alone = Partition(self._files, entry)
        return ", ".join(map(str, alone.places(entry[:NAME_BYTES])))
