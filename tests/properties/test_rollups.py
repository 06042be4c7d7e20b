"""Counts stay exact, whatever happens between any two of a reader's calls.

Readers, two rollers, and a hand that writes events, opens windows of the past, seals and drops,
take turns at every call of a port, as the schedule has it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations_with_replacement, count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyroll.lifecycle import rollups
from tallyroll.lifecycle.rollups import RollUps
from tallyroll.lifecycle.runner import Rolled
from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.records import Increment
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import table_name, window_id, window_start
from tallyroll.ports.store import Verdict
from tallyroll.reads.reader import PortReader
from tests.harness.pipeline import HOUR, SMALL, TIME_LEFT, Pipeline, StillEffects, record_with
from tests.tiers import examples

DAY = 24 * HOUR
FIRST = window_start("20261129T000000Z")  # the last two days of a month, and one of the next
NOW = FIRST + 40 * DAY
LENGTH = 12 * HOUR
KEY = "k"
AT_FIRST = 1_000  # events of each window: no small number of others makes up for one of them
SETTINGS = replace(SMALL, cache_live_ms=0, gates=1, buckets=2)


class Turns:
    """Runs threads one at a time; the schedule chooses at every call of a port who goes on."""

    def __init__(self, schedule: list[int]) -> None:
        self._schedule = iter(schedule)
        self._back = threading.Semaphore(0)
        self._errors: list[BaseException] = []
        self._mine = threading.local()

    def run(self, *actors: Callable[[], object]) -> None:
        """Run the actors to their ends. Raises what the first of them raised."""
        alive = []
        for actor in actors:
            go = threading.Semaphore(0)
            thread = threading.Thread(target=self._live, args=(actor, go), daemon=True)
            alive.append((thread, go))
            thread.start()
        while alive and not self._errors:
            thread, go = alive[next(self._schedule, 0) % len(alive)]
            go.release()
            self._back.acquire()
            alive = [(each, its) for each, its in alive if not getattr(each, "ended", False)]
        if self._errors:
            raise self._errors[0]

    def _live(self, actor: Callable[[], object], go: threading.Semaphore) -> None:
        self._mine.go = go
        go.acquire()
        try:
            actor()
        except BaseException as error:  # noqa: BLE001  (given to the test's own thread)
            self._errors.append(error)
        threading.current_thread().ended = True  # type: ignore[attr-defined]
        self._back.release()

    def switch(self) -> None:
        """Let others go on; the test's own thread has no others."""
        go = getattr(self._mine, "go", None)
        if go is not None:
            self._back.release()
            go.acquire()


class Moments:
    """What happens at some of the calls that ports get, by their numbers."""

    def __init__(self, happens: dict[int, Callable[[], object]]) -> None:
        self._happens = happens
        self.calls = 0
        self._quiet = True

    def watch(self) -> None:
        """Count calls from now on."""
        self._quiet = False

    def switch(self) -> None:
        """Let happen what is due now; the calls of that are not counted."""
        if self._quiet:
            return
        happens = self._happens.pop(self.calls, None)
        self.calls += 1
        if happens:
            self._quiet = True
            happens()
            self._quiet = False


class Port:
    """A port, every call of which, and every page of a listing, is a turn."""

    def __init__(self, port: object, turns: Turns | Moments) -> None:
        self._port = port
        self._turns = turns

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._port, verb)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._turns.switch()
            answer = found(*args, **named)
            return self._pages(answer) if isinstance(answer, Iterator) else answer

        return call

    def _pages(self, pages: Iterator[Any]) -> Iterator[Any]:
        for page in pages:
            yield page
            self._turns.switch()


class Hands:
    """The pipeline, and what happens to its windows besides reading and rolling up."""

    def __init__(self, turns: Turns | Moments) -> None:
        self.pipeline = Pipeline(SETTINGS, StillEffects(NOW))
        self.truth = 0
        self.store: Any = Port(self.pipeline.store, turns)
        self.catalog = Port(self.pipeline.catalog, turns)
        self.totals = Port(self.pipeline.totals, turns)
        self._numbers = count(1)

    def open(self, slot: int) -> Window:
        """Create the window of a place in time, and count many events in it."""
        start = FIRST + slot * LENGTH
        name = window_id(start)
        window = Window(name, table_name("t", name), start, start + LENGTH)
        self.catalog.create(window)
        self.store.make_table(window.table, {})
        spec = self.pipeline.catalog.put_spec(freeze(window, SETTINGS))
        self.pipeline.store.open_gates(spec)
        opened: Window = self.catalog.advance(replace(window, status=Status.OPEN))
        self.add(opened, AT_FIRST)
        return opened

    def add(self, window: Window, n: int = 1) -> None:
        """Count events."""
        [spec] = self.pipeline.catalog.specs([window.id]).values()
        record = record_with(f"e{next(self._numbers)}", shard=1, size=100)
        outcome = self.store.commit(spec, [record], [Increment(KEY, n, n, ((0, n),))])
        assert outcome.verdict is Verdict.COMMITTED
        self.truth += n

    def seal(self, window: Window) -> Window:
        """Close and seal a window."""
        window = self.catalog.advance(replace(window, status=Status.CLOSING))
        [spec] = self.catalog.specs([window.id]).values()
        self.store.shut_gates(spec)
        *_, last = seal(spec, self.store, self.totals, self.pipeline.effects, Sealing())
        assert last.done
        whole = replace(window, status=Status.SEALED, listed=LISTING_BUCKETS)
        sealed: Window = self.catalog.advance(whole)
        return sealed

    def drop(self, window: Window) -> None:
        """Drop a sealed window's table."""
        self.store.drop_table(window.table)
        self.catalog.advance(replace(window, status=Status.DROPPED))

    def roll(self) -> None:
        """One run of a roller's roll-ups."""
        rolled = Rolled()
        alive = self.pipeline.catalog.windows(0, 10**14)
        ports: Any = (self.catalog, self.totals, self.pipeline.effects)
        RollUps(*ports).run(alive, 10**15, rolled)
        assert not rolled.problems

    def read(self, since: int | None = None, until: int | None = None) -> int:
        """Read, and check that it is what was true at some time meanwhile."""
        ports: Any = (self.store, self.catalog, self.totals, self.pipeline.effects)
        before = self.truth
        answer = PortReader(SETTINGS, *ports).count(KEY, since, until, TIME_LEFT)
        assert answer.complete
        if since is until is None:
            assert before <= answer.events <= self.truth
        named = [window.window for window in answer.windows]
        assert len(set(named)) == len(named)
        return answer.events


