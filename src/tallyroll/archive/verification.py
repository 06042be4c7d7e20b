"""An archive verified by itself: its files, its records, and what its proof says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tallyroll.archive.duplicates import Repeats, key_digest, repeats_named
from tallyroll.archive.inventory import Archive
from tallyroll.archive.layout import DataFile
from tallyroll.archive.recount import (
    FINDINGS_KEPT,
    ArchivedItem,
    Findings,
    Reading,
    Recount,
    keys_differing_from_totals,
)
from tallyroll.model.items import Gate, Item
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.totals import Totals


@dataclass(frozen=True, slots=True)
class Verification:
    """What another pass over an archive found, and of how many differences."""

    archive: Archive
    counted: Recount
    findings: Findings

    @property
    def events(self) -> int:
        """The events by the archive's records."""
        return sum(n for n, _ in self.counted.records.values())

    @property
    def amount(self) -> int:
        """Their sum, millionths."""
        return sum(amount for _, amount in self.counted.records.values())


class ArchiveReading(Reading):
    """One pass over an archive that ends with everything that can be compared."""

    def __init__(self, bucket: Bucket, archive: Archive, totals: Totals | None = None) -> None:
        super().__init__(bucket, archive.prefix)
        self._archive = archive
        self._totals = totals
        self._repeats = Repeats()

    def items_of(self, file: DataFile) -> Iterator[ArchivedItem]:
        """Stream those of one data file."""
        for found in super().items_of(file):
            self._repeats.add(key_digest(found.item))
            yield found

    def verified(self) -> Verification:
        """Read what is left, then compare: files with manifests, records with tallies, with the
        proof if there is one, and with the totals if they are given; no item may stand twice, for
        which an archive where one does is read once more. Raises StoreError if the
        bucket or the totals fail.
        """
        for _ in self:
            pass
        return self.compared()

    def compared(self) -> Verification:
        """The comparisons of an archive that was read to its end."""
        if self.expected is not None:
            for finding in self._differences():
                self.findings.add(finding)
        return Verification(self._archive, self.counted, self.findings)

    def _differences(self) -> Iterator[str]:
        counted = self.counted
        if counted.gates_open or not counted.gates_shut:
            yield (
                f"gates: {counted.gates_shut} shut and {counted.gates_open} open, all must be shut:"
                " was it exported before the window was sealed?"
            )
        yield from keys_differing_from_totals(self._archive.place.window, counted, self._totals)
        repeats = self._repeats.found()
        if first := list(islice(repeats, FINDINGS_KEPT)):
            yield from repeats_named(Reading(self._bucket, self._prefix), first)
        yield from (f"an item stands more than once, its digest is {one.hex()}" for one in repeats)
        if self._archive.problem:
            yield self._archive.problem
        if proof := self._archive.proof:
            said = (proof.items, proof.keys, proof.events, proof.amount)
            sums = counted.records.values()
            found = (
                counted.items,
                len(sums),
                sum(n for n, _ in sums),
                sum(amount for _, amount in sums),
            )
            if said != found:
                yield f"(items, keys, events, amount) {found}, when proven {said}"


def shut(found: ArchivedItem) -> Item:
    """The item as it may stand in a restored table: a gate never open, so that no writer could
    write there, whatever the archive holds.
    """
    if isinstance(found.holds, Gate):
        return {**found.item, "open": {"BOOL": False}}
    return found.item
