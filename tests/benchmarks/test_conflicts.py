"""The model of conflicts: its formula against its simulation, and both against `commits.after`."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from benchmarks.conflicts import (
    Load,
    mean_wait_ms,
    of_deployments,
    of_gates,
    of_tables,
    of_times,
    simulated,
    solved,
    units_each,
)
from tallyroll.ingest.transactions import Commit, after
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.settings import Settings
from tests.harness.pipeline import record_with, spec_of


@pytest.mark.parametrize(
    "load",
    [
        Load(8, 256, 32),
        Load(40, 16, 1_000),
        Load(100, 32, 400),
        Load(100, 800, 400),
        Load(200, 64, 800, transaction_ms=50),
    ],
    ids=str,
)
def test_the_formula_agrees_with_the_simulation(load: Load) -> None:
    formula, played = solved(load), simulated(load, warm_up_ms=8_000, counted_ms=6_000)
    assert formula.share == pytest.approx(played.share, abs=0.02)
    assert formula.on_gates == pytest.approx(played.on_gates, abs=0.02)
    assert formula.at_once == pytest.approx(played.at_once, rel=0.05)


def test_a_simulation_follows_from_its_seed() -> None:
    load = Load(40, 64, 160)
    first, again, other = (simulated(load, seed, 200, 500) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("tried", [0, 1, 5, 10, 20])
def test_the_mean_wait_is_that_of_the_writer(tried: int) -> None:
    commit = Commit(spec_of(), (record_with("e"),), attempt=tried)
    fine = (Element(Answer.FINE),)
    outcome = Outcome(Verdict.CANCELLED, fine, fine, gate_contended=True)
    chance, times = random.Random(1), 4_000
    waits = [
        after(commit, outcome, 0, 1_000_000, chance).commits[0].not_before for _ in range(times)
    ]
    assert sum(waits) / times == pytest.approx(mean_wait_ms(tried), rel=0.05)


def test_who_is_alone_meets_nobody() -> None:
    alone = solved(Load(1, 4, 8))
    assert alone.share == pytest.approx(0, abs=1e-9)
    assert alone.attempts == pytest.approx(1)


def test_more_gates_mean_fewer_conflicts_and_longer_transactions_more() -> None:
    by_gates = [solved(Load(800, gates, 3_200)).share for gates in (256, 1_024, 4_096, 16_384)]
    assert all(more > fewer for more, fewer in pairwise(by_gates))
    by_time = [solved(Load(800, 256, 3_200, ms)).share for ms in (5, 20, 80)]
    assert all(short < long for short, long in pairwise(by_time))


def test_the_tables() -> None:
    for rows in (of_deployments(), of_times(), of_gates(), of_tables()):
        assert len({len(row) for row in rows}) == 1
        assert len(rows) > 3
    assert units_each() == pytest.approx(2.04, abs=0.01)


def test_what_the_gates_of_a_window_cost() -> None:
    """Each is put in a transaction at two units and shut at one; 99 share the check of a state."""
    [_, row] = of_gates([Settings().gates])
    assert row[:2] == ("256", f"{256 * 3 + 3 * 2}")
    assert row[3] == "3"
