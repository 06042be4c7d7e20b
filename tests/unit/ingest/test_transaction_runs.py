"""`commits.run`: what happens to planned transactions when they meet a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.throughput import METERING, Limit
from tallyroll.ingest.cost import commit_cost
from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.transactions import CommitRun, plan, run
from tallyroll.model.records import Record, increments_of
from tallyroll.ports.backoff import COMMIT_CONFLICT, COMMIT_THROTTLED
from tallyroll.ports.effects import T
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tests.harness.pipeline import NOW, SECOND, WINDOW, Pipeline, opened, record_with

FINE, CONTENDED = Element(Answer.FINE), Element(Answer.CONTENDED)
BUSY = Outcome(Verdict.CANCELLED, (CONTENDED,), (FINE,))


def carried_out(pipeline: Pipeline, *records: Record, seconds: int = 10) -> CommitRun:
    spec = pipeline.spec()
    commits = plan(spec, records, METERING)
    return run(pipeline.store, commits, pipeline.effects, NOW + seconds * SECOND, 8)


def kinds(done: CommitRun) -> dict[str, Disposition]:
    assert all(window == WINDOW for window, _, _ in done.fates)
    return {record_id: fate.kind for (_, _, record_id), fate in done.fates.items()}


def test_records_are_put_and_tallied() -> None:
    pipeline = opened()
    done = carried_out(pipeline, record_with("a"), record_with("b", "l"), record_with("c"))
    assert kinds(done) == {
        "a": Disposition.COUNTED,
        "b": Disposition.COUNTED,
        "c": Disposition.COUNTED,
    }
    assert (pipeline.tally("k"), pipeline.tally("l")) == ((2, 2_000_000), (1, 1_000_000))
    assert pipeline.effects.slept == []


def test_a_lost_answer_is_found_out_by_the_retry() -> None:
    pipeline = opened()
    record = record_with("a")
    pipeline.store.script = [None, Outcome(Verdict.UNKNOWN)]
    carried_out(pipeline, record)
    done = carried_out(pipeline, record)
    assert kinds(done) == {"a": Disposition.DUPLICATE}
    assert (done.unknown, pipeline.tally("k")) == (1, (1, 1_000_000))


@pytest.mark.parametrize(
    ("outcome", "seen"),
    [
        (Outcome(Verdict.UNKNOWN), (0, 0, 1)),
        (Outcome(Verdict.THROTTLED), (0, 1, 0)),
        (Outcome(Verdict.CANCELLED, (FINE,), (Element(Answer.THROTTLED),)), (0, 1, 0)),
        (BUSY, (1, 0, 0)),
        (Outcome(Verdict.CANCELLED, (FINE,), (FINE,), gate_contended=True), (1, 0, 0)),
    ],
)
def test_trouble_is_waited_out_and_measured(outcome: Outcome, seen: tuple[int, int, int]) -> None:
    pipeline = opened()
    pipeline.store.script = [outcome]
    done = carried_out(pipeline, record_with("a"))
    assert kinds(done) == {"a": Disposition.COUNTED}
    assert (done.contended, done.throttled.total(), done.unknown) == seen
    assert len(pipeline.effects.slept) == 1


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(Verdict.THROTTLED, limit=Limit.KEY_RANGE),
        Outcome(Verdict.CANCELLED, (Element(Answer.THROTTLED, limit=Limit.KEY_RANGE),), (FINE,)),
        Outcome(Verdict.CANCELLED, (FINE,), (FINE,), limit=Limit.KEY_RANGE),  # of the gate
    ],
    ids=["the request", "a record", "the gate"],
)
def test_throttles_are_measured_by_what_they_were_too_much_for(outcome: Outcome) -> None:
    pipeline = opened()
    pipeline.store.script = [outcome, Outcome(Verdict.THROTTLED)]
    done = carried_out(pipeline, record_with("a"))
    assert done.throttled == {Limit.KEY_RANGE: 1, Limit.OTHER: 1}


def test_every_attempt_costs() -> None:
    pipeline = opened()
    pipeline.store.script = [BUSY, BUSY]
    done = carried_out(pipeline, record_with("a"))
    records = (record_with("a"),)
    once = commit_cost(records, increments_of(records), METERING)
    assert (done.cost.total, done.cost.requests) == (3 * once.total, 3)


def test_at_the_deadline_records_are_handed_back_untried() -> None:
    pipeline = opened()
    before = len(pipeline.store.commits)
    done = carried_out(pipeline, record_with("a"), seconds=0)
    assert kinds(done) == {"a": Disposition.HANDED_BACK}
    assert {fate.detail for fate in done.fates.values()} == {"no time left"}
    assert (len(pipeline.store.commits), done.cost.requests) == (before, 0)


def test_endless_trouble_ends_at_the_deadline() -> None:
    pipeline = opened()
    pipeline.store.script = [BUSY] * 10_000
    done = carried_out(pipeline, record_with("a"))
    assert kinds(done) == {"a": Disposition.HANDED_BACK}
    assert pipeline.effects.now() <= NOW + 10 * SECOND
    assert done.contended < 100


def test_a_slow_key_is_retried_after_the_swift_ones_are_done() -> None:
    pipeline = opened()
    slow = Outcome(Verdict.CANCELLED, (Element(Answer.THROTTLED), FINE), (FINE, FINE))
    pipeline.store.script = [slow]
    done = carried_out(pipeline, record_with("a", "hot"), record_with("b", "k"))
    order = [[record.key for record in records] for _, records, _ in pipeline.store.commits]
    assert order[-3:] == [["hot", "k"], ["k"], ["hot"]]
    assert set(kinds(done).values()) == {Disposition.COUNTED}


def test_what_commits_came_to_is_added_up() -> None:
    """Two transactions of one run, each with trouble of its own."""
    pipeline = opened()
    trouble = [BUSY, Outcome(Verdict.UNKNOWN), Outcome(Verdict.THROTTLED)]
    pipeline.store.script = [*trouble, None, *trouble]
    spec, records = pipeline.spec(), (record_with("a"), record_with("b"))
    commits = [commit for record in records for commit in plan(spec, [record], METERING)]
    done = run(pipeline.store, commits, pipeline.effects, NOW + 10 * SECOND, 8)
    assert kinds(done) == {"a": Disposition.COUNTED, "b": Disposition.COUNTED}
    once = commit_cost(records[:1], increments_of(records[:1]), METERING)
    assert (done.cost.requests, done.cost.total) == (8, 8 * once.total)
    assert (done.contended, done.unknown, done.throttled) == (2, 2, {Limit.OTHER: 2})
    assert done.throttled_keys == {(WINDOW, "k"): None}


def test_as_many_transactions_run_side_by_side_as_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    asked: list[int] = []
    together = pipeline.effects.together

    def noted(jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        asked.append(at_once)
        return together(jobs, at_once)

    monkeypatch.setattr(pipeline.effects, "together", noted)
    carried_out(pipeline, record_with("a"))
    assert asked == [8]


THROTTLED = Element(Answer.THROTTLED)


@pytest.mark.parametrize(
    ("outcome", "hot"),
    [
        (Outcome(Verdict.THROTTLED), []),  # of two keys, nobody knows which
        (Outcome(Verdict.CANCELLED, (THROTTLED, FINE), (FINE, FINE)), ["k"]),
        (Outcome(Verdict.CANCELLED, (FINE, FINE), (FINE, THROTTLED)), ["l"]),
        (Outcome(Verdict.CANCELLED, (CONTENDED, FINE), (FINE, CONTENDED)), []),
        (Outcome(Verdict.UNKNOWN), []),
    ],
)
def test_the_keys_that_were_too_hot(outcome: Outcome, hot: list[str]) -> None:
    pipeline = opened()
    pipeline.store.script = [outcome]
    done = carried_out(pipeline, record_with("a"), record_with("b", "l"))
    assert set(kinds(done).values()) == {Disposition.COUNTED}
    assert [*done.throttled_keys] == [(WINDOW, key) for key in hot]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(Verdict.THROTTLED, limit=Limit.IDENTITIES),
        Outcome(Verdict.CANCELLED, (Element(Answer.THROTTLED, limit=Limit.IDENTITIES),), (FINE,)),
    ],
    ids=["the request", "an identity"],
)
def test_a_key_is_not_hot_whose_identities_were_throttled(outcome: Outcome) -> None:
    pipeline = opened()
    pipeline.store.script = [outcome]
    done = carried_out(pipeline, record_with("a"))
    assert kinds(done) == {"a": Disposition.COUNTED}
    assert done.throttled == {"identities": 1}
    assert done.throttled_keys == {}
    assert len(pipeline.effects.slept) == 1


def test_one_request_that_was_throttled_at_several_elements_is_one() -> None:
    pipeline = opened()
    elements = (Element(Answer.THROTTLED, limit=Limit.SCALING),) * 2
    pipeline.store.script = [Outcome(Verdict.CANCELLED, elements, elements)]
    done = carried_out(pipeline, record_with("a"), record_with("b", "l"))
    assert done.throttled == {Limit.SCALING: 1}


def test_the_earliest_due_goes_first() -> None:
    """Of three keys of a throttled commit, each waits for a time of its own."""
    pipeline = opened()
    pipeline.store.script = [Outcome(Verdict.THROTTLED)]
    done = carried_out(pipeline, *(record_with("a", key) for key in "hijklm"))
    assert set(kinds(done).values()) == {Disposition.COUNTED}
    draws = Random(1)  # as the pipeline's own chance, which nothing else has drawn from
    waits = {key: int(draws.random() * COMMIT_THROTTLED.base_ms) for key in "hijklm"}
    order = [records[0].key for _, records, _ in pipeline.store.commits[-6:]]
    assert order == sorted(waits, key=lambda key: waits[key])


def test_nothing_is_tried_before_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    pipeline.store.script = [BUSY]
    tried: list[int] = []
    commit = pipeline.store.commit

    def noted(*asked: Any) -> Outcome:
        tried.append(pipeline.effects.now())
        return commit(*asked)

    monkeypatch.setattr(pipeline.store, "commit", noted)
    pipeline.effects.chance = Random(3)
    waits = int(Random(3).random() * COMMIT_CONFLICT.base_ms) + 1
    carried_out(pipeline, record_with("a"))
    assert tried == [NOW, NOW + waits]
