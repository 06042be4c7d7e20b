"""Messages that must wait: for the calendar, for their window, for a catalog that answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.limits import RECEIVES_PATIENT
from tallyroll.model.states import Calendar, Window
from tallyroll.model.windows import Grid, WindowId
from tallyroll.ports.store import Outcome, Verdict
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    SMALL,
    START,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    hour,
    opened,
)

BUSY = Outcome(Verdict.THROTTLED)


def event(record_id: str = "e1", **fields: Any) -> dict[str, Any]:
    return {"id": record_id, "key": "k", "ts": NOW, **fields}


def unrolled() -> Pipeline:
    """A pipeline whose roller founded it at six and was not seen again."""
    pipeline = Pipeline()
    pipeline.catalog.found(Calendar(Grid.of(3600), START - 2 * HOUR))
    return pipeline


def test_before_the_first_roll_everything_waits() -> None:
    pipeline = Pipeline()
    report = pipeline.write(event(), {"key": "k"}, "not JSON")
    assert report.failures == ["message-1", "message-2"]
    assert (report.waiting, report.rejected.total()) == (2, 1)
    assert pipeline.queue.delays == [("receipt-1", 20), ("receipt-2", 20)]


def test_a_window_that_is_not_made_is_awaited_and_alarmed() -> None:
    pipeline = unrolled()
    report = pipeline.write(event(), event(ts=START - 3 * HOUR))
    assert (report.failures, report.waiting) == (["message-1"], 1)
    assert pipeline.reasons() == ["too-late"]
    assert pipeline.catalog.stragglers([WINDOW]) == {WINDOW: NOW + 20 * SECOND}


@pytest.mark.parametrize(
    ("age", "receives", "seconds"),
    [
        (0, 1, 20),
        (10 * MINUTE - 1, 30, 20),
        (10 * MINUTE, 1, 5),
        (10 * MINUTE, 4, 40),
        (HOUR, 99, 300),
    ],
)
def test_waiting_is_short_for_ten_minutes_and_then_backs_off(
    age: int, receives: int, seconds: int
) -> None:
    pipeline = unrolled()
    message = pipeline.message(event(ts=NOW - age), sent=NOW - age, receives=receives)
    report = pipeline.writer().write([message], TIME_LEFT)
    assert (report.waiting, pipeline.queue.delays) == (1, [(message.receipt, seconds)])


def test_what_waits_is_counted_within_30_seconds_after_its_window_opens() -> None:
    """Other traffic keeps the writer's belief in the window's absence fresh: the worst case."""
    pipeline = unrolled()
    writer, opens, sent = pipeline.writer(), NOW + 93 * SECOND, 0
    counted_at: dict[str, int] = {}
    while pipeline.effects.now() < opens + 40 * SECOND:
        now = pipeline.effects.now()
        if now == opens:
            pipeline.roller().run(TIME_LEFT)
            pipeline.roller().run(TIME_LEFT)
        if now <= opens:
            pipeline.queue.send('{"key":"k"}')
            sent += 1
        messages = pipeline.queue.receive(1_000)
        back = writer.write(messages, TIME_LEFT).failures
        for message in messages:
            if message.id not in back:
                pipeline.queue.delete(message.receipt)
                counted_at[message.id] = now
        pipeline.effects.pass_by(SECOND)
    assert len(counted_at) == sent == pipeline.tally("k")[0]
    assert max(counted_at.values()) - opens <= 30 * SECOND


def test_straggler_notes_are_at_most_one_in_ten_seconds_and_window() -> None:
    pipeline = opened()
    noted: list[tuple[WindowId, int]] = []
    note = pipeline.catalog.note_straggler

    def noting(window: WindowId, at: int) -> None:
        noted.append((window, at - NOW))
        note(window, at)

    pipeline.catalog.note_straggler = noting  # type: ignore[method-assign]
    writer = pipeline.writer()
    for second in range(21):
        bodies = [event("e1"), event("e2"), event("e3", ts=NOW - HOUR)]
        messages = [pipeline.message(body) for body in bodies]
        assert len(writer.write(messages, time_left_ms=0).failures) == 3
        assert pipeline.effects.now() == NOW + second * SECOND
        pipeline.effects.pass_by(SECOND)
    at = [5 * SECOND, 15 * SECOND, 25 * SECOND]  # each when its messages come again
    assert sorted(noted) == sorted((window, ms) for window in (WINDOW, hour(7)) for ms in at)


def test_a_note_that_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    writer = pipeline.writer()

    def fail(*_: object) -> None:
        raise Throttled("slow down")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.catalog, "note_straggler", fail)
        patch.setattr(pipeline.queue, "delay", fail)
        report = writer.write([pipeline.message(event())], time_left_ms=0)
        assert report.failures == ["message-1"]
    assert pipeline.catalog.stragglers([WINDOW]) == {}
    writer.write([pipeline.message(event())], time_left_ms=0)
    assert pipeline.catalog.stragglers([WINDOW]) == {WINDOW: NOW + 5 * SECOND}


def test_a_window_is_noted_though_the_queue_sets_no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is hidden until its visibility timeout then: the window waits for it."""
    pipeline = opened()

    def fail(*_: object) -> None:
        raise Throttled("slow down")

    monkeypatch.setattr(pipeline.queue, "delay", fail)
    report = pipeline.writer().write([pipeline.message(event())], time_left_ms=0)
    assert report.failures == ["message-1"]
    assert pipeline.catalog.stragglers([WINDOW]) == {WINDOW: NOW + 5 * SECOND}


