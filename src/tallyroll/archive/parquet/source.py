"""Reads an archive as Parquet as the items that it was made of, and says what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tallyroll.archive.layout import (
    ArchivedItem,
    DataFile,
    ParquetFile,
    ParquetManifest,
    parquet_manifest_key,
    parse_prefix,
    proof_key,
    read_parquet_manifest,
)
from tallyroll.archive.parquet.files import EVENTS, REST, ParquetReader
from tallyroll.archive.parquet.rows import (
    EventRow,
    Rest,
    added,
    contents,
    event_digest,
    held,
    item_digest,
    restored,
    rows_of,
    text_digest,
)
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.model.items import Content, StoredItem
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.windows import table_name
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.store import ItemCodec

Fault = Callable[[str], None]


class ParquetItems:
    """The items of one archive as Parquet. Its files are fetched into a folder of their own; each
    part of them calls `on_step`, which may raise an error to end that.
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        codec: ItemCodec,
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        self._bucket = bucket
        self._on_step = on_step
        self.prefix = prefix
        self._codec = codec
        self._folder = Path(tempfile.mkdtemp(prefix="tallyroll-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def files(self, fault: Fault) -> list[DataFile]:
        """The manifest, as a file that has all items; empty if there is none. Calls `fault` with
        what is wrong with it, and with files that it does not name.
        """
        try:
            manifest = read_parquet_manifest(self._bucket, self.prefix)
        except ProofMismatch as mismatch:
            fault(str(mismatch))
            return []
        place = parse_prefix(self.prefix)
        if place:
            wanted = (place.window, table_name(place.pipeline, place.window))
            if (manifest.window, manifest.table) != wanted:
                of = f"{manifest.window}, table {manifest.table}"
                fault(f"{parquet_manifest_key(self.prefix)}: of {of}")
        named = {f"{self.prefix}/{file.name}" for file in manifest.files}
        for kind in (EVENTS, REST):
            for key in self._bucket.list(f"{self.prefix}/{kind}/"):
                if key not in named:
                    fault(f"{key}: the manifest does not name it")
        self._compare_with_proof(fault)
        return [DataFile(parquet_manifest_key(self.prefix), manifest.items, "")]

    def check_proof(self) -> None:
        """Raise ProofMismatch unless it is proven, its manifest is that of the proof, and all files
        that this names are there; they are not read.
        """
        findings: list[str] = []
        there = {*self._bucket.list(f"{self.prefix}/")}
        if proof_key(self.prefix) not in there:
            findings.append(f"not proven: {proof_key(self.prefix)} is missing")
        if self.files(findings.append):
            named = read_parquet_manifest(self._bucket, self.prefix).files
            keys = (f"{self.prefix}/{file.name}" for file in named)
            findings += (f"{key}: missing" for key in keys if key not in there)
        if findings:
            raise ProofMismatch(findings)

    def _compare_with_proof(self, fault: Fault) -> None:
        key = proof_key(self.prefix)
        try:
            proven = json.loads(self._bucket.get(key))["manifestDigest"]
        except Missing:
            return
        except (KeyError, TypeError, ValueError) as error:
            fault(f"proof malformed: {key}: {error!r}")
            return
        if proven != manifest_digest(self._bucket.get(parquet_manifest_key(self.prefix))):
            fault(f"{parquet_manifest_key(self.prefix)}: changed since it was proven")

    def read(self, file: DataFile, fault: Fault) -> Iterator[ArchivedItem]:
        """Stream the items. Calls `fault` with what is wrong, and ends there."""
        try:
            manifest = read_parquet_manifest(self._bucket, self.prefix)
            yield from self._items(manifest, file)
        except ProofMismatch as mismatch:
            for finding in mismatch.findings:
                fault(f"{self.prefix}/{finding}")

    def event_files(self) -> list[Path]:
        """The files of events, fetched. Raises ProofMismatch if one is missing or has changed."""
        return self._fetched(read_parquet_manifest(self._bucket, self.prefix).events)

    def _items(self, manifest: ParquetManifest, file: DataFile) -> Iterator[ArchivedItem]:
        events, rest = self._fetched(manifest.events), self._fetched(manifest.rest)
        marks = Marks()
        reader = ParquetReader(self._folder, events, rest)
        number = total = 0
        for rows, row_rest in reader.records(manifest.window, marks.marked):
            for item, holds in self._restored(rows, row_rest):
                number += 1
                text = self._codec.spelled(holds, item) if isinstance(holds, Record) else None
                total = added(total, text_digest(text) if text else item_digest(item))
                if isinstance(holds, Tombstone):
                    marks.wanted(holds)
                yield ArchivedItem(item, holds, file.key, number)
        if number != manifest.items:
            raise ProofMismatch([f"{REST}: {number} items, the manifest says {manifest.items}"])
        if f"{total:032x}" != manifest.items_digest:
            raise ProofMismatch([f"{EVENTS}: items are not those that were archived"])
        marks.compare()

    def _restored(
        self, rows: Sequence[EventRow], rest: Rest
    ) -> Sequence[tuple[StoredItem, Content]]:
        """The items of a record or another item, with what they hold."""
        codec = self._codec
        try:
            if rest.items is None:
                return [(codec.item_of(each), each) for each in contents(rows, rest)]
            items = restored(rows, rest, codec)
            if rows and rows_of(held(rest), codec) != rows:
                raise ValueError("its rows are not those of its item")
            return [(item, codec.parse(item)) for item in items]
        except (KeyError, TypeError, ValueError) as error:
            name = f"key {rows[0].key!r} id {rows[0].record!r}" if rows else "an item"
            raise ProofMismatch([f"{EVENTS}: {name}: {error}"]) from None

    def _fetched(self, files: Sequence[ParquetFile]) -> list[Path]:
        paths = []
        for file in files:
            path = self._folder / file.name.replace("/", "-")
            if not path.exists():
                self._fetch(file, path)
            paths.append(path)
        return paths

    def _fetch(self, file: ParquetFile, path: Path) -> None:
        digest, part = hashlib.sha256(), path.with_suffix(".part")
        try:
            with part.open("wb") as target:
                for chunk in self._bucket.stream(f"{self.prefix}/{file.name}"):
                    self._on_step()
                    digest.update(chunk)
                    target.write(chunk)
        except Missing:
            raise ProofMismatch([f"{file.name}: missing"]) from None
        if digest.hexdigest() != file.sha256:
            found = f"{part.stat().st_size} bytes, SHA-256 {digest.hexdigest()}"
            raise ProofMismatch(
                [f"{file.name}: {found}, the manifest says {file.bytes} bytes, {file.sha256}"]
            )
        part.rename(path)


class Marks:
    """Whether the rows that say that they were retracted are those that have tombstones."""

    def __init__(self) -> None:
        self._marked = self._wanted = (0, 0)

    def marked(self, key: str, record: str, index: int | None) -> None:
        """Note the event of a row that says so."""
        count, total = self._marked
        self._marked = count + 1, added(total, event_digest(key, record, index))

    def wanted(self, tombstone: Tombstone) -> None:
        """Note the event of a tombstone."""
        count, total = self._wanted
        digest = event_digest(tombstone.key, tombstone.id, tombstone.index)
        self._wanted = count + 1, added(total, digest)

    def compare(self) -> None:
        """Raise ProofMismatch unless they are."""
        if self._marked != self._wanted:
            counts = f"{self._marked[0]} rows are marked as retracted"
            raise ProofMismatch([f"{EVENTS}: {counts}, not those of {self._wanted[0]} tombstones"])


def manifest_digest(body: bytes) -> str:
    """What a proof says of the manifest."""
    return hashlib.sha256(body).hexdigest()
