"""Reads Parquet by DuckDB, row by row, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyroll.client.jsonlines import UnreadableInput
from tallyroll.client.sources.records import OP, SourceRecord, inserted
from tallyroll.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS_AT_ONCE = 2_000
MEMORY = "512MB"
_ZONED = "TIMESTAMP WITH TIME ZONE"
_ROW = "file_row_number"
_ALONE = "hive_partitioning = false"  # a file's directories add no columns to it
_WILD = re.compile(r"[*?\[]")  # DuckDB takes a name for a pattern, unless these are in brackets
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Parquet:
    """A Parquet file. Rows are numbered from 1."""

    def __init__(self, path: str) -> None:
        self.position = 0
        self._path = path
        self._size = Path(path).stat().st_size
        self._connection, self._error = _connected()
        self._pattern = _WILD.sub(r"[\g<0>]", path)
        with self._reading():
            described = self._connection.execute(
                f"DESCRIBE FROM read_parquet(?, {_ALONE})", [self._pattern]
            ).fetchall()
            found = self._connection.execute(
                "SELECT sum(num_rows) FROM parquet_file_metadata(?)", [self._pattern]
            ).fetchone()
        self._rows = int(found[0] or 0) if found else 0
        self._kinds = {name: str(kind) for name, kind, *_ in described}
        self.columns: Sequence[str] = [name for name in self._kinds if name != OP]

    def _reading(self) -> _Reading:
        return _Reading(self._path, self._error)

    def records(self) -> Iterator[SourceRecord]:
        """One record of each row."""
        names = list(self._kinds)
        zoned = {name for name, kind in self._kinds.items() if kind == _ZONED}
        chosen = [_chosen(name, kind) for name, kind in self._kinds.items()]
        query = (
            f"SELECT {', '.join(chosen)}, {_ROW}"  # noqa: S608 (names of columns, quoted)
            f" FROM read_parquet(?, {_ROW} = true, {_ALONE})"
        )
        with self._reading():
            self._connection.execute(query, [self._pattern])
        while rows := self._next():
            for *values, row in rows:
                fields = dict(zip(names, values, strict=True))
                for name in zoned:
                    if fields[name] is not None:
                        fields[name] = _instant(fields[name])
                self.position = self._size * (row + 1) // self._rows
                yield SourceRecord(row + 1, None, inserted(fields))

    def _next(self) -> list[tuple[Any, ...]]:
        with self._reading():
            return self._connection.fetchmany(ROWS_AT_ONCE)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class _Reading:
    """Gives DuckDB's errors as this package's."""

    def __init__(self, path: str, error: type[Exception]) -> None:
        self._path, self._error = path, error

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._error):
            raise UnreadableInput(f"{self._path}: {str(error).splitlines()[0]}") from error


def _connected() -> tuple[DuckDBPyConnection, type[Exception]]:
    try:
        import duckdb  # noqa: PLC0415 (an extra, which only Parquet needs)
    except ImportError:
        raise UsageError("Parquet needs DuckDB: pip install 'tallyroll[load]'") from None
    config: dict[str, str | bool | int | float | list[str]]
    config = {"threads": 1, "memory_limit": MEMORY, "autoinstall_known_extensions": False}
    connection = duckdb.connect(config=config)
    with suppress(duckdb.Error):  # without time zones, it is UTC
        connection.execute("SET TimeZone = 'UTC'")
    return connection, duckdb.Error


def _chosen(name: str, kind: str) -> str:
    """The expression that reads a column. DuckDB needs a package more to give times with zones, so
    they come as numbers, and those within lists and structures as texts.
    """
    if kind == _ZONED:
        return f"epoch_us({_quoted(name)})"
    if _ZONED in kind:
        return f"CAST({_quoted(name)} AS {kind.replace(_ZONED, 'VARCHAR')})"
    return _quoted(name)


def _instant(us: int) -> datetime | str:
    """The instant so many microseconds after 1970; as a text if no datetime has it, as infinity."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return f"{us} us after 1970"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
