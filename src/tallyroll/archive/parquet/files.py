"""Writes and reads the Parquet files of an archive, by DuckDB; the only module that loads it.

Rows wait as CSV in a folder on disk, where DuckDB sorts what is more than its memory. A file of
events is sorted by key, and by time and id of the record, in small groups of rows with statistics,
so that a key's rows are in few of them. The file of the rest has the same order: by its `rows` both
are read side by side.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyroll.archive.parquet.rows import Converted, EventRow, Rest
from tallyroll.errors import ProofMismatch, Refused, UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.windows import WindowId

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GROUP_ROWS = 8_192
FILE_BYTES = 64 * 1024 * 1024  # about: a file is put into the bucket from memory
MEMORY = "240MB"  # of DuckDB, which sorts the rest on disk
ROWS_AT_ONCE = 10_000
EVENTS, REST = "events", "rest"
# How DuckDB reads what `csv` writes. No text in a column that may be empty has no characters.
_AS_CSV = (
    "header = false, auto_detect = false, delim = ',', quote = '\"', escape = '\"',"
    # A payload has at most 1 MiB, of which quotes are doubled. Buffers count to the memory.
    " max_line_size = 4194304, buffer_size = 8388608, parallel = false"
)
_EVENT_COLUMNS = {
    "key": "VARCHAR",
    "begun": "BIGINT",
    "record": "VARCHAR",
    "index": "INTEGER",
    "ts": "BIGINT",
    "value": "DECIMAL(38, 6)",
    "payload": "VARCHAR",
    "payload_ref": "VARCHAR",
    "shard": "INTEGER",
    "digest": "VARCHAR",
}
_REST_COLUMNS = {
    "key": "VARCHAR",
    "begun": "BIGINT",
    "record": "VARCHAR",
    "rows": "INTEGER",
    "format": "VARCHAR",
    "slot": "INTEGER",
    "stripe": "INTEGER",
    "more": "VARCHAR",
    "items": "VARCHAR",
}
_STONE_COLUMNS = {"key": "VARCHAR", "record": "VARCHAR", "index": "INTEGER"}
_ID = 'if("index" IS NULL, record, record || \':\' || "index")'


class ParquetWriter:
    """Writes the events and the rest of one window into a folder, which must be empty."""

    def __init__(self, folder: Path, window: WindowId) -> None:
        self._connection, self._error = connected(folder)
        # It takes less memory; the order is that of ORDER BY.
        self._connection.execute("SET preserve_insertion_order = false")
        self._folder = folder
        self._window = window
        self._texts = {
            name: (folder / f"{name}.csv").open("w", newline="", encoding="utf-8")
            for name in (EVENTS, REST, "retracted")
        }
        self._rows = {name: csv.writer(file).writerow for name, file in self._texts.items()}
        self._events = csv.writer(self._texts[EVENTS]).writerows
        self._retracted = False

    def add(self, converted: Converted) -> None:
        """Add a record."""
        rows, rest = converted
        first = rows[0]
        key, at, record = first.key, first.ts, first.record
        digest = first.digest.hex()
        self._events(
            (key, at, record, row[2], row[3], format_amount(row[4]), *row[5:8], digest)
            for row in rows
        )
        self._rows[REST]((key, at, record, *rest))

    def add_alone(self, rest: Rest) -> None:
        """Add an item that is no record's."""
        self._rows[REST]((None, None, None, *rest))

    def retract(self, key: str, record: str, index: int | None) -> None:
        """Mark the event of this record as retracted, or that of this index in a packet."""
        self._retracted = True
        self._rows["retracted"]((key, record, index))

    def finish(self) -> tuple[list[Path], list[Path]]:
        """Write the files; the paths of those of the events, and of the rest."""
        for file in self._texts.values():
            file.close()
        gone = "false"
        if self._retracted:
            stones = self._csv("retracted", _STONE_COLUMNS)
            event = '(key, record, ifnull("index", -1))'  # no event of a packet has the index -1
            gone = f"{event} IN (SELECT {event} FROM {stones})"  # noqa: S608 (own names)
        events = (
            f'SELECT key, {_ID} AS id, ts, {quoted(self._window)} AS "window", value, payload,'  # noqa: S608 (own names)
            ' 1::INTEGER AS n, if("index" IS NULL, NULL, record) AS packet, shard,'
            f" unhex(digest) AS digest, {gone} AS retracted, payload_ref"
            f' FROM {EVENTS} ORDER BY key, begun, record, "index"'
        )
        rest = (
            "SELECT rows, format, slot, stripe, more, items"  # noqa: S608 (own names)
            f" FROM {REST} ORDER BY key NULLS LAST, begun, record, items"
        )
        return (
            self._copied(events, EVENTS, _EVENT_COLUMNS),
            self._copied(rest, REST, _REST_COLUMNS),
        )

    def _csv(self, name: str, columns: dict[str, str]) -> str:
        path = quoted(str(self._folder / f"{name}.csv"))
        return f"read_csv({path}, columns = {columns}, {_AS_CSV})"

    def _copied(self, query: str, name: str, columns: dict[str, str]) -> list[Path]:
        """Write the files of a query on the table of this name. Sorted as they are read, a million
        rows of text would not fit into the memory; a table lies on disk.
        """
        folder = self._folder / name
        try:
            self._connection.execute(f"CREATE TEMP TABLE {name} AS FROM {self._csv(name, columns)}")
            (self._folder / f"{name}.csv").unlink()
            self._connection.execute(
                f"COPY ({query}) TO {quoted(str(folder))} (FORMAT parquet, COMPRESSION zstd,"
                f" ROW_GROUP_SIZE {GROUP_ROWS}, FILE_SIZE_BYTES {FILE_BYTES})"
            )
        except self._error as error:
            raise Refused(f"DuckDB: {str(error).splitlines()[0]}", "DuckDB") from None
        self._connection.execute(f"DROP TABLE {name}")
        return sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name))

    def close(self) -> None:
        """Close DuckDB and what waits."""
        for file in self._texts.values():
            file.close()
        self._connection.close()


