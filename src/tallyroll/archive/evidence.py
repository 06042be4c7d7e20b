"""Proves an event in the archive of its window, whose table was dropped: its records, and that no
tombstone of it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tallyroll.archive.layout import superseded_by
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.proof import check_place, check_proof
from tallyroll.archive.recount import ArchivePass
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.items import Content
from tallyroll.model.records import Record, RecordName
from tallyroll.model.retractions import Tombstone, TombstoneName
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.store import ItemCodec

TOLD_EVERY = 10_000  # items


@dataclass(slots=True)
class ArchivedItems:
    """What an archive holds of some ids: it reads like the dropped table, of them alone.

    Kept are the records and payloads of `keys`, and all records of events of several keys.
    """

    keys: Collection[str]
    ids: Collection[str]
    records: dict[RecordName, Record] = field(default_factory=dict)
    stones: dict[TombstoneName, Tombstone] = field(default_factory=dict)
    parts: dict[RecordName, list[Chunk]] = field(default_factory=dict)

    def add(self, found: Content) -> None:
        """Keep an item if it is of one of the ids."""
        if isinstance(found, Record) and found.id in self.ids:
            if found.keys or found.key in self.keys:
                self.records[found.key, found.id] = found
        elif isinstance(found, Tombstone) and found.id in self.ids:
            self.stones[found.name] = found
        elif isinstance(found, Chunk) and found.id in self.ids and found.key in self.keys:
            self.parts.setdefault((found.key, found.id), []).append(found)

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:  # noqa: ARG002
        """A record, as `Store.record`."""
        return self.records.get((key, record_id))

    def lookup(
        self,
        spec: Spec,  # noqa: ARG002
        names: Sequence[RecordName],
    ) -> Mapping[RecordName, Record]:
        """Records, as `Store.lookup`."""
        return {name: self.records[name] for name in names if name in self.records}

    def chunks(self, spec: Spec, key: str, record_id: str, count: int) -> Sequence[Chunk]:  # noqa: ARG002
        """The chunks of a record, as `Store.chunks`."""
        return self.parts.get((key, record_id), [])

    def tombstones(
        self,
        spec: Spec,  # noqa: ARG002
        names: Sequence[TombstoneName],
    ) -> Mapping[TombstoneName, Tombstone]:
        """Tombstones, as `Store.tombstones`."""
        return {name: self.stones[name] for name in names if name in self.stones}


def read_archive(
    window: Window,
    pipeline: str,
    bucket: ArchiveBucket,
    codec: ItemCodec,
    kept: ArchivedItems,
    on_items: Callable[[int, int], object],
) -> ArchivedItems:
    """Read the whole archive of a dropped window, and return what it holds of the keys and ids of
    `kept`. Calls `on_items` with the numbers of items that were read, and of all. Where the archive
    expires meanwhile, that which is in its place is read.

    Raises ProofMismatch unless the archive is the proven one, and whole.
    """
    check_place(window, pipeline)
    source = window.attempt.archive
    reading = ArchivePass(bucket, source, codec)
    alone = superseded_by(bucket, source)
    if alone:
        reading.source = parquet = ParquetItems(bucket, alone, codec)
        parquet.check_proof()
    try:
        if not alone:
            check_proof(window, bucket)
        for number, found in enumerate(reading, 1):
            kept.add(found.holds)
            if number % TOLD_EVERY == 0:
                on_items(number, window.attempt.items)
        if reading.findings.count:
            raise ProofMismatch(reading.findings.first)
    except (Missing, ProofMismatch):
        if alone or not superseded_by(bucket, source):
            raise
        anew = ArchivedItems(kept.keys, kept.ids)
        return read_archive(window, pipeline, bucket, codec, anew, on_items)
    return kept
