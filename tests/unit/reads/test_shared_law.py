"""Answers of processes that share a cache never go back, and none is older than counts are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Grid
from tallyroll.reads.counting import flights
from tallyroll.reads.counting.flights import KeptCounts
from tallyroll.reads.counting.shared import Asked, SharedCounts
from tallyroll.reads.counts import Count
from tests.harness.pipeline import START, TIME_LEFT, StillEffects
from tests.harness.shared_cache import HeldCache

KEPT_MS = 5_000
A: Asked = ("a", None, None, False)
RUNS, STEPS, SKEW_MS = 60, 60, 50


class World:
    """Three processes that count a key of two stripes, whose events come meanwhile. Their clocks
    differ by less than `SKEW_MS` if they are `skewed`. Reads overlap, puts come late.
    """

    def __init__(self, seed: int, *, skewed: bool) -> None:
        self.random, self.effects = Random(seed), StillEffects()
        self.stripes = [0, 0]
        self.came: list[int] = []
        self.cache = HeldCache(self.effects)
        self.skewed = skewed
        catalog = MemoryCatalog()
        catalog.found(Calendar(Grid.of(3600), START, secret="5" * 64))
        self.clocks = [self._clock() for _ in range(3)]
        self.processes = [
            KeptCounts(KEPT_MS, now, SharedCounts(self.cache, catalog, now, KEPT_MS, 60_000))
            for now in self.clocks
        ]
        self.last = [(0, 0)] * 3
        self.busy: set[int] = set()
        self.wrong = ""

    def _clock(self) -> Callable[[], int]:
        ahead = self.random.randrange(SKEW_MS) if self.skewed else 0
        return lambda: self.effects.now() + ahead

    def step(self) -> None:
        """Time passes, an event may come, a put may come, and a process that is idle answers."""
        random = self.random
        self.effects.pass_by(random.choice([0, 1, 20, 300, KEPT_MS // 2, KEPT_MS - 1]))
        if random.random() < 0.5:
            self.stripes[random.randrange(2)] += 1
            self.came.append(self.effects.now())
        self.cache.holding = random.random() < 0.5
        if random.random() < 0.3:
            self.cache.release()
        idle = sorted({0, 1, 2} - self.busy)
        if idle:
            self.ask(random.choice(idle))

    def ask(self, who: int) -> None:
        """A process answers; what is wrong with the answer is noted."""

        def read(asked: Sequence[Asked]) -> dict[Asked, Count]:
            began, seen = self.clocks[who](), [0, 0]
            for stripe in self.random.sample([0, 1], 2):
                if self.random.random() < 0.4:
                    self.step()
                seen[stripe] = self.stripes[stripe]
            why = {} if self.random.random() < 0.8 else {"w": "no time left"}
            return {each: Count("a", sum(seen), 1_000 * seen[0], (), began, why) for each in asked}

        self.busy.add(who)
        began = self.effects.now()
        count = self.processes[who].counts([A], read, TIME_LEFT)[A]
        self.busy.remove(who)
        first = count.amount // 1_000
        seen = (count.events, 0) if self.skewed else (first, count.events - first)
        if min(now - before for now, before in zip(seen, self.last[who], strict=True)) < 0:
            self.wrong = "an answer went back"
        self.last[who] = seen
        if count.events < sum(at <= began - KEPT_MS - SKEW_MS * self.skewed for at in self.came):
            self.wrong = "an answer is too old"


def first_wrong(*, skewed: bool) -> str:
    """What is wrong in the first run in which something is; "" if nothing is in any."""
    for seed in range(RUNS):
        world = World(seed, skewed=skewed)
        for _ in range(STEPS):
            world.step()
        if world.wrong:
            return f"{world.wrong}, in run {seed}"
    return ""


@pytest.mark.parametrize("skewed", [False, True])
def test_answers_of_a_process_never_go_back_nor_are_they_too_old(skewed: bool) -> None:
    assert first_wrong(skewed=skewed) == ""


def whatever(*_: object) -> bool:
    return True


def without_the_order(kept: KeptCounts, _: Asked, count: Count) -> bool:
    return kept._is_fresh(count, kept._now())


def by_the_begins(kept: KeptCounts, asked: Asked, count: Count) -> bool:
    """An entry is taken if its read began after that of the last answer."""
    last = kept._counts.get(asked)
    return without_the_order(kept, asked, count) and (last is None or count.as_of >= last.as_of)


@pytest.mark.parametrize("mistake", [whatever, without_the_order, by_the_begins])
def test_entries_that_are_taken_without_a_look_at_their_time_are_found(
    mistake: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeptCounts, "_may_take", mistake)
    assert first_wrong(skewed=False)


def test_where_clocks_differ_the_times_alone_do_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "_sets", lambda _: (0, 0))
    assert first_wrong(skewed=True)


def test_a_clock_that_was_set_back_asks_nobody() -> None:
    world = World(1, skewed=False)
    world.random = Random(0)
    first, other, _ = world.processes

    def answer(process: KeptCounts, events: int) -> Count:
        count = Count("a", events, 0, (), world.effects.now())
        return process.counts([A], lambda _: {A: count}, TIME_LEFT)[A]

    answer(first, 1)
    world.cache.entries.clear()
    world.effects.pass_by(-1_000)
    assert answer(other, 1).source == "read"
    assert world.cache.entries
    assert answer(first, 2).events == 2