class ParquetReader:
    """Reads the files of events and of the rest side by side. What has no more rows than the other
    has is wrong: see `records`.
    """

    def __init__(self, folder: Path, events: Sequence[Path], rest: Sequence[Path]) -> None:
        self._folder = folder
        self._events, self._rest = events, rest
        self.retracted = 0
        """How many rows of events say that they were retracted, once all are read."""

    def records(self, window: WindowId, on_retracted: Any) -> Iterator[tuple[list[EventRow], Rest]]:
        """The rows of each record with its rest, and the rest of each other item, in the order of
        the files. Calls `on_retracted` with key, record id and index of each event that is marked.

        Raises ProofMismatch if there are more or fewer rows than the rest says, or one of another
        window.
        """
        numbers = Numbered(self._events_read(), window, on_retracted)
        for rest in self._rest_read():
            rows = list(islice(numbers, rest.rows))
            if len(rows) < rest.rows:
                raise ProofMismatch([f"events: {numbers.count} rows, the rest is of more"])
            yield rows, rest
        if extra := next(numbers, None):
            raise ProofMismatch(
                [f"events row {numbers.count}: key {extra.key!r} id {extra.id!r}: an extra row"]
            )

    def _events_read(self) -> Iterator[tuple[Any, ...]]:
        return self._read(
            self._events,
            "key, id, packet, ts, replace(value::VARCHAR, '.', ''), payload, payload_ref, shard,"
            ' digest, n, "window", retracted',
        )

    def _rest_read(self) -> Iterator[Rest]:
        found = self._read(self._rest, "rows, format, slot, stripe, more, items")
        return (Rest(*row) for row in found)

    def _read(self, paths: Sequence[Path], columns: str) -> Iterator[tuple[Any, ...]]:
        connection, failed = connected(self._folder)
        with connection:
            for path in paths:
                try:
                    connection.execute(
                        f"SELECT {columns} FROM read_parquet(?, hive_partitioning = false)",  # noqa: S608 (own names)
                        [str(path)],
                    )
                    while some := connection.fetchmany(ROWS_AT_ONCE):
                        yield from some
                except failed as error:
                    what = f"{path.parent.name}/{path.name}: {str(error).splitlines()[0]}"
                    raise ProofMismatch([what]) from None


class Numbered:
    """Rows of events, checked one by one and counted."""

    def __init__(
        self, found: Iterator[tuple[Any, ...]], window: WindowId, on_retracted: Any
    ) -> None:
        self._found = found
        self._window = window
        self._on_retracted = on_retracted
        self._last: tuple[str, str, str | None] | None = None
        self.count = 0

    def __iter__(self) -> Iterator[EventRow]:
        return self

    def __next__(self) -> EventRow:
        key, id_, packet, ts, value, *others, n, window, retracted = next(self._found)
        self.count += 1
        name = f"events row {self.count}: key {key!r} id {id_!r}"
        if (key, id_, packet) == self._last:
            raise ProofMismatch([f"{name}: an extra row, the one before has the same name"])
        self._last = key, id_, packet
        if window != self._window:
            raise ProofMismatch([f"{name}: of the window {window}, not {self._window}"])
        if n != 1:
            raise ProofMismatch([f"{name}: n is {n}"])
        payload, reference, shard, digest = others
        record, index = id_, None
        if packet is not None:
            record, place = packet, id_.removeprefix(f"{packet}:")
            if not place.isdigit():
                raise ProofMismatch([f"{name}: not an id of the packet {packet!r}"])
            index = int(place)
        if retracted:
            self._on_retracted(key, record, index)
        return EventRow(key, record, index, ts, int(value), payload, reference, shard, digest)


def connected(folder: Path) -> tuple[DuckDBPyConnection, type[Exception]]:
    """A DuckDB in bounded memory that keeps the rest of what it needs in a folder, and its errors.
    Raises UsageError if it is not installed.
    """
    try:
        import duckdb  # noqa: PLC0415 (an extra, which only Parquet needs)
    except ImportError:
        raise UsageError("Parquet needs DuckDB: pip install 'tallyroll[load]'") from None
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": MEMORY,
        "temp_directory": str(folder / "sorting"),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(config=config), duckdb.Error


def quoted(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"
