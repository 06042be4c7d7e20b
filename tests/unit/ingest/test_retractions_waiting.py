"""Where the writer looks for events that are to be retracted, and how it waits for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.model.messages import RedriveMark
from tallyroll.model.records import Record, increments_of
from tallyroll.model.states import Status
from tallyroll.model.windows import Grid, WindowId, window_start
from tallyroll.ports.catalog import Claim
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    hour,
    opened,
)
from tests.harness.retracting import EVENT, QUEUE, again, retraction, stone, write


@pytest.fixture
def pipeline() -> Pipeline:
    return opened(QUEUE)


# --- where


def claimed(pipeline: Pipeline, home: WindowId, target: WindowId) -> None:
    pipeline.catalog.claim((home, "k", "e1"), Claim(target, NOW))


def put(pipeline: Pipeline, ts: int) -> None:
    """Store a redriven event of this time."""
    spec = pipeline.spec()
    record = Record("k", "e1", spec.shard("k", "e1"), ts, 1, 10**6, b"digest", ((30, 1),), slot=30)
    outcome = pipeline.store.commit(spec, [record], increments_of([record]))
    assert outcome.verdict is Verdict.COMMITTED


def test_a_redriven_event_is_taken_from_the_window_of_its_claim(pipeline: Pipeline) -> None:
    home, late = hour(6), window_start(hour(6)) + MINUTE
    claimed(pipeline, home, WINDOW)
    put(pipeline, late)
    report = pipeline.write(retraction(ts=late))
    assert report.retracted == 1
    assert pipeline.tally("k") == (0, 0)
    assert (stone(pipeline).ts, stone(pipeline).slot) == (late, 30), "as it was counted"


@pytest.mark.parametrize("receives", [1, 5])
def test_another_event_with_its_id_in_the_window_of_its_claim_stays(
    pipeline: Pipeline, receives: int
) -> None:
    """The claim's window is not believed without the record's time."""
    home, late = hour(6), window_start(hour(6)) + MINUTE
    claimed(pipeline, home, WINDOW)
    pipeline.write(EVENT)
    report = again(pipeline, retraction(ts=late), receives)
    assert len(report.failures) == 1
    assert pipeline.tally("k")[0] == 1
    assert pipeline.write(retraction()).retracted == 1


def test_an_id_that_was_used_again_is_not_that_of_an_earlier_event(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    assert len(pipeline.write(retraction(window=hour(7))).failures) == 1
    assert pipeline.tally("k")[0] == 1


def test_an_old_calendar_leads_to_no_other_event_of_its_id(pipeline: Pipeline) -> None:
    """The hour 08 became quarters, of which the writer does not know yet. The id was used in the
    first, and the event that is meant happened in the second.
    """
    spec = pipeline.spec()
    pipeline.catalog._specs[WINDOW] = replace(spec, end=spec.start + 15 * MINUTE)
    put(pipeline, spec.start + MINUTE)
    assert pipeline.write(retraction(ts=spec.start + 20 * MINUTE)).failures
    assert pipeline.tally("k")[0] == 1


def test_a_time_after_its_sending_is_rejected(pipeline: Pipeline) -> None:
    for fields in ({"ts": NOW + 6 * MINUTE}, {"window": hour(9)}, {"ts": 253_402_300_799_000}):
        assert pipeline.write(retraction(**fields)).rejected == {Reason.TOO_FAR_AHEAD: 1}


# --- before its event, and without one


def test_it_waits_for_its_event(pipeline: Pipeline) -> None:
    report = pipeline.write(retraction())
    assert (len(report.failures), report.waiting) == (1, 1)
    assert [seconds for _, seconds in pipeline.queue.delays] == [20]
    pipeline.write(EVENT)
    assert again(pipeline, retraction(), 2).retracted == 1


def test_waiting_it_keeps_no_window_open(pipeline: Pipeline) -> None:
    for receives in (1, 2, 5):
        assert again(pipeline, retraction(), receives).failures
        windows = [hour(number) for number in (6, 7, 8, 9)]
        assert pipeline.catalog.stragglers(windows) == {}
        assert pipeline.catalog.receptions(0, NOW + 10 * HOUR, 10) == []


def test_neither_does_one_that_was_redriven(pipeline: Pipeline) -> None:
    message = pipeline.message(retraction(), receives=5)
    mark = RedriveMark(WINDOW, "first", NOW - HOUR)
    assert write(pipeline, replace(message, redrive=mark)).failures
    assert pipeline.catalog.stragglers([WINDOW]) == {}
    assert pipeline.catalog.receptions(0, NOW + 10 * HOUR, 10) == []


def test_an_event_that_waits_beside_it_does_keep_its_window_open(pipeline: Pipeline) -> None:
    pipeline.store.script = [Outcome(Verdict.GATE_SHUT)]
    messages = [pipeline.message(body, receives=2) for body in (EVENT, retraction(id="no"))]
    assert len(write(pipeline, *messages).failures) == 2
    assert list(pipeline.catalog.stragglers([WINDOW])) == [WINDOW]


def test_without_an_event_it_is_rejected_when_none_should_come_any_more(
    pipeline: Pipeline,
) -> None:
    until = pipeline.spec().accept_until + 2 * QUEUE.visibility_ms
    pipeline.effects.pass_by(until - NOW)
    assert again(pipeline, retraction(), 5).failures
    pipeline.effects.pass_by(1)
    assert again(pipeline, retraction(), 2).failures
    report = again(pipeline, retraction(), 3)
    assert (report.failures, report.rejected) == ([], {Reason.NOTHING_TO_RETRACT: 1})
    (letter,) = pipeline.queue.dead_letters
    assert letter.window == WINDOW


def test_an_event_that_is_there_is_taken_back_whatever_the_time(pipeline: Pipeline) -> None:
    pipeline.write(EVENT)
    pipeline.effects.pass_by(20 * HOUR)
    assert again(pipeline, retraction(), 9).retracted == 1


def test_of_a_sealed_window_without_its_event_it_is_rejected_at_once(pipeline: Pipeline) -> None:
    pipeline.store.shut_gates(pipeline.spec())
    pipeline.move(Status.CLOSING)
    assert pipeline.write(retraction()).failures
    pipeline.move(Status.SEALED)
    assert pipeline.write(retraction()).rejected == {Reason.NOTHING_TO_RETRACT: 1}


def test_a_claim_that_came_meanwhile_is_read_before_it_is_rejected(pipeline: Pipeline) -> None:
    """The event was redriven, and may count elsewhere, since the claims were read first."""
    pipeline.move(Status.SEALED)
    reads = pipeline.catalog.claims
    asked: list[int] = []

    def claims(identities: Any) -> Any:
        asked.append(1)
        if len(asked) == 2:
            claimed(pipeline, WINDOW, hour(9))
        return reads(identities)

    pipeline.catalog.claims = claims  # type: ignore[method-assign]
    report = pipeline.write(retraction())
    assert (len(report.failures), report.rejected) == (1, {})


def test_of_a_window_that_never_was_it_is_rejected_in_the_end(pipeline: Pipeline) -> None:
    for place in ({"ts": NOW - 40 * HOUR}, {"window": "20261120T081500Z"}):
        assert again(pipeline, retraction(**place), 2).failures
        assert again(pipeline, retraction(**place), 3).rejected == {Reason.NOTHING_TO_RETRACT: 1}


def test_a_calendar_that_changes_after_its_window_was_chosen_is_followed() -> None:
    """By the old one it is in a window that never comes to be, and its event in a longer one."""
    pipeline = opened(replace(QUEUE, cache_calendar_ms=1_000))
    claims, calendar = pipeline.catalog.claims, pipeline.catalog.calendar()
    assert calendar
    pipeline.effects.pass_by(21 * HOUR)

    def change_first(identities: Any) -> Any:
        lengths = (*calendar.grid.lengths, (NOW + 11 * HOUR + 30 * MINUTE, 2 * HOUR))
        pipeline.catalog._calendar = replace(calendar, grid=Grid(lengths))
        pipeline.effects.pass_by(pipeline.settings.cache_calendar_ms)
        return claims(identities)

    pipeline.catalog.claims = change_first  # type: ignore[method-assign]
    body = retraction(ts=NOW + 21 * HOUR)
    report = write(pipeline, pipeline.message(body, sent=NOW + 21 * HOUR, receives=9))
    assert (len(report.failures), report.rejected) == (1, {})


def test_of_a_window_that_is_to_be_made_it_waits() -> None:
    pipeline = Pipeline(QUEUE)
    assert pipeline.write(retraction()).waiting == 1
    pipeline.roller().run(TIME_LEFT)
    pipeline.effects.pass_by(5 * HOUR)
    report = write(pipeline, pipeline.message(retraction(ts=NOW + 4 * HOUR), receives=9))
    assert (len(report.failures), report.rejected) == (1, {})


# --- failures


def test_a_failing_store_hands_it_back(pipeline: Pipeline) -> None:
    def fail(*_: Any) -> Any:
        raise Throttled("no", "No")

    pipeline.write(EVENT)
    for port, name in (
        (pipeline.catalog, "claims"),
        (pipeline.store, "record"),
        (pipeline.catalog, "window"),
    ):
        working = getattr(port, name)
        setattr(port, name, fail)
        body = retraction(id="no") if name == "window" else retraction()
        report = pipeline.write(body)
        assert (len(report.failures), report.rejected) == (1, {})
        setattr(port, name, working)
    assert pipeline.tally("k")[0] == 1


def test_of_a_window_that_a_later_release_froze_it_is_handed_back_alone(pipeline: Pipeline) -> None:
    """Its place follows from a rule that this release does not know."""
    spec = pipeline.spec()
    pipeline.catalog._specs[WINDOW] = replace(spec, suffix=f"{spec.suffix}+z9")
    report = pipeline.write(retraction(), "nonsense")
    assert len(report.failures) == 1
    assert report.rejected == {Reason.NOT_JSON: 1}
