"""The compactor makes Parquet of the archives of windows that were dropped, where the setting
`archive` asks for it; by `parquet` it then lets the archive that it was made of expire.

    compacting/{pipeline}/{window}            a ticket, which cleanup puts before it tags a table;
                                              its content is how often a run was killed at it
    compacting/{pipeline}/parked/{window}     one that no run can serve; its content says why

It begins once a window is dropped: nothing is added to the archive any more, and the drop depends
on the archive in DynamoDB's layout alone, as ever. It deletes nothing but tickets. An object of an
archive expires by a rule of the bucket, once it has a tag, and gets that only after

- the Parquet was read back, recounted and proven,
- its files were seen to be there, with a copy of all corrections, and
- the note `alone.json` is beside it, for which all commands read it in the place of the other.

A run that is killed anywhere leaves the ticket, and the next one goes on: with the proof, if the
Parquet is whole. So each of the two may take a whole run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tallyroll.archive.corrections import NUMBER_LETTERS, corrections_dir, digest_of
from tallyroll.archive.inventory import Archive, find
from tallyroll.archive.layout import ArchivedItem, alone_key, is_parquet, progress_dir, source_of
from tallyroll.archive.parquet.compaction import CONVERTING, PROVING, Compaction
from tallyroll.archive.parquet.files import DUCKDB
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.proof import CLOCK_EVERY_ITEMS, check_place, check_proof
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import Missing, ProofMismatch, Refused, StoreError, UsageError
from tallyroll.lifecycle.runner import Rolled, turn
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import WindowId, iso
from tallyroll.ports.bucket import PassingBucket, ticket_of
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec
from tallyroll.settings import Settings
from tallyroll.settings.common import PARQUET

RESERVE_MS = 90_000  # for DuckDB, which sorts and writes what was read, and for the upload
KILLED_MAX = 3
_PARKED = "parked/"
_LOOKED_AT = 10


class _OutOfTimeError(Exception):
    """A run's time ended while it read an archive."""


