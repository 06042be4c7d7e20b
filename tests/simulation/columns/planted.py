"""Mistakes with Parquet, each with a seed from which on it is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.archive.inventory import find
from tallyroll.archive.layout import parse_prefix, progress_dir
from tallyroll.archive.parquet import compaction, rows
from tallyroll.archive.parquet.compaction import Compaction
from tallyroll.archive.parquet.files import EVENTS, ParquetWriter
from tallyroll.archive.parquet.rows import Converted, Rest
from tallyroll.archive.parquet.source import Marks, ParquetItems
from tallyroll.archive.verification import ArchiveReading
from tallyroll.lifecycle.compactor import Compactor
from tallyroll.ports.bucket import ticket_of
from tests.simulation.planted import Planted

Patch = pytest.MonkeyPatch


def tag_before_the_proof(patch: Patch) -> None:
    compacted = Compactor._compacted

    def hasty(self: Any, ticket: str, window: Any, *rest: Any, **named: Any) -> Any:
        prefix = window.attempt.archive
        for key in self.bucket.list(f"{prefix}/"):
            if not key.startswith(progress_dir(prefix)):
                self.bucket.let_pass(key)
        return compacted(self, ticket, window, *rest, **named)

    patch.setattr(Compactor, "_compacted", hasty)


def note_after_the_tags(patch: Patch) -> None:
    """What is to be read in the place of an archive is noted once that may expire."""
    let_pass = Compactor._let_pass

    def hasty(self: Any, prefix: str, made: Any) -> None:
        for key in self.bucket.list(f"{prefix}/"):
            if not key.startswith(progress_dir(prefix)):
                self.bucket.let_pass(key)
        let_pass(self, prefix, made)

    patch.setattr(Compactor, "_let_pass", hasty)


def rows_lost_and_not_read_back(patch: Patch) -> None:
    """The last rows of a file are not written, and the proof is written without a look."""
    copied = ParquetWriter._copied

    def short(self: Any, query: str, name: str, large: str) -> Any:
        if name != EVENTS:
            return copied(self, query, name, large)
        return copied(self, f"FROM ({query}) LIMIT 3", name, large)

    def proven(self: Any, prefix: str, source: Any) -> Any:
        reading = ArchiveReading(self._bucket, source, self._codec).verified()
        at = replace(source, prefix=prefix)
        reading.archive = replace(at, place=parse_prefix(prefix))
        self._write_proof(prefix, reading)
        [made] = find(self._bucket, self._effects, prefix)
        return made

    patch.setattr(ParquetWriter, "_copied", short)
    patch.setattr(Compaction, "_proven", proven)


def file_lost_after_the_proof(patch: Patch) -> None:
    """A file is lost after it was proven, and nobody looks whether it is there."""
    written = Compaction._write_proof

    def lossy(self: Any, prefix: str, reading: Any) -> None:
        written(self, prefix, reading)
        bucket = self._bucket._port._port
        for key in bucket.list(f"{prefix}/{EVENTS}/"):
            bucket._objects.pop(key)

    patch.setattr(Compaction, "_write_proof", lossy)
    patch.setattr(ParquetItems, "check_proof", lambda _: None)


def last_event_of_a_packet_lost(patch: Patch) -> None:
    """The packet is kept whole beside the rows, and is compared with rows made alike."""
    converted = rows.converted

    def short(record: Any, item: Any, codec: Any, *rest: Any, **named: Any) -> Any:
        found = converted(record, item, codec, *rest, **named)
        if len(found.rows) < 2 or record.in_chunks:
            return found
        kept = Rest(len(found.rows) - 1, items=rows._text([item]))
        return Converted(found.rows[:-1], kept)

    patch.setattr(rows, "converted", short)
    patch.setattr(compaction, "converted", short)


def retracted_row_not_marked(patch: Patch) -> None:
    patch.setattr(ParquetWriter, "retract", lambda *_: None)
    patch.setattr(Marks, "compare", lambda _: None)


def corrections_not_copied(patch: Patch) -> None:
    nowhere = "/nowhere/"
    patch.setattr(compaction, "corrections_dir", lambda prefix: prefix + nowhere)
    patch.setattr(Compactor, "_copy", lambda *_: None)


def late_corrections_not_copied(patch: Patch) -> None:
    """Those that cleanup puts once the others were copied may expire."""
    patch.setattr(Compactor, "_copy", lambda *_: None)


def corrections_copied_by_the_names_of_files(patch: Patch) -> None:
    """One that expired, and came again with more in it, is taken for the one that was copied."""

    def copy(self: Any, key: str, name: str, here: str) -> None:
        if here + name not in self.bucket.list(here):
            self.bucket.put(here + name, self.bucket.get(key))

    patch.setattr(Compactor, "_copy", copy)


def ticket_deleted_before_the_tags(patch: Patch) -> None:
    """A run that ends early leaves an archive for ever that should expire."""
    let_pass = Compactor._let_pass

    def careless(self: Any, prefix: str, made: Any) -> None:
        window = made.place.window
        self.bucket.delete(ticket_of(self.settings.name, window))
        let_pass(self, prefix, made)

    patch.setattr(Compactor, "_let_pass", careless)


PLANTED = (
    Planted(tag_before_the_proof, 0),
    Planted(note_after_the_tags, 0),
    Planted(rows_lost_and_not_read_back, 0),
    Planted(file_lost_after_the_proof, 0),
    Planted(last_event_of_a_packet_lost, 0),
    Planted(retracted_row_not_marked, 0),
    Planted(corrections_not_copied, 0),
    Planted(late_corrections_not_copied, 0),
    Planted(corrections_copied_by_the_names_of_files, 43),
    Planted(ticket_deleted_before_the_tags, 12),
)
