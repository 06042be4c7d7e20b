"""The writer's answers to a batch while windows stand open; gates and waiting have files of their
own."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.ingest import placement
from tallyroll.ingest.writer import DEADLINE_RESERVE_MS
from tallyroll.limits import WINDOWS_PER_BATCH_MAX
from tallyroll.model.events import decode
from tallyroll.model.ids import uuid7_time
from tallyroll.model.messages import Rejection
from tallyroll.ports.store import Answer, Element, Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SMALL,
    START,
    TIME_LEFT,
    WINDOW,
    PickyQueue,
    hour,
    opened,
)

FINE = Element(Answer.FINE)
BUSY = Outcome(Verdict.CANCELLED, (Element(Answer.CONTENDED),), (FINE,))
NOT_JSON = "not JSON"


def event(record_id: str = "e1", key: str = "k", **fields: Any) -> dict[str, Any]:
    return {"id": record_id, "key": key, "ts": NOW, **fields}


def packet(record_id: str = "p1", events: int = 3, **fields: Any) -> dict[str, Any]:
    entries = [[n] for n in range(events)]
    return {"v": 1, "id": record_id, "key": "k", "t0": NOW, "events": entries, **fields}


def test_an_empty_batch() -> None:
    pipeline = opened()
    report = pipeline.write()
    assert (report.failures, report.messages, report.events) == ([], 0, 0)
    assert pipeline.store.commits == []


def test_garbage_is_not_collected_within_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    collecting = []
    commit = pipeline.store.commit

    def noted(*args: Any) -> Outcome:
        collecting.append(gc.isenabled())
        return commit(*args)

    monkeypatch.setattr(pipeline.store, "commit", noted)
    assert pipeline.write(event()).events == 1
    assert collecting == [False]
    assert gc.isenabled()


def test_every_message_gets_its_fate() -> None:
    pipeline = opened()
    report = pipeline.write(
        event("e1", value=2.5), event("e2", "l"), {"key": "k"}, packet(), event("e1", value=2.5), ""
    )
    assert report.failures == []
    assert (report.messages, report.single_events, report.packed_events) == (6, 3, 3)
    assert (report.events, report.duplicates) == (6, 1)
    assert report.rejected == {Reason.EMPTY_BODY: 1}
    assert pipeline.tally("k") == (5, 6_500_000)
    assert pipeline.tally("l") == (1, 1_000_000)


def test_events_count_in_the_window_in_which_they_happened() -> None:
    pipeline = opened()
    pipeline.write(event("e1", ts=START), event("e2", ts=START - 1), event("e3", ts=NOW - HOUR))
    assert pipeline.tally("k")[0] == 1
    assert pipeline.tally("k", hour(7))[0] == 2


def test_a_uuid7_tells_the_time() -> None:
    pipeline = opened()
    record_id = f"{START - 1:012x}"
    record_id = f"{record_id[:8]}-{record_id[8:]}-7000-8000-000000000000"
    assert uuid7_time(record_id) == START - 1
    report = pipeline.write({"id": record_id, "key": "k"})
    assert (report.events, report.undated) == (1, 0)
    assert pipeline.tally("k", hour(7))[0] == 1


def test_a_redelivery_is_a_duplicate() -> None:
    pipeline = opened()
    message = pipeline.message({"key": "k"})
    writer = pipeline.writer()
    assert writer.write([message], TIME_LEFT).events == 1
    for other in (writer, pipeline.writer()):
        report = other.write([replace(message, receives=2, receipt="r2")], TIME_LEFT)
        assert (report.events, report.duplicates, report.failures) == (0, 1, [])
    assert pipeline.tally("k")[0] == 1


def test_an_own_id_without_a_time_is_counted_and_noted() -> None:
    report = opened().write({"id": "e1", "key": "k"}, {"key": "k"}, event("e2"))
    assert (report.events, report.undated) == (3, 1)


def test_an_own_id_without_a_time_can_be_refused() -> None:
    pipeline = opened(replace(SMALL, require_ts=True))
    report = pipeline.write({"id": "e1", "key": "k"}, {"key": "k"}, event("e2"), packet())
    assert (report.events, report.rejected) == (5, {Reason.TS_REQUIRED: 1})


# --- the same identity twice in one batch


def test_another_content_under_the_same_id_in_one_batch() -> None:
    pipeline = opened()
    report = pipeline.write(event(), event(value=2), event(), packet("e1"))
    assert (report.events, report.duplicates, report.failures) == (1, 1, [])
    assert report.rejected == {Reason.ID_CONFLICT: 2}
    assert pipeline.tally("k") == (1, 1_000_000)


def test_another_content_than_the_stored_one() -> None:
    pipeline = opened()
    pipeline.write(event())
    report = pipeline.write(event(value=2), event())
    assert (report.duplicates, report.rejected) == (1, {Reason.ID_CONFLICT: 1})


def test_the_same_id_under_another_key_or_in_another_window_is_another_event() -> None:
    report = opened().write(event(), event(key="l"), event(ts=START - 1))
    assert (report.events, report.duplicates) == (3, 0)


def test_followers_share_the_fate_of_their_keeper() -> None:
    pipeline = opened()
    pipeline.store.script = [Outcome(Verdict.UNKNOWN)] * 10_000
    report = pipeline.write(event(), event())
    assert report.failures == ["message-1", "message-2"]
    assert pipeline.write(event()).rejected == {}


def test_followers_of_a_refused_keeper() -> None:
    pipeline = opened()
    pipeline.store.script = [Outcome(Verdict.INVALID, detail="why")]
    report = pipeline.write(event(), event(), event(value=2))
    assert report.rejected == {Reason.REFUSED_BY_STORE: 2}
    assert report.failures == ["message-3"]


# --- order and grouping


def test_messages_received_before_run_among_themselves() -> None:
    pipeline = opened()
    fresh = [pipeline.message(event(f"a{n}")) for n in range(3)]
    again = [pipeline.message(event(f"b{n}"), receives=2) for n in range(3)]
    messages = [message for pair in zip(fresh, again, strict=True) for message in pair]
    report = pipeline.writer().write(messages, TIME_LEFT)
    groups = [{record.id[0] for record in records} for _, records, _ in pipeline.store.commits]
    assert groups == [{"a"}, {"b"}]
    assert report.events == 6


def test_a_message_received_900_times_runs_alone() -> None:
    pipeline = opened()
    messages = [pipeline.message(event(f"a{n}"), receives=899) for n in range(2)]
    messages += [pipeline.message(event(f"b{n}"), receives=900) for n in range(2)]
    report = pipeline.writer().write(messages, TIME_LEFT)
    groups = [[record.id for record in records] for _, records, _ in pipeline.store.commits]
    assert sorted(groups[0]) == ["a0", "a1"]
    assert groups[1:] == [["b0"], ["b1"]]
    assert report.events == 4


def test_a_message_received_950_times_is_rejected_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it may be what kills the writer."""
    read: list[str] = []

    def reading(body: str, *_: object) -> object:
        read.append(body)
        return decode(body)

    monkeypatch.setattr(placement, "read", reading)
    pipeline = opened()
    messages = [
        pipeline.message("\\" * 999, receives=951),
        pipeline.message(event("new"), receives=950),
        pipeline.message(event("good"), receives=949),
    ]
    report = pipeline.writer().write(messages, TIME_LEFT)
    assert (report.events, report.failures) == (1, [])
    assert read == [messages[2].body]
    assert report.rejected == {Reason.CRASHES_WRITER: 2}
    assert "received 950 times" in pipeline.queue.dead_letters[1].detail


