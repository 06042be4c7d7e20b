"""Logs under faults: each plain event counts once, through deaths and reads without an answer."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.ingest import appending
from tallyroll.logs.slots import Slot, SlotStep, next_step
from tests.faults.injector import GOES_WELL, Blow
from tests.faults.kinds import Kind
from tests.faults.plans import At, crash
from tests.faults.scenarios import COMMIT, Scenarios

pytestmark = pytest.mark.engine


def test_the_first_read_of_a_slot_has_no_answer(scenarios: Scenarios) -> None:
    """The matrix has every other fault."""
    result = scenarios.log_under(Kind.REPLY_LOST)
    assert not result.problems
    assert result.strikes.total()


def test_a_writer_dies_after_its_leaf_is_put(scenarios: Scenarios) -> None:
    reference = At(0, GOES_WELL)
    assert not scenarios.logged("no fault", reference).problems
    number = [at for at, site in enumerate(reference.sites, 1) if site == COMMIT][2]
    assert not scenarios.logged("crash", At(number, Blow(after=crash))).problems


def test_an_entry_that_is_put_twice_is_found(
    scenarios: Scenarios, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgets(slot: Slot, *given: Any) -> SlotStep:
        return next_step(Slot({}, slot.free, ended=slot.ended), *given)

    monkeypatch.setattr(appending, "next_step", forgets)
    assert scenarios.logged("forgotten", At(0, GOES_WELL)).problems
