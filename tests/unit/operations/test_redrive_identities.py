"""Redrive under identities beyond the window: what counts elsewhere is not sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.limits import QUEUE_RETENTION_MS_MAX
from tallyroll.model.messages import Rejection
from tallyroll.model.specs import IdentityScope
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.reasons import Reason
from tests.harness.pipeline import SMALL, TIME_LEFT, WINDOW, Pipeline, hour, opened
from tests.harness.redriving import LATE, Operator, drain, seal

SCOPES = (IdentityScope.KEY, IdentityScope.PIPELINE)


def with_letter(scope: str, **more: Any) -> tuple[Pipeline, Operator]:
    """A pipeline with one dead letter of an event of window 06, whose id a copy may have taken."""
    pipeline = opened(replace(SMALL, identity=scope))
    message = pipeline.message({"v": 1, "key": "k", "id": "e1", **more}, sent=LATE)
    pipeline.queue.reject([Rejection(message, Reason.WINDOW_SEALED, "sealed", hour(6))])
    return pipeline, Operator(pipeline)


@pytest.mark.parametrize("scope", SCOPES)
def test_what_counts_in_another_window_is_counted_already(scope: str) -> None:
    pipeline, operator = with_letter(scope)
    pipeline.write({"v": 1, "key": "k", "id": "e1"})
    seal(pipeline, hour(6))
    decision = operator.one()
    assert (decision.course, decision.target) == (LetterOutcome.COUNTED, WINDOW)
    assert pipeline.queue.dead_letters == []
    assert pipeline.tally("k") == (1, 1_000_000)


@pytest.mark.parametrize("scope", SCOPES)
def test_an_id_that_another_event_took_stays_a_conflict(scope: str) -> None:
    pipeline, operator = with_letter(scope, value=2)
    pipeline.write({"v": 1, "key": "k", "id": "e1"})
    seal(pipeline, hour(6))
    decision = operator.one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, Reason.ID_CONFLICT)
    assert len(pipeline.queue.dead_letters) == 1


@pytest.mark.parametrize("scope", SCOPES)
def test_what_nobody_counted_is_sent_again_and_counts_once(scope: str) -> None:
    pipeline, operator = with_letter(scope)
    seal(pipeline, hour(6))
    assert operator.one().course is LetterOutcome.REDRIVEN
    drain(pipeline)
    assert pipeline.write({"v": 1, "key": "k", "id": "e1"}).duplicates == 1
    assert pipeline.tally("k") == (1, 1_000_000)


def test_a_letter_whose_id_may_be_forgotten_needs_unverified() -> None:
    pipeline, operator = with_letter(IdentityScope.KEY)
    seal(pipeline, hour(6))
    known_until = LATE + QUEUE_RETENTION_MS_MAX + pipeline.settings.queue_retention_ms
    pipeline.effects.pass_by(known_until - pipeline.effects.now())
    for _ in range(3):
        pipeline.roller().run(TIME_LEFT)
    assert pipeline.effects.now() == known_until
    (decision,) = operator.decide()
    assert decision.course is LetterOutcome.REDRIVEN
    pipeline.effects.pass_by(1)
    (decision,) = operator.decide()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "unverified")
    (decision,) = operator.decide(unverified=True)
    assert decision.course is LetterOutcome.REDRIVEN


def test_the_rule_of_the_window_to_which_it_goes_also_makes_a_letter_too_old() -> None:
    """Its own window is of before the rule: a copy may count in another one since."""
    pipeline, _ = with_letter(IdentityScope.WINDOW)
    seal(pipeline, hour(6))
    pipeline.settings = replace(pipeline.settings, identity=IdentityScope.KEY)
    pipeline.effects.pass_by(QUEUE_RETENTION_MS_MAX + pipeline.settings.queue_retention_ms)
    for _ in range(3):
        pipeline.roller().run(TIME_LEFT)
    (decision,) = Operator(pipeline).decide()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "unverified")


def test_that_rule_is_looked_up_also_if_the_next_window_begins_meanwhile() -> None:
    """Else it would go to the next one, as if no copy could have counted by its rule."""
    pipeline, _ = with_letter(IdentityScope.WINDOW)
    seal(pipeline, hour(6))
    pipeline.settings = replace(pipeline.settings, identity=IdentityScope.KEY)
    pipeline.effects.pass_by(QUEUE_RETENTION_MS_MAX + pipeline.settings.queue_retention_ms)
    for _ in range(6):
        pipeline.roller().run(TIME_LEFT)
    calendar, read = pipeline.catalog.calendar(), pipeline.catalog.specs
    assert calendar
    current = calendar.grid.at(pipeline.effects.now())

    def slowly(windows: Sequence[str]) -> Any:
        found = read(windows)
        if current.id in windows:
            pipeline.effects.pass_by(max(0, current.end - pipeline.effects.now()))
        return found

    pipeline.catalog.specs = slowly  # type: ignore[method-assign]
    (decision,) = Operator(pipeline).decide()
    assert pipeline.effects.now() == current.end
    assert decision.course is LetterOutcome.LEFT
    assert decision.why == "unverified"


def test_while_identities_cannot_be_read_the_letter_stays() -> None:
    pipeline, operator = with_letter(IdentityScope.KEY)

    def throttled(names: object) -> Any:
        raise Throttled(f"{names}", "Slow")

    pipeline.store.identities = throttled  # type: ignore[method-assign]
    assert operator.one().why == "not looked up"
    assert len(pipeline.queue.dead_letters) == 1
    seal(pipeline, hour(6))
    message = pipeline.message({"v": 1, "key": "k"}, sent=LATE)  # needs none
    pipeline.queue.reject([Rejection(message, Reason.WINDOW_SEALED, "sealed", hour(6))])
    assert {each.why for each in operator.redrive()} == {"not looked up", ""}
    assert len(pipeline.queue.dead_letters) == 1


def test_however_old_a_letter_is_whose_record_stands_is_counted_already() -> None:
    """Its id is forgotten, and its window still has the record."""
    pipeline, operator = with_letter(IdentityScope.KEY)
    copy = pipeline.message({"v": 1, "key": "k", "id": "e1"}, sent=LATE)
    assert pipeline.writer().write([copy], TIME_LEFT).single_events == 1
    pipeline.store.identity_items.clear()
    seal(pipeline, hour(6))
    pipeline.effects.pass_by(QUEUE_RETENTION_MS_MAX + pipeline.settings.queue_retention_ms)
    (decision,) = operator.decide()
    assert (decision.course, decision.target) == (LetterOutcome.COUNTED, hour(6))
