"""Each step of the real functions is an action of the model, and a mistake that only this shows is
found where it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.model.words import CALLS
from tests.simulation import planted_steps as bugs
from tests.simulation.lanes import NEARBY_SEEDS
from tests.simulation.model_calls import MAPPED, mark_of
from tests.simulation.model_steps import UNMAPPED
from tests.simulation.operator_steps import OperatorSteps
from tests.simulation.pipeline import System, simulate
from tests.simulation.planted import UNASKED
from tests.simulation.retraction_steps import RetractingSteps
from tests.simulation.world import Violation

LOST = {"unanswered": 0.05, "crash": 0}
Bug = Callable[[pytest.MonkeyPatch], None]
# Each with a seed in which it breaks no promise, and how far the path is that is not allowed.
PLANTED: Sequence[Any] = (
    (bugs.claim_not_read_anew, 34, {}, "the writer of a commits in window 0: committed"),
    (bugs.lost_answer_taken_for_success, 40, {}, "the writer of a acknowledges it"),
    (bugs.claim_not_read_again, 7, {}, "the writer of a rejects it: nothing-to-retract"),
    (bugs.retraction_answer_guessed, 8, LOST, "the writer of a acknowledges it"),
    (
        *(bugs.record_read_before_the_tombstone, 7, {}),
        "the writer of a reads the state of window 0: dropping",
    ),
    (bugs.sent_without_a_claim, 2, {}, "the operator sends a again, redriven to window 2"),
    pytest.param(
        *(bugs.identity_read_before_the_state, 20, {}),
        "the writer of a commits in window 0: gate missing",
        marks=pytest.mark.proof,
    ),
    pytest.param(
        *(bugs.state_not_read_again, 30, UNASKED),
        "the writer of a reads the record in window 0: absent",
        marks=pytest.mark.proof,
    ),
)


@pytest.mark.parametrize(("bug", "seed", "weather", "path"), PLANTED)
def test_what_breaks_no_promise_yet_is_found(
    bug: Bug, seed: int, weather: Mapping[str, Any], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one of the seeds from this one on: a changed order of calls moves it."""
    bug(monkeypatch)

    def is_found_alone(near: int) -> bool:
        found = simulate(near, **weather).violation or ""
        if not found.startswith(f"model: seed {near}: ") or path not in found:
            return False
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(System, "modelled", False)
            return not simulate(near, **weather).violation

    assert any(map(is_found_alone, range(seed, seed + NEARBY_SEEDS)))


def test_the_comparison_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = simulate(38)
    monkeypatch.setattr(System, "modelled", False)
    alone = simulate(38)
    assert alone.trace == compared.trace
    assert not any(alone.marks[mark_of(call)] for call in MAPPED)


def test_every_mapped_action_is_taken() -> None:
    met = simulate(7).marks + simulate(31).marks
    rare = "make table late"  # a roller sleeps so long in `test_marks.py`
    assert [call for call in MAPPED if not met[mark_of(call)]] == [rare]


def test_every_mapped_action_is_one_of_the_model() -> None:
    assert [call for call in MAPPED if call not in CALLS] == []


@pytest.mark.parametrize("steps", [RetractingSteps, OperatorSteps])
def test_a_verb_that_is_in_no_table_is_found(steps: Any) -> None:
    system = System(0)
    found = steps(system, *([0] if steps is OperatorSteps else []))
    assert not UNMAPPED.keys() & found.mapped
    with pytest.raises(Violation, match="the verb windows is in no table"):
        _ = found.outside(system.catalog).windows