@dataclass(eq=False)
class Compactor:
    """Serves the tickets of one pipeline."""

    settings: Settings
    catalog: Catalog
    bucket: PassingBucket
    codec: ItemCodec
    effects: Effects

    def run(self, time_left_ms: int) -> Rolled:
        """Serve tickets within `time_left_ms`, that of the oldest window first, parked ones last.

        Raises StoreError if the tickets cannot be listed.
        """
        rolled = Rolled()
        begun = self.effects.now()
        deadline = begun + time_left_ms - RESERVE_MS
        for ticket in self._tickets():
            now = self.effects.now()
            if now >= deadline:
                break
            late = now - begun > time_left_ms // 10
            with turn(lambda of=ticket: f"window {_window_of(of)}", rolled):  # type: ignore[misc]
                if self._serve(ticket, deadline, late=late):
                    rolled.steps["compact"] += 1
        rolled.stuck_ms = self._oldest_ms()
        return rolled

    def _tickets(self) -> list[str]:
        return [*self.bucket.list(ticket_of(self.settings.name, ""))]

    def _oldest_ms(self) -> int:
        """For how long the tables of windows that still have a ticket are gone."""
        left = self._tickets()
        windows = map(self._dropped, (*left[:_LOOKED_AT], *left[-_LOOKED_AT:]))
        dropped = (each.times[Status.DROPPED] for each in windows if each)
        return max(0, self.effects.now() - min(dropped, default=self.effects.now()))

    def _dropped(self, ticket: str) -> Window | None:
        window = self.catalog.window(_window_of(ticket))
        return window if window and window.status is Status.DROPPED else None

    def _serve(self, ticket: str, deadline: int, *, late: bool) -> bool:
        """Whether the window of a ticket has its Parquet now, and the ticket is gone."""
        window = self._dropped(ticket)
        if window is None:
            return False
        check_place(window, self.settings.name)
        prefix = window.attempt.archive
        found = find(self.bucket, self.effects, prefix)
        made = next((each for each in found if each.proven and _is_of(each, prefix)), None)
        if made is None:
            source = next((each for each in found if each.prefix == prefix), None)
            made = self._compacted(ticket, window, source, deadline, late=late)
        if made is None:
            return False
        if self.settings.archive == PARQUET:
            self._let_pass(prefix, made)
        self.bucket.delete(ticket)
        return True

    def _compacted(
        self, ticket: str, window: Window, source: Archive | None, deadline: int, *, late: bool
    ) -> Archive | None:
        """Make and prove the Parquet. None if the run's time is over, and the next one has more of
        it, since this one began it `late`, or has the proof alone to do.
        """
        said = self._said(ticket)
        if _is_parked(ticket):
            raise Refused(f"it gets no Parquet: {said}", "Parked")
        killed = int(said or 0)
        if killed >= KILLED_MAX:
            raise self._parked(ticket, f"{killed} runs were killed at it")
        self.bucket.put(ticket, str(killed + 1).encode())
        watch = _Watch(self.effects, deadline)
        try:
            check_proof(window, self.bucket)
            if source is None:
                raise ProofMismatch([f"{window.attempt.archive}: there is no archive"])
            return Compaction(self.bucket, self.codec, self.effects, watch).compact(source)
        except ProofMismatch as mismatch:
            self._parked(ticket, str(mismatch))
            raise
        except _OutOfTimeError:
            if not (late or watch.begun == [CONVERTING, PROVING]):
                raise self._parked(ticket, "it takes longer than a run may") from None
            self.bucket.put(ticket, b"")
            return None
        except (StoreError, UsageError) as error:
            if isinstance(error, StoreError) and error.code == DUCKDB:
                raise self._parked(ticket, str(error)) from None
            with suppress(StoreError):
                self.bucket.put(ticket, b"")
            raise

    def _said(self, ticket: str) -> str:
        with suppress(Missing):
            return self.bucket.get(ticket).decode()
        return ""

    def _parked(self, ticket: str, why: str) -> Refused:
        self.bucket.put(ticket_of(self.settings.name, _PARKED + _window_of(ticket)), why.encode())
        self.bucket.delete(ticket)
        return Refused(f"it gets no Parquet: {why}", "Parked")

    def _let_pass(self, source: str, made: Archive) -> None:
        """Let the archive under the prefix `source` expire, for which there is another one. What is
        put there from now on, as corrections may be by a cleanup that is late, gets no tag.
        """
        notes = progress_dir(source)  # those have the tag from the start
        keys = [key for key in self.bucket.list(f"{source}/") if not key.startswith(notes)]
        there = corrections_dir(source)
        for key in keys:
            if key.startswith(there):
                self._copy(key, key.removeprefix(there), corrections_dir(made.prefix))
        ParquetItems(self.bucket, made.prefix, self.codec).check_proof()
        note = {"inPlaceOf": source, "since": iso(self.effects.now())}
        self.bucket.put(alone_key(made.prefix), json.dumps(note).encode())
        for key in keys:
            self.bucket.let_pass(key)

    def _copy(self, key: str, name: str, here: str) -> None:
        """Copy the corrections of a file, which were perhaps put while the others were copied. One
        that has expired since may have come again under its name, with more in it.
        """
        files = [*self.bucket.list(here + name[:NUMBER_LETTERS])]
        there = {line for file in files for line in self.bucket.get(file).splitlines(keepends=True)}
        lines = self.bucket.get(key).splitlines(keepends=True)
        if body := b"".join(line for line in lines if line not in there):
            digest = f"-{digest_of(body)}" if here + name in files else ""
            self.bucket.put(f"{here}{name.removesuffix('.jsonl')}{digest}.jsonl", body)


@dataclass(frozen=True, slots=True)
class _Watch:
    """The items of a pass over an archive, until the deadline (ms); `begun` has all passes."""

    effects: Effects
    deadline: int
    begun: list[str] = field(default_factory=list)

    def __call__(self, reading: ArchiveReading, _: Archive, what: str) -> Iterator[ArchivedItem]:
        self.begun.append(what)
        for number, found in enumerate(reading):
            if number % CLOCK_EVERY_ITEMS == 0 and self.effects.now() >= self.deadline:
                raise _OutOfTimeError
            yield found


def _is_parked(ticket: str) -> bool:
    return ticket.count("/") > ticket_of("pipeline", "window").count("/")


def _window_of(ticket: str) -> WindowId:
    return ticket.rpartition("/")[2]


def _is_of(archive: Archive, source: str) -> bool:
    return is_parquet(archive.prefix) and source_of(archive.prefix) == source
