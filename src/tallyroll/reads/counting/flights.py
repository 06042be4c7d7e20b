"""Counts that are kept for a while, and read once at a time: a thread that asks for what another
one is reading takes its answer. What this process does not keep, a cache that it shares with others
may have.

The age of an answer is counted from the begin of its read, also if another process read it. Of two
reads that overlap, the one that began first may have more, since it read later. So only a count is
kept that has all that was answered before.

An entry of the shared cache may be older than what this process has answered meanwhile. So its read
must have begun after this process gave its last answer to the question, and since clocks differ, it
must have no fewer events than any. If this process's clock was set back, it cannot tell how old an
entry is: it takes none until the clock has passed its last answer. `tests/model/shared.py` is a
model of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Lock

from tallyroll.errors import StoreError
from tallyroll.reads.counting.shared import Asked, SharedCounts
from tallyroll.reads.counts import Count

Read = Callable[[Sequence[Asked]], dict[Asked, Count]]
COUNTS_MAX, ANSWERS_MAX = 10_000, 20_000
"""The most counts that a process keeps, and questions of which it knows what it answered."""


class _Flight:
    """A read of counts that is under way, for at most `wait_ms`: what it gave, or why it failed,
    once it is `done`.
    """

    def __init__(self, wait_ms: int) -> None:
        self.wait_ms = wait_ms
        self.done = Event()
        self.counts: dict[Asked, Count] = {}
        self.failed: StoreError | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answers to a question: when the last was given, and the most events that were accepted
    and retracted of any.
    """

    at: int = 0
    accepted: int = 0
    retracted: int = 0

    def is_in(self, count: Count) -> bool:
        """Whether a count has all that the answers say. Both sets of events only grow."""
        accepted, retracted = _sets(count)
        return accepted >= self.accepted and retracted >= self.retracted

    def and_then(self, at: int, count: Count) -> _Answer:
        """With another one."""
        accepted, retracted = _sets(count)
        return _Answer(at, max(accepted, self.accepted), max(retracted, self.retracted))


def _sets(count: Count) -> tuple[int, int]:
    retracted, _ = count.retracted
    return count.events + retracted, retracted


class KeptCounts:
    """Whole counts that are less than `kept_ms` old."""

    def __init__(
        self, kept_ms: int, now: Callable[[], int], shared: SharedCounts | None = None
    ) -> None:
        self._kept_ms = kept_ms
        self._now = now
        self._shared = shared
        self._counts: dict[Asked, Count] = {}
        self._answered: dict[Asked, _Answer] = {}  # the last ones, whole or not, the oldest first
        self._latest = 0  # when any of them was given
        self._unknown_until = 0  # until when answers may have been given that are not among them
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
            with self._flight(due, wait_ms) as (mine, others):
                if mine:
                    found |= self._read_for_all(mine, read, began + wait_ms)
            for each, flight in others.items():
                if not flight.done.wait(max(0, wait_ms - (self._now() - began)) / 1_000):
                    return found | self.read([one for one in due if one not in found], read)
                if flight.failed:
                    raise flight.failed
                count = flight.counts.get(each)
                hurried = count and not count.complete and flight.wait_ms < wait_ms
                if count and self._is_fresh(count, began) and not hurried:
                    found[each] = replace(count, gathering=None, source="kept")
            found |= self._known([each for each in due if each not in found], began)
            due = [each for each in due if each not in found]
        return found | (self.read(due, read) if due else {})

    def unkept(self, asked: Sequence[Asked], read: Read) -> dict[Asked, Count]:
        """What is kept of these, and the rest as `read` gives it, which is not kept."""
        found = self._known(asked, self._now())
        due = [each for each in asked if each not in found]
        return found | (read(due) if due else {})

    def read(self, asked: Sequence[Asked], read: Read) -> dict[Asked, Count]:
        """Counts that are read anew, and kept."""
        counts = read(asked)
        with self._lock:
            self._prune()
            for each, count in counts.items():
                self._keep(each, count)
        return counts

    def _keep(self, asked: Asked, count: Count) -> None:
        self._latest = max(self._now(), self._latest)
        answers = self._answered.pop(asked, _Answer()).and_then(self._latest, count)
        self._answered[asked] = answers
        before = self._counts.pop(asked, None)
        some = [each for each in (before, count) if each and each.complete and answers.is_in(each)]
        if some:
            kept = max(some, key=lambda each: each.as_of)
            self._counts[asked] = replace(kept, gathering=None, source="kept")

    def _read_for_all(
        self, asked: Sequence[Asked], read: Read, deadline: int
    ) -> dict[Asked, Count]:
        flight = self._flights[asked[0]]
        try:
            flight.counts = self._gathered(asked, read, deadline)
        except StoreError as error:
            flight.failed = error
            raise
        return flight.counts

    def _gathered(self, asked: Sequence[Asked], read: Read, deadline: int) -> dict[Asked, Count]:
        """What the shared cache has, and the rest as `read` gives it, which is then shared."""
        shared = self._shared
        if shared is None:
            return self.read(asked, read)
        found = shared.found(asked, deadline - self._now(), self._take)
        due = [each for each in asked if each not in found]
        counts = self.read(due, read) if due else {}
        whole = {each: count for each, count in counts.items() if count.complete}
        shared.put(whole, deadline - self._now())
        return found | counts

    def _take(self, counts: Mapping[Asked, Count]) -> dict[Asked, Count]:
        """Those of the shared cache's counts that may be answered; they are kept."""
        with self._lock:
            self._prune()
            taken = {each: count for each, count in counts.items() if self._may_take(each, count)}
            for each, count in taken.items():
                self._keep(each, count)
        return taken

    def _may_take(self, asked: Asked, count: Count) -> bool:
        now, last = self._now(), self._answered.get(asked)
        if last is None and now < self._unknown_until:
            return False
        if last and not (count.as_of >= last.at and last.is_in(count)):
            return False
        return self._is_fresh(count, now) and max(count.as_of, self._latest) <= now

    def _known(self, asked: Sequence[Asked], began: int) -> dict[Asked, Count]:
        with self._lock:
            self._prune()
            known = {each: self._counts[each] for each in asked if each in self._counts}
            now = self._now()  # a clock may be set back
        return {
            each: count
            for each, count in known.items()
            if self._is_fresh(count, began) and count.as_of <= now
        }

    def _prune(self) -> None:
        """Forget what is too old, and the oldest of too many."""
        now = self._now()
        while self._counts:
            first = next(iter(self._counts))
            if self._is_fresh(self._counts[first], now) and len(self._counts) <= COUNTS_MAX:
                break
            del self._counts[first]
        # An entry that was read before is too old for long, also if its clock was a little ahead.
        while self._answered:
            first = next(iter(self._answered))
            is_known = now - self._answered[first].at < 2 * self._kept_ms
            if is_known and len(self._answered) <= ANSWERS_MAX:
                break
            del self._answered[first]
            if is_known:
                self._unknown_until = now + 2 * self._kept_ms

    def _is_fresh(self, count: Count, at: int) -> bool:
        return at - count.as_of < self._kept_ms

    @contextmanager
    def _flight(
        self, asked: Sequence[Asked], wait_ms: int
    ) -> Iterator[tuple[list[Asked], dict[Asked, _Flight]]]:
        """What this thread is to read, and the reads of others that give the rest."""
        flight = _Flight(wait_ms)
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
