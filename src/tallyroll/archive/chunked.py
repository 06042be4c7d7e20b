"""Joins records of an archive with the chunks of their data, which may come before or after them.

Both wait in a temporary file, so memory does not grow with the archive.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from tallyroll.archive.layout import ArchivedItem
from tallyroll.errors import Refused
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.stored import whole

_TABLES = """
create table chunks (key text, id text, number integer, shard integer, data blob);
create index named on chunks (key, id);
create table records (item blob);
"""


class Waiting:
    """Records and chunks of one archive; a context manager, which deletes the file."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("")  # a temporary file
        self._file.executescript(_TABLES)

    def add(self, found: ArchivedItem) -> None:
        """Keep a chunk, or a record with its data in chunks."""
        if isinstance(found.holds, Chunk):
            chunk = found.holds
            row = (chunk.key, chunk.id, chunk.number, chunk.shard, chunk.data)
            self._file.execute("insert into chunks values (?, ?, ?, ?, ?)", row)
        else:
            self._file.execute("insert into records values (?)", (pickle.dumps(found),))

    def joined(self, fault: Callable[[str], None]) -> Iterator[tuple[ArchivedItem, Record]]:
        """Each record that was kept, with its data; calls `fault` for one that is not whole."""
        for found, record in self.records():
            try:
                yield found, whole(record, self.chunks)
            except Refused as error:
                fault(f"{found.file} line {found.line}: {error}")

    def records(self) -> Iterator[tuple[ArchivedItem, Record]]:
        """Each record that was kept, with its data in chunks."""
        for (item,) in self._file.execute("select item from records"):
            found: ArchivedItem = pickle.loads(item)  # noqa: S301 (its own file)
            assert isinstance(found.holds, Record)
            yield found, found.holds

    def chunks(self, key: str, record_id: str, _count: int) -> Iterator[Chunk]:
        """The chunks of a record that were kept."""
        named = "select number, shard, data from chunks where key = ? and id = ?"
        for number, shard, data in self._file.execute(named, (key, record_id)):
            yield Chunk(key, record_id, number, shard, data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
