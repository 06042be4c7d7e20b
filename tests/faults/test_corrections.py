"""Events that are taken back while their window is open and once it is sealed, under every fault of
the transactions that do it: tombstones, sealing's notes, and corrections.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tallyroll.model.retractions import Retraction
from tests.faults.exactness import letters, table_of, totals_of
from tests.faults.injector import GOES_WELL, Blow, Call
from tests.faults.kinds import RULES, Kind
from tests.faults.lives import (
    LATER,
    NOW_WINDOW,
    event,
    is_,
    queue_empty,
    turns,
)
from tests.faults.plans import crash
from tests.faults.scenarios import Scenarios, running
from tests.faults.test_planted import bend, without
from tests.faults.wire import params_of
from tests.faults.world import BEGIN, World

pytestmark = pytest.mark.engine
KINDS = RULES["TransactWriteItems"]
CARRIED_OUT = (Kind.REPLY_LOST, Kind.RESET, Kind.ERROR_APPLIED, Kind.SLOW)
KEY, EVENTS = "back", 5
TOMBSTONES, NOTES, CORRECTIONS = '"sk": {"S": "r#', '"rn": {"N"', '"sk": {"S": "~r#'


@dataclass
class Strikes:
    """What strikes the next transactions whose request has this text, each once."""

    text: str = ""
    left: list[Blow] = field(default_factory=list)

    def blow(self, call: Call, _: tuple[Kind, ...]) -> Blow:
        """The plan's word for a call."""
        if not self.left or call.operation != "TransactWriteItems":
            return GOES_WELL
        asked = json.dumps(params_of(call.request), default=str)
        return self.left.pop(0) if self.text in asked else GOES_WELL


def retraction(name: str) -> str:
    return Retraction.of(KEY, name, ts=BEGIN, by="ann", why="a test").body


def life(world: World, plan: Strikes, blows: Callable[[], list[Blow]]) -> list[str]:
    """Five events; e1 is taken back while their window is open, e2 once it is sealed, each by two
    messages that come again. What is wrong in the end.
    """

    def struck(text: str, *steps: Callable[[], object], until: Callable[[], bool]) -> None:
        plan.text, plan.left = text, blows()
        turns(world, until, *steps)
        problems.extend(f"no transaction with {text} met {blow}" for blow in plan.left)
        plan.left = []

    def empty() -> bool:
        return queue_empty(world)

    problems: list[str] = []
    turns(world, is_(world, "open", NOW_WINDOW), world.roll)
    world.send(*(event(KEY, f"e{number}", BEGIN, value=2.5) for number in range(EVENTS)))
    turns(world, empty, world.poll)
    world.send(retraction("e1"), retraction("e1"))
    struck(TOMBSTONES, world.poll, until=empty)
    world.time.pass_by(LATER - world.time.now())
    world.publish_ages()
    struck(NOTES, world.roll, until=is_(world, "sealed", NOW_WINDOW))
    world.send(retraction("e2"), retraction("e2"), retraction("e1"))
    struck(CORRECTIONS, world.poll, until=empty)
    for _ in range(2):
        world.redeliver()
        turns(world, empty, world.poll)
    return problems + wrong(world)


def wrong(world: World) -> list[str]:
    """What does not agree with one event taken back before the seal, and one after it."""
    table = f"{world.settings.name}-totals"
    rows = world.raw.dynamodb.scan(TableName=table, ConsistentRead=True)["Items"]
    corrected = Counter(row["sk"]["S"] for row in rows if row["sk"]["S"].startswith("~r#"))
    stones = Counter(
        item["sk"]["S"] for item in table_of(world, NOW_WINDOW) if item["sk"]["S"].startswith("r#")
    )
    found: dict[str, Any] = {
        "tombstones": stones,
        "corrections": corrected,
        "letters": letters(world),
        "total": {key: (n, float(sum_)) for key, (n, sum_) in totals_of(world, NOW_WINDOW).items()},
    }
    _, body = world.ask("/v1/counters", key=KEY)
    found["count"] = (body.get("events"), body.get("sum"), body.get("retracted"))
    sums = [row for row in rows if row["sk"]["S"].endswith("#r") and row["pk"]["S"] == KEY]
    found["sums"] = sorted(tuple(row[name]["N"] for name in ("n", "v", "rn", "rv")) for row in sums)
    wanted: dict[str, Any] = {
        "tombstones": Counter(["r#e1"]),
        "corrections": Counter([f"~r#{NOW_WINDOW}#r#e2"]),
        "letters": {},
        "total": {KEY: (EVENTS - 1, 2.5 * (EVENTS - 1))},
        "count": (EVENTS - 2, "7.5", {"events": 2, "sum": "5"}),
        "sums": [("-1", "-2.5", "1", "2.5")] * 3,
    }
    return [
        f"{name}: {found[name]}, not {wanted[name]}"
        for name in wanted
        if found[name] != wanted[name]
    ]


def lived(scenarios: Scenarios, blows: Callable[[], list[Blow]]) -> list[str]:
    plan = Strikes()
    with running(scenarios.endpoint) as (switchboard, patch):
        world = World.made(switchboard, patch, 0, plan, retraction="queue")
        return life(world, plan, blows)


@pytest.mark.parametrize("last", CARRIED_OUT)
def test_any_fault_of_a_transaction_that_takes_back(scenarios: Scenarios, last: Kind) -> None:
    """All that leave it undone, then one that may not."""
    undone = [kind for kind in KINDS if kind not in CARRIED_OUT]
    assert len(undone) + len(CARRIED_OUT) == len(KINDS)
    assert lived(scenarios, lambda: list(map(Blow, (*undone, last)))) == []


def test_whoever_takes_back_dies_before_and_after_it(scenarios: Scenarios) -> None:
    def deaths() -> list[Blow]:
        return [Blow(before=crash), Blow(after=crash), Blow(Kind.REPLY_LOST)]

    assert lived(scenarios, deaths) == []


def corrections_put_blindly(patch: pytest.MonkeyPatch) -> None:
    def blind(action: Any) -> Any:
        put = action.get("Put", {})
        if not put.get("Item", {}).get("sk", {}).get("S", "").startswith("~r#"):
            return action
        return {"Put": without("ConditionExpression")(put)}

    bend(
        patch,
        "TransactWriteItems",
        ask=lambda params: {"TransactItems": list(map(blind, params["TransactItems"]))},
    )


def notes_put_blindly(patch: pytest.MonkeyPatch) -> None:
    """As if nothing was there: a row of a day loses what another window has noted."""

    def blind(action: Any) -> Any:
        put = action.get("Put", {})
        if "rn" not in put.get("Item", {}):
            return action
        more = {"n": {"N": "0"}, "v": {"N": "0"}}
        doubled = {**put["Item"], **more, "rn": {"N": "2"}}
        return {"Put": {"TableName": put["TableName"], "Item": doubled}}

    bend(
        patch,
        "TransactWriteItems",
        ask=lambda params: {"TransactItems": list(map(blind, params["TransactItems"]))},
    )


PROBLEMS: Mapping[Callable[[pytest.MonkeyPatch], None], str] = {
    corrections_put_blindly: "count: ",
    notes_put_blindly: "sums: ",
}


@pytest.mark.proof
@pytest.mark.parametrize("plant", PROBLEMS, ids=lambda plant: plant.__name__)
def test_a_mistake_with_corrections_is_caught(
    scenarios: Scenarios,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    plant(monkeypatch)
    problems = lived(scenarios, lambda: [Blow(Kind.REPLY_LOST)])
    assert any(PROBLEMS[plant] in problem for problem in problems)