def test_a_note_lasts_until_the_message_comes_again() -> None:
    """However long it is handed back for: the window does not close on it meanwhile."""
    pipeline = opened()
    message = pipeline.message(event(), receives=RECEIVES_PATIENT)
    pipeline.writer().write([message], time_left_ms=0)
    [(_, seconds)] = pipeline.queue.delays
    assert pipeline.catalog.stragglers([WINDOW]) == {WINDOW: NOW + seconds * SECOND}


def test_when_the_catalog_does_not_answer_everything_undecided_is_handed_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()

    def fail(windows: Sequence[WindowId]) -> None:
        raise Throttled("slow down")

    monkeypatch.setattr(pipeline.catalog, "specs", fail)
    report = pipeline.write(event(), "not JSON", event("e2"))
    assert report.failures == ["message-1", "message-3"]
    assert pipeline.reasons() == ["not-json"]


def test_a_calendar_that_changed_is_read_again() -> None:
    """A cached calendar of hours would name the window 08, which holds a quarter now."""
    pipeline = opened()
    writer = pipeline.writer()
    assert writer.write([pipeline.message(event("e0"))], TIME_LEFT).events == 1
    changed = Calendar(Grid(((0, HOUR), (START + HOUR, 15 * MINUTE))), START - 2 * HOUR)
    pipeline.catalog._calendar = changed
    pipeline.effects.pass_by(55 * SECOND)
    late = START + HOUR + 20 * MINUTE
    spec = replace(pipeline.spec(), window=hour(9), start=START + HOUR)
    for start in (START + HOUR, START + HOUR + 15 * MINUTE):
        window = changed.grid.at(start)
        quarter = replace(spec, window=window.id, start=start, end=window.end, skew=2 * HOUR)
        quarter = replace(quarter, table=f"tallyroll-q-{window.id}", accept_until=NOW + 9 * HOUR)
        pipeline.catalog.create(Window(window.id, quarter.table, start, window.end))
        pipeline.store.make_table(quarter.table)
        pipeline.catalog.put_spec(quarter)
        pipeline.store.open_gates(quarter)
    message = pipeline.message(event("e1", ts=late), sent=late)
    assert writer.write([message], TIME_LEFT).failures == [message.id]
    assert writer.write([message], TIME_LEFT).events == 1
    assert pipeline.tally("k", "20261120T091500Z")[0] == 1


def test_a_deadline_is_kept() -> None:
    pipeline = opened(replace(SMALL, transactions_at_once=1))
    pipeline.store.script = [BUSY] * 10_000
    began = pipeline.effects.now()
    messages = [pipeline.message(event(f"e{n}", key=f"k{n}")) for n in range(200)]
    report = pipeline.writer().write(messages, time_left_ms=10 * SECOND)
    assert len(report.failures) == 200
    assert pipeline.effects.now() - began <= 8 * SECOND
