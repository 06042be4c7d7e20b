"""Redrive: where each dead letter goes, what stays and why, and that nothing counts twice."""

from __future__ import annotations

import json

import pytest

from tallyroll.errors import StoreError, UsageError
from tallyroll.model.dead_letters import ReceivedLetter, attributes_of, letter_of
from tallyroll.model.states import Calendar, Status
from tallyroll.model.windows import Grid, window_id, window_start
from tallyroll.operations.letter_events import LetterOutcome
from tallyroll.ports.catalog import Claim
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, MINUTE, NOW, SECOND, START, WINDOW, Pipeline, hour, opened
from tests.harness.redriving import (
    LATE,
    Operator,
    counted,
    drain,
    records,
    reject,
    seal,
    send,
    with_late,
)


def series(pipeline: Pipeline) -> tuple[tuple[int, int], ...]:
    """The events of key `k` per sixtieth of the current window."""
    return pipeline.store.tallies(pipeline.spec(), ["k"])["k"].series


# --- where it goes


def test_what_its_sealed_window_lacks_goes_to_the_current_one() -> None:
    pipeline, operator = with_late(sealed=True, value=2.5)
    decision = operator.one()
    assert (decision.course, decision.target) == (LetterOutcome.REDRIVEN, WINDOW)
    assert pipeline.queue.dead_letters == []
    drain(pipeline)
    assert pipeline.tally("k") == (1, 2_500_000)
    assert pipeline.tally("k", hour(6)) == (0, 0)
    assert pipeline.catalog.claims([(hour(6), "k", "e1")]) == {
        (hour(6), "k", "e1"): Claim(WINDOW, NOW)
    }
    stored = pipeline.store.record(pipeline.spec(), "k", "e1")
    assert stored
    assert stored.ts == LATE, "it keeps the time at which it happened"
    assert series(pipeline) == ((30, 1),), "but stands in the series at the time of its redrive"


def test_a_packet_goes_whole() -> None:
    entries = [[n * SECOND] for n in range(5)]
    pipeline, operator = with_late(sealed=True, v=1, id="p1", t0=LATE, events=entries)
    operator.redrive()
    drain(pipeline)
    stored = pipeline.store.record(pipeline.spec(), "k", "p1")
    assert stored
    assert (stored.n, series(pipeline)) == (5, ((30, 5),))
    assert counted(pipeline) == 5


def test_into_its_own_window_it_stands_where_it_happened() -> None:
    pipeline = opened()
    first_id = reject(pipeline, json.dumps({"key": "k", "ts": NOW}), Reason.CRASHES_WRITER)
    pipeline.effects.pass_by(10 * MINUTE)
    assert Operator(pipeline).one().target == WINDOW
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, first_id)]
    assert series(pipeline) == ((30, 1),)


def test_without_an_id_it_keeps_that_of_its_first_message() -> None:
    pipeline = opened()
    message_id = pipeline.queue.send('{"key": "k"}')
    (message,) = pipeline.queue.receive()
    pipeline.writer().write([message], 60_000)  # counted, and not deleted: its writer was killed
    pipeline.queue.held()[0].receives = 1_000
    pipeline.effects.pass_by(HOUR // 2 - 1)
    assert pipeline.queue.receive() == [], "the queue's fuse moves it"
    operator = Operator(pipeline)
    assert operator.one().course is LetterOutcome.COUNTED
    assert records(pipeline) == [(WINDOW, message_id)]
    assert pipeline.queue.dead_letters == []


@pytest.mark.parametrize("forged", [{}, {"tallyroll-target": hour(7)}, {"tallyroll-body": "s3"}])
def test_what_its_producer_said_of_a_message_that_sqs_moved(forged: dict[str, str]) -> None:
    pipeline = opened()
    message_id = pipeline.queue.send('{"key": "k"}')
    pipeline.writer().write(pipeline.queue.receive(), 60_000)  # counted, and not deleted
    chosen = {"tallyroll-reason": "bad-key", "tallyroll-message-id": "x", "tallyroll-sent": "7"}
    (decision,) = Operator(pipeline).redriver().decide([_moved(message_id, chosen | forged)])
    assert decision.course is LetterOutcome.COUNTED


def test_a_redriven_message_that_sqs_moves_is_decided_by_its_claim() -> None:
    pipeline, operator = with_late(sealed=True, id="e2")
    operator.redrive()
    (again,) = pipeline.queue.receive()
    assert again.redrive
    pipeline.writer().write([again], 60_000)  # counted, and not deleted
    letter = _moved(again.id, attributes_of(again.redrive), again.body)
    (decision,) = operator.redriver().decide([letter])
    assert (decision.course, decision.target) == (LetterOutcome.COUNTED, WINDOW)


def _moved(id_: str, attributes: dict[str, str], body: str = '{"key": "k"}') -> ReceivedLetter:
    return letter_of(
        id_=id_, receipt="r", receives=1, arrived=NOW, body=body, attributes=attributes, moved=True
    )


def test_undelivered_and_not_counted() -> None:
    pipeline = opened()
    message_id = pipeline.queue.send('{"key": "k"}')
    pipeline.queue.held()[0].receives = 1_000
    assert pipeline.queue.receive() == []
    decision = Operator(pipeline).one()
    assert (decision.letter.why, decision.target) == ("undelivered", WINDOW)
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, message_id)]


