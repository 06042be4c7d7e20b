"""Events of several keys under faults: every counter of an event, or none."""

from __future__ import annotations

import pytest

from tests.faults.injector import GOES_WELL, Blow, Plan
from tests.faults.kinds import RULES, Kind
from tests.faults.lives import FANNED, fanned_life
from tests.faults.plans import At, LostReplies, Only, crash
from tests.faults.results import Result
from tests.faults.scenarios import PIPELINE, Scenarios
from tests.faults.test_planted import COMMIT

pytestmark = pytest.mark.engine


def lived(scenarios: Scenarios, name: str, plan: Plan) -> Result:
    # Without a write rate: a lease before each commit would let every second reply be a commit's.
    return scenarios._live(name, 0, plan, fanned_life, mapping=FANNED, write_rate=0, **PIPELINE)


@pytest.mark.parametrize("kind", RULES["TransactWriteItems"])
def test_any_fault_of_a_commit(scenarios: Scenarios, kind: Kind) -> None:
    result = lived(scenarios, kind, Only(COMMIT, kind))
    assert not result.problems
    assert result.strikes.total()


def test_lost_replies(scenarios: Scenarios) -> None:
    result = lived(scenarios, "lost replies", LostReplies(0, 2))
    assert not result.problems
    assert result.strikes.total() >= 6


def test_a_writer_dies_before_and_after_each_commit(scenarios: Scenarios) -> None:
    reference = At(0, GOES_WELL)
    assert not lived(scenarios, "no fault", reference).problems
    commits = [number for number, site in enumerate(reference.sites, 1) if site == COMMIT]
    assert len(commits) == 3  # the events, and the conflict, twice; what counted is remembered
    for number in commits:
        for blow in (Blow(before=crash), Blow(after=crash)):
            assert not lived(scenarios, f"crash at {number}", At(number, blow)).problems
