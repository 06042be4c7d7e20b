"""Makes an archive as Parquet of one in DynamoDB's layout, which stays; and proves it.

It is proven only once it was read back from the bucket: as the same items, whose records agree with
their tallies per key. A run that is ended early leaves no proof. The next one proves what is whole,
and begins any other window again: equal files have equal keys.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tallyroll.archive.chunked import Waiting
from tallyroll.archive.corrections import corrections_dir
from tallyroll.archive.inventory import Archive, detailed, find
from tallyroll.archive.layout import (
    ArchivedItem,
    ParquetFile,
    ParquetManifest,
    is_parquet,
    parquet_manifest_key,
    parquet_prefix,
    parse_prefix,
    proof_key,
)
from tallyroll.archive.parquet.files import EVENTS, REST, ParquetWriter
from tallyroll.archive.parquet.rows import (
    ChunksOf,
    added,
    alone,
    converted,
    item_digest,
    text_digest,
)
from tallyroll.archive.parquet.source import ParquetItems, manifest_digest
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import ProofMismatch
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.windows import iso, table_name
from tallyroll.ports.bucket import ListedBucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec
from tallyroll.ports.totals import Totals

CONVERTING, PROVING = "converting", "proving"
Watch = Callable[[ArchiveReading, Archive, str], Iterator[ArchivedItem]]
"""The items of a pass over an archive, watched as they are read."""


class Compaction:
    """Makes and proves archives as Parquet in one bucket. With `totals` each is compared with the
    table of totals, too.
    """

    def __init__(
        self,
        bucket: ListedBucket,
        codec: ItemCodec,
        effects: Effects,
        watch: Watch,
        totals: Totals | None = None,
    ) -> None:
        self._bucket = bucket
        self._codec = codec
        self._effects = effects
        self._watch = watch
        self._totals = totals

    def compact(self, archive: Archive) -> Archive:
        """The archive as Parquet of a proven archive, proven as well.

        What an earlier run wrote, manifest and all, is proven as it is, or else made again. Raises
        ProofMismatch if the archive is not whole or has no proof, if it holds what cannot be
        unpacked, or if what was written is not read back as it was.
        """
        if not archive.proven or archive.problem:
            raise ProofMismatch([f"{archive.prefix}: {archive.problem or 'it is not proven'}"])
        for written in find(self._bucket, self._effects, archive.prefix):
            if written.complete and is_parquet(written.prefix):
                with suppress(ProofMismatch):
                    return self._proven(written.prefix, archive)
        with tempfile.TemporaryDirectory(prefix="tallyroll-") as folder:
            # No name here keeps the reading, whose sums of all keys take much, until the proof.
            prefix = self._written(
                ArchiveReading(self._bucket, archive, self._codec, self._totals), Path(folder)
            )
        return self._proven(prefix, archive)

    def _written(self, reading: ArchiveReading, folder: Path) -> str:
        """Write files, corrections and, at the end, the manifest; the prefix."""
        archive = reading.archive
        window = archive.place.window
        writer = ParquetWriter(folder, window)
        try:
            found = self._watch(reading, archive, CONVERTING)
            digest = convert(reading, found, writer, self._codec)
            events, rest = writer.finish()
        finally:
            writer.close()
        files = {EVENTS: _files(EVENTS, events), REST: _files(REST, rest)}
        paths = dict(zip((*files[EVENTS], *files[REST]), (*events, *rest), strict=True))
        prefix = parquet_prefix(archive.prefix, list(paths))
        for file, path in paths.items():
            self._bucket.put(f"{prefix}/{file.name}", path.read_bytes())
        there = corrections_dir(archive.prefix)
        for key in self._bucket.list(there):
            self._bucket.put(corrections_dir(prefix) + key.removeprefix(there), self._body(key))
        manifest = ParquetManifest(
            window=window,
            table=table_name(archive.place.pipeline, window),
            source=archive.prefix,
            items=reading.counted.items,
            items_digest=f"{digest:032x}",
            exported_at=archive.exported_at or "",
            events=files[EVENTS],
            rest=files[REST],
        )
        self._bucket.put(parquet_manifest_key(prefix), manifest.encode())
        return prefix

    def _body(self, key: str) -> bytes:
        return self._bucket.get(key)

    def _proven(self, prefix: str, source: Archive) -> Archive:
        """Read what was written, compare it with the proof of what it was made of, and prove it.
        The manifest says which items that had.
        """
        place = parse_prefix(prefix)
        assert place
        archive = detailed(self._bucket, Archive(prefix, place, 0, parquet_manifest_key(prefix)))
        items = ParquetItems(self._bucket, prefix, self._codec)
        judged = replace(archive, proof=source.proof)
        again = ArchiveReading(self._bucket, judged, self._codec, self._totals, items)
        for _ in self._watch(again, archive, PROVING):
            pass
        _raise(again.compared())
        if not archive.proven:
            self._write_proof(prefix, again)
        [made] = find(self._bucket, self._effects, prefix)
        return made

    def _write_proof(self, prefix: str, reading: ArchiveReading) -> None:
        archive, counted = reading.archive, reading.counted
        events, amount = counted.sums
        gone, value = counted.taken
        window = archive.place.window
        proof = {
            "window": window,
            "table": table_name(archive.place.pipeline, window),
            "attempt": archive.place.attempt,
            "keys": len(counted.records),
            "events": events,
            "amountMillionths": str(amount),
            "provenAt": iso(self._effects.now()),
            "items": counted.items,
            "manifestDigest": manifest_digest(self._body(parquet_manifest_key(prefix))),
            "compared": "files with the manifest; the items that rows and rest give with those of"
            " the archive in DynamoDB's layout; per key records with tallies; no item twice",
        }
        if gone:
            proof["retracted"] = {"events": gone, "amountMillionths": str(value)}
        self._bucket.put(proof_key(prefix), json.dumps(proof).encode())


def convert(
    reading: ArchiveReading,
    items: Iterable[ArchivedItem],
    writer: ParquetWriter,
    codec: ItemCodec,
) -> int:
    """Give a writer all `items` that a reading yields; the sum of their digests. Raises
    ProofMismatch if the archive is not whole, or holds a record that cannot be unpacked.
    """
    total = 0

    def add(
        found: ArchivedItem,
        record: Record,
        chunks_of: ChunksOf | None = None,
        *,
        usual: bool = False,
    ) -> None:
        try:
            writer.add(converted(record, found.item, codec, chunks_of, usual=usual))
        except ValueError as error:
            reading.findings.add(f"{found.file} line {found.line}: {error}")

    with Waiting() as waiting:
        for found in items:
            holds = found.holds
            if isinstance(holds, Record) and not holds.in_chunks:
                text = codec.spelled(holds, found.item)
                total = added(total, text_digest(text) if text else item_digest(found.item))
                add(found, holds, usual=text is not None)
                continue
            total = added(total, item_digest(found.item))
            if isinstance(holds, Record | Chunk):
                waiting.add(found)
            else:
                writer.add_alone(alone(found.item))
                if isinstance(found.holds, Tombstone):
                    writer.retract(found.holds.key, found.holds.id, found.holds.index)
        for found, record in waiting.records():
            add(found, record, waiting.chunks)
    _raise(reading.compared())
    return total


def _files(kind: str, paths: Sequence[Path]) -> tuple[ParquetFile, ...]:
    found = []
    for number, path in enumerate(paths):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found.append(ParquetFile(f"{kind}/{number:04d}.parquet", path.stat().st_size, digest))
    return tuple(found)


def _raise(reading: ArchiveReading) -> None:
    if reading.findings.count:
        raise ProofMismatch(reading.findings.first)
