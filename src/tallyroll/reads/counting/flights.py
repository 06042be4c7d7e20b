"""Counts that are kept for a while, and read once at a time: a thread that asks for what another
one is reading takes its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Lock

from tallyroll.errors import StoreError
from tallyroll.reads.counts import Count

Asked = tuple[str, int | None, int | None, bool]
"""The arguments of a count: key, since, until, by window."""
Read = Callable[[Sequence[Asked]], dict[Asked, Count]]


class _Flight:
    """A read of counts that is under way: what it gave, or why it failed, once it is `done`."""

    def __init__(self) -> None:
        self.done = Event()
        self.counts: dict[Asked, Count] = {}
        self.failed: StoreError | None = None


class KeptCounts:
    """Whole counts that are less than `kept_ms` old."""

    def __init__(self, kept_ms: int, now: Callable[[], int]) -> None:
        self._kept_ms = kept_ms
        self._now = now
        self._counts: dict[Asked, Count] = {}
        self._flights: dict[Asked, _Flight] = {}
        self._lock = Lock()  # never held during a read

    def counts(self, asked: Sequence[Asked], read: Read, wait_ms: int) -> dict[Asked, Count]:
        """What is kept of these, and the rest as `read` gives it, here or in a thread that reads it
        already, for which this one waits at most `wait_ms`. No answer was begun `kept_ms` before
        this call. Raises what `read` raises, also in the other thread.
        """
        began = self._now()
        found = self._known(asked, began)
        due = [each for each in asked if each not in found]
        while due and self._kept_ms:
            with self._flight(due) as (mine, others):
                if mine:
                    found |= self._read_for_all(mine, read)
            for each, flight in others.items():
                if not flight.done.wait(max(0, wait_ms - (self._now() - began)) / 1_000):
                    return found | self.read([one for one in due if one not in found], read)
                if flight.failed:
                    raise flight.failed
                count = flight.counts.get(each)
                if count and self._is_fresh(count, began):
                    found[each] = replace(count, gathering=None, source="kept")
            found |= self._known([each for each in due if each not in found], began)
            due = [each for each in due if each not in found]
        return found | (self.read(due, read) if due else {})

    def read(self, asked: Sequence[Asked], read: Read) -> dict[Asked, Count]:
        """Counts that are read anew, and kept."""
        counts = read(asked)
        with self._lock:
            self._prune()
            for each, count in counts.items():
                before = self._counts.get(each)
                if count.complete and (before is None or before.as_of <= count.as_of):
                    self._counts[each] = replace(count, gathering=None, source="kept")
        return counts

    def _read_for_all(self, asked: Sequence[Asked], read: Read) -> dict[Asked, Count]:
        flight = self._flights[asked[0]]
        try:
            flight.counts = self.read(asked, read)
        except StoreError as error:
            flight.failed = error
            raise
        return flight.counts

    def _known(self, asked: Sequence[Asked], began: int) -> dict[Asked, Count]:
        with self._lock:
            self._prune()
            known = {each: self._counts[each] for each in asked if each in self._counts}
        return {each: count for each, count in known.items() if self._is_fresh(count, began)}

    def _prune(self) -> None:
        now = self._now()
        self._counts = {
            each: count
            for each, count in self._counts.items()
            if self._is_fresh(count, now) and count.as_of <= now  # a clock may be set back
        }

    def _is_fresh(self, count: Count, at: int) -> bool:
        return at - count.as_of < self._kept_ms

    @contextmanager
    def _flight(self, asked: Sequence[Asked]) -> Iterator[tuple[list[Asked], dict[Asked, _Flight]]]:
        """What this thread is to read, and the reads of others that give the rest."""
        flight = _Flight()
        mine: list[Asked] = []
        try:
            with self._lock:
                others = {each: self._flights[each] for each in asked if each in self._flights}
                mine = [each for each in asked if each not in others]
                self._flights |= dict.fromkeys(mine, flight)
            yield mine, others
        finally:
            with self._lock:
                for each in mine:
                    self._flights.pop(each, None)
            flight.done.set()
