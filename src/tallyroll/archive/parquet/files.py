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

from tallyroll.archive.parquet.large import LargeTexts
from tallyroll.archive.parquet.rows import Converted, EventRow, Rest
from tallyroll.errors import ProofMismatch, Refused, UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.windows import WindowId

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

GROUP_ROWS = 32_768
GROUP_BYTES = "16MB"  # in memory; rows with large payloads are in smaller groups
FILE_BYTES = 64 * 1024 * 1024  # about: a file is put into the bucket from memory
MEMORY = "240MB"  # of DuckDB, which sorts the rest on disk
ROWS_AT_ONCE = 2_048  # as many as DuckDB has in a vector
EVENTS, REST = "events", "rest"
DUCKDB = "DuckDB"  # the code of what it cannot do, as a rule in its memory
# How DuckDB reads the rows that wait. An empty text is NULL: what may be missing is never empty.
_AS_TEXT = (
    # A payload has at most 1 MiB. Buffers count to the memory.
    "header = false, auto_detect = false, max_line_size = 4194304, buffer_size = 8388608,"
    " parallel = false"
)
_END = "\x1f"  # of a column; no valid key or id has one, nor JSON
_PLAIN = f"delim = '{_END}', quote = '', escape = '', new_line = '\\n'"
_QUOTED = "delim = ',', quote = '\"', escape = '\"', new_line = '\\r\\n'"
_COLUMNS = {
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
    "rows": "INTEGER",
    "format": "VARCHAR",
    "slot": "INTEGER",
    "stripe": "INTEGER",
    "more": "VARCHAR",
    "items": "VARCHAR",
}
_STONE_COLUMNS = {"key": "VARCHAR", "record": "VARCHAR", "index": "INTEGER"}
_ENDS = len(_COLUMNS) - 1
_NO_EVENT = _END * 10
_NO_REST = f"{_END * 5}\n"
EVENT_COLUMNS = (
    "key, id, packet, ts, replace(value::VARCHAR, '.', ''), payload, payload_ref, shard, digest, n,"
    ' "window", retracted'
)
REST_COLUMNS = "rows, format, slot, stripe, more, items"
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
            for name in ("plain", "quoted", "retracted")
        }
        self._write = self._texts["plain"].write
        self._quoted = csv.writer(self._texts["quoted"]).writerow
        self._stones = csv.writer(self._texts["retracted"]).writerow
        self._retracted = False
        self._large = LargeTexts(folder)

    def add(self, converted: Converted) -> None:
        """Add a record: a line an event, of which the first has the rest, too."""
        rows, rest = converted
        text = _lines(rows, rest)
        if self._large.may_have(text):
            rows, rest = self._large.apart(converted)
            text = _lines(rows, rest)
        if (text.count(_END), text.count("\n")) == (_ENDS * len(rows), len(rows)) and (
            "\r" not in text
        ):
            self._write(text)
        else:
            self._add_quoted(rows, rest)

    def _add_quoted(self, rows: Sequence[EventRow], rest: Rest) -> None:
        """Add what has a control character, as no record has that a release has stored."""
        begun = rows[0].ts
        more: tuple[Any, ...] = rest
        for key, record, *event, value, payload, reference, shard, digest in rows:
            name = key, begun, record
            place = payload, reference, shard, digest.hex()
            self._quoted((*name, *event, format_amount(value), *place, *more))
            more = (None,) * len(rest)

    def add_alone(self, rest: Rest) -> None:
        """Add an item that is no record's."""
        self._write(f"{_NO_EVENT}{_rest(self._large.alone(rest))}\n")

    def retract(self, key: str, record: str, index: int | None) -> None:
        """Mark the event of this record as retracted, or that of this index in a packet."""
        self._retracted = True
        self._stones((key, record, index))

    def finish(self) -> tuple[list[Path], list[Path]]:
        """Write the files; the paths of those of the events, and of the rest."""
        for file in self._texts.values():
            file.close()
        gone = "false"
        if self._retracted:
            stones = self._read("retracted", _STONE_COLUMNS, _QUOTED)
            event = '(key, record, ifnull("index", -1))'  # no event of a packet has the index -1
            gone = f"{event} IN (SELECT {event} FROM {stones})"  # noqa: S608 (own names)
        events = (
            f'SELECT key, {_ID} AS id, ts, {quoted(self._window)} AS "window", value, payload,'  # noqa: S608 (own names)
            ' 1::INTEGER AS n, if("index" IS NULL, NULL, record) AS packet, shard,'
            f" unhex(digest) AS digest, {gone} AS retracted, payload_ref"
            ' FROM waiting WHERE ts IS NOT NULL ORDER BY key, begun, record, "index"'
        )
        rest = (
            "SELECT rows, format, slot, stripe, more, items"
            " FROM waiting WHERE rows IS NOT NULL ORDER BY key NULLS LAST, begun, record, items"
        )
        try:
            # Sorted as they are read, a million rows of text would not fit into the memory; a
            # table lies on disk.
            self._connection.execute(
                f"CREATE TEMP TABLE waiting AS FROM {self._read('plain', _COLUMNS, _PLAIN)}"
                f" UNION ALL FROM {self._read('quoted', _COLUMNS, _QUOTED)}"
            )
            (self._folder / "plain.csv").unlink()
            return (
                self._copied(events, EVENTS, ("payload",)),
                self._copied(rest, REST, ("more", "items")),
            )
        except self._error as error:
            raise Refused(f"DuckDB: {str(error).splitlines()[0]}", DUCKDB) from None

    def _read(self, name: str, columns: dict[str, str], written: str) -> str:
        path = quoted(str(self._folder / f"{name}.csv"))
        return f"read_csv({path}, columns = {columns}, {_AS_TEXT}, {written})"

    def _copied(self, query: str, name: str, large: Sequence[str]) -> list[Path]:
        """The files of the results of a query, whose columns `large` may have large texts."""
        folder = self._folder / name
        parts: list[Path] = []
        if self._large.used:
            query, parts = self._with_large(query, large)
        self._connection.execute(
            f"COPY ({query}) TO {quoted(str(folder))} (FORMAT parquet, COMPRESSION zstd,"
            f" ROW_GROUP_SIZE {GROUP_ROWS}, ROW_GROUP_SIZE_BYTES '{GROUP_BYTES}',"
            f" FILE_SIZE_BYTES {FILE_BYTES})"
        )
        for part in parts:
            part.unlink()
        return sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name))

    def _with_large(self, query: str, large: Sequence[str]) -> tuple[str, list[Path]]:
        """A query for the same results with the large texts themselves, and the files it reads."""
        types = dict(self._rows(f"SELECT column_name, column_type FROM (DESCRIBE {query})"))  # noqa: S608 (own names)
        binary = [place for place, of in enumerate(types.values()) if of == "BLOB"]
        columns = [[*types].index(name) for name in large]
        parts = self._large.written(self._rows(query), columns, binary)
        texts = {name: "VARCHAR" if of == "BLOB" else of for name, of in types.items()}
        whole = [f"unhex({name}) AS {name}" for name, of in types.items() if of == "BLOB"]
        replaced = f" REPLACE ({', '.join(whole)})" if whole else ""
        read = f"read_csv({[*map(str, parts)]}, columns = {texts}, {_AS_TEXT}, {_QUOTED})"
        return f"SELECT *{replaced} FROM {read}", parts  # noqa: S608 (own names)

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        found = self._connection.execute(query)
        while some := found.fetchmany(ROWS_AT_ONCE):
            yield from some

    def close(self) -> None:
        """Close DuckDB and what waits."""
        self._large.close()
        for file in self._texts.values():
            file.close()
        self._connection.close()


