"""Time, chance and threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tallyroll.model.sharding import Chance

T = TypeVar("T")


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
