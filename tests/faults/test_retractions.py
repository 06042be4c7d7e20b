"""Retractions under faults: an event is taken back once, whoever dies or gets no answer."""

from __future__ import annotations

import pytest

from tallyroll.operations.retraction.desk import RetractionDesk
from tests.faults.injector import GOES_WELL, Blow
from tests.faults.kinds import RULES, Kind
from tests.faults.plans import At, LostReplies, Only, crash
from tests.faults.scenarios import RETRACT, Scenarios

pytestmark = pytest.mark.engine

AUTHORIZE = "adapters/dynamodb/ledger.py:DynamoLedger.authorize PutItem"
SEND = "adapters/aws/sqs.py:send_batch SendMessageBatch"


@pytest.mark.parametrize(
    ("site", "kind"),
    [(site, kind) for site in (AUTHORIZE, SEND) for kind in RULES[site.split()[1]]],
)
def test_any_fault_of_its_writes(scenarios: Scenarios, site: str, kind: Kind) -> None:
    result = scenarios.retracted(f"{site} {kind}", Only(site, kind))
    assert not result.problems
    assert result.strikes.total()


@pytest.mark.parametrize("kind", RULES["TransactWriteItems"])
def test_any_fault_of_its_transaction(scenarios: Scenarios, kind: Kind) -> None:
    result = scenarios.retract_under(kind)
    assert not result.problems
    assert result.strikes.total()


def test_a_command_that_sends_without_authorizing_is_found(
    scenarios: Scenarios, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetractionDesk, "authorize", lambda *_: None)
    problems = scenarios.retracted("never authorized", At(0, GOES_WELL)).problems
    assert any("a retraction is sent of what was retracted already" in each for each in problems)


@pytest.mark.parametrize("part", [0, 1])
def test_lost_replies(scenarios: Scenarios, part: int) -> None:
    result = scenarios.retracted("lost replies", LostReplies(part, 2))
    assert not result.problems
    assert result.strikes.total() >= 6


def test_the_writer_or_the_operator_dies_before_and_after_each_of_its_writes(
    scenarios: Scenarios,
) -> None:
    reference = At(0, GOES_WELL)
    assert not scenarios.retracted("no fault", reference).problems
    writes = {RETRACT, AUTHORIZE, SEND}
    points = [number for number, site in enumerate(reference.sites, 1) if site in writes]
    assert {reference.sites[number - 1] for number in points} == writes
    for number in points:
        for blow in (Blow(before=crash), Blow(after=crash)):
            assert not scenarios.retracted(f"crash at {number}", At(number, blow)).problems