def test_too_many_windows_in_one_batch() -> None:
    pipeline = opened(replace(SMALL, window_seconds=60, accept_for_ms=4 * HOUR))
    bodies = [event(f"e{n}", ts=NOW - n * MINUTE) for n in range(WINDOWS_PER_BATCH_MAX + 5)]
    writer = pipeline.writer()
    messages = [pipeline.message(body) for body in bodies]
    report = writer.write(messages, TIME_LEFT)
    assert report.events == WINDOWS_PER_BATCH_MAX
    assert report.failures == [message.id for message in messages[-5:]]
    left = writer.write(messages[-5:], TIME_LEFT)
    assert (left.events, left.failures) == (5, [])


# --- what can never count


def test_a_bad_message_does_not_fail_its_batch() -> None:
    pipeline = opened()
    report = pipeline.write(NOT_JSON, event(), "[]")
    assert (report.events, report.failures) == (1, [])
    assert report.rejected == {Reason.NOT_JSON: 1, Reason.NOT_AN_OBJECT: 1}


def test_a_dead_letter_says_why_and_keeps_the_message() -> None:
    pipeline = opened()
    message = pipeline.message(event(ts=NOW - 100 * HOUR), sent=NOW - 5)
    pipeline.writer().write([message, pipeline.message(NOT_JSON)], TIME_LEFT)
    late, poison = pipeline.queue.dead_letters
    assert (late.message, late.reason, late.window) == (message, Reason.TOO_LATE, hour(-92))
    assert "before the pipeline's first window" in late.detail
    assert (poison.message.body, poison.window) == (NOT_JSON, None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (event(ts=NOW + 5 * MINUTE + 1), Reason.TOO_FAR_AHEAD),
        ({"id": "ffffffff-ffff-7000-8000-000000000000", "key": "k"}, Reason.TOO_FAR_AHEAD),
        (event(ts=START - HOUR - 1), Reason.TOO_LATE),
        (event(ts=10**11), Reason.TOO_LATE),
        (packet(events=1, t0=START - HOUR - 1), Reason.TOO_LATE),
        (packet(events=40, t0=START - 20), Reason.PACKET_MIXED_WINDOWS),
        (packet(note="x" * 256 * 1024), Reason.PACKET_TOO_LARGE),
        ("x" * 1024 * 1024, Reason.NOT_JSON),
        ('{"note": "\ud800"', Reason.NOT_JSON),
    ],
)
def test_rejected_with_its_reason(body: str | dict[str, Any], reason: Reason) -> None:
    pipeline = opened()
    report = pipeline.write(body, event("good"))
    assert (report.events, report.failures, report.rejected) == (1, [], {reason: 1})
    assert pipeline.reasons() == [reason]


