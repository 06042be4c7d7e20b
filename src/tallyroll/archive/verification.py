"""Verifies an archive by itself: its files, its records and its proof."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Self

from tallyroll.archive.duplicates import (
    DIGESTS_HELD,
    digests_of,
    leaves_of,
    repeated,
    repeats_named,
)
from tallyroll.archive.indexed.checking import IndexCheck
from tallyroll.archive.inventory import Archive
from tallyroll.archive.layout import ArchivedItem, DataFile, ItemSource
from tallyroll.archive.recount import FINDINGS_KEPT, ArchivePass, keys_differing_from_totals
from tallyroll.archive.retractions import (
    RetractedEvents,
    Retractions,
    corrections_of,
    sums_unlike,
)
from tallyroll.archive.runs import SortedRuns
from tallyroll.errors import ProofMismatch
from tallyroll.logs.proving import misplaced
from tallyroll.model.retractions import Tombstone
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.store import ItemCodec
from tallyroll.ports.totals import Totals


class ArchiveReading(ArchivePass):
    """One pass over an archive that also compares its counts, and its index if that is `indexed`,
    and finds repeated items.
    """

    def __init__(
        self,
        bucket: Bucket,
        archive: Archive,
        codec: ItemCodec,
        totals: Totals | None = None,
        source: ItemSource | None = None,
        *,
        indexed: bool = False,
    ) -> None:
        super().__init__(bucket, archive.prefix, codec)
        self.source = source
        self.archive = archive
        self.retractions = Retractions(archive.place.window)
        self._totals = totals
        self._digests = SortedRuns[bytes](DIGESTS_HELD)
        self._leaves = SortedRuns[bytes](DIGESTS_HELD)
        index = archive.proof.index if archive.proof and indexed else ()
        self._index = IndexCheck(bucket, archive.prefix, index) if index else None

    def items_of(self, file: DataFile) -> Iterator[ArchivedItem]:
        """Stream the valid items of one data file."""
        for found in super().items_of(file):
            for digest in digests_of(found):
                self._digests.add(digest)
            for row in leaves_of(found):
                self._leaves.add(row)
            if isinstance(found.holds, Tombstone):
                self.retractions.add(found.holds)
            if self._index:
                self._index.add(found)
            yield found
        if self._index:
            self._index.end_file(file, self.ends)

    def retracted_events(self, key: str | None = None) -> RetractedEvents:
        """The events that were retracted, of one key or of all: by the archive's tombstones, and by
        corrections. Reads the archive, unless its proof says that it has no tombstones.
        """
        found = RetractedEvents()
        proof = self.archive.proof
        if proof is None or any(proof.retracted):
            for item in self._again():
                if isinstance(item.holds, Tombstone) and key in (None, item.holds.key):
                    found.add(item.holds.key, item.holds.id, item.holds.index)
        window = self.archive.place.window
        with suppress(ProofMismatch):  # a finding of the verification
            for each in corrections_of(self._bucket, self._prefix, self._totals, window):
                for its in each.keys:
                    if key in (None, its):
                        found.add(its, each.id, each.index)
        return found

    def verified(self) -> Self:
        """Read the whole archive, then compare it. Raises StoreError if bucket or totals fail.

        Compares files with manifests, records with tallies, with the totals if they are given, and
        with the proof if there is one. No item may occur twice; if one does, the archive is read
        once more to name it. It is read once more, too, if events were retracted, for which there
        must be records.
        """
        for _ in self:
            pass
        return self.compared()

    def compared(self) -> Self:
        """Compare an archive that has been read to its end."""
        if self.expected is not None:
            for finding in self._differences():
                self.findings.add(finding)
        return self

    def _differences(self) -> Iterator[str]:
        counted = self.counted
        if counted.gates_open or not counted.gates_shut:
            yield (
                f"gates: {counted.gates_shut} shut and {counted.gates_open} open, all must be shut:"
                " was it exported before the window was sealed?"
            )
        window, totals = self.archive.place.window, self._totals
        yield from keys_differing_from_totals(window, counted, totals, noted=self.archive.proven)
        yield from self._retracted(totals)
        repeats = chain(repeated([self._digests.rows()]), misplaced(self._leaves.rows()))
        if first := list(islice(repeats, FINDINGS_KEPT)):
            yield from repeats_named(self._again(), first)
        for one in repeats:
            yield from repeats_named([], [one])
        if self.archive.problem:
            yield self.archive.problem
        if proof := self.archive.proof:
            proven = (proof.items, proof.keys, proof.events, proof.amount)
            found = (counted.items, len(counted.records), *counted.sums)
            if proven != found:
                yield f"(items, keys, events, amount) {found}, when proven {proven}"
            if proof.retracted != counted.taken:
                yield f"retracted {counted.taken}, when proven {proof.retracted}"
        if self._index:
            yield from self._index.findings()

    def _again(self) -> Iterator[ArchivedItem]:
        """Another pass over the archive, which counts nothing."""
        again = ArchivePass(self._bucket, self._prefix, self._codec)
        again.source = self.source
        return again.uncounted()

    def _retracted(self, totals: Totals | None) -> Iterator[str]:
        found = self.retractions
        yield from found.read_corrections(self._bucket, self._prefix, totals)
        if found.any:
            yield from found.unjoined(self._again)
        if totals:
            yield from sums_unlike(totals, self.archive.place.window)
