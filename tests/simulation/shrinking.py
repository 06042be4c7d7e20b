"""Shrinks a failing run: the same seed with as few faults and messages as still break the same
promise.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.pipeline import Result, simulate
from tests.simulation.weather import LETTER
from tests.simulation.world import Bounds

CALMED: Mapping[str, Any] = {"slow_ms": 0, "clock_ms": 0, "latency_ms": 1, "misread": 0.0}
SLACK, SLACK_MS = 1.25, 30_000  # how much longer than the best run another one may go on
WINDOW = re.compile(r"\b\d{8}T(\d{6})Z")
MESSAGE = re.compile(r"\b([0-9a-f]{6})[0-9a-f]{2}-[0-9a-f]{4}-[0-9a-f]{4}-")
RECORD = re.compile(r"'((?:poison-)?producer[^']*)'")
ALWAYS = ("VIOLATION", "calm from here on", "deploys", " #")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A failing run, the weather and the faults that bring it back, and how many runs it took."""

    result: Result
    tweaks: Mapping[str, Any]
    only: tuple[str, ...] | None
    runs: int


class _OutOfTimeError(Exception):
    """The time for shrinking is over; what was found so far stands."""


def promise_of(violation: str) -> str:
    """What a violation breaks: the number of the invariant, or the error that ended a function."""
    number, colon, _ = violation.partition(":")
    if colon and number.isdecimal():
        return number
    raised = re.search(r"raised (\w+)", violation)
    return raised[0] if raised else re.sub(r"\d+", "", violation)[:20]


def shrink(
    failing: Result,
    tweaks: Mapping[str, Any],
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    simulate: Callable[..., Result] = simulate,
) -> Shrunk:
    """The smallest run found in so many seconds: calmer weather, fewer letters, fewer faults.

    A failure that does not come back when it is run again is given as it is.
    """
    assert failing.violation
    return _Shrinking(failing, tweaks, clock() + seconds, clock, simulate).done()


class _Shrinking:
    def __init__(
        self,
        failing: Result,
        tweaks: Mapping[str, Any],
        deadline: float,
        clock: Callable[[], float],
        simulate: Callable[..., Result],
    ) -> None:
        assert failing.violation
        self._promise = promise_of(failing.violation)
        self._best = Shrunk(failing, tweaks, None, 0)
        self._deadline = deadline
        self._clock = clock
        self._simulate = simulate
        self._runs = 0

    def done(self) -> Shrunk:
        letters, faults = self._struck()
        try:
            if self._breaks(letters, faults):
                self._calm()
                self._without_kinds()
                self._fewer(lambda: self._struck()[0], self._breaks_with_letters)
                self._fewer(lambda: self._struck()[1], self._breaks_with_faults)
        except _OutOfTimeError:
            pass
        return replace(self._best, runs=self._runs)

    def _struck(self) -> tuple[list[str], list[str]]:
        """The names of the letters and of the faults in the best run so far, in their order."""
        struck = {fault.name: fault.kind for fault in self._best.result.faults}
        letters = [name for name, kind in struck.items() if kind == LETTER.kind]
        return letters, [name for name, kind in struck.items() if kind != LETTER.kind]

    def _breaks(
        self,
        letters: Collection[str],
        faults: Collection[str] | None,
        tweaks: Mapping[str, Any] | None = None,
    ) -> bool:
        """Whether the same promise is broken with these alone; if so, that is the best run.

        Without `faults`, whichever strike are as good as any.
        """
        if self._clock() >= self._deadline:
            raise _OutOfTimeError
        self._runs += 1
        best = self._best
        tried = best.tweaks if tweaks is None else tweaks
        bounds = Bounds(
            frozenset(letters),
            None if faults is None else frozenset(faults),
            SLACK * best.result.lasted_ms + SLACK_MS,
        )
        result = self._simulate(best.result.seed, bounds, **tried)
        if not result.violation or promise_of(result.violation) != self._promise:
            return False
        only = tuple(dict.fromkeys(fault.name for fault in result.faults))
        self._best = Shrunk(result, tried, only, self._runs)
        return True

    def _breaks_with_letters(self, letters: Collection[str]) -> bool:
        """With the faults of the best run, else, where there are any, with such as come."""
        faults = self._struck()[1]
        return self._breaks(letters, faults) or (bool(faults) and self._breaks(letters, None))

    def _breaks_with_faults(self, faults: Collection[str]) -> bool:
        return self._breaks(self._struck()[0], faults)

    def _calm(self) -> None:
        letters, faults = self._struck()
        if self._breaks(letters, faults, {**self._best.tweaks, **CALMED}):
            return
        for name, calm in CALMED.items():
            letters, faults = self._struck()
            self._breaks(letters, faults, {**self._best.tweaks, name: calm})

    def _without_kinds(self) -> None:
        """Leave out all faults, else those of one kind after the other; letters stay."""
        kinds = sorted({fault.kind for fault in self._best.result.faults} - {LETTER.kind})
        for left_out in [kinds, *([kind] for kind in kinds)]:
            struck = {fault.name: fault.kind for fault in self._best.result.faults}
            letters, faults = self._struck()
            kept = [name for name in faults if struck[name] not in left_out]
            if self._breaks(letters, kept) and not kept:
                return

    def _fewer(
        self, left: Callable[[], list[str]], breaks: Callable[[Collection[str]], bool]
    ) -> None:
        """Delta debugging (Zeller and Hildebrandt, 2002): until none can be left out alone."""
        parts = 2
        if left() and breaks([]):
            return
        while names := left():
            size = -(-len(names) // parts)
            chunks = [names[first : first + size] for first in range(0, len(names), size)]
            if len(chunks) > 1 and any(breaks(chunk) for chunk in chunks):
                parts = 2
            elif len(chunks) > 2 and any(breaks(_without(names, chunk)) for chunk in chunks):
                parts = max(2, parts - 1)
            elif size == 1:
                return
            else:
                parts = min(len(names), 2 * parts)


def _without(names: Sequence[str], left_out: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in set(left_out))


def concerning(result: Result) -> list[str]:
    """The lines of a failing run's trace that name the violation's windows, messages or records,
    and the faults; all of them if the violation names none.
    """
    violation = result.violation or ""
    words = {name[-6:] for name in RECORD.findall(violation)}
    words |= set(MESSAGE.findall(violation)) | set(WINDOW.findall(violation))
    if not words:
        return result.trace
    wanted = re.compile("|".join(map(re.escape, (*ALWAYS, *sorted(words)))))
    return [line for line in result.trace if wanted.search(line)]
