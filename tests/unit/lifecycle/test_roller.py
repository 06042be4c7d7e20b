from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tallyroll.errors import Unknown
from tallyroll.lifecycle.runner import Rolled
from tallyroll.lifecycle.state_machine import Step
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.windows import Grid, window_id, window_start
from tallyroll.operations.backfill import open_past
from tallyroll.reasons import Reason
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SMALL,
    START,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    StillEffects,
    hour,
    opened,
)


def run(pipeline: Pipeline) -> Rolled:
    return pipeline.roller().run(TIME_LEFT)


def states(pipeline: Pipeline) -> dict[str, str]:
    return {window.id[9:11]: window.status for window in pipeline.catalog.windows(0, 10**14)}


# --- creation and opening


def test_the_first_run_founds_the_pipeline_with_the_current_window() -> None:
    pipeline = Pipeline()
    rolled = run(pipeline)
    assert pipeline.catalog.calendar() == Calendar(Grid.of(3600), START)
    assert states(pipeline) == {"08": "open", "09": "creating", "10": "creating"}
    assert rolled.steps == {Step.MAKE_TABLE: 3, Step.CHECK_TABLE: 3, Step.RECOVER: 3, Step.OPEN: 1}
    assert rolled.states == {"open": 1, "creating": 2}
    assert not rolled.next_missing
    assert pipeline.store.tables() == [f"tallyroll-{hour(number)}" for number in (8, 9, 10)]


def test_tables_are_protected_and_tagged() -> None:
    pipeline = Pipeline()
    run(pipeline)
    facts = pipeline.store.describe_table(f"tallyroll-{WINDOW}")
    assert facts
    assert facts.protected
    assert pipeline.store.tags(f"tallyroll-{WINDOW}") == {"tallyroll": "tallyroll"}


def test_a_window_opens_when_its_spec_may_be_frozen() -> None:
    pipeline = Pipeline()
    run(pipeline)
    lead = SMALL.freeze_lead_ms
    pipeline.effects.pass_by(30 * MINUTE - lead - 1)
    assert run(pipeline).steps.total() == 0
    assert pipeline.catalog.specs([hour(9)]) == {}
    pipeline.effects.pass_by(1)
    assert run(pipeline).steps == {Step.OPEN: 1}
    window, spec = pipeline.state(hour(9)), pipeline.spec(hour(9))
    assert (window.accept_from, window.accept_until, window.shards) == (0, spec.accept_until, 4)
    begun = {"creating": NOW, "checked": NOW, "recoverable": NOW}
    assert window.times == {**begun, "open": START + HOUR - lead}


def test_a_table_that_is_being_made_is_waited_for() -> None:
    pipeline = Pipeline()
    pipeline.store._creating_ms = 10_000
    rolled = run(pipeline)
    assert rolled.steps == {Step.MAKE_TABLE: 3}
    assert rolled.next_missing
    pipeline.effects.pass_by(9_999)
    assert run(pipeline).steps.total() == 0
    pipeline.effects.pass_by(1)
    rolled = run(pipeline)
    assert rolled.steps == {Step.CHECK_TABLE: 3, Step.RECOVER: 3, Step.OPEN: 1}
    assert not rolled.next_missing