def test_the_operator_names_another_window() -> None:
    pipeline, operator = with_late(sealed=True)
    operator.redriver(to=hour(7)).check_target()
    assert operator.one(to=hour(7)).target == hour(7)
    drain(pipeline)
    assert records(pipeline) == [(hour(7), "e1")]


def test_before_the_first_window_there_is_nothing_to_look_up() -> None:
    pipeline = opened()
    send(pipeline, id="e1", ts=LATE - 2 * HOUR)
    drain(pipeline)
    assert Operator(pipeline).one().target == WINDOW
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, "e1")]


def test_a_claim_for_a_window_that_is_not_there_stays() -> None:
    """Another redrive may have made the window in the meantime, and its message be on its way."""
    pipeline = opened()
    early = LATE - 2 * HOUR
    send(pipeline, id="e1", ts=early)
    drain(pipeline)
    home = window_id(early - early % HOUR)
    pipeline.catalog.claim((home, "k", "e1"), Claim(hour(20), NOW))
    decision = Operator(pipeline).one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "not open yet")


def test_the_calendar_is_read_anew_for_each_page() -> None:
    """A redrive of many letters may last beyond a change of the window length."""
    pipeline = opened()
    reject(pipeline, json.dumps({"id": "e1", "key": "k", "ts": NOW}), Reason.CRASHES_WRITER)
    operator = Operator(pipeline)
    page, redriver = operator.letters.peek(10, 60), operator.redriver()
    assert [one.target for one in redriver.decide(page)] == [WINDOW]
    pipeline.catalog._calendar = Calendar(Grid(((0, HOUR), (START, 15 * MINUTE))), LATE)
    decisions = redriver.decide(page)
    assert [(one.course, one.why) for one in decisions] == [(LetterOutcome.LEFT, "not open yet")]


def test_a_dry_run_changes_nothing() -> None:
    pipeline, operator = with_late(sealed=True)
    (decision,) = operator.decide()
    assert (decision.course, decision.target) == (LetterOutcome.REDRIVEN, WINDOW)
    assert pipeline.reasons() == ["too-late"]
    assert pipeline.catalog.claims([(hour(6), "k", "e1")]) == {}
    assert len(pipeline.queue) == 0


# --- what stays, and why


@pytest.mark.parametrize("target", [hour(6), hour(9), "20251120T080000Z", hour(12)])
def test_a_target_that_takes_no_events_is_refused(target: str) -> None:
    _, operator = with_late(sealed=True)
    with pytest.raises(UsageError, match=rf"takes no events: give one of {hour(7)}, {hour(8)}"):
        operator.redriver(to=target).check_target()


def test_no_target_is_left() -> None:
    pipeline, operator = with_late()
    for number in (6, 7, 8):
        seal(pipeline, hour(number))
    with pytest.raises(UsageError, match="none does"):
        operator.redriver(to=hour(7)).check_target()
    decision = operator.one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "no window")


def test_what_may_still_count_in_its_own_window_goes_nowhere_else() -> None:
    pipeline, operator = with_late()
    decision = operator.one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "being closed")

    pipeline.queue.dead_letters.clear()
    reject(pipeline, json.dumps({"id": "e2", "key": "k", "ts": NOW}), Reason.CRASHES_WRITER)
    decision = operator.one(to=hour(7))
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "own window open")
    assert operator.one(to=WINDOW).course is LetterOutcome.REDRIVEN


