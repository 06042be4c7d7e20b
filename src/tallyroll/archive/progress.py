"""The progress of a proof: its notes, each made by the run that comes first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from tallyroll.archive.layout import DataFile
from tallyroll.archive.notes import (
    ComparedNote,
    JoinedNote,
    ReadNote,
    RepeatedNote,
    UnpackedNote,
    note_body,
    parse_note,
)
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.effects import Effects

N = TypeVar("N", ReadNote, JoinedNote, ComparedNote, RepeatedNote, UnpackedNote)
F = TypeVar("F", ReadNote, JoinedNote)


class ProofProgress:
    """The notes under one prefix of the proof with this `identity`; a run makes those that are
    missing until its `deadline` (ms).
    """

    def __init__(
        self, bucket: ArchiveBucket, prefix: str, identity: str, effects: Effects, deadline: int
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self.identity = identity
        self._effects = effects
        self._deadline = deadline

    def by_files(
        self,
        kind: type[F],
        name: str,
        files: Sequence[DataFile],
        read: Callable[[Sequence[DataFile], int], F | None],
    ) -> list[F] | None:
        """Read the data files that no note covers yet. `read` gives the note of some files from a
        number on, or None without time for one file. Returns all notes, None if time ran out.
        """
        notes: list[F] = []
        first = 0
        existing = frozenset(self._bucket.list(f"{self._prefix}{name}-"))
        while first < len(files) or not notes:
            note = self._noted(kind, f"{name}-{first:05d}", existing, partial(read, files, first))
            if note is None:
                return None
            notes.append(note)
            first = note.end
        return notes

    def by_partition(
        self, kind: type[N], name: str, partitions: int, compare: Callable[[int], N]
    ) -> list[N] | None:
        """Compare each partition that has no note yet. Returns all notes, None if time ran out."""
        compared = []
        existing = frozenset(self._bucket.list(f"{self._prefix}{name}-"))
        for partition in range(partitions):
            note = self._noted(
                kind, f"{name}-{partition:04d}", existing, partial(compare, partition)
            )
            if note is None:
                return None
            compared.append(note)
        return compared

    def _noted(
        self, kind: type[N], name: str, existing: Collection[str], make: Callable[[], N | None]
    ) -> N | None:
        """A note of this or another run, made if it does not exist. None if time ran out."""
        key = f"{self._prefix}{name}.json"
        if key in existing:
            return parse_note(kind, key, self._bucket.get(key), self.identity)
        note = make() if self._effects.now() < self._deadline else None
        if note is None:
            return None
        body = self._bucket.put_once(key, note_body(note))
        return parse_note(kind, key, body, self.identity)
