"""Lives under faults, crashes and stalls end exact."""

from __future__ import annotations

import pytest

from tests.faults.scenarios import PARTS, SEEDS, Scenarios

pytestmark = pytest.mark.engine


def seed_of_a_life(seed: int) -> object:
    """One life is enough for a change; the matrix of the proof looks at all of them."""
    return pytest.param(seed, marks=() if seed == 0 else pytest.mark.proof)


@pytest.mark.parametrize("seed", [seed_of_a_life(seed) for seed in SEEDS])
def test_a_busy_life_under_faults_ends_exact(scenarios: Scenarios, seed: int) -> None:
    result = scenarios.busy(seed)
    assert result.strikes.total() > 50
    assert not result.problems


@pytest.mark.parametrize(
    "function",
    ["DynamoWriterNotes.note_received", "DynamoWriterNotes.clear_received", "SqsQueue._delete"],
)
def test_the_life_that_crashes_anywhere_has_writers_that_die(
    scenarios: Scenarios, function: str
) -> None:
    assert any(f":{function} " in site for site in scenarios.reference().sites)


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_anywhere_is_repaired_by_the_next_runs(scenarios: Scenarios, part: int) -> None:
    result = scenarios.crashes(part)
    assert result.lives >= 3
    assert not result.problems


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_a_reply_lost_anywhere_does_no_harm(scenarios: Scenarios, part: int) -> None:
    result = scenarios.lost_replies(part)
    assert result.strikes.total() >= 6
    assert not result.problems


@pytest.mark.parametrize("part", range(PARTS))
def test_a_function_that_sleeps_through_a_life_does_no_harm(
    scenarios: Scenarios, part: int
) -> None:
    result = scenarios.stalls(part)
    assert result.lives >= 2
    assert not result.problems