def test_what_was_sent_twice_and_counted_once_is_deleted() -> None:
    pipeline = opened()
    pipeline.write({"id": "e1", "key": "k", "ts": NOW - HOUR})
    pipeline.effects.pass_by(2 * HOUR)
    send(pipeline, id="e1", ts=NOW - HOUR)
    drain(pipeline)
    seal(pipeline, hour(7))
    assert pipeline.reasons() == ["too-late"]
    assert Operator(pipeline).one().course is LetterOutcome.COUNTED
    assert pipeline.queue.dead_letters == []
    assert counted(pipeline) == 1


@pytest.mark.parametrize("sealed", [False, True])
def test_another_content_under_an_id_stays(sealed: bool) -> None:
    pipeline = opened()
    pipeline.write({"id": "e1", "key": "k", "ts": NOW})
    send(pipeline, id="e1", ts=NOW, value=2)
    drain(pipeline)
    if sealed:
        seal(pipeline, WINDOW)
    decision = Operator(pipeline).one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "id-conflict")
    assert pipeline.reasons() == ["id-conflict"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "empty-body"),
        ("not JSON", "not-json"),
        ('{"key": "~t"}', "bad-key"),
        (
            json.dumps({"key": "k", "id": "p", "t0": NOW, "events": [[0], [HOUR]]}),
            "packet-mixed-windows",
        ),
        (json.dumps({"key": "k", "id": "e", "ts": NOW + 3 * HOUR}), "lies ahead"),
    ],
)
def test_what_can_never_count_stays(body: str, why: str) -> None:
    pipeline = opened()
    reject(pipeline, body, Reason.BAD_KEY)
    decision = Operator(pipeline).one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, why)
    assert len(pipeline.queue.dead_letters) == 1


def test_a_mixed_packet_does_not_count_elsewhere_either() -> None:
    entries = [[0], [HOUR]]
    _, operator = with_late(sealed=True, v=1, id="p1", t0=LATE, events=entries)
    assert operator.one().why == "packet-mixed-windows"


def test_a_dropped_window_cannot_be_asked() -> None:
    pipeline, operator = with_late(sealed=True)
    for status in (Status.EXPORTING, Status.PROVEN, Status.DROPPING, Status.DROPPED):
        pipeline.move(status, hour(6))
    for _ in range(2):
        pipeline.store.drop_table(pipeline.spec(hour(6)).table)
    decision = operator.one()
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "unverified")
    assert f"tallyroll archive read {hour(6)} --key k" in decision.detail
    assert operator.one(unverified=True).course is LetterOutcome.REDRIVEN
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, "e1")]


def test_a_conflict_in_a_dropped_window_is_known() -> None:
    pipeline = opened()
    reject(pipeline, json.dumps({"id": "e", "key": "k", "ts": LATE}), Reason.ID_CONFLICT)
    seal(pipeline, hour(6))
    for status in (Status.EXPORTING, Status.PROVEN, Status.DROPPING):
        pipeline.move(status, hour(6))
    decision = Operator(pipeline).one(unverified=True)
    assert (decision.course, decision.why) == (LetterOutcome.LEFT, "id-conflict")


def test_a_missed_window_is_awaited() -> None:
    pipeline = opened()
    pipeline.effects.pass_by(3 * HOUR)  # no roller ran, the windows 10 and 11 are still to come
    at = window_start(hour(11)) + MINUTE
    reject(pipeline, json.dumps({"id": "e", "key": "k", "ts": at}), Reason.CRASHES_WRITER)
    assert Operator(pipeline).one().why == "not open yet"


def test_without_a_calendar() -> None:
    pipeline = Pipeline()
    reject(pipeline, '{"key": "k"}', Reason.CRASHES_WRITER)
    assert Operator(pipeline).one().why == "no calendar"


def test_what_cannot_be_read_or_claimed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, operator = with_late(sealed=True)

    def refuse(*_: object) -> None:
        raise StoreError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.store, "record", refuse)
        assert operator.one().why == "not looked up"
    with monkeypatch.context() as patched:
        patched.setattr(pipeline.catalog, "claim", refuse)
        assert operator.one().why == "not claimed"
    with monkeypatch.context() as patched:
        patched.setattr(operator.letters, "resend", lambda resends: ["lost"] * len(resends))
        decision = operator.one()
        assert (decision.why, decision.target) == ("not sent", WINDOW)
    with monkeypatch.context() as patched:
        patched.setattr(operator.letters, "delete", lambda letters: [False] * len(letters))
        assert operator.one().why == "not deleted"
    assert operator.one().course is LetterOutcome.REDRIVEN
    drain(pipeline)
    assert records(pipeline) == [(WINDOW, "e1")]
