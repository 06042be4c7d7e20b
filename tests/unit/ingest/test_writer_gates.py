"""What becomes of messages that meet a shut or missing gate: their window's state decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Missing, Unknown
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.windows import WindowId
from tallyroll.reasons import Reason
from tests.harness.pipeline import (
    HOUR,
    NOW,
    SECOND,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    ScriptedStore,
    hour,
    opened,
)

SEALED = [Status.SEALED, Status.EXPORTING, Status.PROVEN, Status.DROPPING, Status.DROPPED]


def event(record_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": record_id, "key": "k", "ts": NOW, **fields}


def shut(status: Status) -> Pipeline:
    """A pipeline whose current window holds the event `stored`, and whose gates are shut."""
    pipeline = opened()
    assert pipeline.write(event("stored")).events == 1
    pipeline.store.shut_gates(pipeline.spec())
    pipeline.move(status)
    return pipeline


def test_in_a_closing_window_messages_are_handed_back() -> None:
    pipeline = shut(Status.CLOSING)
    report = pipeline.write(event("stored"), event("late"), event("other"))
    assert len(report.failures) == 3
    assert (report.rejected, report.waiting, pipeline.tally("k")[0]) == ({}, 0, 1)
    assert [seconds for _, seconds in pipeline.queue.delays] == [5, 5, 5]
    assert pipeline.catalog.stragglers([WINDOW]) == {WINDOW: NOW + 5 * SECOND}


def test_the_state_behind_a_shut_gate_is_read_anew_for_each_batch() -> None:
    """A writer that remembered `closing` would hand its messages back until they expire."""
    pipeline = shut(Status.CLOSING)
    writer = pipeline.writer()
    stored, late = pipeline.message(event("stored")), pipeline.message(event("late"))
    assert len(writer.write([stored, late], TIME_LEFT).failures) == 2
    pipeline.move(Status.SEALED)
    report = writer.write([stored, late], TIME_LEFT)
    assert (report.failures, report.duplicates) == ([], 1)
    assert report.rejected == {Reason.WINDOW_SEALED: 1}


@pytest.mark.parametrize("status", SEALED)
def test_in_a_sealed_window_the_record_is_looked_up(status: Status) -> None:
    pipeline = shut(status)
    report = pipeline.write(event("stored"), event("late"))
    assert (report.failures, report.events, report.duplicates) == ([], 0, 1)
    assert report.rejected == {Reason.WINDOW_SEALED: 1}
    assert pipeline.write(event("stored", value=2)).rejected == {Reason.ID_CONFLICT: 1}
    late, _ = pipeline.queue.dead_letters
    assert (late.window, late.reason) == (WINDOW, Reason.WINDOW_SEALED)
    going = status in (Status.DROPPING, Status.DROPPED)  # the table may have been made again
    known = "unverified whether it was counted" if going else "this record is not in it"
    assert late.detail.startswith(f"window {WINDOW} is {status}: {known}")


@pytest.mark.parametrize("status", [Status.DROPPING, Status.DROPPED])
def test_when_the_table_is_gone_it_is_rejected_unverified(status: Status) -> None:
    pipeline = shut(status)
    pipeline.store.drop_table(pipeline.spec().table)
    report = pipeline.write(event("stored"))
    assert report.rejected == {Reason.WINDOW_SEALED: 1}
    assert "unverified" in pipeline.queue.dead_letters[0].detail


def test_a_window_that_is_dropped_right_before_its_record_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A late roller makes its table again: that this one is empty says nothing of the event, and a
    state that was read before would not tell.
    """
    pipeline = shut(Status.PROVEN)
    look_up = ScriptedStore.record

    def late(store: ScriptedStore, spec: Spec, key: str, record_id: str) -> Record | None:
        if pipeline.state().status is Status.PROVEN:
            store.drop_table(spec.table)
            pipeline.move(Status.DROPPED)
            store.make_table(spec.table)
        return look_up(store, spec, key, record_id)

    monkeypatch.setattr(ScriptedStore, "record", late)
    report = pipeline.write(event("stored"))
    assert report.rejected == {Reason.WINDOW_SEALED: 1}
    assert "unverified whether it was counted" in pipeline.queue.dead_letters[0].detail