@contextmanager
def small_slices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollups, "KEYS_PER_SLICE", 1)
        patch.setattr(rollups, "ROWS_HELD", 1)
        yield


SCHEDULES = st.lists(st.integers(0, 3), max_size=400)


@settings(max_examples=examples(80))
@given(schedule=SCHEDULES, rolled_before=st.booleans(), drops=st.booleans())
def test_a_count_is_true_at_some_time_while_it_is_read(
    schedule: list[int], rolled_before: bool, drops: bool
) -> None:
    turns = Turns(schedule)
    hands = Hands(turns)
    first = [hands.open(slot) for slot in (0, 1, 2, 4)]
    for window in first:
        hands.seal(window)
    live = hands.open(5)
    if rolled_before:
        hands.roll()

    def history() -> None:
        late = hands.open(3)
        hands.add(late)
        hands.add(live)
        late = hands.seal(late)
        sealed = hands.seal(live)
        if drops:
            hands.drop(late)
            hands.drop(sealed)

    def reads() -> None:
        seen = 0
        for _ in range(4):
            events = hands.read()
            assert events >= seen
            seen = events

    def rolls() -> None:
        for _ in range(3):
            hands.roll()

    with small_slices():
        turns.run(reads, rolls, history, rolls)
        hands.roll()
        hands.roll()
    assert hands.read() == hands.truth == 6 * AT_FIRST + 2
    states = hands.pipeline.catalog.periods("day#", "month#~")
    assert [state.name for state in states if state.complete] == [
        "day#20261129",
        "day#20261130",
        "day#20261201",
        "month#202611",
    ]


def test_a_window_of_the_past_comes_and_is_rolled_up_between_any_calls_of_a_reader() -> None:
    """It is created at one call, sealed and rolled up at another, dropped at a third."""
    calls = 9
    for created, sealed, dropped in combinations_with_replacement(range(calls + 1), 3):
        moments = Moments({})
        hands = Hands(moments)
        for slot in (0, 2, 3):
            hands.seal(hands.open(slot))
        hands.roll()
        late: list[Window] = []

        def create(hands: Hands = hands, late: list[Window] = late) -> None:
            late.append(hands.open(1))

        def seal_it(hands: Hands = hands, late: list[Window] = late) -> None:
            late[:] = [hands.seal(late[0])]
            hands.roll()
            hands.roll()

        def drop(hands: Hands = hands, late: list[Window] = late) -> None:
            hands.drop(late[0])

        for number, action in ((created, create), (sealed, seal_it), (dropped, drop)):
            before = moments._happens.get(number)
            moments._happens[number] = _both(before, action) if before else action
        moments.watch()
        events = [hands.read(), hands.read()]
        assert events[1] == hands.truth == 4 * AT_FIRST
        assert moments.calls >= calls


def _both(one: Callable[[], object], other: Callable[[], object]) -> Callable[[], object]:
    return lambda: (one(), other())


@settings(max_examples=examples(40))
@given(
    slots=st.sets(st.integers(0, 20), min_size=1, max_size=12),
    unsealed=st.sets(st.integers(0, 20)),
    bounds=st.tuples(st.integers(0, 22), st.integers(1, 22)),
)
def test_every_range_is_the_sum_of_its_windows(
    slots: set[int], unsealed: set[int], bounds: tuple[int, int]
) -> None:
    hands = Hands(Turns([]))
    truth = {}
    for slot in sorted(slots):
        window = hands.open(slot)
        hands.add(window, 2**slot)
        truth[slot] = AT_FIRST + 2**slot
        if slot not in unsealed:
            hands.seal(window)
    hands.roll()
    hands.roll()
    begin, end = bounds[0], bounds[0] + bounds[1]
    for since, until in ((begin, end), (None, end), (begin, None), (None, None)):
        wanted = sum(
            n
            for slot, n in truth.items()
            if (since or 0) <= slot < (99 if until is None else until)
        )
        assert wanted == hands.read(
            None if since is None else FIRST + since * LENGTH,
            None if until is None else FIRST + until * LENGTH,
        )
