"""How retractions of one window share transactions, and how those are divided again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.tombstone_runs import Batch, Found, after, batches_of, run
from tallyroll.model.retractions import Tombstone, decrements_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW, WINDOW, Pipeline, opened
from tests.harness.retracting import EVENT, QUEUE, retracted, retraction

FINE, HELD = Element(Answer.FINE), Element(Answer.CONTENDED)
DUPLICATE, INVALID = Element(Answer.DUPLICATE), Element(Answer.INVALID)


@pytest.fixture
def pipeline() -> Pipeline:
    return opened(QUEUE)


def found(spec: Spec, number: int, *keys: str, stripe: int = 1) -> Found:
    stones = (
        Tombstone(key, f"e{number:03}", 1, NOW, 1, 5, b"d", stripe, 30, "", "") for key in keys
    )
    return Found(spec, tuple(stones))


def answered(batch: Batch, answer_of: Callable[[Tombstone], Element] = lambda _: FINE) -> Outcome:
    """A cancelled transaction, with this answer for each tombstone."""
    stripes = (FINE,) * len(decrements_of(batch.tombstones))
    return Outcome(Verdict.CANCELLED, tuple(map(answer_of, batch.tombstones)), stripes)


# --- planning


@pytest.mark.parametrize(("stripes", "most"), [(1, 98), (4, 95), (1_000, 49)])
def test_a_transaction_has_a_gate_and_each_stripe_once(
    pipeline: Pipeline, stripes: int, most: int
) -> None:
    spec = pipeline.spec()
    events = [found(spec, n, "k", stripe=n % stripes + 1) for n in range(98)]
    metering = pipeline.store.metering_of(spec.table)
    first, *more = batches_of(events, metering)
    assert len(first.events) == most
    for batch in (first, *more):
        stones = batch.tombstones
        assert len(stones) + len(decrements_of(stones)) <= metering.elements_max
    planned = [each for batch in (first, *more) for each in batch.events]
    assert sorted(planned, key=lambda each: each.place) == sorted(
        events, key=lambda each: each.place
    )


def test_an_event_of_several_keys_is_never_divided(pipeline: Pipeline) -> None:
    spec, keys = pipeline.spec(), [f"k{number:02}" for number in range(24)]
    events = [found(spec, number, *keys) for number in range(9)]
    batches = batches_of(events, pipeline.store.metering_of(spec.table))
    assert [len(batch.events) for batch in batches] == [3, 3, 3]


# --- outcomes


def test_what_the_answers_decide_is_settled_and_the_rest_goes_on(pipeline: Pipeline) -> None:
    batch = Batch(tuple(found(pipeline.spec(), number, "k") for number in range(5)))
    named = {"e001": DUPLICATE, "e003": INVALID}
    settled, again = after(batch, answered(batch, lambda one: named.get(one.id, FINE)))
    fates = {each.tombstones[0].id: fate for each, fate in settled}
    assert fates["e001"].kind is Disposition.DUPLICATE
    assert fates["e003"].reason is Reason.REFUSED_BY_STORE
    [rest] = again
    assert [each.tombstones[0].id for each in rest.events] == ["e000", "e002", "e004"]
    assert rest.attempt == 0, "it waits for nothing"


def test_what_is_held_up_is_tried_apart_by_key(pipeline: Pipeline) -> None:
    spec = pipeline.spec()
    events = [found(spec, number, "abc"[number % 3]) for number in range(9)]
    batch = Batch(tuple(events))
    held = {"a": HELD, "b": Element(Answer.THROTTLED)}
    settled, again = after(batch, answered(batch, lambda one: held.get(one.key, FINE)))
    assert settled == []
    assert [{each.least_key for each in part.events} for part in again] == [{"c"}, {"a"}, {"b"}]
    assert [part.attempt for part in again] == [0, 1, 1]


def test_a_stripe_that_is_held_up_holds_its_events_alone(pipeline: Pipeline) -> None:
    spec = pipeline.spec()
    batch = Batch((found(spec, 1, "k", stripe=1), found(spec, 2, "k", stripe=2)))
    outcome = Outcome(Verdict.CANCELLED, (FINE, FINE), (HELD, FINE))
    _, [free, waits] = after(batch, outcome)
    assert (free.events, free.attempt) == (batch.events[1:], 0)
    assert (waits.events, waits.attempt) == (batch.events[:1], 1)


def test_a_gate_that_is_held_up_holds_all(pipeline: Pipeline) -> None:
    batch = Batch((found(pipeline.spec(), 1, "k"), found(pipeline.spec(), 2, "k")))
    settled, [again] = after(batch, answered(batch))
    assert (settled, again.events, again.attempt) == ([], batch.events, 1)


@pytest.mark.parametrize("verdict", [Verdict.INVALID, Verdict.CANCELLED])
def test_what_is_invalid_is_found_by_halves(pipeline: Pipeline, verdict: Verdict) -> None:
    """By a request's refusal, or by that of a stripe."""
    left = [Batch(tuple(found(pipeline.spec(), number, "k") for number in range(8)))]
    fates: dict[str, Any] = {}
    while left:
        batch = left.pop()
        stones = batch.tombstones
        bad = any(stone.id == "e005" for stone in stones)
        outcome = Outcome(verdict, (FINE,) * len(stones), (INVALID,), detail="no")
        settled, again = after(batch, outcome if bad else Outcome(Verdict.COMMITTED))
        fates |= {each.tombstones[0].id: fate for each, fate in settled}
        left += again
    refused = [name for name, fate in fates.items() if fate.reason is Reason.REFUSED_BY_STORE]
    assert (len(fates), refused) == (8, ["e005"])


