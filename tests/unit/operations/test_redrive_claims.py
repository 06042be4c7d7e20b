"""Claims: what holds a redriven event to one window, whoever redrives it, and whatever a producer
says.
"""

from __future__ import annotations

import json

import pytest

from tallyroll.errors import Unknown
from tallyroll.model.ids import Identity
from tallyroll.model.messages import RedriveMark
from tallyroll.model.states import Status
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.ports.catalog import Claim
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, NOW, WINDOW, Pipeline, hour, opened, record_with
from tests.harness.redriving import LATE, Operator, counted, drain, records, reject, seal, with_late


def test_a_claim_that_stands_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, operator = with_late(sealed=True)
    identity = (hour(6), "k", "e1")
    stands = Claim(hour(7), NOW - 1)
    pipeline.catalog.claim(identity, stands)
    monkeypatch.setattr(pipeline.catalog, "claim", None)  # it is not put again
    assert operator.one(to=WINDOW).target == hour(7)
    assert pipeline.catalog.claims([identity]) == {identity: stands}
    drain(pipeline)
    assert records(pipeline) == [(hour(7), "e1")]


def sealed_before_it_arrives() -> tuple[Pipeline, Operator]:
    """A late event that was redriven to a window which was sealed meanwhile."""
    pipeline, operator = with_late(sealed=True)
    operator.one(to=hour(7))
    seal(pipeline, hour(7))
    drain(pipeline)
    assert pipeline.reasons() == ["window-sealed"]
    return pipeline, operator


def test_a_claim_moves_once_its_target_is_sealed_without_the_record() -> None:
    pipeline, operator = sealed_before_it_arrives()
    (letter,) = pipeline.queue.dead_letters
    assert letter.window == hour(6), "it keeps the window in which it happened"
    decision = operator.one()
    assert decision.letter.why == "window-sealed"
    assert (decision.course, decision.target) == (LetterOutcome.REDRIVEN, WINDOW)
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, "e1")]


def test_a_claim_does_not_move_while_its_target_may_still_count() -> None:
    pipeline, operator = with_late(sealed=True)
    pipeline.catalog.claim((hour(6), "k", "e1"), Claim(hour(7), NOW))
    pipeline.effects.pass_by(HOUR)
    decision = operator.one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "being closed")
    assert decision.detail.startswith(f"window {hour(7)} takes no more events")


def test_a_claim_on_a_dropped_window_moves_only_if_the_operator_says_so() -> None:
    pipeline, operator = sealed_before_it_arrives()
    for status in (Status.EXPORTING, Status.PROVEN, Status.DROPPING, Status.DROPPED):
        pipeline.move(status, hour(7))
    decision = operator.one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "unverified")
    assert f"counted 'e1', by `tallyroll archive read {hour(7)} --key k`" in decision.detail
    decision = operator.one(unverified=True)
    assert (decision.course, decision.target) == (LetterOutcome.REDRIVEN, WINDOW)
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, "e1")]
    identity = (hour(6), "k", "e1")
    assert pipeline.catalog.claims([identity])[identity].target == WINDOW


def test_a_claim_on_its_own_window_stays_if_another_window_s_event_has_its_id_there() -> None:
    pipeline, operator = with_late()
    pipeline.catalog.claim((hour(6), "k", "e1"), Claim(hour(6), NOW))
    pipeline.store.commit(pipeline.spec(hour(6)), [record_with("e1", ts=NOW)], [])
    seal(pipeline, hour(6))
    decision = operator.one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "id-conflict")


def test_what_stands_in_the_target_is_deleted() -> None:
    pipeline, operator = with_late(sealed=True)
    letters = list(pipeline.queue.dead_letters)
    operator.redrive()
    drain(pipeline)
    pipeline.queue.dead_letters.extend(letters)  # as if it stood there twice
    seal(pipeline, WINDOW)
    decision = operator.one()
    assert (decision.course, decision.target) == (LetterOutcome.COUNTED, WINDOW)
    assert counted(pipeline) == 1


def test_another_event_of_its_id_in_the_target_keeps_it_out_until_that_is_sealed() -> None:
    pipeline, operator = with_late(sealed=True)
    pipeline.write({"id": "e1", "key": "k", "ts": NOW})
    operator.redrive()
    drain(pipeline)
    assert pipeline.reasons() == ["id-conflict"]
    assert operator.one().why == "id-conflict"
    seal(pipeline, WINDOW)
    assert operator.one(to=hour(7)).target == hour(7)
    drain(pipeline)
    assert sorted(records(pipeline)) == [(hour(7), "e1"), (WINDOW, "e1")]


