"""Wishes under faults: a key gets what was wished for it, through deaths and lost answers."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.adapters.dynamodb.wishes import DynamoWishes
from tallyroll.model.states import Wishes
from tests.faults.injector import GOES_WELL, Blow
from tests.faults.kinds import Kind
from tests.faults.plans import At, crash
from tests.faults.scenarios import WISH, Scenarios

pytestmark = pytest.mark.engine


def test_its_put_has_no_answer(scenarios: Scenarios) -> None:
    """The matrix has every other fault."""
    result = scenarios.wish_under(Kind.REPLY_LOST)
    assert not result.problems
    assert result.strikes.total()


def test_the_operator_dies_after_each_put(scenarios: Scenarios) -> None:
    reference = At(0, GOES_WELL)
    assert not scenarios.wished("no fault", reference).problems
    points = [number for number, site in enumerate(reference.sites, 1) if site == WISH]
    assert len(points) == 3
    for number in points:
        plan = At(number, Blow(after=crash))
        assert not scenarios.wished(f"crash at {number}", plan).problems


def test_a_wish_that_is_not_put_is_found(
    scenarios: Scenarios, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgets(self: Any, read: Wishes, wanted: Any) -> Wishes:
        return Wishes(wanted, read.version + 1)

    monkeypatch.setattr(DynamoWishes, "put_wishes", forgets)
    problems = scenarios.wished("forgotten", At(0, GOES_WELL)).problems
    assert any("is frozen with {}" in each for each in problems)
