"""Redriven retractions: they go as they are, take back what they are of once, and wait for it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tallyroll.model.states import Status
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.reasons import Reason
from tests.harness.pipeline import MINUTE, NOW, WINDOW, Pipeline, hour, opened
from tests.harness.redriving import LATE, Operator, drain, reject, seal
from tests.harness.retracting import EVENT, QUEUE, retraction


@pytest.fixture
def pipeline() -> Pipeline:
    return opened(QUEUE)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.NOT_AN_OBJECT,  # by a release before
        Reason.BAD_RETRACTION,
        Reason.RETRACTION_OFF,
        Reason.RETRACTION_NOT_AUTHORIZED,
        Reason.RETRACTION_UNPROVEN,
        Reason.NOTHING_TO_RETRACT,
        Reason.EXPIRING,
        Reason.ID_CONFLICT,
    ],
)
def test_whatever_the_reason_it_goes_again_and_retracts_once(
    pipeline: Pipeline, reason: Reason
) -> None:
    pipeline.write(EVENT)
    for _ in range(2):
        reject(pipeline, retraction(), reason)
        decision = Operator(pipeline).one()
        assert (decision.course, decision.target) == (LetterOutcome.REDRIVEN, WINDOW)
        drain(pipeline)
    assert pipeline.queue.dead_letters == []
    assert pipeline.tally("k") == (0, 0)
    assert pipeline.catalog.claims([(WINDOW, "k", "e1")]) == {}, "it claims nothing"


def test_it_goes_to_the_window_that_it_names(pipeline: Pipeline) -> None:
    reject(pipeline, retraction(window=hour(6)), Reason.NOTHING_TO_RETRACT)
    assert Operator(pipeline).one().target == hour(6)


def test_what_is_malformed_stays(pipeline: Pipeline) -> None:
    reject(pipeline, '["tallyroll-retract", 1, {"key": "k"}]', Reason.BAD_RETRACTION)
    decision = Operator(pipeline).one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, Reason.BAD_RETRACTION)
    assert len(pipeline.queue.dead_letters) == 1


def test_where_nobody_may_it_comes_back(pipeline: Pipeline) -> None:
    """Only the writer knows how it was deployed."""
    reject(pipeline, retraction(), Reason.RETRACTION_NOT_AUTHORIZED)
    pipeline.settings = replace(QUEUE, retraction="off")
    assert Operator(pipeline).one().course is LetterOutcome.REDRIVEN
    drain(pipeline)
    assert pipeline.reasons() == [Reason.RETRACTION_OFF]


def test_one_that_is_not_surely_sent_stays(pipeline: Pipeline) -> None:
    reject(pipeline, retraction(), Reason.NOTHING_TO_RETRACT)
    operator = Operator(pipeline)
    operator.letters.resend = lambda resends: ["no"] * len(resends)  # type: ignore[method-assign]
    decision = operator.one()
    assert (decision.course, decision.detail) == (LetterOutcome.LEFT, "not surely sent: no")
    assert len(pipeline.queue.dead_letters) == 1


def test_beside_the_letter_of_its_event_it_takes_that_back_where_it_counts(
    pipeline: Pipeline,
) -> None:
    """The event's own window is sealed without it: its claim is put before anything is sent."""
    seal(pipeline, hour(6))
    reject(pipeline, retraction(ts=LATE), Reason.NOTHING_TO_RETRACT)
    reject(pipeline, json.dumps({**EVENT, "ts": LATE}), Reason.TOO_LATE)
    decisions = Operator(pipeline).redrive()
    assert {one.course for one in decisions} == {LetterOutcome.REDRIVEN}
    for _ in range(3):
        drain(pipeline)
        pipeline.effects.pass_by(10 * MINUTE)
    assert pipeline.queue.dead_letters == []
    tally = pipeline.store.tallies(pipeline.spec(), ["k"])["k"]
    assert (tally.n, tally.retracted) == (0, (1, 2_500_000))


def test_an_operator_who_dies_anywhere_retracts_once(pipeline: Pipeline) -> None:
    pipeline.write(EVENT, {**EVENT, "id": "e2", "ts": NOW})
    operator, pulse = Operator(pipeline), 0
    reject(pipeline, retraction(), Reason.RETRACTION_OFF)
    while operator.killed_at(pulse):
        pulse += 1
        drain(pipeline)
        if not pipeline.queue.dead_letters:
            reject(pipeline, retraction(), Reason.RETRACTION_OFF)
    drain(pipeline)
    assert pulse >= 4
    assert pipeline.tally("k") == (1, 2_500_000)
    assert pipeline.state().status is Status.OPEN