def test_another_content_of_its_identity_in_the_target_keeps_it_out_for_good() -> None:
    """If the claim moved on for the second content, a copy of the first would count there, too."""
    pipeline, operator = with_late(sealed=True)
    operator.one(to=hour(7))
    drain(pipeline)
    letters = [
        reject(
            pipeline, json.dumps({"id": "e1", "key": "k", "ts": LATE, **fields}), Reason.TOO_LATE
        )
        for fields in ({"value": 2}, {})
    ]
    seal(pipeline, hour(7))
    decisions = {one.letter.first_id: one for one in operator.redrive()}
    assert [decisions[letter].why for letter in letters] == ["id-conflict", ""]
    drain(pipeline)
    assert records(pipeline) == [(hour(7), "e1")]
    assert pipeline.catalog.claims([(hour(6), "k", "e1")])[hour(6), "k", "e1"].target == hour(7)


def test_the_claim_of_whoever_was_first_holds_for_both() -> None:
    pipeline, operator = with_late(sealed=True)
    page = operator.letters.peek(10, 60)
    redriver = operator.redriver()
    claim = pipeline.catalog.claim

    def second(identity: Identity, wanted: Claim) -> Claim:
        claim(identity, Claim(hour(7), NOW))
        return claim(identity, wanted)

    pipeline.catalog.claim = second  # type: ignore[method-assign]
    (decision,) = redriver.redrive(page)
    assert decision.target == hour(7)
    drain(pipeline)
    assert records(pipeline) == [(hour(7), "e1")]


def test_the_claim_of_whoever_moved_it_first_holds_for_both() -> None:
    pipeline, operator = with_late(sealed=True)
    pipeline.catalog.claim((hour(6), "k", "e1"), Claim(hour(6), NOW - HOUR))
    move = pipeline.catalog.move

    def second(identity: Identity, read: Claim, wanted: Claim) -> Claim:
        move(identity, read, Claim(hour(7), NOW))
        return move(identity, read, wanted)

    pipeline.catalog.move = second  # type: ignore[method-assign]
    assert operator.one(to=WINDOW).target == hour(7)
    drain(pipeline)
    assert records(pipeline) == [(hour(7), "e1")]


# --- what a producer may claim for itself


def test_attributes_alone_count_nothing() -> None:
    pipeline = opened()
    body = json.dumps({"id": "e1", "key": "k", "ts": NOW})
    pipeline.write(json.loads(body))
    pipeline.queue.send(body, redrive=RedriveMark(hour(7), "another", NOW))
    drain(pipeline)
    assert pipeline.reasons() == ["not-claimed"]
    decision = Operator(pipeline).one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "not-claimed")
    assert counted(pipeline) == 1


def test_the_attributes_of_what_the_fuse_moved_are_not_believed() -> None:
    pipeline = opened()
    message_id = pipeline.queue.send('{"key": "k"}', redrive=RedriveMark(hour(7), "another", NOW))
    pipeline.queue.held()[0].receives = 1_000
    assert pipeline.queue.receive() == []
    assert Operator(pipeline).one().target == WINDOW
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, message_id)]


def test_a_redriven_message_that_the_fuse_moved_keeps_its_claim() -> None:
    pipeline, operator = with_late(id=None)
    first_id = pipeline.queue.dead_letters[0].message.id
    seal(pipeline, hour(6))
    operator.redrive()
    pipeline.queue.held()[0].receives = 1_000
    assert pipeline.queue.receive() == []
    assert operator.one().target == WINDOW
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, first_id)]


def test_a_claim_that_cannot_be_read_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its claim, a letter of the fuse's is read as another event, with its copy's id."""
    pipeline, operator = with_late(id=None)
    first_id = pipeline.queue.dead_letters[0].message.id
    seal(pipeline, hour(6))
    operator.redrive()
    pipeline.queue.held()[0].receives = 1_000
    assert pipeline.queue.receive() == []

    def fails(*_: object) -> object:
        raise Unknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.catalog, "claims", fails)
        decision = operator.one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "not looked up")
    assert len(pipeline.queue.dead_letters) == 1
    operator.redrive()
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, first_id)]


def test_what_the_fuse_moved_with_untrue_attributes_has_a_claim_of_its_own() -> None:
    """It is looked up under the identity that it has without them."""
    pipeline = opened()
    body = json.dumps({"key": "k", "ts": LATE})
    message_id = pipeline.queue.send(body, redrive=RedriveMark(hour(7), "another", NOW))
    pipeline.queue.held()[0].receives = 1_000
    assert pipeline.queue.receive() == []
    letters = list(pipeline.queue.dead_letters)
    seal(pipeline, hour(6))
    operator = Operator(pipeline)
    assert operator.one().course is LetterOutcome.REDRIVEN
    drain(pipeline)
    pipeline.queue.dead_letters.extend(letters)  # as if it stood there twice
    assert operator.one().course is LetterOutcome.COUNTED
    assert records(pipeline) == [(WINDOW, message_id)]
