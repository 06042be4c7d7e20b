from __future__ import annotations

import pytest

from tallyroll.errors import ProofMismatch, StateConflict, Throttled
from tallyroll.lifecycle.runner import Rolled, carry_out
from tallyroll.lifecycle.state_machine import Step, WindowFacts
from tallyroll.model.states import Status, Window
from tallyroll.ports.table_listing import TableStatus
from tests.harness.pipeline import HOUR, NOW, SMALL, START, WINDOW, StillEffects

CREATING = Window(WINDOW, f"tallyroll-{WINDOW}", START, START + HOUR)
READY = WindowFacts(table=TableStatus.ACTIVE)
EVERY = frozenset(Step)


def carried(
    perform: object, facts: WindowFacts = READY, deadline: int = NOW + 1
) -> tuple[Window, Rolled]:
    rolled = Rolled()
    window = carry_out(
        CREATING,
        EVERY,
        lambda window: facts,
        perform,  # type: ignore[arg-type]
        StillEffects(),
        SMALL,
        deadline,
        rolled,
    )
    return window, rolled


def failing(error: Exception) -> object:
    def perform(step: Step, window: Window) -> Window:
        raise error

    return perform


@pytest.mark.parametrize(
    ("error", "mismatches", "problem"),
    [
        (Throttled("slow down"), 0, "slow down"),
        (ProofMismatch(["a", "b"]), 1, "a; b"),
        (ProofMismatch(list("abcdefg")), 1, "a; b; c; d; e ..."),
    ],
)
def test_an_error_ends_this_windows_turn_only(
    error: Exception, mismatches: int, problem: str
) -> None:
    window, rolled = carried(failing(error))
    assert window is CREATING
    assert rolled.problems == [f"window {WINDOW} (creating): {problem}"]
    assert (rolled.mismatches, rolled.steps) == (mismatches, {})


def test_a_faster_run_is_no_problem() -> None:
    assert carried(failing(StateConflict("other"))) == (CREATING, Rolled())


def test_what_nobody_expects_is_told_and_keeps_no_other_window_from_its_turn() -> None:
    window, rolled = carried(failing(ZeroDivisionError("oops")))
    assert window is CREATING
    assert rolled.problems == [f"window {WINDOW} (creating): unexpected: ZeroDivisionError('oops')"]


def test_a_step_that_is_still_due_after_it_was_done_goes_on_in_a_later_run() -> None:
    window, rolled = carried(lambda step, window: window)
    assert (window, rolled.steps) == (CREATING, {Step.CHECK_TABLE: 1})


def test_without_time_nothing_is_begun() -> None:
    assert carried(failing(AssertionError()), deadline=NOW) == (CREATING, Rolled())


def test_nothing_due() -> None:
    assert carried(failing(AssertionError()), WindowFacts(TableStatus.DELETING)) == (
        CREATING,
        Rolled(),
    )


def test_sealed_states() -> None:
    unsealed = {Status.CREATING, Status.OPEN, Status.CLOSING}
    assert {status for status in Status if not status.sealed} == unsealed
