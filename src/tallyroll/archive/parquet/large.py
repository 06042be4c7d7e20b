"""Large texts of rows, which wait in a file of their own while DuckDB sorts the rest.

DuckDB has 2,048 rows in memory at once, and several such vectors while it sorts: of payloads of a
few KB that is more than it may take. So rows with large ones are sorted without them, and then read
again from files none of which has much. Source: DuckDB's documentation, "Execution format",
`STANDARD_VECTOR_SIZE`.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tallyroll.archive.parquet.rows import Converted, Rest

LARGE = 1_000  # bytes
PART_BYTES = 16 * 1024 * 1024
_OTHERS = 200  # bytes of a row's other columns, about
_MARK = "\x1e"  # begins the place of a text; JSON never begins so


def _is_large(text: str | None) -> bool:
    return text is not None and (
        len(text) > LARGE
        or (not text.isascii() and len(text.encode()) > LARGE)
        or text.startswith(_MARK)
    )


class LargeTexts:
    """Texts by their places in a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (see close)
        self._end = self._parts = 0

    @property
    def used(self) -> bool:
        """Whether there are any."""
        return self._end > 0

    def may_have(self, text: str) -> bool:
        """Whether something in a text may be large, or look like a place."""
        return len(text) > LARGE or not text.isascii() or _MARK in text

    def apart(self, converted: Converted) -> Converted:
        """The same with the places of its large texts."""
        rows, rest = converted
        return Converted(
            [
                row._replace(payload=self._put(row.payload)) if _is_large(row.payload) else row
                for row in rows
            ],
            rest._replace(more=self._apart(rest.more), items=self._apart(rest.items)),
        )

    def alone(self, rest: Rest) -> Rest:
        """The same for an item that is no record's."""
        return self.apart(Converted([], rest)).rest

    def _apart(self, text: str | None) -> str | None:
        return self._put(text) if _is_large(text) else text

    def _put(self, text: str | None) -> str:
        body = (text or "").encode()
        self._file.write(body)
        at, self._end = self._end, self._end + len(body)
        return f"{_MARK}{at}:{len(body)}"

    def _whole(self, text: str | None) -> str | None:
        if text is None or not text.startswith(_MARK):
            return text
        at, size = _place(text)
        self._file.seek(at)
        return self._file.read(size).decode()

    def written(
        self, found: Iterable[Sequence[Any]], columns: Sequence[int], binary: Sequence[int]
    ) -> list[Path]:
        """Files of CSV with these rows, in their order, with the texts of `columns` whole; those of
        `binary` columns are in hexadecimal. Without rows there is one file.
        """
        paths: list[Path] = []
        for part in _parts(found, columns):
            paths.append(self._folder / f"part-{self._parts}.csv")
            self._parts += 1
            with paths[-1].open("w", newline="", encoding="utf-8") as file:
                write = csv.writer(file).writerow
                for row in part:
                    values = list(row)
                    for each in binary:
                        values[each] = values[each].hex()
                    for each in columns:
                        values[each] = self._whole(values[each])
                    write(values)
        return paths

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _place(text: str) -> tuple[int, int]:
    at, size = text.removeprefix(_MARK).split(":")
    return int(at), int(size)


def _size(text: str | None) -> int:
    if text is None:
        return 0
    return _place(text)[1] if text.startswith(_MARK) else len(text.encode())


def _parts(
    found: Iterable[Sequence[Any]], columns: Sequence[int]
) -> Iterator[Iterator[Sequence[Any]]]:
    """The rows, divided; each part is to be read before the next one is asked for. One part,
    without rows, if there are none.
    """
    rows = iter(found)
    left: list[Sequence[Any]] = []

    def part() -> Iterator[Sequence[Any]]:
        size = 0
        for number, row in enumerate(chain(left.copy(), rows)):
            left.clear()
            size += _OTHERS + sum(_size(row[column]) for column in columns)
            if number and size > PART_BYTES:
                left.append(row)
                return
            yield row

    yield part()
    while left:
        yield part()
