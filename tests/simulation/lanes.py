"""Runs many seeds on several processes at once."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.pool import Pool
from typing import Any, TypeVar

import pytest

from tests.simulation.modes import DYNAMODB, MODES
from tests.simulation.pipeline import Result
from tests.simulation.planted import Planted

START_SECONDS_MAX = 120
NEARBY_SEEDS = 30
COUNTED = ("messages", "commits", "steps", "dropped", "faults", "marks")
A = TypeVar("A")
B = TypeVar("B")


@dataclass(slots=True)
class Summary:
    """What many seeds came to; `faults` by kind, `marks` by name."""

    seeds: int = 0
    messages: int = 0
    commits: int = 0
    steps: int = 0
    dropped: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    failed: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Count one seed."""
        self.seeds += 1
        self.messages += result.messages
        self.commits += result.commits
        self.steps += result.steps
        self.dropped += result.dropped
        self.faults.update(fault.kind for fault in result.faults)
        self.marks.update(result.marks)
        if result.violation:
            self.failed.append(result)

    def numbers(self) -> dict[str, Any]:
        """What was counted, but for the seeds, as JSON."""
        return {name: getattr(self, name) for name in COUNTED}

    @classmethod
    def of(cls, numbers: Mapping[str, Any], seeds: int) -> Summary:
        """The summary of so many seeds of which these numbers were told."""
        summary = cls(seeds=seeds)
        for name in COUNTED:
            kind = type(getattr(summary, name))
            setattr(summary, name, kind(numbers[name]))
        return summary


@dataclass(frozen=True, slots=True)
class Hunt:
    """How the search for a planted bug ended: the first seed that finds it and is clean without it,
    or none if it survived.
    """

    name: str
    seed: int | None
    tried: int
    violation: str


def bug_name(planted: Planted) -> str:
    """The name of a planted bug."""
    return planted.bug.__name__


def planted_named(name: str, store: str = DYNAMODB) -> Planted:
    """The planted bug of that name. Raises KeyError."""
    return {bug_name(planted): planted for planted in MODES[store].planted}[name]


@contextmanager
def in_place(bug: Planted | None) -> Iterator[Mapping[str, Any]]:
    """The bug stands planted meanwhile, if there is one; gives the weather in which it shows."""
    with pytest.MonkeyPatch.context() as patch:
        if bug:
            bug.bug(patch)
        yield bug.weather if bug else {}


def finding_seed(simulate: Callable[..., Any], planted: Planted) -> int | None:
    """The first seed from the bug's own on that finds it: a changed order of calls moves it."""
    for seed in range(planted.seed, planted.seed + NEARBY_SEEDS):
        with in_place(planted) as weather:
            found = simulate(seed, **weather).violation
        if found:
            assert " raised " not in found, "it was not caught, it does not even run"
            return seed
    return None


def run_seeds(
    seeds: Iterable[int], tweaks: Mapping[str, Any], processes: int, store: str = DYNAMODB
) -> Iterator[Result]:
    """The results of the seeds as they come; only a failing one keeps its trace."""
    return _spread(partial(_run_one, store, dict(tweaks)), seeds, processes)


def hunt_bugs(
    names: Iterable[str], seeds: range, processes: int, store: str = DYNAMODB
) -> Iterator[Hunt]:
    """How the search for each planted bug ended, as they end."""
    return _spread(partial(_hunt_one, store, seeds), names, processes)


def _run_one(store: str, tweaks: Mapping[str, Any], seed: int) -> Result:
    result = MODES[store].simulate(seed, **tweaks)
    return result if result.violation else replace(result, trace=[])


def _hunt_one(store: str, seeds: range, name: str) -> Hunt:
    bug, simulate = planted_named(name, store), MODES[store].simulate
    for tried, seed in enumerate(seeds, 1):
        with in_place(bug) as weather:
            violation = simulate(seed, **weather).violation or ""
        # A bug that merely raises was not caught: it does not even run.
        caught = violation and " raised " not in violation
        if caught and not simulate(seed, **weather).violation:
            return Hunt(name, seed, tried, violation)
    return Hunt(name, None, len(seeds), "")


def _spread(work: Callable[[A], B], jobs: Iterable[A], processes: int) -> Iterator[B]:
    if processes == 1:
        yield from map(work, jobs)
        return
    with _pool(processes) as pool:
        # A pool starts processes that die while they start again and again, for ever.
        pool.apply_async(int).get(START_SECONDS_MAX)
        yield from pool.imap_unordered(work, jobs)


def _pool(processes: int) -> Pool:
    """Processes that leave an interrupt to this one, also while they start: they inherit that."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return get_context("spawn").Pool(processes, _collect_garbage_seldom)
    finally:
        signal.signal(signal.SIGINT, handler)


def _collect_garbage_seldom() -> None:
    """Worlds make many values that live long, and few cycles: the usual search for them takes a
    tenth of the time.
    """
    gc.set_threshold(50_000, 20, 20)
