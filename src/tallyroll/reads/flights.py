"""Counts that are kept for a while, and read once at a time: a thread that asks for what another
one is reading waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Lock

from tallyroll.reads.counts import Count

Asked = tuple[str, int | None, int | None, bool]
"""The arguments of a count: key, since, until, by window."""
Read = Callable[[Sequence[Asked]], dict[Asked, Count]]


class KeptCounts:
    """Whole counts that are less than `kept_ms` old."""

    def __init__(self, kept_ms: int, now: Callable[[], int]) -> None:
        self._kept_ms = kept_ms
        self._now = now
        self._counts: dict[Asked, Count] = {}
        self._read_by_others: dict[Asked, Event] = {}
        self._lock = Lock()  # never held during a read

    def counts(self, asked: Sequence[Asked], read: Read) -> dict[Asked, Count]:
        """What is kept of these, and the rest as `read` gives it."""
        found = self._known(asked)
        due = [each for each in asked if each not in found]
        if not due or not self._kept_ms:
            return found | (self.read(due, read) if due else {})
        with self._flight(due) as (mine, others):
            if mine:
                found |= self.read(mine, read)
        for done in others:
            done.wait()
        if others:
            found |= self._known([each for each in due if each not in found])
        # What another thread could not read, or not as a whole, is read here.
        left = [each for each in due if each not in found]
        return found | (self.read(left, read) if left else {})

    def read(self, asked: Sequence[Asked], read: Read) -> dict[Asked, Count]:
        """Counts that are read anew, and kept."""
        counts = read(asked)
        whole = {each: count for each, count in counts.items() if count.complete}
        with self._lock:
            if self._kept_ms:
                self._counts |= {
                    each: replace(count, gathering=None, source="kept")
                    for each, count in whole.items()
                }
        return counts

    def _known(self, asked: Iterable[Asked]) -> dict[Asked, Count]:
        now = self._now()
        with self._lock:
            self._counts = {
                each: count
                for each, count in self._counts.items()
                if 0 <= now - count.as_of < self._kept_ms
            }
            return {each: self._counts[each] for each in asked if each in self._counts}

    @contextmanager
    def _flight(self, asked: Iterable[Asked]) -> Iterator[tuple[list[Asked], list[Event]]]:
        """What this thread is to read, and the ends of what others read already."""
        done = Event()
        with self._lock:
            others = [self._read_by_others[each] for each in asked if each in self._read_by_others]
            mine = [each for each in asked if each not in self._read_by_others]
            self._read_by_others |= dict.fromkeys(mine, done)
        try:
            yield mine, others
        finally:
            with self._lock:
                for each in mine:
                    del self._read_by_others[each]
            done.set()
