"""The process's clock as the fixture reads and moves it, and the effects that use it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import time_machine

from tallyroll.model.sharding import Chance
from tallyroll.ports.effects import T

_SEED = 20261120  # a failing test fails again in the same way


class Clock:
    """The clock that everything in this process sees: moto, the handlers, the test's own code.

    If the test has frozen or moved the clock itself, by freezegun or time-machine, then that frozen
    clock is moved. If not, time-machine moves the running clock until `close`.
    """

    def __init__(self) -> None:
        self._own: time_machine.travel | None = None

    def now(self) -> int:
        """The time in ms since the epoch."""
        return time.time_ns() // 1_000_000

    def shift(self, ms: float) -> None:
        """Move the clock forward."""
        delta = timedelta(milliseconds=ms)
        if frozen := _frozen_by_freezegun():
            frozen.tick(delta)
        elif time_machine.traveller_stack:
            time_machine.traveller_stack[-1].shift(delta)
        else:
            self._own = time_machine.travel(delta, tick=True)
            self._own.start()

    def move_to(self, instant: int) -> None:
        """Move the clock forward to `instant` (ms); a later clock stays as it is."""
        if (ahead := instant - self.now()) > 0:
            self.shift(ahead)

    def close(self) -> None:
        """Give the clock back as it was."""
        if self._own and time_machine.traveller_stack:
            self._own.stop()
        self._own = None


def _frozen_by_freezegun() -> Any:
    """The innermost clock that freezegun has frozen; None if there is none."""
    api = sys.modules.get("freezegun.api")
    factories = getattr(api, "freeze_factories", ())
    return factories[-1] if factories else None


class OneThread:
    """Effects without threads, in virtual time: jobs run one after another, and a sleep moves the
    clock.

    moto is not safe under threads: it copies tables while others change them.
    """

    def __init__(self, clock: Clock) -> None:
        self.chance: Chance = Random(_SEED)  # noqa: S311  (repeatable, and no secret)
        self._clock = clock

    def now(self) -> int:
        """The wall clock in ms since the epoch."""
        return self._clock.now()

    def sleep(self, ms: float) -> None:
        """Let virtual time pass."""
        self._clock.shift(ms)

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:  # noqa: ARG002
        """Run the jobs in turn. Once all have ended, return their results in order, or raise the
        first exception.
        """
        results: list[T] = []
        errors: list[Exception] = []
        for job in jobs:
            try:
                results.append(job())
            except Exception as error:  # noqa: BLE001  (the port's contract: join all, then raise)
                errors.append(error)
        if errors:
            raise errors[0]
        return results
