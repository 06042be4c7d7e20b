"""A window archived by the real exporter and proven, in a memory bucket; and ways to damage it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tallyroll.adapters.dynamodb.items import CODEC, Item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.indexed.members import DataFileWriter
from tallyroll.archive.inventory import Archive, find
from tallyroll.archive.layout import (
    DataFile,
    alone_key,
    data_dir,
    manifests,
    prefix_of,
    read_files,
    read_summary,
    summary_key,
)
from tallyroll.archive.parquet.compaction import Compaction
from tallyroll.archive.proof import prove
from tallyroll.archive.scan_export import export
from tallyroll.archive.verification import ArchiveReading
from tallyroll.client.packing import pack
from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.model.events import Event, decode
from tallyroll.model.items import StoredItem
from tallyroll.model.states import Attempt, Window
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.totals import Totals
from tallyroll.settings import Settings
from tests.harness.pipeline import NOW, SECOND, SMALL, WINDOW, Pipeline, opened

SINGLES = [
    {"id": f"e{n}", "key": f"k{n % 3}", "ts": NOW + n, "value": n / 2, "payload": {"n": n}}
    for n in range(5)
]
PACKED = [{"key": "k0", "ts": NOW + n, "value": 0.000001, "payload": ["ä", n]} for n in range(4)]
EVENTS = {"k0": 2 + 4, "k1": 2, "k2": 1}


def event_of(fields: dict[str, Any]) -> Event:
    event = decode(json.dumps(fields))
    assert isinstance(event, Event)
    return event


@dataclass
class Archived:
    """A window of a pipeline, and the attempt at its archive."""

    pipeline: Pipeline
    window: Window

    @property
    def bucket(self) -> MemoryBucket:
        return self.pipeline.bucket

    @property
    def prefix(self) -> str:
        return self.window.attempt.archive

    def archive(self) -> Archive:
        [found] = find(self.bucket, self.pipeline.effects, self.prefix)
        return found

    def verified(self, totals: Totals | None = None) -> ArchiveReading:
        reading = ArchiveReading(self.bucket, self.archive(), CODEC, totals, indexed=True)
        return reading.verified()

    def findings(self, totals: Totals | None = None) -> list[str]:
        findings = self.verified(totals).findings
        assert findings.count == len(findings.first)
        return findings.first

    def files(self) -> list[DataFile]:
        return read_files(self.bucket, read_summary(self.bucket, self.prefix))

    def items(self) -> list[Item]:
        lines = (
            line
            for file in self.files()
            for line in gzip.decompress(self.bucket.get(file.key)).splitlines()
        )
        return [json.loads(line)["Item"] for line in lines]

    def rewrite(self, items: list[Item]) -> None:
        """Another archive in the place of this one, whole but for what it holds."""
        for key in [*self.bucket.list(data_dir(self.prefix))]:
            self.remove(key)
        file = put_file(self.bucket, self.prefix, "000-0000", items)
        put_manifests(self.bucket, self.prefix, self.window.table, [file], NOW)

    def change_summary(self, **changes: Any) -> None:
        key = summary_key(self.prefix)
        self.bucket.put(key, json.dumps({**json.loads(self.bucket.get(key)), **changes}).encode())

    def spoil(self) -> str:
        """Add a line to the first data file, of which no manifest knows; its key."""
        key = self.files()[0].key
        self.change(key, lambda body: gzip.compress(gzip.decompress(body) + b"junk\n"))
        return key

    def change(self, key: str, change: Callable[[bytes], bytes]) -> None:
        self.bucket.put(key, change(self.bucket.get(key)))

    def remove(self, *keys: str) -> None:
        for key in keys:
            del self.bucket._objects[key]


def archived(*, proven: bool = True, attempt: str = "a1", segments: int = 2) -> Archived:
    """The window at 08 with five single events and a packet of four, sealed and exported."""
    numbers = count(1)
    packets = pack(map(event_of, PACKED), lambda: f"p{next(numbers)}")
    pipeline, window = sealed_and_exported([*SINGLES, *packets], attempt, segments)
    return as_archived(pipeline, window, proven=proven)


def as_archived(pipeline: Pipeline, window: Window, *, proven: bool = True) -> Archived:
    """A window that was sealed and exported; its archive is `proven`."""
    if proven:
        ports = (CODEC, pipeline.bucket, pipeline.totals, pipeline.effects)
        items = prove(window, pipeline.spec(), *ports, NOW + 60 * SECOND)
        assert items
        window = replace(window, attempt=replace(window.attempt, items=items))
    return Archived(pipeline, window)


def leave_parquet(archive: Archived) -> str:
    """Make Parquet of an archive, and have nothing else of it, as once it has expired; its
    prefix.
    """
    made, prefix = archive.pipeline, f"{archive.prefix}/"
    bucket, before = made.bucket, [*made.bucket.list(prefix)]
    work = Compaction(bucket, CODEC, made.effects, lambda reading, *_: iter(reading))
    parquet = work.compact(archive.archive()).prefix
    bucket.put(alone_key(parquet), b"{}")
    archive.remove(*before)
    return parquet


def sealed_and_exported(
    bodies: Iterable[str | dict[str, Any]],
    attempt: str = "a1",
    segments: int = 2,
    settings: Settings = SMALL,
    retractions: Sequence[str] = (),
) -> tuple[Pipeline, Window]:
    """A pipeline whose window at 08 took these bodies and then these `retractions`, was sealed and
    exported; its state.
    """
    pipeline = opened(settings)
    pipeline.write(*bodies)
    assert pipeline.write(*retractions).retracted == len(retractions)
    pipeline.store.shut_gates(pipeline.spec())
    deadline = NOW + 60 * SECOND
    ports = (pipeline.store, pipeline.totals, pipeline.effects)
    *_, sealed = seal(pipeline.spec(), *ports, Sealing())
    window = replace(
        pipeline.state(),
        keys=sealed.keys,
        events=sealed.events,
        amount=sealed.amount,
        attempt=Attempt(
            attempt, 1, prefix_of("tallyroll", WINDOW, attempt), segments=segments, export_at=NOW
        ),
    )
    assert export(window, pipeline.store, pipeline.bucket, pipeline.effects, deadline).whole
    return pipeline, window


def line_of(item: Item) -> bytes:
    """The line of an archive that holds an item with base64 binaries."""
    return CODEC.encode(StoredItem("", "", item))


def put_file(bucket: Bucket, prefix: str, name: str, items: Iterable[Item]) -> DataFile:
    """Put a data file of these items."""
    writer = DataFileWriter()
    for item in items:
        writer.add(line_of(item))
    key = f"{data_dir(prefix)}{name}.json.gz"
    bucket.put(key, writer.part(last=True))
    return DataFile(key, writer.items, writer.md5)


def put_manifests(
    bucket: Bucket, prefix: str, table: str, files: Sequence[DataFile], at: int
) -> None:
    """Put both manifests, over what stands."""
    for key, body in manifests(bucket.name, prefix, table, files, at):
        bucket.put(key, body)
