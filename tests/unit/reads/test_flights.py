"""Counts that several threads ask for at once are read once; nobody gets an old or partial one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event, Semaphore
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.model.states import Status
from tallyroll.reads.counting import flights
from tallyroll.reads.counting.flights import KeptCounts
from tallyroll.reads.counting.shared import Asked
from tallyroll.reads.counts import Count, WindowCount

KEPT_MS = 1_000
THREADS = 8
WAIT_S = 60.0
A: Asked = ("a", None, None, False)
B: Asked = ("b", None, None, False)


@dataclass
class Reads:
    """Reads of counts, each of which waits until it is `released`."""

    now: int = 0
    released: Event = field(default_factory=Event)
    begun: Semaphore = field(default_factory=lambda: Semaphore(0))
    asked: list[list[Asked]] = field(default_factory=list)
    spoil: Callable[[int], Mapping[str, str]] = lambda _: {}

    def __call__(self, asked: Sequence[Asked]) -> dict[Asked, Count]:
        at, number = self.now, len(self.asked)
        self.asked.append([*asked])
        self.begun.release()
        assert self.released.wait(WAIT_S)
        why = self.spoil(number)
        return {each: Count(each[0], 7, 7, (), at, why) for each in asked}


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Semaphore:
    """Released by each thread that waits for another one's read."""
    count = Semaphore(0)

    class Told(Event):
        def wait(self, timeout: float | None = None) -> bool:
            count.release()
            assert super().wait(WAIT_S if timeout is None else timeout) or not timeout
            return self.is_set()

    monkeypatch.setattr(flights, "Event", Told)
    return count


def asking(pool: ThreadPoolExecutor, kept: KeptCounts, reads: Reads, *asked: Asked) -> Future[Any]:
    return pool.submit(kept.counts, asked, reads, round(WAIT_S * 1_000))


def kept_by(reads: Reads) -> KeptCounts:
    return KeptCounts(KEPT_MS, lambda: reads.now)


def test_many_threads_read_once(waiting: Semaphore) -> None:
    reads = Reads()
    kept = kept_by(reads)
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [asking(pool, kept, reads, A) for _ in range(THREADS)]
        for _ in range(THREADS - 1):
            assert waiting.acquire(timeout=WAIT_S)
        reads.released.set()
        counts = [job.result()[A] for job in jobs]
    assert reads.asked == [[A]]
    assert {count.events for count in counts} == {7}
    assert sorted(count.source for count in counts) == ["kept"] * (THREADS - 1) + ["read"]


def test_what_others_do_not_read_is_read_beside_them(waiting: Semaphore) -> None:
    reads = Reads()
    kept = kept_by(reads)
    with ThreadPoolExecutor(2) as pool:
        first = asking(pool, kept, reads, A)
        assert reads.begun.acquire(timeout=WAIT_S)
        second = asking(pool, kept, reads, B, A)
        assert reads.begun.acquire(timeout=WAIT_S)
        reads.released.set()
        assert [*second.result()] == [B, A]
        assert [*first.result()] == [A]
    assert reads.asked == [[A], [B]]


def test_an_old_answer_of_another_thread_is_not_taken(waiting: Semaphore) -> None:
    """It was begun a second before the others asked: one of them reads for them all."""
    reads = Reads()
    kept = kept_by(reads)
    with ThreadPoolExecutor(THREADS) as pool:
        first = asking(pool, kept, reads, A)
        assert reads.begun.acquire(timeout=WAIT_S)
        reads.now = KEPT_MS
        others = [asking(pool, kept, reads, A) for _ in range(THREADS - 1)]
        for _ in others:
            assert waiting.acquire(timeout=WAIT_S)
        reads.released.set()
        assert first.result()[A].as_of == 0
        assert {other.result()[A].as_of for other in others} == {KEPT_MS}
    assert len(reads.asked) == 2


def test_an_answer_is_as_old_as_its_read_and_not_as_the_wait_for_it(waiting: Semaphore) -> None:
    reads = Reads()
    kept = kept_by(reads)
    with ThreadPoolExecutor(2) as pool:
        first = asking(pool, kept, reads, A)
        assert reads.begun.acquire(timeout=WAIT_S)
        second = asking(pool, kept, reads, A)
        assert waiting.acquire(timeout=WAIT_S)
        reads.now = KEPT_MS
        reads.released.set()
        assert first.result()[A].as_of == second.result()[A].as_of == 0
    assert reads.asked == [[A]]


@pytest.mark.parametrize("fails", [True, False])
def test_a_read_that_fails_or_is_not_whole_is_so_for_all(
    waiting: Semaphore, *, fails: bool
) -> None:
    def spoil(_: int) -> Mapping[str, str]:
        if fails:
            raise Throttled("slow down")
        return {"w": "no time left"}

    reads = Reads(spoil=spoil)
    kept = kept_by(reads)
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [asking(pool, kept, reads, A) for _ in range(THREADS)]
        for _ in range(THREADS - 1):
            assert waiting.acquire(timeout=WAIT_S)
        reads.released.set()
        for job in jobs:
            if fails:
                with pytest.raises(Throttled):
                    job.result()
            else:
                assert not job.result()[A].complete
    assert reads.asked == [[A]]
    reads.spoil = lambda _: {}
    assert kept.counts([A], reads, 0)[A].complete
    assert reads.asked == [[A], [A]]


def test_who_has_no_time_to_wait_reads_alone() -> None:
    reads = Reads()
    kept = kept_by(reads)
    with ThreadPoolExecutor(2) as pool:
        first = asking(pool, kept, reads, A)
        assert reads.begun.acquire(timeout=WAIT_S)
        second = pool.submit(kept.counts, [A], reads, 0)
        assert reads.begun.acquire(timeout=WAIT_S)
        reads.released.set()
        assert first.result()[A].complete
        assert second.result()[A].complete
    assert reads.asked == [[A], [A]]


