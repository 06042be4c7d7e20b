"""Time, chance and threads in production."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import SystemRandom

from tallyroll.model.sharding import Chance
from tallyroll.ports.effects import T


class SystemEffects:
    """The system's clock, randomness, sleep and threads."""

    def __init__(self) -> None:
        self.chance: Chance = SystemRandom()

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, ms: float) -> None:
        time.sleep(ms / 1000)

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        if len(jobs) <= 1 or at_once == 1:
            return [job() for job in jobs]
        if len(jobs) > at_once:
            with ThreadPoolExecutor(at_once) as pool:
                futures = [pool.submit(job) for job in jobs]
            return [future.result() for future in futures]
        with ThreadPoolExecutor(len(jobs) - 1) as pool:  # this thread has a job of its own
            others = [pool.submit(job) for job in jobs[1:]]
            first = jobs[0]()
        return [first, *(other.result() for other in others)]
