"""Claims: what holds a redriven event to one window, whoever redrives it, and whatever a producer
says.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallyroll.dead_letters import HIDDEN_SECONDS, Look
from tallyroll.errors import Reason
from tallyroll.ledger import Claim, Identity
from tallyroll.memory import MemoryDeadLetters
from tallyroll.records import Redrive
from tallyroll.redrive import Course
from tallyroll.states import Status
from tests.unit.pipeline import HOUR, NOW, SECOND, WINDOW, hour, opened
from tests.unit.redriving import LATE, Operator, counted, drain, records, reject, seal, with_late


def test_a_claim_that_stands_is_kept() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    identity = (hour(6), "k", "e1")
    pipeline.catalog.claim(identity, Claim(hour(7), NOW - 1))
    assert operator.one(to=WINDOW).target == hour(7)
    drain(pipeline)
    assert records(pipeline) == [(hour(7), "e1")]


def test_a_claim_moves_once_its_target_is_sealed_without_the_record() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    operator.one(to=hour(7))
    seal(pipeline, hour(7))
    drain(pipeline)
    assert pipeline.reasons() == ["window-sealed"]
    (letter,) = pipeline.queue.dead_letters
    assert letter.window == hour(6), "it keeps the window in which it happened"
    decision = operator.one()
    assert (decision.course, decision.target) == (Course.REDRIVEN, WINDOW)
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, "e1")]


def test_a_claim_does_not_move_while_its_target_may_still_count() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    pipeline.catalog.claim((hour(6), "k", "e1"), Claim(hour(7), NOW))
    pipeline.effects.pass_by(HOUR)
    decision = operator.one()
    assert (decision.course, decision.why) == (Course.LEFT, "being closed")


def test_what_stands_in_the_target_is_deleted() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    letters = list(pipeline.queue.dead_letters)
    operator.redrive()
    drain(pipeline)
    pipeline.queue.dead_letters.extend(letters)  # as if it stood there twice
    seal(pipeline, WINDOW)
    assert operator.one().course is Course.COUNTED
    assert counted(pipeline) == 1


def test_another_event_of_its_id_in_the_target_keeps_it_out_until_that_is_sealed() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
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
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
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
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    look = Look(operator.letters, 10)
    (page,) = look.pages()
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


# --- what a producer may claim for itself


def test_attributes_alone_count_nothing() -> None:
    pipeline = opened()
    body = json.dumps({"id": "e1", "key": "k", "ts": NOW})
    pipeline.write(json.loads(body))
    pipeline.queue.send(body, redrive=Redrive(hour(7), "another", NOW))
    drain(pipeline)
    assert pipeline.reasons() == ["not-claimed"]
    decision = Operator(pipeline).one()
    assert (decision.course, decision.why) == (Course.LEFT, "not-claimed")
    assert counted(pipeline) == 1


def test_the_attributes_of_what_the_fuse_moved_are_not_believed() -> None:
    pipeline = opened()
    message_id = pipeline.queue.send('{"key": "k"}', redrive=Redrive(hour(7), "another", NOW))
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


# --- a look at the letters


def test_a_look_sees_each_once_and_gives_all_back() -> None:
    pipeline = opened()
    for number in range(25):
        reject(pipeline, f"body {number}", Reason.NOT_JSON)
    letters = MemoryDeadLetters(pipeline.queue, pipeline.effects)
    look = Look(letters, 100)
    assert [len(page) for page in look.pages()] == [10, 10, 5]
    assert (look.seen, look.expected, look.missed) == (25, 25, 0)
    assert letters.count().visible == 0
    look.close()
    assert letters.count().visible == 25


def test_a_look_of_which_others_hold_a_part() -> None:
    pipeline = opened()
    for number in range(25):
        reject(pipeline, f"body {number}", Reason.NOT_JSON)
    letters = MemoryDeadLetters(pipeline.queue, pipeline.effects)
    held = letters.peek(10, HIDDEN_SECONDS)
    look = Look(letters, 12)
    assert [len(page) for page in look.pages()] == [10, 2]
    assert look.missed == 13
    letters.give_back(held)
    pipeline.effects.pass_by(HIDDEN_SECONDS * SECOND)
    assert letters.count().visible == 25, "they reappear by themselves"
    assert letters.delete(held) == [True] * 10
    assert len(pipeline.queue.dead_letters) == 15


def test_only_the_last_receipt_deletes() -> None:
    pipeline = opened()
    reject(pipeline, "body", Reason.NOT_JSON)
    letters = MemoryDeadLetters(pipeline.queue, pipeline.effects)
    first = letters.peek(10, 1)
    pipeline.effects.pass_by(SECOND)
    (second,) = letters.peek(10, 60)
    assert second.receives == 2
    letters.give_back(first)
    assert letters.peek(10, 60) == []
    assert letters.delete(first) == [False]
    assert letters.delete([second]) == [True]


# --- windows on their way


def test_a_window_that_is_being_made_is_awaited() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    pipeline.catalog.claim((hour(6), "k", "e1"), Claim(hour(9), NOW))
    assert pipeline.state(hour(9)).status is Status.CREATING
    assert operator.one().why == "not open yet"


def test_a_window_that_is_dropped_meanwhile_tells_nothing() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    record = pipeline.store.record

    def dropping(*arguments: Any) -> None:
        for status in (Status.EXPORTING, Status.PROVEN, Status.DROPPING):
            pipeline.move(status, hour(6))
        assert record(*arguments) is None

    pipeline.store.record = dropping  # type: ignore[method-assign,assignment]
    assert operator.one().why == "unverified"


@pytest.mark.parametrize("sealed", [True, False])
def test_a_table_or_spec_that_is_missing_tells_nothing(sealed: bool) -> None:
    pipeline, operator = with_late()
    if sealed:
        seal(pipeline, hour(6))
        for _ in range(2):
            pipeline.store.drop_table(pipeline.spec(hour(6)).table)
    else:
        pipeline.catalog.specs = lambda windows: {}  # type: ignore[method-assign]
    assert operator.one().why == "not looked up"


def test_a_target_that_is_dropped_needs_the_operators_word() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    pipeline.catalog.claim((hour(6), "k", "e1"), Claim(hour(7), NOW))
    seal(pipeline, hour(7))
    for status in (Status.EXPORTING, Status.PROVEN, Status.DROPPING):
        pipeline.move(status, hour(7))
    assert operator.one().why == "unverified"
    assert operator.one(unverified=True).target == WINDOW
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, "e1")]


def test_two_operators_who_move_one_claim_agree() -> None:
    pipeline, operator = with_late()
    seal(pipeline, hour(6))
    pipeline.catalog.claim((hour(6), "k", "e1"), Claim(hour(7), NOW))
    seal(pipeline, hour(7))
    pipeline.effects.pass_by(HOUR)
    pipeline.roller().run(60_000)
    move = pipeline.catalog.move

    def second(identity: Identity, read: Claim, wanted: Claim) -> Claim:
        move(identity, read, Claim(hour(8), NOW))
        return move(identity, read, wanted)

    pipeline.catalog.move = second  # type: ignore[method-assign]
    assert operator.one(to=hour(9)).target == hour(8)
