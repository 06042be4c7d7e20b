"""Time, chance and threads in production."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from random import SystemRandom

from tallyroll.model.sharding import Chance
from tallyroll.ports.effects import T

THREADS_MAX = 256  # of a process, kept for the next jobs: a new thread takes 0.1 ms
_threads = ThreadPoolExecutor(THREADS_MAX)


class SystemEffects:
    """The system's clock, randomness, sleep and threads."""

    def __init__(self) -> None:
        self.chance: Chance = SystemRandom()

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, ms: float) -> None:
        time.sleep(ms / 1000)

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        """This thread does jobs, too, and all of them if no other one is free."""
        if len(jobs) <= 1 or at_once == 1:
            return [job() for job in jobs]
        waiting = deque(enumerate(jobs))
        results: dict[int, T] = {}
        errors: dict[int, Exception] = {}

        def work() -> None:
            while waiting:
                try:
                    number, job = waiting.popleft()
                except IndexError:  # another thread took it
                    return
                try:
                    results[number] = job()
                except Exception as error:  # noqa: BLE001 - raised below, once all have ended
                    errors[number] = error

        others = [_threads.submit(work) for _ in range(min(at_once, len(jobs)) - 1)]
        try:
            work()
        finally:
            waiting.clear()
            begun = [other for other in others if not other.cancel()]
            wait(begun)
        for other in begun:
            other.result()
        if errors:
            raise errors[min(errors)]
        return [results[number] for number in range(len(jobs))]


def _begin_anew() -> None:
    """In a child after a fork, which has none of the threads."""
    global _threads  # noqa: PLW0603
    _threads = ThreadPoolExecutor(THREADS_MAX)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
