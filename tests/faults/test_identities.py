"""Ids that count once in the pipeline, under every fault of the reads that look them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tallyroll.ingest.batch_messages import BatchMessage
from tallyroll.ingest.stored_events import StoredEvents
from tests.faults.exactness import Ledger, letters
from tests.faults.injector import GOES_WELL, Blow, Call
from tests.faults.kinds import RULES, Kind
from tests.faults.lives import (
    LATER,
    LATER_WINDOW,
    LOOK_MS,
    NOW_WINDOW,
    event,
    is_,
    queue_empty,
    turns,
)
from tests.faults.scenarios import PIPELINE, Scenarios
from tests.faults.test_planted import BATCH_GET, bend, without
from tests.faults.wire import params_of
from tests.faults.world import BEGIN, World
from tests.harness.pipeline import SECOND

pytestmark = pytest.mark.engine
OF_IDENTITIES = "-identities"
# The first needs no second try, the next four are all tries of a read, the last is an answer.
INTO_ACCOUNT = (
    Kind.UNPROCESSED,
    Kind.NOT_ARRIVED,
    Kind.REPLY_LOST,
    Kind.RESET,
    Kind.ERROR,
    Kind.ERROR_APPLIED,
    Kind.THROTTLED,
    Kind.SLOW,
)


@dataclass
class Reads:
    """Faults that strike the next reads of identities, and nothing else, each once."""

    left: list[Kind] = field(default_factory=list)

    def blow(self, call: Call, kinds: tuple[Kind, ...]) -> Blow:
        """The plan's word for a call."""
        if call.operation != "BatchGetItem" or not self.left:
            return GOES_WELL
        (table,) = params_of(call.request)["RequestItems"]
        if not table.endswith(OF_IDENTITIES):
            return GOES_WELL
        assert self.left[0] in kinds
        return Blow(self.left.pop(0))


def voting_life(world: World, ledger: Ledger, plan: Reads) -> None:
    """One vote, then another under its id; the vote again after its window; two letters of a late
    one, which are redriven. Every fault strikes the writer's reads, then the redrive's.
    """
    vote, late = event("ann", "v1", BEGIN), event("late", "v2", BEGIN)
    another = event("bob", "v1", BEGIN)
    ledger.expect(NOW_WINDOW, "ann")
    ledger.expect_letter(another, "id-conflict")
    ledger.expect(LATER_WINDOW, "late")
    turns(world, is_(world, "open", NOW_WINDOW), world.roll)
    for body in (vote, another):
        world.send(body)
        turns(world, lambda: queue_empty(world), world.poll)
    world.time.pass_by(LATER - world.time.now())
    world.publish_ages()
    turns(world, is_(world, "sealed", NOW_WINDOW), world.roll)
    turns(world, is_(world, "open", LATER_WINDOW), world.roll)
    world.time.pass_by(6 * SECOND)  # writers remember for 5 s that there was none

    plan.left = [*INTO_ACCOUNT]
    world.send(vote)
    turns(world, lambda: queue_empty(world), world.poll)
    ledger.problems += [f"no read of the writer's met {kind}" for kind in plan.left]

    world.send(late, late)
    turns(world, lambda: queue_empty(world), world.poll)
    found = letters(world)
    assert "too-late" in found[late]
    ledger.problems += [f"the copy of a vote is a letter: {found[vote]}"] if vote in found else ()
    plan.left = [*INTO_ACCOUNT]
    for _ in range(6):
        world.time.pass_by(LOOK_MS)
        if late not in letters(world):
            break
        world.time.pass_by(LOOK_MS)
        world.command("dlq", "redrive", "--reason", "too-late", "--to", LATER_WINDOW, "--yes")
    ledger.problems += [f"no read of the redrive's met {kind}" for kind in plan.left]
    turns(world, lambda: queue_empty(world), world.poll)
    world.redeliver()


def lived(scenarios: Scenarios) -> Any:
    plan = Reads()
    return scenarios._live(
        "votes", 0, plan, lambda world, ledger: voting_life(world, ledger, plan), **PIPELINE
    )


def test_any_fault_of_a_read_of_identities(scenarios: Scenarios) -> None:
    assert sorted(INTO_ACCOUNT) == sorted(RULES["BatchGetItem"])
    result = lived(scenarios)
    assert not result.problems
    assert result.strikes == {(BATCH_GET, kind): 2 for kind in INTO_ACCOUNT}


def identities_put_blindly(patch: pytest.MonkeyPatch) -> None:
    def blind(action: Any) -> Any:
        put = action.get("Put", {})
        if not put.get("TableName", "").endswith(OF_IDENTITIES):
            return action
        return {"Put": without("ConditionExpression")(put)}

    bend(
        patch,
        "TransactWriteItems",
        ask=lambda params: {"TransactItems": list(map(blind, params["TransactItems"]))},
    )


def identities_left_out(patch: pytest.MonkeyPatch) -> None:
    def ask(params: Any) -> Any:
        puts = [each.get("Put", {}).get("TableName", "") for each in params["TransactItems"]]
        kept = zip(params["TransactItems"], puts, strict=True)
        return {"TransactItems": [each for each, table in kept if OF_IDENTITIES not in table]}

    bend(patch, "TransactWriteItems", ask=ask)


def a_read_that_failed_taken_for_absence(patch: pytest.MonkeyPatch) -> None:
    def beside(_: StoredEvents, cases: list[BatchMessage]) -> list[BatchMessage]:
        found = whole(_, cases)
        failed = any(case.fate and case.comes_again for case in found)
        return cases if failed else found

    whole = StoredEvents.beside_identities
    patch.setattr(StoredEvents, "beside_identities", beside)


PROBLEMS: Mapping[Callable[[pytest.MonkeyPatch], None], str] = {
    identities_put_blindly: "no letter id-conflict",
    identities_left_out: "an id counts and is not taken",
    a_read_that_failed_taken_for_absence: "the copy of a vote is a letter",
}


@pytest.mark.proof
@pytest.mark.parametrize("plant", PROBLEMS, ids=lambda plant: plant.__name__)
def test_a_mistake_with_identities_is_caught(
    scenarios: Scenarios,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    plant(monkeypatch)
    assert any(PROBLEMS[plant] in problem for problem in lived(scenarios).problems)
