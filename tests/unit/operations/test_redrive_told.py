"""The messages about dead letters that stay in their queue, and the actions that are not taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tallyroll.errors import StoreError, UsageError
from tallyroll.model.states import Calendar, Status
from tallyroll.model.windows import Grid, window_start
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.operations.redrive import CLAIMS_AT_ONCE, Redriver
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, MINUTE, NOW, START, WINDOW, Pipeline, hour, opened
from tests.harness.redriving import LATE, Operator, counted, drain, reject, seal, send, with_late


def refusing(*_: object) -> None:
    raise StoreError("no answer")


def plain(operator: Operator) -> Redriver:
    """A redriver with no option given."""
    pipeline = operator.pipeline
    ports = (pipeline.store, pipeline.catalog, operator.letters, pipeline.effects)
    return Redriver(pipeline.settings, *ports)


def at_once(pipeline: Pipeline) -> list[int]:
    """How many jobs are allowed side by side, call by call, from now on."""
    asked: list[int] = []
    together = pipeline.effects.together

    def noted(jobs: Sequence[Callable[[], Any]], most: int) -> list[Any]:
        asked.append(most)
        return together(jobs, most)

    pipeline.effects.together = noted  # type: ignore[assignment, method-assign]
    return asked


@pytest.mark.parametrize(("target", "status"), [(hour(6), "is sealed"), (hour(12), "is not there")])
def test_why_a_target_is_refused(target: str, status: str) -> None:
    _, operator = with_late(sealed=True)
    with pytest.raises(UsageError) as refused:
        operator.redriver(to=target).check_target()
    assert str(refused.value) == (
        f"window {target} {status} and takes no events: give one of {hour(7)}, {hour(8)}"
    )


def test_a_window_is_offered_from_its_first_millisecond_on() -> None:
    pipeline = opened()
    pipeline.move(Status.OPEN, hour(9))
    for before, offered in ((1, [hour(7), hour(8)]), (0, [hour(7), hour(8), hour(9)])):
        pipeline.effects.pass_by(START + HOUR - before - pipeline.effects.now())
        with pytest.raises(UsageError) as refused:
            Operator(pipeline).redriver(to=hour(12)).check_target()
        assert str(refused.value).endswith(f"give one of {', '.join(offered)}")


def test_claims_are_put_side_by_side_if_there_are_any() -> None:
    pipeline, operator = with_late()
    asked = at_once(pipeline)
    assert operator.one().course is LetterOutcome.LEFT
    assert asked[-1] == 1
    seal(pipeline, hour(6))
    assert operator.one().course is LetterOutcome.REDRIVEN
    assert asked[-1] == CLAIMS_AT_ONCE


def test_where_all_is_left_nothing_is_sent_or_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    _, operator = with_late()
    redriver = plain(operator)
    (letter,) = operator.letters.peek(10, 60)
    for verb in ("resend", "delete"):
        monkeypatch.setattr(operator.letters, verb, refusing)
    (decision,) = redriver.redrive([letter])
    assert decision.course is LetterOutcome.LEFT


def test_nothing_of_a_dropped_window_is_redriven_unless_it_is_asked_for() -> None:
    pipeline, operator = with_late(sealed=True)
    for status in (Status.EXPORTING, Status.PROVEN, Status.DROPPING, Status.DROPPED):
        pipeline.move(status, hour(6))
    (decision,) = plain(operator).decide(operator.letters.peek(10, 60))
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "unverified")


def test_without_its_calendar_each_letter_is_left_and_told_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = Pipeline()
    for _ in range(2):
        reject(pipeline, '{"key": "k"}', Reason.CRASHES_WRITER)
    operator = Operator(pipeline)
    standing = [letter.id for letter in pipeline.queue.dead_letters]
    decisions = operator.redrive()
    assert [decision.letter.id for decision in decisions] == standing
    assert {(decision.why, decision.detail) for decision in decisions} == {
        ("no calendar", "the pipeline has no calendar: has the roller run?")
    }
    monkeypatch.setattr(pipeline.catalog, "calendar", refusing)
    decisions = operator.redrive()
    assert [decision.letter.id for decision in decisions] == standing
    assert {(decision.why, decision.detail) for decision in decisions} == {
        ("not looked up", "no answer")
    }


def test_what_could_not_be_claimed_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, operator = with_late(sealed=True)
    monkeypatch.setattr(pipeline.catalog, "claim", refusing)
    decision = operator.one()
    assert (decision.course, decision.why, decision.target, decision.detail) == (
        LetterOutcome.LEFT,
        "not claimed",
        WINDOW,
        "no answer",
    )
    assert decision.letter.id == pipeline.queue.dead_letters[0].id
    assert len(pipeline.queue) == 0


def test_what_was_not_sent_says_where_it_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, operator = with_late(sealed=True)
    monkeypatch.setattr(operator.letters, "resend", lambda resends: ["lost"] * len(resends))
    decision = operator.one()
    assert (decision.course, decision.detail) == (
        LetterOutcome.LEFT,
        f"claimed for {WINDOW}, but not surely sent: lost",
    )
    assert decision.letter.id == pipeline.queue.dead_letters[0].id


def test_what_was_not_deleted_is_left_and_says_what_was_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, operator = with_late(sealed=True)
    monkeypatch.setattr(operator.letters, "delete", lambda letters: [False] * len(letters))
    decision = operator.one()
    assert (decision.course, decision.target) == (LetterOutcome.LEFT, WINDOW)
    assert decision.detail.startswith("redriven, but the letter still exists: redrive again")


def test_a_dry_run_names_its_letters() -> None:
    pipeline, operator = with_late(sealed=True)
    (decision,) = operator.decide()
    assert decision.letter.id == pipeline.queue.dead_letters[0].id


def test_what_is_counted_already_says_where() -> None:
    pipeline = opened()
    pipeline.write({"id": "e1", "key": "k", "ts": NOW})
    reject(pipeline, json.dumps({"id": "e1", "key": "k", "ts": NOW}), Reason.CRASHES_WRITER)
    decision = Operator(pipeline).one()
    assert (decision.course, decision.target) == (LetterOutcome.COUNTED, WINDOW)
    assert counted(pipeline) == 1


def test_an_event_of_an_open_window_is_not_sent_to_another() -> None:
    pipeline = opened()
    reject(pipeline, json.dumps({"id": "e1", "key": "k", "ts": NOW}), Reason.CRASHES_WRITER)
    detail = Operator(pipeline).one(to=hour(7)).detail
    assert detail.startswith(f"its own window {WINDOW} still takes events")


def test_an_event_of_a_window_that_closes_waits_for_its_end() -> None:
    _, operator = with_late()
    assert operator.one().detail.startswith(f"window {hour(6)} takes no more events")


def test_an_event_that_another_one_keeps_out_is_named() -> None:
    pipeline = opened()
    pipeline.write({"id": "e1", "key": "k", "ts": NOW})
    send(pipeline, id="e1", ts=NOW, value=2)
    drain(pipeline)
    detail = Operator(pipeline).one().detail
    assert detail.startswith(f"another event has the id 'e1' in window {WINDOW}:")


def test_where_the_current_window_takes_nothing_its_state_is_told() -> None:
    pipeline, operator = with_late()
    for number in (6, 8):
        seal(pipeline, hour(number))
    detail = operator.one().detail
    assert detail == f"window {WINDOW} is sealed: does the roller run?"
    pipeline.effects.pass_by(12 * HOUR)
    decision = operator.one()
    assert (decision.why, decision.detail) == (
        "no window",
        f"window {hour(20)} is not made yet: does the roller run?",
    )


def test_the_pipeline_s_first_window_is_awaited_and_none_before_it() -> None:
    pipeline = Pipeline()
    pipeline.catalog.found(Calendar(Grid.of(3600), window_start(hour(6))))
    reject(pipeline, json.dumps({"id": "e1", "key": "k", "ts": LATE}), Reason.CRASHES_WRITER)
    decision = Operator(pipeline).one()
    assert (decision.why, decision.detail) == (
        "not open yet",
        f"window {hour(6)} is not open yet: redrive it in a few minutes",
    )
    pipeline.queue.dead_letters.clear()
    earlier = {"id": "e2", "key": "k", "ts": LATE - 10 * MINUTE}
    reject(pipeline, json.dumps(earlier), Reason.CRASHES_WRITER)
    assert Operator(pipeline).one().why == "no window"