def test_the_spec_and_the_gates_come_before_the_open_state(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline()
    open_gates = pipeline.store.open_gates

    def opening(spec: Spec) -> None:
        assert pipeline.catalog.specs([spec.window]) == {spec.window: spec}
        assert pipeline.state(spec.window).status is Status.CREATING
        open_gates(spec)

    monkeypatch.setattr(pipeline.store, "open_gates", opening)
    run(pipeline)
    assert pipeline.state().status is Status.OPEN


def test_a_spec_that_stands_is_kept_whatever_the_settings_say_now() -> None:
    pipeline = Pipeline()
    run(pipeline)
    pipeline.move(Status.CREATING)  # as if the run had crashed before its last write
    pipeline.settings = replace(SMALL, shards=99, accept_for_ms=0)
    run(pipeline)
    assert pipeline.spec().shards == pipeline.state().shards == 4
    assert pipeline.state().accept_until == START + 2 * HOUR


def test_a_late_roller_makes_the_windows_that_it_missed() -> None:
    pipeline = Pipeline(effects=StillEffects(NOW - 5 * HOUR))
    run(pipeline)
    pipeline.effects.pass_by(5 * HOUR)
    waiting = pipeline.message({"key": "k", "ts": NOW - 2 * HOUR}, sent=NOW - 2 * HOUR)
    writer = pipeline.writer()
    assert writer.write([waiting], TIME_LEFT).waiting == 1
    pipeline.effects.pass_by(20_000)
    rolled = run(pipeline)
    assert states(pipeline) == dict.fromkeys(["03", "04", "05", "06", "07", "08"], "open") | {
        "09": "creating",
        "10": "creating",
    }
    assert (rolled.steps[Step.MAKE_TABLE], rolled.next_missing) == (5, False)
    assert writer.write([waiting], TIME_LEFT).events == 1
    assert pipeline.tally("k", hour(6))[0] == 1


def test_creation_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    pipeline.effects.pass_by(3 * HOUR)
    done: list[str] = []
    shut_gates, make_table = pipeline.store.shut_gates, pipeline.store.make_table

    def shut(spec: Spec) -> None:
        done.append("shut")
        shut_gates(spec)

    def make(table: str, tags: dict[str, str], peak: int) -> None:
        done.append("make")
        make_table(table, tags, peak)

    monkeypatch.setattr(pipeline.store, "shut_gates", shut)
    monkeypatch.setattr(pipeline.store, "make_table", make)
    roller = pipeline.roller()
    roller._draining._empty_counts = {hour(6): 2, hour(7): 2, hour(8): 2}
    roller.run(TIME_LEFT)
    assert done == ["make", "make", "make", "shut", "shut", "shut"]


def test_a_window_that_another_run_made_first_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = Pipeline()
    monkeypatch.setattr(pipeline.catalog, "create", lambda window, calendar: False)
    rolled = run(pipeline)
    assert (rolled.steps.total(), rolled.problems, rolled.next_missing) == (0, [], True)


def test_a_run_again_does_nothing() -> None:
    pipeline = opened()
    before = pipeline.catalog.windows(0, 10**14)
    assert run(pipeline).steps.total() == 0
    assert pipeline.catalog.windows(0, 10**14) == before


def test_another_window_length_holds_for_windows_that_are_not_made_yet() -> None:
    pipeline = opened()
    made = pipeline.catalog.windows(0, 10**14)
    pipeline.settings = replace(SMALL, window_seconds=900)
    for _ in range(20):
        assert run(pipeline).problems == []
        pipeline.effects.pass_by(10 * MINUTE)
    windows = pipeline.catalog.windows(0, 10**14)
    assert [window.id for window in windows[: len(made)]] == [window.id for window in made]
    assert {window.end - window.start for window in windows[: len(made)]} == {HOUR}
    assert {window.end - window.start for window in windows[len(made) :]} == {15 * MINUTE}
    assert all(one.end == other.start for one, other in pairwise(windows))
    status = pipeline.state(window_id(pipeline.effects.now() // (15 * MINUTE) * 15 * MINUTE)).status
    assert status is Status.OPEN


def test_months_follow_hours_on_the_next_first() -> None:
    """NOW is on 20 November; the window of December is made two windows ahead."""
    pipeline = opened()
    pipeline.settings = replace(SMALL, window="month")
    first = window_start("20261201T000000Z")
    for _ in range(300):
        assert run(pipeline).problems == []
        pipeline.effects.pass_by(HOUR)
    windows = pipeline.catalog.windows(0, 10**14)
    assert {one.end - one.start for one in windows if one.start < first} == {HOUR}
    assert [one.id for one in windows if one.start >= first] == [
        "20261201T000000Z",
        "20270101T000000Z",
        "20270201T000000Z",
    ]
    assert all(one.end == other.start for one, other in pairwise(windows))
    assert pipeline.state("20261201T000000Z").status is Status.OPEN
    assert pipeline.write({"key": "k", "ts": pipeline.effects.now()}).events == 1
    assert pipeline.tally("k", "20261201T000000Z") == (1, 1_000_000)


def test_a_length_to_which_there_is_no_way_is_a_problem_and_the_last_one_stays() -> None:
    pipeline = opened(replace(SMALL, window_seconds=7 * 24 * 3600))
    before = pipeline.catalog.calendar()
    pipeline.settings = replace(SMALL, window="week")
    [problem] = run(pipeline).problems
    assert "windows of 604800 s cannot become windows of a week" in problem
    assert "tallyroll:window=day" in problem
    assert pipeline.catalog.calendar() == before


@pytest.mark.parametrize(
    ("window", "ahead", "then"), [("quarter", 10, "month"), ("year", 3, "day")]
)
def test_windows_far_ahead_are_passed_by_before_another_length_begins(
    window: str, ahead: int, then: str
) -> None:
    pipeline = opened(replace(SMALL, window=window, ahead_windows=ahead))
    made = pipeline.catalog.windows(0, 10**14)
    assert len(made) == ahead + 1
    pipeline.settings = replace(pipeline.settings, window=then)
    assert run(pipeline).problems == []
    calendar = pipeline.catalog.calendar()
    assert calendar
    assert calendar.grid.lengths[-1][0] == made[-1].end
    assert [calendar.grid.at(each.start).end for each in made] == [each.end for each in made]


def test_another_window_length_begins_at_genesis_at_the_earliest() -> None:
    """Also while only past windows are made: events since genesis are not too late."""
    pipeline = Pipeline()
    calendar = pipeline.catalog.found(Calendar(Grid.of(HOUR // 1000), START))
    open_past(
        pipeline.catalog, calendar, "tallyroll", START - 5 * HOUR, START - 4 * HOUR, NOW, 24 * HOUR
    )
    pipeline.settings = replace(SMALL, window_seconds=3 * HOUR // 1000)
    run(pipeline)
    changed = pipeline.catalog.calendar()
    assert changed
    assert changed.grid.lengths[-1][1] == 3 * HOUR
    assert changed.grid.at(START).start == START


def test_a_roller_that_slept_through_a_change_of_length_makes_no_window_by_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    pipeline.effects.pass_by(HOUR)
    create = pipeline.catalog.create

    def late(window: Window, calendar: Calendar | None = None) -> bool:
        monkeypatch.undo()
        pipeline.settings = replace(SMALL, window_seconds=900)
        run(pipeline)
        return create(window, calendar)

    monkeypatch.setattr(pipeline.catalog, "create", late)
    assert run(pipeline).problems == []
    windows = pipeline.catalog.windows(0, 10**14)
    assert all(one.end == other.start for one, other in pairwise(windows))
    assert windows[-1].end - windows[-1].start == 15 * MINUTE


def test_past_windows_do_not_delay_regular_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline()
    run(pipeline)
    calendar = pipeline.catalog.calendar()
    assert calendar
    past = (START - 5 * HOUR, START - 2 * HOUR)
    open_past(pipeline.catalog, calendar, "tallyroll", *past, NOW, 24 * HOUR)
    made: list[str] = []
    make_table = pipeline.store.make_table
    pipeline.effects.pass_by(HOUR)

    def make(table: str, tags: dict[str, str], peak: int) -> None:
        made.append(table)
        make_table(table, tags, peak)

    monkeypatch.setattr(pipeline.store, "make_table", make)
    run(pipeline)
    assert made[0] == f"tallyroll-{hour(11)}"
    assert len(made) == 4


def test_the_live_pointer_passes_no_window_that_could_not_be_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    create = pipeline.catalog.create

    def unlucky(window: Window, calendar: Calendar | None) -> bool:
        if window.id == hour(11):
            raise Unknown("no answer")
        return create(window, calendar)

    monkeypatch.setattr(pipeline.catalog, "create", unlucky)
    pipeline.effects.pass_by(4 * HOUR)
    roller = pipeline.roller()
    assert any("not created" in problem for problem in roller.run(TIME_LEFT).problems)
    for _ in range(10):
        roller.run(TIME_LEFT)
        pipeline.effects.pass_by(MINUTE)
    for window in pipeline.catalog.windows(0, 10**14):
        if window.status.sealed:
            pipeline.move(Status.DROPPED, window.id)
    roller.run(TIME_LEFT)
    monkeypatch.setattr(pipeline.catalog, "create", create)
    roller.run(TIME_LEFT)
    assert pipeline.catalog.window(hour(11))


# --- trouble, time and the live pointer


def test_one_windows_trouble_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline()
    describe = pipeline.store.describe_table

    def unlucky(table: str) -> object:
        if table.endswith(hour(8)):
            raise Unknown("no answer")
        return describe(table)

    monkeypatch.setattr(pipeline.store, "describe_table", unlucky)
    rolled = run(pipeline)
    assert rolled.problems == [f"window {WINDOW} (creating): no answer"]
    assert (rolled.steps[Step.MAKE_TABLE], rolled.next_missing) == (2, True)


def test_without_time_nothing_is_carried_out() -> None:
    pipeline = Pipeline()
    rolled = pipeline.roller().run(time_left_ms=5_000)
    assert rolled.steps.total() == 0
    assert rolled.next_missing
    assert states(pipeline) == dict.fromkeys(["08", "09", "10"], "creating")


def test_the_live_pointer_follows_what_is_dropped() -> None:
    pipeline = opened()
    pipeline.move(Status.DROPPED, hour(7))
    run(pipeline)
    assert _live(pipeline) == START - 2 * HOUR
    pipeline.move(Status.DROPPED, hour(6))
    run(pipeline)
    assert _live(pipeline) == START
    assert run(pipeline).states == {"open": 1, "creating": 2}
    assert states(pipeline)["06"] == "dropped"


def test_a_past_window_opened_on_purpose_is_taken_care_of() -> None:
    pipeline = opened()
    day_before = hour(-20)
    start = START - 28 * HOUR
    past = replace(
        pipeline.state(),
        id=day_before,
        table=f"tallyroll-{day_before}",
        start=start,
        end=start + HOUR,
        status=Status.CREATING,
        accept_from=NOW,
        accept_until=NOW + HOUR,
    )
    assert pipeline.catalog.create(past)
    assert run(pipeline).steps == {Step.MAKE_TABLE: 1, Step.OPEN: 1}
    assert (pipeline.spec(day_before).accept_from, _live(pipeline)) == (NOW, START - 2 * HOUR)
    assert pipeline.write({"id": "e1", "key": "k", "ts": start}).events == 1


def test_a_past_window_that_is_being_made_is_awaited() -> None:
    pipeline = opened()
    start = START - 28 * HOUR
    old = {"id": "e1", "key": "k", "ts": start}
    writer = pipeline.writer()
    assert writer.write([pipeline.message(old)], TIME_LEFT).rejected == {Reason.TOO_LATE: 1}
    past = replace(
        pipeline.state(hour(9)), id=hour(-20), start=start, end=start + HOUR, accept_from=NOW
    )
    assert pipeline.catalog.create(replace(past, accept_until=NOW + HOUR))
    report = writer.write([pipeline.message(old)], TIME_LEFT)
    assert (report.waiting, report.rejected) == (1, {})
    pipeline.effects.pass_by(20_000)
    run(pipeline)
    assert writer.write([pipeline.message(old)], TIME_LEFT).events == 1


def _live(pipeline: Pipeline) -> int:
    pointer = pipeline.catalog.live()
    assert pointer
    return pointer.since