def test_the_largest_item() -> None:
    pipeline = opened()
    body = event(payload="x" * 409_500)
    report = pipeline.write(body)
    assert (report.events, report.rejected) == (1, {})


def test_a_sealed_hour_is_rejected_by_when_it_was_sent_not_by_when_it_is_read() -> None:
    pipeline = opened()
    old = event(ts=START - 2 * HOUR)
    in_time = pipeline.message(old, sent=START)
    late = pipeline.message({**old, "id": "e2"}, sent=START + 1)
    report = pipeline.writer().write([in_time, late], TIME_LEFT)
    assert (report.events, report.rejected) == (1, {Reason.TOO_LATE: 1})
    assert pipeline.tally("k", hour(6))[0] == 1


def test_what_the_dead_letter_queue_does_not_take_is_handed_back() -> None:
    pipeline = opened()
    pipeline.queue.refuses = lambda rejection: rejection.reason is Reason.NOT_JSON
    report = pipeline.write(NOT_JSON, "[]", event())
    assert report.failures == ["message-1"]
    assert (report.events, report.rejected) == (1, {Reason.NOT_AN_OBJECT: 1})
    assert [receipt for receipt, _ in pipeline.queue.delays] == ["receipt-1"]
    assert pipeline.reasons() == [Reason.NOT_AN_OBJECT]


def test_when_the_dead_letter_queue_cannot_be_reached_the_rest_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(queue: PickyQueue, rejections: list[Rejection]) -> list[bool]:
        raise Throttled("slow down")

    monkeypatch.setattr(PickyQueue, "reject", fail)
    report = opened().write(NOT_JSON, event())
    assert (report.failures, report.events, report.rejected) == (["message-1"], 1, {})


