"""A bug's error is a violation, also where nobody awaits it and where a function survives it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallyroll.errors import StoreError, Unknown
from tallyroll.lifecycle.roller import Roller
from tallyroll.model.states import Window
from tallyroll.operations.probe.history import ReadRule
from tests.simulation import planted_reads
from tests.simulation.pipeline import simulate
from tests.simulation.wires import judged
from tests.simulation.world import Group, Violation, World


def run_alone(error: Exception) -> None:
    """A function fails after it was given up."""
    world = World(1, 0)

    def body() -> None:
        with judged(world):
            raise error

    world.spawn("writer1", body, Group("writer1"))
    world.run()


def test_an_error_that_nobody_awaits() -> None:
    with pytest.raises(Violation, match="writer1 raised KeyError"):
        run_alone(KeyError("bug"))


@pytest.mark.parametrize("error", [StoreError("port"), Unknown("port")])
def test_a_port_may_fail(error: StoreError) -> None:
    run_alone(error)


def test_an_error_that_a_roller_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    def shut(_roller: Roller, window: Window) -> None:
        raise KeyError(window.id)

    monkeypatch.setattr(Roller, "_shut", shut)
    violation = simulate(1).violation
    assert violation
    assert "raised and went on" in violation
    assert "unexpected: KeyError" in violation


@pytest.mark.parametrize(
    ("bug", "seed", "rule"),
    [
        (planted_reads.largest_keys_of_all_buckets_but_one, 1, ReadRule.BELOW),
        (planted_reads.largest_keys_by_an_old_sum, 0, ReadRule.TORN),
    ],
)
def test_a_bug_that_the_history_alone_finds(
    bug: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    rule: ReadRule,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug(monkeypatch)
    violation = simulate(seed).violation
    assert violation
    assert violation.startswith(f"history: {rule}: ")