def test_who_has_more_time_takes_no_partial_answer_of_one_in_a_hurry(waiting: Semaphore) -> None:
    reads = Reads(spoil=lambda number: {} if number else {"w": "no time left"})
    kept = kept_by(reads)
    with ThreadPoolExecutor(2) as pool:
        hurried = pool.submit(kept.counts, [A], reads, 1)
        assert reads.begun.acquire(timeout=WAIT_S)
        other = asking(pool, kept, reads, A)
        assert waiting.acquire(timeout=WAIT_S)
        reads.released.set()
        assert not hurried.result()[A].complete
        assert other.result()[A].complete
    assert reads.asked == [[A], [A]]


@pytest.mark.parametrize("began", [5, 10])
def test_what_was_answered_stays_beside_a_later_read_with_less(began: int) -> None:
    """Of two reads that overlap, the one that began first may have read later."""
    reads = Reads(now=10)
    kept = kept_by(reads)
    for count in (Count("a", 8, 8, (), began), Count("a", 7, 7, (), 10)):
        assert kept.read([A], lambda _, count=count: {A: count})[A] is count  # type: ignore[misc]
    assert kept.counts([A], reads, 0)[A].events == 8
    assert not reads.asked


def test_a_newer_answer_stays_and_old_ones_do_not_pile_up() -> None:
    reads = Reads()
    reads.released.set()
    kept = kept_by(reads)
    reads.now = 10
    kept.read([A], reads)
    old = Count("a", 3, 3, (), 0)
    kept.read([A], lambda _: {A: old})
    assert kept.counts([A], reads, 0)[A].events == 7
    for number in range(50):
        reads.now += KEPT_MS // 2
        kept.read([(f"k{number}", None, None, False)], reads)
    assert len(kept._counts) <= 3


def with_retracted(events: int, retracted: int, as_of: int) -> Count:
    gone = (retracted, 0)
    window = WindowCount("20261120T080000Z", events, 0, Status.OPEN, retracted=gone)
    return Count("a", events, 0, (window,), as_of)


@pytest.mark.parametrize(
    ("events", "retracted", "taken"),
    [(6, 1, True), (5, 2, True), (6, 0, False), (7, 0, False), (4, 2, False)],
)
def test_an_entry_has_all_that_was_answered(events: int, retracted: int, *, taken: bool) -> None:
    """Of 7 events that were accepted, of which one was retracted."""
    reads = Reads()
    kept = kept_by(reads)
    kept.read([A], lambda _: {A: with_retracted(6, 1, 0)})
    reads.now = 1
    entry = with_retracted(events, retracted, 1)
    assert kept._take({A: entry}) == ({A: entry} if taken else {})


def test_an_answer_is_known_for_as_long_as_an_older_entry_may_come() -> None:
    reads = Reads()
    kept = kept_by(reads)
    kept.read([A], lambda _: {A: Count("a", 8, 8, (), 0)})
    for reads.now, taken in ((3 * KEPT_MS // 2, False), (2 * KEPT_MS, True)):
        entry = Count("a", 7, 7, (), reads.now - 1)
        assert bool(kept._take({A: entry})) is taken


def test_no_entry_is_taken_whose_age_is_not_known() -> None:
    reads = Reads(now=1_000)
    reads.released.set()
    kept = kept_by(reads)
    assert not kept._take({A: Count("a", 7, 7, (), 1_001)}), "of a clock that is ahead"
    kept.read([A], reads)
    reads.now = 999
    assert not kept._take({B: Count("b", 7, 7, (), 998)}), "by a clock that was set back"
    reads.now = 1_000
    assert kept._take({B: Count("b", 7, 7, (), 998)})


def test_the_oldest_of_too_many_counts_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "COUNTS_MAX", 2)
    monkeypatch.setattr(flights, "ANSWERS_MAX", 3)
    reads = Reads()
    reads.released.set()
    kept = kept_by(reads)
    some: list[Asked] = [(name, None, None, False) for name in "abcdefg"]
    for each in some:
        kept.read([each], reads)
    assert kept.unkept(some, lambda due: {each: reads([each])[each] for each in due}).keys() == {
        *some
    }
    assert [one for [one] in reads.asked[len(some) :]] == some[:-2]
    # Of questions whose answers it does not know any more it takes no entry.
    entry = Count("z", 9, 9, (), 0)
    assert not kept._take({("z", None, None, False): entry})
    assert kept._take({some[-1]: entry})


def test_where_nothing_may_be_old_nobody_waits() -> None:
    reads = Reads()
    kept = KeptCounts(0, lambda: reads.now)
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [asking(pool, kept, reads, A) for _ in range(THREADS)]
        for _ in range(THREADS):
            assert reads.begun.acquire(timeout=WAIT_S)
        reads.released.set()
        assert all(job.result()[A].source == "read" for job in jobs)


def test_threads_that_do_not_wait_are_found(
    waiting: Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(kept: KeptCounts, asked: Sequence[Asked], read: Reads, _: int) -> dict[Asked, Count]:
        return kept.read(asked, read)

    monkeypatch.setattr(KeptCounts, "counts", alone)
    reads = Reads()
    kept = kept_by(reads)
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [asking(pool, kept, reads, A) for _ in range(THREADS)]
        for _ in range(THREADS):
            assert reads.begun.acquire(timeout=WAIT_S)
        reads.released.set()
        assert all(job.result() for job in jobs)
    assert len(reads.asked) == THREADS
    assert not waiting.acquire(blocking=False)
