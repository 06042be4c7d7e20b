"""Sorts more rows than memory holds: sorted runs in a temporary file, merged."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from heapq import merge
from typing import IO, Generic, TypeVar

R = TypeVar("R", bound=bytes | tuple[object, ...])
READ_ROWS = 512  # per read of a run


class SortedRuns(Generic[R]):
    """Rows in any order, given back in ascending order; at most `held_max` are in memory, and a
    part of each run.
    """

    def __init__(self, held_max: int) -> None:
        self._held_max = held_max
        self._held: list[R] = []
        self._file: IO[bytes] | None = None
        self._runs: list[list[int]] = []  # where each run's parts begin

    def add(self, row: R) -> None:
        """Add a row."""
        self._held.append(row)
        if len(self._held) >= self._held_max:
            self._write()

    def rows(self) -> Iterator[R]:
        """All rows, ascending. Call it once, at the end."""
        held, self._held = self._held, []
        held.sort()
        if self._file is None:
            yield from held
            return
        with self._file as file:
            yield from merge(held, *(self._read(file, parts) for parts in self._runs))

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed at the end)
        self._held.sort()
        parts = []
        for first in range(0, len(self._held), READ_ROWS):
            parts.append(self._file.tell())
            pickle.dump(self._held[first : first + READ_ROWS], self._file)
        self._runs.append(parts)
        self._held.clear()

    @staticmethod
    def _read(file: IO[bytes], parts: list[int]) -> Iterator[R]:
        for part in parts:
            file.seek(part)
            yield from pickle.load(file)  # noqa: S301 (its own file)
