"""Time, chance and threads; waiting between attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from tallyroll.model.sharding import Chance

T = TypeVar("T")


BACKOFF_MS = 50
BACKOFF_MS_MAX = 2_000


class Effects(Protocol):
    """Time, chance and concurrency, injected so that a simulation can control them."""

    chance: Chance

    def now(self) -> int:
        """The wall clock in ms since the epoch."""

    def sleep(self, ms: float) -> None:
        """Wait."""

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        """Run the jobs, at most `at_once` concurrently. Once all have ended, return their results
        in order, or raise the first exception.
        """


def backoff_ms(attempt: int, chance: Chance, base_ms: int = BACKOFF_MS) -> float:
    """The ms to wait after attempt 0, 1, ...: random, below a bound that doubles up to 2 s.

    Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    most: int = min(BACKOFF_MS_MAX, base_ms * 2 ** min(attempt, 16))
    return chance.random() * most


def attempts(effects: Effects, tries: int, base_ms: int = BACKOFF_MS) -> Iterator[int]:
    """Count attempts from 0 to `tries` - 1, waiting before each but the first."""
    for attempt in range(tries):
        if attempt:
            effects.sleep(backoff_ms(attempt - 1, effects.chance, base_ms))
        yield attempt