def _lines(rows: Sequence[EventRow], rest: Rest) -> str:
    key, record, _, begun, *_, shard, digest = rows[0]
    name = f"{key}{_END}{begun}{_END}{record}{_END}"
    place = f"{_END}{shard}{_END}{digest.hex()}{_END}"
    first, *others = [
        f"{name}{'' if index is None else index}{_END}{ts}{_END}{value}e-6{_END}{payload or ''}"
        f"{_END}{reference or ''}{place}"
        for _, _, index, ts, value, payload, reference, _, _ in rows
    ]
    return f"{first}{_rest(rest)}\n{_NO_REST.join([*others, ''])}"


def _rest(rest: Rest) -> str:
    """The columns of a rest as text."""
    rows, form, slot, stripe, more, items = rest
    return (
        f"{rows}{_END}{form or ''}{_END}{'' if slot is None else slot}{_END}"
        f"{'' if stripe is None else stripe}{_END}{more or ''}{_END}{items or ''}"
    )


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
        return self._read(self._events, EVENT_COLUMNS)

    def _rest_read(self) -> Iterator[Rest]:
        return (Rest(*row) for row in self._read(self._rest, REST_COLUMNS))

    def _connected(self) -> tuple[DuckDBPyConnection, type[Exception]]:
        return connected(self._folder)

    def _read(
        self, paths: Sequence[Path], columns: str, where: str = "true", *given: Any
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of some files `where` a condition holds, with what is given for $2, $3 ..."""
        connection, failed = self._connected()
        with connection:
            for path in paths:
                try:
                    connection.execute(
                        f"SELECT {columns} FROM read_parquet($1, hive_partitioning = false,"  # noqa: S608 (own names)
                        f" file_row_number = true) WHERE {where}",
                        [str(path), *given],
                    )
                    while some := connection.fetchmany(ROWS_AT_ONCE):
                        yield from some
                except failed as error:
                    said = str(error).splitlines()[0]
                    if type(error).__name__ == "OutOfMemoryException":
                        raise Refused(f"DuckDB: {said}", DUCKDB) from None
                    what = f"{path.parent.name}/{path.name}: {said}"
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


def installed() -> bool:
    """Whether there is a DuckDB that works here."""
    try:
        import duckdb  # noqa: F401, PLC0415 (an extra, which only Parquet needs)
    except ImportError:
        return False
    return True


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
