"""When a message that was handed back comes again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.ingest.handing_back import delay_seconds, is_expiring
from tallyroll.limits import IN_FLIGHT_MAX, RECEIVES_GIVEN_UP
from tallyroll.model.messages import Message, RedriveMark
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, MINUTE, NOW, SMALL, TIME_LEFT, WINDOW, opened

DAY = 24 * HOUR
RETENTION = SMALL.queue_retention_ms
BUSY = Outcome(Verdict.THROTTLED, detail="too much")


def message(receives: int, sent: int = NOW) -> Message:
    return Message("m", "{}", sent, receives, "r")


def delay(receives: int, age: int = HOUR, in_flight: int = 0, *, waits: bool = False) -> int:
    return delay_seconds(
        message(receives, NOW - age), NOW, waits=waits, in_flight=in_flight, retention_ms=RETENTION
    )


def test_the_wait_doubles() -> None:
    waits = [delay(receives) for receives in (1, 2, 3, 6, 7, 8, 100, 499)]
    assert waits == [5, 10, 20, 160, 300, 300, 300, 300]


def test_a_window_is_awaited_with_short_waits_for_ten_minutes() -> None:
    assert delay(30, 10 * MINUTE - 1, waits=True) == 20
    assert delay(30, 10 * MINUTE, waits=True) == 300


def test_a_redriven_message_waits_from_this_sending_on() -> None:
    redriven = replace(message(30, NOW - MINUTE), redrive=RedriveMark(WINDOW, "first", NOW - DAY))
    seconds = delay_seconds(redriven, NOW, waits=True, in_flight=0, retention_ms=RETENTION)
    assert seconds == 20


@pytest.mark.parametrize(("due_ms", "seconds"), [(0, 5), (7_001, 8), (90_000, 90), (400_000, 300)])
def test_what_waits_for_the_write_rate_comes_when_that_has_room(due_ms: int, seconds: int) -> None:
    def waits(receives: int, in_flight: int = 0) -> int:
        return delay_seconds(
            message(receives),
            NOW,
            waits=False,
            in_flight=in_flight,
            retention_ms=RETENTION,
            due=NOW + due_ms,
        )

    assert waits(1) == waits(499) == seconds
    assert waits(1, IN_FLIGHT_MAX) == 5, "messages in flight are few"
    assert waits(500) > 300, "its receives must last"


def test_a_redriven_message_has_the_whole_retention_again() -> None:
    """The queue drops it by its own sending; by its first one it would use up its receives."""

    def patience(redrive: RedriveMark | None) -> int:
        patient = replace(message(600, NOW - DAY), redrive=redrive)
        return delay_seconds(patient, NOW, waits=False, in_flight=0, retention_ms=4 * DAY)

    assert patience(RedriveMark("20261120T080000Z", "first", NOW - 4 * DAY)) == patience(None) > 300


@pytest.mark.parametrize("paced", [False, True])
@pytest.mark.parametrize("retention_days", [1, 4, 10, 14])
@pytest.mark.parametrize("slow_ms", [0, 10 * MINUTE])
def test_waits_fill_the_retention_before_the_receives_are_used_up(
    retention_days: int, slow_ms: int, *, paced: bool
) -> None:
    """Handed back each time, a message is still about when it is rejected for its age."""
    retention_ms, now, receives = retention_days * DAY, NOW, 1
    while not is_expiring(message(receives), now, retention_ms):
        seconds = delay_seconds(
            message(receives),
            now,
            waits=False,
            in_flight=0,
            retention_ms=retention_ms,
            due=now if paced else None,
        )
        assert 0 <= seconds <= 6 * 3600
        now += seconds * 1000 + slow_ms
        receives += 1
    assert receives < RECEIVES_GIVEN_UP
    assert now - NOW < retention_ms, "the queue still has it"


def test_forty_receives_are_left_when_a_message_expires() -> None:
    """For deliveries that come sooner than they should: twenty are spared, and the waits would last
    beyond the age at which it is rejected.
    """
    now, receives = NOW, 1
    while not is_expiring(message(receives), now, RETENTION):
        now += 1_000 * delay_seconds(
            message(receives), now, waits=False, in_flight=0, retention_ms=RETENTION
        )
        receives += 1
    assert receives + 40 <= RECEIVES_GIVEN_UP


def test_a_redriven_message_expires_by_when_its_copy_was_sent() -> None:
    """The queue has the copy: its first sending may lie longer ago than any message lasts."""
    redrive = RedriveMark("20261110T080000Z", "first", NOW - 2 * RETENTION)
    copy = replace(message(1, NOW - HOUR), redrive=redrive)
    assert not is_expiring(copy, NOW, RETENTION)
    assert is_expiring(replace(copy, sent=NOW - RETENTION), NOW, RETENTION)


def test_a_message_near_its_last_receives_waits_for_hours() -> None:
    assert delay(RECEIVES_GIVEN_UP - 1, DAY) == 21_600
    assert delay(RECEIVES_GIVEN_UP - 1, 20 * DAY) == 300


@pytest.mark.parametrize(
    ("share", "seconds"), [(0, 300), (0.5, 300), (0.7, 150), (0.9, 5), (1, 5), (1.1, 5)]
)
def test_waits_shrink_as_the_flight_fills(share: float, seconds: int) -> None:
    """Those that wait are in flight, and a full flight delivers nothing to anybody."""
    assert delay(50, in_flight=round(share * IN_FLIGHT_MAX)) == pytest.approx(seconds, abs=1)


def test_no_wait_is_shorter_than_five_seconds() -> None:
    """A message that came again at once would use up its receives while the flight is full."""
    full = [delay(receives, in_flight=IN_FLIGHT_MAX) for receives in (1, 2, 100, 499)]
    assert full == [5, 5, 5, 5]


def test_what_was_received_often_waits_however_full_the_flight_is() -> None:
    """Else it would soon be taken for what crashes writers."""
    assert delay(500, in_flight=IN_FLIGHT_MAX) == delay(500) > 300


def test_the_writer_asks_how_full_the_flight_is_at_most_every_ten_seconds() -> None:
    pipeline = opened()
    pipeline.store.script = [BUSY] * 10_000
    asked: list[int] = []
    counts = pipeline.queue.counts

    def counted() -> Any:
        asked.append(pipeline.effects.now())
        return replace(counts(), in_flight=IN_FLIGHT_MAX)

    pipeline.queue.counts = counted  # type: ignore[method-assign]
    writer = pipeline.writer()
    for n in range(8):
        body = {"id": f"e{n}", "key": "k", "ts": NOW}
        writer.write([pipeline.message(body, receives=3)], time_left_ms=0)
        pipeline.effects.pass_by(2_500)
    assert [at - NOW for at in asked] == [0, 10_000]
    assert [seconds for _, seconds in pipeline.queue.delays] == [5] * 8


def test_a_message_about_to_expire_is_rejected_with_its_reason() -> None:
    pipeline = opened()
    pipeline.store.script = [BUSY] * 10_000
    old = pipeline.effects.now() - RETENTION * 95 // 100
    young, late = (
        pipeline.message({"id": name, "key": "k", "ts": NOW}, sent=sent, receives=600)
        for name, sent in (("young", NOW), ("late", old))
    )
    assert is_expiring(late, pipeline.effects.now(), RETENTION)
    spec = replace(pipeline.spec(), skew=RETENTION)
    pipeline.catalog._specs[spec.window] = spec
    report = pipeline.writer().write([young, late], TIME_LEFT)
    assert (report.failures, report.rejected) == ([young.id], {Reason.EXPIRING: 1})
    [letter] = pipeline.queue.dead_letters
    assert letter.detail == "sent 2026-11-10T20:30:00.000Z and not counted: too much"


def test_a_message_about_to_expire_is_not_rejected_if_it_is_finished() -> None:
    """A letter that says it was not counted would be wrong, and would be redriven for nothing."""
    pipeline = opened(replace(SMALL, queue_retention_ms=10 * MINUTE))
    body = {"id": "e", "key": "k", "ts": NOW - 10 * MINUTE}
    first, again = (pipeline.message(body, sent=NOW - 10 * MINUTE) for _ in range(2))
    report = pipeline.writer().write([first, again], TIME_LEFT)
    assert (report.events, report.duplicates, report.rejected) == (1, 1, {})
    assert pipeline.reasons() == []


def test_the_report_tells_the_age_of_the_oldest_that_comes_again() -> None:
    pipeline = opened()
    pipeline.store.script = [BUSY] * 10_000
    bodies = [{"id": f"e{n}", "key": "k", "ts": NOW} for n in range(2)]
    messages = [
        pipeline.message(body, sent=NOW - age)
        for body, age in zip(bodies, (MINUTE, 4 * MINUTE), strict=True)
    ]
    report = pipeline.writer().write(messages, time_left_ms=0)
    assert report.oldest_back_ms == 4 * MINUTE
    pipeline.store.script = []
    done = pipeline.write({"key": "k"})
    assert (report.finished, done.finished, done.oldest_back_ms) == (0, 1, 0)
