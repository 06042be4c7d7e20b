"""Reads of an archive as Parquet what is one key's, without the rows of others.

The rows of events are sorted by key, so those of a key are one after the other. Their rest is where
the `rows` of all the rest before it come to the number of all events before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyroll.archive.indexed.finding import needle_of
from tallyroll.archive.layout import DataFile, read_parquet_manifest
from tallyroll.archive.parquet.files import (
    EVENT_COLUMNS,
    EVENTS,
    REST_COLUMNS,
    ParquetReader,
    connected,
)
from tallyroll.archive.parquet.rows import Rest, restored, whole_of
from tallyroll.archive.parquet.source import Marks, ParquetItems
from tallyroll.archive.recount import ArchivePass
from tallyroll.errors import ProofMismatch
from tallyroll.model.items import Content
from tallyroll.model.retractions import Tombstone
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.store import ItemCodec

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BEFORE = "sum(rows) OVER (ROWS UNBOUNDED PRECEDING) - rows"


class KeyPass(ArchivePass):
    """One pass over what an archive as Parquet has of a key. It calls `on_step` again and again,
    which may raise an error to end it. The bytes of files are compared with the manifest, and
    records are not made bit for bit, so any zlib will do.
    """

    def __init__(
        self, bucket: Bucket, prefix: str, codec: ItemCodec, key: str, on_step: Callable[[], None]
    ) -> None:
        super().__init__(bucket, prefix, codec)
        self.source = self._items = KeyItems(bucket, prefix, codec, on_step)
        self._key = key

    def contents(self, file: DataFile) -> Iterator[Content]:
        """The key's records, with their data, and other items, among them the key's tombstones.
        Raises Refused with the code `DUCKDB`.
        """
        try:
            yield from self._items.of_key(self._key)
        except ProofMismatch as mismatch:
            for finding in mismatch.findings:
                self.findings.add(f"{file.key.rpartition('/')[0]}/{finding}")


class KeyItems(ParquetItems):
    """The items of an archive, and what it has of a key."""

    def of_key(self, key: str) -> Iterator[Content]:
        """See `KeyPass.contents`. Raises ProofMismatch, too."""
        manifest = read_parquet_manifest(self._bucket, self.prefix)
        events, rest = self._fetched(manifest.events), self._fetched(manifest.rest)
        marks = Marks()
        reader = KeyReader(self._folder, events, rest, key, needle_of(key), self._on_step)
        for rows, row_rest in reader.records(manifest.window, marks.marked):
            self._on_step()
            try:
                if rows:
                    yield whole_of(rows, row_rest, self._codec)
                    continue
                for item in restored(rows, row_rest, self._codec):
                    holds = self._codec.parse(item)
                    if isinstance(holds, Tombstone) and holds.key == key:
                        marks.wanted(holds)
                    yield holds
            except (KeyError, TypeError, ValueError) as error:
                raise ProofMismatch([f"{EVENTS}: of key {key!r}: {error}"]) from None
        marks.compare()


class KeyReader(ParquetReader):
    """Reads the records of a key, and the other items whose text has the `needle`. Calls `on_step`
    before each query.
    """

    def __init__(
        self,
        folder: Path,
        events: Sequence[Path],
        rest: Sequence[Path],
        key: str,
        needle: bytes,
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(folder, events, rest)
        self._on_step = on_step
        self._key = key
        self._needle = needle.decode()

    @cached_property
    def _database(self) -> tuple[DuckDBPyConnection, type[Exception]]:
        return connected(self._folder)

    def _connected(self) -> tuple[DuckDBPyConnection, type[Exception]]:
        self._on_step()
        database, failed = self._database
        return database.cursor(), failed

    def _events_read(self) -> Iterator[tuple[Any, ...]]:
        return self._read(self._events, EVENT_COLUMNS, "key = $2", self._key)

    def _rest_read(self) -> Iterator[Rest]:
        first, count = self._place()
        for path in self._rest if count else ():
            there = f"rows > 0 QUALIFY {_BEFORE} BETWEEN $2 AND $3"
            bounds = (first, first + count - 1)
            for row in self._read([path], REST_COLUMNS, there, *bounds):
                yield Rest(*row)
            first -= self._one(path, "coalesce(sum(rows), 0)::BIGINT")
        about = "rows = 0 AND contains(items, $2)"
        for path in self._rest:
            for row in self._read([path], REST_COLUMNS, about, self._needle):
                yield Rest(*row)

    def _place(self) -> tuple[int, int]:
        """The number of events before the key's, and of the key's."""
        before = count = 0
        for path in self._events:
            there = self._one(path, "count(*)", "key = $2", self._key)
            if there and not count:
                before += self._one(path, "min(file_row_number)", "key = $2", self._key)
            elif not count:
                before += self._one(path, "count(*)")
            count += there
        return before, count

    def _one(self, path: Path, column: str, where: str = "true", *given: Any) -> int:
        [(value,)] = self._read([path], column, where, *given)
        return int(value)
