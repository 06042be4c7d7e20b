"""Counts that several threads ask for at once are read once; nobody gets an old or partial one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Semaphore
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.reads import flights
from tallyroll.reads.counts import Count
from tallyroll.reads.flights import Asked, KeptCounts

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
            return super().wait(timeout or WAIT_S)

    monkeypatch.setattr(flights, "Event", Told)
    return count


def asking(pool: ThreadPoolExecutor, kept: KeptCounts, reads: Reads, *asked: Asked) -> Future[Any]:
    return pool.submit(kept.counts, asked, reads)


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


@pytest.mark.parametrize("how", ["fails", "is not whole", "is old"])
def test_what_another_thread_cannot_give_is_read_here(waiting: Semaphore, how: str) -> None:
    def spoil(number: int) -> Mapping[str, str]:
        if number == 0 and how == "fails":
            raise Throttled("slow down")
        return {"w": "no time left"} if number == 0 and how == "is not whole" else {}

    reads = Reads(spoil=spoil)
    kept = kept_by(reads)
    with ThreadPoolExecutor(2) as pool:
        first = asking(pool, kept, reads, A)
        assert reads.begun.acquire(timeout=WAIT_S)
        second = asking(pool, kept, reads, A)
        assert waiting.acquire(timeout=WAIT_S)
        reads.now += KEPT_MS if how == "is old" else 0
        reads.released.set()
        assert second.result()[A].complete
        if how == "fails":
            with pytest.raises(Throttled):
                first.result()
        else:
            assert first.result()[A].complete is (how == "is old")
    assert reads.asked == [[A], [A]]
    assert kept.counts([A], reads)[A].source == "kept"


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
    @contextmanager
    def alone(_: KeptCounts, asked: list[Asked]) -> Any:
        yield asked, []

    monkeypatch.setattr(KeptCounts, "_flight", alone)
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