@pytest.mark.parametrize("status", [Status.SEALED, Status.EXPORTING, Status.PROVEN])
def test_a_table_that_must_not_be_gone_rejects_nothing(status: Status) -> None:
    pipeline = shut(status)
    pipeline.store.drop_table(pipeline.spec().table)
    report = pipeline.write(event("stored"), event("here", ts=NOW - 3_600_000))
    assert (report.failures, report.rejected, report.events) == (["message-2"], {}, 1)


@pytest.mark.parametrize("status", [Status.CREATING, Status.OPEN])
def test_a_missing_gate_is_waited_for(status: Status) -> None:
    pipeline = opened()
    pipeline.move(status)
    pipeline.store.items(pipeline.spec().table).clear()
    report = pipeline.write(event("e1"))
    assert (report.failures, report.waiting, report.rejected) == (["message-1"], 1, {})
    assert pipeline.queue.delays == [("receipt-1", 20)]


def test_a_spec_without_a_state_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    pipeline.store.shut_gates(pipeline.spec())
    monkeypatch.setattr(pipeline.catalog, "window", lambda window: None)
    report = pipeline.write(event("e1"))
    assert (report.failures, report.waiting) == (["message-1"], 1)


def test_followers_of_a_message_that_met_a_shut_gate() -> None:
    pipeline = shut(Status.SEALED)
    report = pipeline.write(event("late"), event("late"), event("late", value=2))
    assert report.rejected == {Reason.WINDOW_SEALED: 2}
    assert report.failures == ["message-4"]


def test_when_the_state_cannot_be_read_what_stands_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = shut(Status.SEALED)

    def unknown(window: WindowId) -> None:
        raise Unknown("no answer")

    monkeypatch.setattr(pipeline.catalog, "window", unknown)
    report = pipeline.write(event("here", ts=NOW - 3_600_000), event("late"), "not JSON")
    assert (report.events, report.failures) == (1, ["message-3"])
    assert report.rejected == {Reason.NOT_JSON: 1}
    assert pipeline.tally("k", hour(7))[0] == 1


def test_when_a_record_cannot_be_looked_up_it_is_handed_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = shut(Status.SEALED)
    look_up = ScriptedStore.record

    def record(store: ScriptedStore, spec: Spec, key: str, record_id: str) -> Record | None:
        if record_id == "unlucky":
            raise Missing("not now")
        return look_up(store, spec, key, record_id)

    monkeypatch.setattr(ScriptedStore, "record", record)
    report = pipeline.write(event("stored"), event("unlucky"), event("late"))
    assert (report.duplicates, report.failures) == (1, ["message-3"])
    assert report.rejected == {Reason.WINDOW_SEALED: 1}


def test_another_number_of_gates_holds_for_later_windows_only() -> None:
    pipeline = opened()
    assert pipeline.spec().gates == 4
    pipeline.settings = replace(pipeline.settings, gates=9)
    assert pipeline.write(event("e1")).events == 1
    pipeline.move(Status.CLOSING)
    for _ in range(3):
        pipeline.effects.pass_by(HOUR)
        pipeline.roller().run(TIME_LEFT)
        pipeline.roller().run(TIME_LEFT)

    def gates(window: str) -> list[bool]:
        items = pipeline.store.items(pipeline.spec(window).table).values()
        return [item["open"]["BOOL"] for item in items if item["pk"]["S"].startswith("~g.")]

    assert pipeline.state().status is Status.SEALED
    assert gates(WINDOW) == [False] * 4
    later = [hour(number) for number in (10, 11)]
    assert [pipeline.spec(window).gates for window in later] == [9, 9]
    assert [len(gates(window)) for window in later] == [9, 9]
    assert pipeline.write(event("e2", ts=pipeline.effects.now())).events == 1
