from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.errors import Refused, StoreError
from tallyroll.model.states import Attempt, Calendar, LivePointer, Status, Window
from tallyroll.model.windows import Grid, iso, window_id, window_start
from tallyroll.operations.backfill import open_past
from tallyroll.operations.doctor.checkup import Level, Sign, fine
from tallyroll.operations.doctor.examine import EXAMINATIONS, checked
from tallyroll.operations.doctor.window_checks import roller
from tallyroll.ports.queue import Backlog
from tests.harness.doctoring import bad, case_of, examined, first, grown, only, states
from tests.harness.pipeline import HOUR, MINUTE, NOW, TIME_LEFT, Pipeline, hour

DAY = 24 * HOUR


@pytest.fixture
def pipeline() -> Pipeline:
    return grown()


@pytest.mark.parametrize("deep", [False, True])
def test_a_healthy_pipeline_has_no_findings(pipeline: Pipeline, *, deep: bool) -> None:
    checks = examined(pipeline, deep=deep)
    assert list(checks) == list(EXAMINATIONS)
    assert [sign.text for check in checks.values() for sign in check.bad] == []
    assert set(states(pipeline).values()) >= {Status.DROPPED, Status.SEALED, Status.OPEN}
    assert "0 keys" not in checks["totals"].text
    assert not checks["archives"].text.startswith("0 ")