def test_a_transaction_of_an_unknown_outcome_is_repeated_as_it_is(pipeline: Pipeline) -> None:
    batch = Batch((found(pipeline.spec(), 1, "a"), found(pipeline.spec(), 2, "b")))
    assert after(batch, Outcome(Verdict.UNKNOWN))[1][0].events == batch.events
    assert len(after(batch, Outcome(Verdict.THROTTLED))[1]) == 2, "one hot key holds no other up"


# --- whole batches


def written(pipeline: Pipeline, number: int) -> list[str]:
    """Count events under two keys; return retractions of all."""
    names = [("ab"[each % 2], f"e{each}") for each in range(number)]
    pipeline.write(*({**EVENT, "key": key, "id": id_} for key, id_ in names))
    return [retraction(key=key, id=id_) for key, id_ in names]


def test_retractions_of_a_batch_share_transactions(pipeline: Pipeline) -> None:
    """2.04 units each, all of one stripe, where one that is alone takes 6."""
    pipeline.write(*({**EVENT, "id": f"e{number}"} for number in range(98)))
    report = pipeline.write(*(retraction(id=f"e{number}") for number in range(98)))
    assert (report.retracted, report.cost.requests) == (98, 1)
    assert report.cost.total / 98 == pytest.approx(2.04, abs=0.005)
    assert pipeline.tally("k") == (0, 0)


def test_duplicates_leave_the_others_of_their_batch_alone(pipeline: Pipeline) -> None:
    asked = written(pipeline, 60)
    assert pipeline.write(*asked[:20]).retracted == 20
    report = pipeline.write(*asked)
    assert (report.retracted, report.duplicates) == (40, 20)
    assert [retracted(pipeline, key)[0] for key in "ab"] == [30, 30]
    assert report.cost.requests == 2, "the answers name all duplicates at once"


def test_a_batch_under_every_kind_of_outcome_retracts_each_once(pipeline: Pipeline) -> None:
    asked = written(pipeline, 120)
    carry_out = type(pipeline.store).retract
    calls: list[int] = []

    def retract(spec: Spec, stones: Sequence[Tombstone]) -> Outcome:
        calls.append(len(stones))
        match len(calls) % 5:
            case 1:
                carry_out(pipeline.store, spec, stones)  # and its reply is lost
                return Outcome(Verdict.UNKNOWN)
            case 2:
                stripes = (HELD,) * len(decrements_of(stones))
                return Outcome(Verdict.CANCELLED, (FINE,) * len(stones), stripes)
            case 3:
                return Outcome(Verdict.THROTTLED)
        return carry_out(pipeline.store, spec, stones)

    pipeline.store.retract = retract  # type: ignore[method-assign,assignment]
    report = pipeline.write(*asked)
    assert report.retracted + report.duplicates == 120
    assert report.failures == []
    assert [pipeline.tally(key) for key in "ab"] == [(0, 0), (0, 0)]
    assert [retracted(pipeline, key)[0] for key in "ab"] == [60, 60]


def test_nothing_is_begun_after_the_deadline(pipeline: Pipeline) -> None:
    written(pipeline, 4)
    spec = pipeline.spec()
    done = run(
        pipeline.store, [found(spec, 1, "a")], pipeline.effects, pipeline.effects.now(), at_once=1
    )
    assert {fate.kind for fate in done.fates.values()} == {Disposition.HANDED_BACK}
    assert done.cost.requests == 0
    assert retracted(pipeline, "a", WINDOW) == (0, 0)


def test_transactions_wait_for_the_write_rate(pipeline: Pipeline) -> None:
    """Six units at one a second: the next must wait for longer than a writer does."""
    pipeline.write(EVENT, {**EVENT, "id": "e2"})
    pipeline.settings = replace(QUEUE, write_rate=1)
    assert pipeline.write(retraction()).retracted == 1
    report = pipeline.write(retraction(id="e2"))
    assert (report.paced, len(report.failures), report.cost.requests) == (1, 1, 0)
    pipeline.effects.pass_by(2_000)
    assert pipeline.write(retraction(id="e2")).retracted == 1


def test_without_the_line_of_the_write_rate_nothing_is_sent(pipeline: Pipeline) -> None:
    def fail(_: Any) -> int:
        raise Throttled("no", "No")

    pipeline.write(EVENT)
    pipeline.settings = replace(QUEUE, write_rate=1)
    pipeline.catalog.take_turn = fail  # type: ignore[method-assign,assignment]
    report = pipeline.write(retraction())
    assert (len(report.failures), report.cost.requests) == (1, 0)
    assert pipeline.tally("k")[0] == 1


def test_corrections_wait_for_the_write_rate_too(pipeline: Pipeline) -> None:
    pipeline.write(EVENT, {**EVENT, "id": "e2"})
    pipeline.effects.pass_by(pipeline.spec().accept_until - NOW + 1)
    pipeline.store.shut_gates(pipeline.spec())
    for status in (Status.CLOSING, Status.SEALED):
        pipeline.move(status)
    pipeline.settings = replace(QUEUE, write_rate=1)
    assert pipeline.write(retraction()).retracted == 1
    report = pipeline.write(retraction(id="e2"))
    assert (report.paced, report.cost.requests) == (1, 0)
    assert len(pipeline.totals.corrections("k", WINDOW)) == 1
