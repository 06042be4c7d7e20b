"""How the checks of an endpoint make, use and drop their table."""

from __future__ import annotations

import pytest

from tallyroll.errors import StoreError, Throttled, Unknown
from tallyroll.operations.conform.reads import distinct_keys
from tallyroll.operations.conform.stage import Broken, Stage, Undecided, record
from tallyroll.ports.backoff import CHECK
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.ports.table_listing import TableFacts, TableStatus
from tests.harness.pipeline import MINUTE
from tests.unit.operations.staged import THROTTLED, UNANSWERED, Commit, always, made

Patch = pytest.MonkeyPatch


# --- the table


def test_the_table_is_waited_for_and_dropped() -> None:
    stage = made(creating_ms=5_000)
    stage.make()
    assert stage.commit(stage.spec, record(stage.spec, "k", "e")).verdict is Verdict.COMMITTED
    stage.drop()
    assert stage.store.describe_table("conform") is None


def test_a_table_that_never_becomes_active_is_told() -> None:
    stage = made(creating_ms=10 * MINUTE)
    with pytest.raises(Unknown, match="table conform is not active after two minutes"):
        stage.make()


def test_a_table_that_is_still_being_made_is_dropped_once_it_is_there() -> None:
    stage = made(creating_ms=30_000)
    stage.begun = True
    stage.store.make_table("conform", {})
    stage.drop()
    assert stage.store.describe_table("conform") is None


@pytest.mark.parametrize("error", [None, Throttled("DeleteTable: it is being changed")])
def test_a_table_that_stays_is_told(
    stage: Stage, monkeypatch: Patch, error: StoreError | None
) -> None:
    def drop(table: str) -> None:
        if error:
            raise error

    monkeypatch.setattr(stage.store, "drop_table", drop)
    told = "it is being changed" if error else "table conform still exists"
    with pytest.raises(StoreError, match=told):
        stage.drop()


def test_a_drop_without_an_answer_is_not_repeated(stage: Stage, monkeypatch: Patch) -> None:
    calls: list[str] = []

    def drop(table: str) -> None:
        calls.append(table)
        raise Unknown("DeleteTable: no reply")

    monkeypatch.setattr(stage.store, "drop_table", drop)
    with pytest.raises(Unknown, match="no reply"):
        stage.drop()
    assert calls == ["conform"]


def test_a_table_that_is_being_deleted_is_enough(stage: Stage, monkeypatch: Patch) -> None:
    facts = TableFacts(TableStatus.DELETING, protected=False)
    monkeypatch.setattr(stage.store, "describe_table", always(facts))
    stage.drop()
    assert stage.effects.now() == made().effects.now()


# --- one transaction


def test_a_throttled_transaction_is_tried_again_for_a_while(
    stage: Stage, commit: Commit, monkeypatch: Patch
) -> None:
    answers = iter([THROTTLED] * (CHECK.tries - 1))
    monkeypatch.setattr(stage.store, "commit", lambda *of: next(answers, None) or commit(*of))
    stage.commit_new(stage.spec, record(stage.spec, "k", "e"))
    monkeypatch.setattr(stage.store, "commit", always(THROTTLED))
    with pytest.raises(Undecided, match="a transaction stays throttled: too much"):
        stage.commit(stage.spec, record(stage.spec, "k", "f"))


def test_a_transaction_without_an_answer_decides_nothing(stage: Stage, monkeypatch: Patch) -> None:
    monkeypatch.setattr(stage.store, "commit", always(UNANSWERED))
    with pytest.raises(Undecided, match="a transaction was not answered: no reply"):
        distinct_keys(stage)


def test_new_records_that_are_refused_break_the_rule(stage: Stage, monkeypatch: Patch) -> None:
    refused = Outcome(Verdict.INVALID, detail="no")
    monkeypatch.setattr(stage.store, "commit", always(refused))
    with pytest.raises(Broken, match="of 1 new records was not carried out: invalid: no"):
        stage.commit_new(stage.spec, record(stage.spec, "k", "e"))


@pytest.mark.parametrize("stopped", [True, False])
def test_turns_end_when_the_time_is_up_or_the_run_is_stopped(stage: Stage, stopped: bool) -> None:
    turns = []
    for turn in stage.turns():
        turns.append(turn)
        if stopped:
            stage.stopping.set()
        else:
            stage.effects.sleep(stage.scale.within_ms / 2)
    assert turns == [0]