@pytest.mark.parametrize("minutes", range(0, 130, 15))
def test_at_no_time_of_its_life_does_a_healthy_pipeline_have_findings(minutes: int) -> None:
    pipeline = grown(3)
    roller = pipeline.roller()
    for _ in range(minutes // 5):
        pipeline.effects.pass_by(5 * MINUTE)
        roller.run(60_000)
        pipeline.cleanup().run(60_000)
        pipeline.dropper().run(60_000)
    assert bad(pipeline) == {}


def test_without_a_calendar() -> None:
    pipeline = Pipeline()
    found = examined(pipeline)
    assert found["calendar"].level is Level.FINDING
    assert "never run" in found["calendar"].text
    assert "stuck" not in found
    assert found["stray-tables"].level is Level.OK


def test_a_roller_that_has_stopped(pipeline: Pipeline) -> None:
    pipeline.effects.pass_by(HOUR)
    signs = bad(pipeline)
    closed = f"{hour(9)}: the current window is creating: its events wait until it is open"
    assert signs.pop("roller") == [f"{hour(11)}: not made yet", closed]
    assert signs.pop("stuck") == [f"{hour(9)}: not open yet; due by 2026-11-20T08:55:00.000Z"]
    assert signs == {}
    pipeline.effects.pass_by(3 * HOUR)
    missing = [f"{hour(n)}: it is missing: its events wait" for n in (11, 12)]
    later = [f"{hour(n)}: not made yet" for n in (13, 14)]
    assert bad(pipeline)["roller"] == [*missing, *later]
    assert "gaps" not in bad(pipeline)
    pipeline.roller().run(60_000)
    assert "roller" not in bad(pipeline)


def test_a_gap_before_a_window(pipeline: Pipeline) -> None:
    del pipeline.catalog._windows[hour(7)]
    (sign,) = examined(pipeline)["gaps"].bad
    assert sign.text == f"{hour(7)}: there is no such window"
    assert "Let the roller run" in sign.remedy
    assert f"tallyroll-{hour(7)}: no window names it" in bad(pipeline)["stray-tables"][0]


@pytest.mark.parametrize("status", [Status.CLOSING, Status.SEALED])
def test_a_current_window_that_was_closed(pipeline: Pipeline, status: Status) -> None:
    state = pipeline.state(hour(8))
    times = {**state.times, status: NOW}
    pipeline.catalog.advance(replace(state, status=status, times=times, keys=0, events=0, amount=0))
    sign = only(pipeline, "roller")
    assert sign.window == hour(8)
    assert sign.text == f"{hour(8)}: the current window is {status}: its events are rejected"


def test_the_first_window_that_is_not_open_yet() -> None:
    pipeline = Pipeline()
    with patch.object(pipeline.store, "describe_table", return_value=None):
        pipeline.roller().run(60_000)
    sign = only(pipeline, "roller", Level.WARNING)
    assert (
        sign.text == f"{hour(8)}: the current window is creating: its events wait until it is open"
    )
    pipeline.effects.pass_by(10 * MINUTE)
    assert examined(pipeline)["roller"].level is Level.FINDING
    pipeline.roller().run(60_000)
    pipeline.roller().run(60_000)
    assert "roller" not in bad(pipeline)


def test_a_current_window_that_opened_while_the_doctor_looked() -> None:
    pipeline = grown(3)
    state = pipeline.state(hour(8))
    case = case_of(pipeline)
    vars(case)["windows"] = {**case.windows, hour(8): replace(state, status=Status.CREATING)}
    assert not [sign for sign in roller(case) if sign.level is not Level.OK]


LATE = {
    Status.CREATING: "not open yet",
    Status.OPEN: "over, and not closing",
    Status.CLOSING: "closing, and not sealed",
    Status.SEALED: "past its retention, and not exported",
    Status.EXPORTING: "in export, and not proven",
    Status.PROVEN: "proven, and not dropped",
    Status.DROPPING: "its table is not gone",
}


@pytest.mark.parametrize("status", LATE)
def test_a_window_that_is_stuck(pipeline: Pipeline, status: Status) -> None:
    """In whatever state."""
    window = first(pipeline, Status.SEALED)
    long_ago: dict[str, int] = {status: NOW - DAY, Status.SEALED: NOW - DAY}
    pipeline.catalog.advance(
        replace(
            pipeline.state(window),
            status=status,
            times=long_ago,
            attempt=Attempt(number=1),
            accept_until=NOW - DAY,
        )
    )
    check = examined(pipeline)["stuck"]
    (sign,) = check.bad
    assert (sign.level, sign.window) == (Level.FINDING, window)
    assert LATE[status] in sign.text
    assert sign.remedy


def test_an_export_with_a_problem_is_told_at_once(pipeline: Pipeline) -> None:
    window = first(pipeline, Status.SEALED)
    attempt = Attempt(number=2, problem="a file is missing")
    pipeline.move(Status.EXPORTING, window, attempt=attempt)
    sign = only(pipeline, "stuck")
    assert sign.text == (f"{window}: its archive is not proven after attempt 2: a file is missing")


def test_a_step_that_is_taken_meanwhile_is_no_finding(pipeline: Pipeline) -> None:
    """A window that moved on since it was read is not stuck."""
    window = first(pipeline, Status.SEALED)
    stuck = replace(pipeline.state(window), times={Status.SEALED: NOW - DAY})
    read = [stuck if each.id == window else each for each in pipeline.catalog.windows(0, NOW + DAY)]

    class Earlier(MemoryCatalog):
        def windows(self, since: int, until: int) -> list[Window]:
            return read

    pipeline.catalog.__class__ = Earlier
    assert "stuck" not in bad(pipeline)


def test_a_gap_behind_the_live_pointer(pipeline: Pipeline) -> None:
    gone = first(pipeline, Status.DROPPED)
    genesis = window_start(gone)
    assert pipeline.catalog.calendar().genesis == genesis  # type: ignore[union-attr]
    del pipeline.catalog._windows[gone]
    sign = only(pipeline, "gaps")
    assert sign.text == f"{gone}: there is no such window"
    assert "restore" in sign.remedy


def test_a_window_off_the_grid(pipeline: Pipeline) -> None:
    state = pipeline.state(hour(8))
    pipeline.catalog.advance(replace(state, end=state.end + MINUTE))
    assert "does not lie on the calendar's grid" in only(pipeline, "gaps").text


def test_a_live_pointer_that_has_passed_a_window(pipeline: Pipeline) -> None:
    sealed = first(pipeline, Status.SEALED)
    pipeline.catalog._live = LivePointer(window_start(sealed) + HOUR, 99)
    sign = only(pipeline, "live-pointer")
    assert sign.window == sealed
    until = window_start(sealed) + HOUR
    assert f"tallyroll windows open --since {sealed} --until {window_id(until)}" in sign.remedy

    calendar = pipeline.catalog.calendar()
    assert calendar
    span = (window_start(sealed), until)
    past = open_past(pipeline.catalog, calendar, "tallyroll", *span, NOW, MINUTE)
    assert [window.id for window in past.existed] == [sealed]
    assert "live-pointer" not in bad(pipeline)
    assert Status.SEALED in {pipeline.state(window.id).status for window in past.existed}


def test_without_a_live_pointer(pipeline: Pipeline) -> None:
    pipeline.catalog._live = None
    assert only(pipeline, "live-pointer").text.startswith("there is no live pointer")


def test_before_the_rollers_first_run_a_live_pointer_is_not_missed() -> None:
    pipeline = Pipeline()
    pipeline.catalog.found(Calendar(Grid.of(3600), NOW))
    check = examined(pipeline)["live-pointer"]
    assert (check.level, [sign.text for sign in check.signs]) == (Level.OK, ["no windows yet"])


def test_a_window_that_the_roller_makes_during_the_look_is_not_missed(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows, last = pipeline.catalog.windows, max(states(pipeline))
    monkeypatch.setattr(
        pipeline.catalog, "windows", lambda *span: [w for w in windows(*span) if w.id != last]
    )
    assert bad(pipeline) == {}


def test_settings_that_differ(pipeline: Pipeline) -> None:
    configured = {"TALLYROLL_SHARDS": ("8", "4")}
    sign = only(pipeline, "settings", Level.WARNING, configured=configured, deployed=True)
    assert "'8' in this environment, '4' in the deployment" in sign.text
    shards = replace(pipeline.settings, shards=8)
    assert "4 shards, and 8" in only(pipeline, "settings", Level.WARNING, settings=shards).text
    length = replace(pipeline.settings, window_seconds=7200)
    assert "7200 s is set" in only(pipeline, "calendar", Level.WARNING, settings=length).text


def test_an_error_ends_its_own_check_only(pipeline: Pipeline) -> None:
    def denied(*arguments: object) -> None:
        raise Refused("DescribeTable: AccessDeniedException: no", "AccessDeniedException")

    pipeline.store.describe_table = denied  # type: ignore[method-assign, assignment]
    found = examined(pipeline)
    assert found["tables"].level is Level.UNCHECKED
    assert "AWS_PROFILE" in found["tables"].bad[0].remedy
    assert found["dead-letters"].level is Level.OK


def test_without_its_catalog_nothing_can_be_said(pipeline: Pipeline) -> None:
    def refuse(*arguments: object) -> None:
        raise StoreError("Query: no", "No")

    pipeline.catalog.windows = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreError):
        examined(pipeline)


class Waiting:
    """A queue whose oldest message is so old."""

    def __init__(self, visible: int, age_ms: int) -> None:
        self._backlog = Backlog(visible, 1, 2, ((NOW, age_ms),))

    def backlog(self, since: int) -> Backlog:
        return self._backlog


def test_queues(pipeline: Pipeline) -> None:
    pipeline.catalog.beat(pipeline.effects.now(), finished=True)
    assert bad(pipeline, queue=Waiting(5, MINUTE)) == {}
    behind = only(pipeline, "queue", Level.WARNING, queue=Waiting(5_000, 50 * MINUTE))
    assert behind.text == "5,000 messages, 1 in flight, 2 delayed; the oldest has waited 50 min"
    assert "will expire" in only(pipeline, "queue", queue=Waiting(1, 6 * DAY)).text
    letters = only(pipeline, "dead-letters", Level.WARNING, dead_letters=Waiting(1, 3 * HOUR))
    assert "3 h" in letters.text
    listed = only(pipeline, "dead-letters", Level.WARNING, dead_letters=Waiting(1, 0))
    assert listed.text == "1 dead letter, 1 in flight, 2 delayed"  # a metric of 0 is no age
    assert "will expire" in only(pipeline, "dead-letters", dead_letters=Waiting(1, 8 * DAY)).text
    assert "no queue tallyroll-events" in only(pipeline, "queue", queue=None).text
    assert "-dead-letters" in only(pipeline, "dead-letters", dead_letters=None).text


def test_writers_that_finish_nothing(pipeline: Pipeline) -> None:
    finished = pipeline.effects.now()
    pipeline.catalog.beat(finished, finished=True)
    pipeline.effects.pass_by(15 * MINUTE)
    pipeline.catalog.beat(pipeline.effects.now(), finished=False)
    pipeline.roller().run(TIME_LEFT)
    silent = only(pipeline, "queue", Level.WARNING, queue=Waiting(5, MINUTE))
    assert silent.text == f"8 messages, and no writer finished one since {iso(finished)}"
    assert bad(pipeline) == {}, "an empty queue needs none"


def test_messages_that_come_again_for_hours(pipeline: Pipeline) -> None:
    def back(*hours: int) -> Any:
        return lambda since: [(since, each * HOUR) for each in hours]

    assert bad(pipeline, handed_back=back()) == {}
    assert "3 h old" in only(pipeline, "queue", Level.WARNING, handed_back=back(1, 3, 2)).text
    assert only(pipeline, "queue", handed_back=back(5 * 24)).level is Level.FINDING


def test_real_dead_letters_are_counted(pipeline: Pipeline) -> None:
    pipeline.write("no JSON", "nor this")
    assert only(pipeline, "dead-letters", Level.WARNING).text.startswith("2 dead letters")


def test_the_commands_of_a_remedy_name_a_pipeline_of_another_name(pipeline: Pipeline) -> None:
    pipeline.write("no JSON")
    named = replace(pipeline.settings, name="votes")
    for settings, begin in ((pipeline.settings, "tallyroll"), (named, "tallyroll --name votes")):
        [sign] = examined(pipeline, settings=settings)["dead-letters"].bad
        for command in ("list", "redrive"):
            assert f"`{begin} dlq {command}`" in sign.remedy


def test_a_page_as_an_answer_is_one_line() -> None:
    def asked() -> Iterator[Sign]:
        yield fine("begun")
        page = "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n"
        raise StoreError(f"GetAccountSettings: {page}", "404")

    text = checked("concurrency", asked()).text
    assert text == (
        "could not be checked to its end: GetAccountSettings: 404 Not Found (a page, no JSON)"
    )
