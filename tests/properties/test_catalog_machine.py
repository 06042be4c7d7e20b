"""The catalog under runs of roller, cleanup and writers that stop, crash and interleave anywhere.

Slow tables, lost replies, past windows opened on purpose, other window lengths: whatever the order,
states only move forward, no window is left out, no table goes before its proof, and in the end
every window that is over is dropped and counted exactly.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tallyroll.lifecycle.roller import Roller
from tallyroll.model.states import Status, Window
from tests.harness.pipeline import MINUTE, SECOND
from tests.properties.catalog_world import Order, Run, World
from tests.tiers import examples

RUNS_MAX = 3
kinds = st.sampled_from(["roller", "roller", "cleanup", "dropper"])
orders = st.sampled_from([Order.GO_ON] * 2 + list(Order))
calls_made = st.integers(0, 14) | st.integers(0, 60)
steps_ms = st.sampled_from([SECOND, 40 * SECOND, MINUTE, 5 * MINUTE, 20 * MINUTE])
lengths = st.sampled_from([300, 600, 900, 1_200])


class Catalogs(RuleBasedStateMachine):
    """Any order of events in the life of a pipeline."""

    world: World

    @initialize(
        creating_ms=st.sampled_from([0, 20 * SECOND, 3 * MINUTE]),
        deleting_ms=st.sampled_from([0, 40 * SECOND, 3 * MINUTE]),
    )
    def found(self, creating_ms: int, deleting_ms: int) -> None:
        self.world = World(creating_ms, deleting_ms)

    @rule(times=st.integers(1, 6), ms=steps_ms)
    def schedules_run(self, times: int, ms: int) -> None:
        for _ in range(times):
            self.world.effects.pass_by(ms)
            self.world.roll()
            self.world.check()
            self.world.clean()
            self.world.check()

    @rule(
        kind=kinds,
        ms=steps_ms,
        calls=calls_made,
        order=orders,
        times=st.integers(1, 6),
        later_ms=steps_ms,
    )
    def a_run_is_overtaken(
        self, kind: str, ms: int, calls: int, order: Order, times: int, later_ms: int
    ) -> None:
        """It stops before some call, others run, and it goes on as if they had not."""
        run = self._stopped(kind, ms, calls)
        self.schedules_run(times, later_ms)
        self._goes_on(run, order)

    @rule(ms=steps_ms, calls=st.integers(0, 14), order=orders, back=st.integers(1, 5))
    def a_past_window_is_opened_meanwhile(
        self, ms: int, calls: int, order: Order, back: int
    ) -> None:
        run = self._stopped("roller", ms, calls)
        self.world.open_past(back)
        self._goes_on(run, order)

    @rule(ms=steps_ms, calls=st.integers(0, 14), order=orders, window_seconds=lengths)
    def another_length_is_wished_meanwhile(
        self, ms: int, calls: int, order: Order, window_seconds: int
    ) -> None:
        run = self._stopped("roller", ms, calls)
        self.world.deploy(window_seconds)
        self._let(self.world.begin("roller"), 10_000)
        self._goes_on(run, order)

    def _stopped(self, kind: str, ms: int, calls: int) -> Run:
        self.world.effects.pass_by(ms)
        run = self.world.begin(kind)
        self._let(run, calls)
        return run

    def _goes_on(self, run: Run, order: Order) -> None:
        self._let(run, 1, order)
        self._let(run, 10_000)

    @precondition(lambda self: len(self.world.runs) < RUNS_MAX)
    @rule(kind=kinds, calls=calls_made)
    def a_run_stalls(self, kind: str, calls: int) -> None:
        self._let(self.world.begin(kind), calls)

    @precondition(lambda self: self.world.runs)
    @rule(number=st.integers(0, RUNS_MAX - 1), order=orders, calls=calls_made)
    def a_stalled_run_goes_on(self, number: int, order: Order, calls: int) -> None:
        run = self.world.runs[number % len(self.world.runs)]
        self._let(run, 1, order)
        self._let(run, calls)

    def _let(self, run: Run, calls: int, order: Order = Order.GO_ON) -> None:
        for _ in range(calls):
            if run not in self.world.runs:
                return
            self.world.tell(run, order)
            self.world.check()

    @rule(key=st.sampled_from("ab"), back=st.sampled_from([0, 30 * SECOND, 12 * MINUTE]))
    def an_event_is_written(self, key: str, back: int) -> None:
        self.world.write(self.world.message(key, back))

    @precondition(lambda self: len(self.world.runs) < RUNS_MAX)
    @rule(key=st.sampled_from("ab"), calls=st.integers(0, 6))
    def a_writer_stalls(self, key: str, calls: int) -> None:
        self._let(self.world.begin_write(self.world.message(key, 0)), calls)

    @precondition(lambda self: self.world.sent)
    @rule(number=st.integers(0, 20))
    def an_event_comes_again(self, number: int) -> None:
        self.world.write(self.world.sent[number % len(self.world.sent)])

    @rule(window_seconds=lengths, everywhere=st.booleans())
    def another_length_is_wished(self, window_seconds: int, everywhere: bool) -> None:
        self.world.deploy(window_seconds, everywhere=everywhere)

    @invariant()
    def what_must_hold(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        """Whatever happened: undisturbed runs bring every window that is over to its end."""
        if not hasattr(self, "world"):
            return
        self.world.end()
        self.world.deploy(600, everywhere=True)
        over = self.world.effects.now()
        left: list[Window] = []
        for step in [MINUTE] * 10 + [5 * MINUTE] * 20 + [120 * MINUTE] * 20:
            self.schedules_run(1, step)
            windows = self.world.catalog.windows(0, over)
            left = [w for w in windows if w.end <= over and w.status is not Status.DROPPED]
            if not left:
                break
        assert not left


TestCatalogs = Catalogs.TestCase
TestCatalogs.settings = settings(
    max_examples=examples(50),
    stateful_step_count=30,
    # Shrinking a failure takes longer than a test may (`faulthandler_timeout`).
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def test_an_error_that_a_run_survives_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(_roller: Roller, window: Window, *_: object) -> Window:
        raise KeyError(window.id)

    monkeypatch.setattr(Roller, "_open", opening)
    world = World(0, 0)
    world.roll()
    with pytest.raises(AssertionError, match="unexpected: KeyError"):
        world.check()
