"""One DuckDB for a whole simulation: it takes longer to start than a window's rows take to sort."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Self

from tallyroll.archive.parquet.files import connected

_FOLDERS: list[Any] = []  # each is there as long as the process is


class Cursor:
    """A connection of its own to a DuckDB that others use, too. What is set holds for all of that:
    so who sets something gets one where it is set.
    """

    def __init__(self) -> None:
        self._cursor = _database("")[0].cursor()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cursor.close()

    def execute(self, query: str, *given: Any) -> Any:
        """Carry out a query."""
        if query.startswith("SET "):
            self._cursor = _database(query)[0].cursor()
            return self._cursor
        return self._cursor.execute(query, *given)


def cursor_of(_: Path) -> tuple[Cursor, type[Exception]]:
    """What `connected` gives, without a DuckDB of its own."""
    return Cursor(), _database("")[1]


@cache
def _database(setting: str) -> tuple[Any, type[Exception]]:
    folder = tempfile.TemporaryDirectory(prefix="tallyroll-")
    _FOLDERS.append(folder)
    database, error = connected(Path(folder.name))
    if setting:
        database.execute(setting)
    return database, error


atexit.register(_database.cache_clear)