def test_nothing_is_acknowledged_before_it_stands_in_the_dead_letter_queue() -> None:
    pipeline = opened()
    asked: list[str] = []

    def note(rejection: Rejection) -> bool:
        asked.append(rejection.message.id)
        return False

    pipeline.queue.refuses = note
    report = pipeline.write(NOT_JSON, event(), event(value=2), "")
    assert report.failures == []
    assert asked == ["message-1", "message-3", "message-4"]
    assert len(pipeline.queue.dead_letters) == 3


# --- what the store cannot do now


def test_a_conflict_is_outlasted() -> None:
    pipeline = opened()
    contended = Outcome(Verdict.CANCELLED, (FINE,), (Element(Answer.CONTENDED),))
    pipeline.store.script = [contended, contended]
    report = pipeline.write(event())
    assert (report.events, report.contended, report.failures) == (1, 2, [])


def test_what_the_time_does_not_suffice_for_is_handed_back() -> None:
    pipeline = opened()
    report = pipeline.writer().write([pipeline.message(event())], time_left_ms=0)
    assert (report.failures, report.events) == (["message-1"], 0)
    assert pipeline.catalog.stragglers([WINDOW]) == {WINDOW: NOW + 5_000}, "when it comes again"


def test_the_delay_grows_with_the_receives() -> None:
    pipeline = opened()
    pipeline.store.script = [Outcome(Verdict.THROTTLED)] * 10_000
    messages = [
        pipeline.message(event(f"e{receives}"), receives=receives)
        for receives in (1, 2, 4, 7, 99, 100)
    ]
    pipeline.writer().write(messages, TIME_LEFT)
    assert [seconds for _, seconds in pipeline.queue.delays] == [5, 10, 40, 300, 300, 300]


def test_a_duplicate_of_which_the_store_does_not_tell_the_content_is_looked_up() -> None:
    pipeline = opened()
    first, same, other = (pipeline.message(event(value=value)) for value in (1, 1, 2))
    pipeline.writer().write([first], TIME_LEFT)
    untold = Element(Answer.DUPLICATE)
    for message, rejected in ((same, {}), (other, {Reason.ID_CONFLICT: 1})):
        pipeline.store.script.append(Outcome(Verdict.CANCELLED, (untold,), (FINE,)))
        report = pipeline.writer().write([message], TIME_LEFT)
        assert (report.failures, report.rejected) == ([], rejected)
    assert [letter.message.id for letter in pipeline.queue.dead_letters] == [other.id]


def test_a_record_that_vanishes_before_it_could_be_compared_is_handed_back() -> None:
    pipeline = opened()
    pipeline.store.script = [Outcome(Verdict.CANCELLED, (Element(Answer.DUPLICATE),), (FINE,))]
    message = pipeline.message(event())
    assert pipeline.writer().write([message], TIME_LEFT).failures == [message.id]


def test_a_body_is_json_for_sqs() -> None:
    """The bodies of these tests are what a producer would send."""
    assert json.loads(opened().message(event()).body) == event()


def test_a_message_that_breaks_the_writer_breaks_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def broken(body: str, *_: object) -> object:
        if "poison" in body:
            raise RuntimeError("unforeseen")
        return decode(body)

    monkeypatch.setattr(placement, "read", broken)
    pipeline = opened()
    poison, good = pipeline.message(event("poison")), pipeline.message(event("good"))
    report = pipeline.writer().write([poison, good], TIME_LEFT)
    assert (report.events, report.failures) == (1, [poison.id])


def test_a_commit_is_not_begun_that_might_outlive_the_function() -> None:
    pipeline = opened()
    report = pipeline.writer().write([pipeline.message(event())], DEADLINE_RESERVE_MS + 10)
    assert report.events == 1
    began = pipeline.effects.now()
    pipeline.store.script = [BUSY] * 1_000
    report = pipeline.writer().write([pipeline.message(event("e2"))], 60_000)
    assert len(report.failures) == 1
    assert pipeline.effects.now() - began <= 60_000 - DEADLINE_RESERVE_MS
