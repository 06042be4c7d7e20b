"""The events of a key in a range of windows; those of dropped windows from their archives.

An archive is read whole for a key that has a total in its window, and verified on the way, before
any of its events is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol, TypeGuard

from tallyroll.archive.chunked import Waiting
from tallyroll.archive.inventory import Archive, best, find
from tallyroll.archive.layout import ArchivedItem
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.retractions import corrections_of
from tallyroll.archive.runs import SortedRuns
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import ProofMismatch
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.retractions import RetractionNote, Tombstone
from tallyroll.model.states import Window
from tallyroll.model.stored import StoredEvent, StoredPacket, apart, stored
from tallyroll.model.totals import Total
from tallyroll.model.windows import window_id
from tallyroll.ports.bucket import ListedBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec
from tallyroll.ports.totals import Totals
from tallyroll.reads.found import FoundEvent, StoredWhat
from tallyroll.reads.ranges.spans import calendar_of, dropped, range_of

RECORDS_HELD = 5_000  # of up to 400 KB; more are sorted on disk
Watch = Callable[[ArchiveReading, Archive, str], Iterator[ArchivedItem]]
Notes = dict[tuple[str, int | None], RetractionNote]
"""By whom events of a key were retracted, by record id and index."""


class LiveReads(Protocol):
    """Reads windows that are not dropped."""

    def events_within(
        self, key: str, since: int | None = None, until: int | None = None, *, packed: bool = False
    ) -> Iterator[FoundEvent]:
        """All events of a key in the windows of a range, by window and id."""


@dataclass(frozen=True)
class WholeRange:
    """Reads ranges of windows whole. `watch` gives the items of a reading of an archive; by default
    as they come.
    """

    reads: LiveReads
    catalog: Catalog
    totals: Totals
    bucket: ListedBucket
    codec: ItemCodec
    effects: Effects
    watch: Watch = lambda reading, _archive, _doing: iter(reading)

    def events(
        self, key: str, since: int | None = None, until: int | None = None
    ) -> Iterator[FoundEvent]:
        """The events of a key in the windows that start in [since, until) in ms, both bounds of
        windows, ascending by window and id, with who retracted them; packets unpacked.

        Raises UsageError, Absent, StoreError; ProofMismatch if an archive is not whole, not proven
        or not what the totals say; Archived if a window is dropped meanwhile: ask again.
        """
        span = range_of(calendar_of(self.catalog), self.effects.now(), since, until)
        windows = self.catalog.windows(span.start, span.end)
        found = self.totals.of_key(key, window_id(span.start), window_id(span.end))
        totals = {total.window: total for total in found}
        for gone, run in groupby(windows, dropped):
            some = list(run)
            if not gone:
                yield from self.reads.events_within(key, some[0].start, some[-1].end)
                continue
            for window in some:
                if window.id in totals:
                    for event in self.archived(key, window, totals[window.id]):
                        yield FoundEvent(key, window.id, window.status, event)

    def event(
        self, key: str, event_id: str, window: Window, total: Total, _deadline: int = 0
    ) -> StoredWhat | None:
        """The event of an id, or the packet, in the archive of a dropped window; see `archived`."""
        own: list[StoredEvent] = []
        packet: list[StoredEvent] = []
        packed: list[StoredEvent] = []
        for each in self.archived(key, window, total):
            if event_id in (each.id, each.packet):
                kind = packet if each.packet == event_id else packed if each.packet else own
                kind.append(each)
        if packet:
            return StoredPacket(event_id, tuple(packet))
        return next(iter([*own, *packed]), None)

    def archived(self, key: str, window: Window, total: Total) -> Iterator[StoredEvent]:
        """The events of a key in the archive of a dropped window, in which the key has this total.
        Raises what `events` does.
        """
        bucket, prefix = self.bucket, window.attempt.archive
        proven = [each for each in best(find(bucket, self.effects, prefix)) if each.proven]
        if not proven:
            raise ProofMismatch([f"{prefix}: there is no proven archive of {window.id}"])
        archive = proven[0]
        source = ParquetItems(bucket, archive.prefix, self.codec) if archive.parquet else None
        reading = ArchiveReading(bucket, archive, self.codec, source=source)
        records = SortedRuns[tuple[str, int, Record]](RECORDS_HELD)
        notes: Notes = {}
        number = 0
        with Waiting() as waiting:
            for item in self.watch(reading, archive, "reading"):
                holds = item.holds
                if isinstance(holds, Chunk) or (item.in_chunks and _is_of(holds, key)):
                    waiting.add(item)
                elif _is_of(holds, key):
                    records.add((holds.id, number := number + 1, holds))
                elif isinstance(holds, Tombstone) and holds.key == key:
                    notes[holds.id, holds.index] = RetractionNote(holds.by, holds.why)
            for _, record in waiting.joined(reading.findings.add):
                records.add((record.id, number := number + 1, record))
        counted = reading.compared().counted.net(key) or (0, 0)
        if counted != (total.n, total.amount):
            said = f"(events, amount) {counted}, the total is {(total.n, total.amount)}"
            reading.findings.add(f"{archive.prefix}: key {key!r}: {said}")
        if reading.findings.count:
            raise ProofMismatch(reading.findings.first)
        for each in corrections_of(bucket, archive.prefix, self.totals, window.id):
            if key in each.keys:
                notes[each.id, each.index] = RetractionNote(each.by, each.why, each.at)
        for _, _, record in records.rows():
            for event in apart(stored(record)):
                name = (record.id, event.index)
                yield replace(event, retracted=notes[name]) if name in notes else event


def _is_of(holds: object, key: str) -> TypeGuard[Record]:
    return isinstance(holds, Record) and holds.key == key
