"""What follows where a store answers for each record by itself, and keeps no tallies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.ingest.fates import Disposition, Fate
from tallyroll.ingest.transactions import Commit, Continuation, after, plan, run
from tallyroll.ports.backoff import COMMIT_CONFLICT, COMMIT_THROTTLED
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW, opened, record_with, spec_of
from tests.unit.ingest.test_transactions import Latest

SPEC = spec_of()
FINE, CONTENDED = Element(Answer.FINE), Element(Answer.CONTENDED)
THROTTLED, UNKNOWN = Element(Answer.THROTTLED), Element(Answer.UNKNOWN)
INVALID = Element(Answer.INVALID, detail="no such number")
A, B, C = record_with("a", "k"), record_with("b", "k"), record_with("c", "l")
COUNTED = Fate(Disposition.COUNTED, b"digest")


def answered(*records: Element) -> Outcome:
    return Outcome(Verdict.BY_RECORD, records)


def follow(*answers: Element, deadline: int = NOW + 60_000) -> Continuation:
    commit = Commit(SPEC, (A, B, C)[: len(answers)])
    return after(commit, answered(*answers), NOW, deadline, Latest())


def test_each_record_is_settled_for_itself() -> None:
    step = follow(FINE, Element(Answer.DUPLICATE, b"other"), INVALID)
    fates = {record.id: fate for record, fate in step.settled}
    assert fates["a"] == COUNTED
    assert (fates["b"].kind, fates["b"].reason) == (Disposition.REJECTED, Reason.ID_CONFLICT)
    assert (fates["c"].reason, fates["c"].detail) == (Reason.REFUSED_BY_STORE, "no such number")
    assert step.commits == ()


@pytest.mark.parametrize("open_", [CONTENDED, UNKNOWN], ids=["contended", "unknown"])
def test_what_is_open_is_tried_again_alone_and_later(open_: Element) -> None:
    step = follow(FINE, open_, Element(Answer.DUPLICATE, b"digest"))
    assert [(record.id, fate.kind) for record, fate in step.settled] == [
        ("a", Disposition.COUNTED),
        ("c", Disposition.DUPLICATE),
    ]
    (again,) = step.commits
    assert (again.records, again.attempt) == ((B,), 1)
    assert NOW < again.not_before <= NOW + COMMIT_CONFLICT.base_ms


def test_a_throttled_key_waits_by_itself() -> None:
    step = follow(FINE, UNKNOWN, THROTTLED)
    slow, swift = step.commits
    assert (slow.records, swift.records) == ((C,), (B,))
    assert slow.not_before > NOW + COMMIT_CONFLICT.base_ms
    assert slow.not_before <= NOW + COMMIT_THROTTLED.base_ms


def test_what_is_open_too_late_is_handed_back_and_the_rest_counts() -> None:
    step = follow(FINE, UNKNOWN, deadline=NOW + 1)
    assert step.settled == (
        (A, COUNTED),
        (B, Fate(Disposition.HANDED_BACK, detail="its outcome is unknown")),
    )


def test_increments_are_no_elements_of_a_store_without_tallies() -> None:
    metering = replace(METERING, elements_max=4, tallied=False)
    records = [record_with("e", f"k{n}") for n in range(6)]
    assert [len(commit.records) for commit in plan(SPEC, records, metering)] == [4, 2]
    tallied = replace(METERING, elements_max=4)
    assert [len(commit.records) for commit in plan(SPEC, records, tallied)] == [2, 2, 2]


def test_a_run_reports_what_was_unknown_and_throttled() -> None:
    pipeline = opened()
    pipeline.store.script = [answered(FINE, UNKNOWN, replace(THROTTLED, limit="table"))]
    effects = pipeline.effects
    done = run(pipeline.store, [Commit(SPEC, (A, B, C))], effects, effects.now() + 60_000, 1)
    assert {fate.kind for fate in done.fates.values()} == {Disposition.COUNTED}
    assert (done.unknown, done.throttled) == (1, {"table": 1})
    assert list(done.throttled_keys) == [(SPEC.window, "l")]
    assert [len(records) for _, records, _ in pipeline.store.commits] == [3, 1, 1]
