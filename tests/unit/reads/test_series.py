"""A key's counts by the hour, day, week and month: each event in one step, roll-ups in theirs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tallyroll.errors import Absent, Throttled, UsageError
from tallyroll.model.periods import day_of
from tallyroll.model.states import Calendar
from tallyroll.model.totals import Correction
from tallyroll.model.windows import Grid, window_id
from tallyroll.reads.http import answer_series
from tallyroll.reads.series import Curve, Steps, curve_json
from tallyroll.reads.steps import StepName, zone_named
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, opened
from tests.unit.lifecycle.test_rollups import DAY, FIRST, Days

NEW_YORK = ZoneInfo("America/New_York")  # its clocks go back on 2026-11-01 at 06:00 UTC
LAST = FIRST + 4 * DAY


@pytest.fixture
def days() -> Days:
    """Four days of windows of an hour, with up to 9 events of `k` each; three are rolled up."""
    made, random = Days(hours=1), Random(5)
    made.catalog.found(Calendar(Grid.of(3600), FIRST))
    for start in range(FIRST, LAST, HOUR):
        n = random.randrange(10)
        made.window(start, {"k": n, "other": 100} if n else {"other": 100})
    made.at(4)
    assert made.roll().steps == {"roll-up": 3}
    made.at(5)
    return made


def ask(
    days: Days,
    since: int | None = FIRST,
    until: int | None = LAST,
    step: StepName = "day",
    zone: tzinfo = UTC,
) -> Curve:
    return days.pipeline.reader().series("k", since, until, step, zone)


def by_hand(days: Days, label: Callable[[datetime], object], zone: tzinfo) -> list[int]:
    """The sums of the windows' totals by a label of their starts."""
    sums: dict[object, int] = {}
    for start in range(FIRST, LAST, HOUR):
        of = days.totals.of_key("k", window_id(start), window_id(start + HOUR))
        at = label(datetime.fromtimestamp(start // 1000, zone))
        sums[at] = sums.get(at, 0) + sum(total.n for total in of)
    return list(sums.values())


def spying(days: Days, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is asked of rolled-up sums: (from, to)."""
    asked, real = list[tuple[str, str]](), days.totals.periods_of_key

    def seen(key: str, first: str, last: str) -> Any:
        asked.append((first, last))
        return real(key, first, last)

    monkeypatch.setattr(days.totals, "periods_of_key", seen)
    return asked


def test_days_are_read_rolled_up_where_they_are_steps(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = spying(days, monkeypatch)
    curve = ask(days)
    assert [point.events for point in curve.points] == by_hand(days, datetime.date, UTC)
    assert asked == [("day#20261101", "day#20261103")]
    assert [period.period for period in curve.count.periods] == [
        f"day#202611{day:02}" for day in (1, 2, 3)
    ]
    assert [(point.start, point.end) for point in curve.points] == [
        (FIRST + at * DAY, FIRST + (at + 1) * DAY) for at in range(4)
    ]


def test_days_of_another_zone_are_read_by_windows_and_sum_to_the_same(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = spying(days, monkeypatch)
    curve = ask(days, zone=NEW_YORK)
    assert [point.events for point in curve.points] == by_hand(days, datetime.date, NEW_YORK)
    assert asked == []
    hours = [(point.end - point.start) // HOUR for point in curve.points]
    assert hours == [4, 25, 24, 24, 19]
    assert curve.count.events == sum(point.events for point in curve.points)
    assert curve.count.events == ask(days).count.events > 0


def test_hours_in_which_the_clocks_go_back_are_apart(days: Days) -> None:
    curve = ask(days, FIRST + 5 * HOUR, FIRST + 8 * HOUR, "hour", NEW_YORK)
    starts = [point["start"] for point in curve_json(curve)["points"]]
    assert starts == [
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:00:00-05:00",
        "2026-11-01T02:00:00-05:00",
    ]
    named = by_hand(days, lambda at: at.astimezone(UTC), NEW_YORK)
    assert [point.events for point in curve.points] == named[5:8]


def test_a_week_takes_the_days_in_it_rolled_up(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = spying(days, monkeypatch)
    curve = ask(days, FIRST + 12 * HOUR, LAST - HOUR, "week")
    assert [point.start for point in curve.points] == [FIRST + 12 * HOUR, FIRST + DAY]
    assert asked == [("day#20261102", "day#20261103")]
    whole = by_hand(days, lambda at: at, UTC)
    assert [point.events for point in curve.points] == [sum(whole[12:24]), sum(whole[24:-1])]


def test_what_was_retracted_is_in_its_step(days: Days) -> None:
    plain = ask(days).points
    window = window_id(FIRST + 30 * HOUR)
    one = Correction(window, "e", ("k",), 1, 1_000_000, b"d" * 16, FIRST + 3 * DAY)
    days.totals.correct([one])
    points = ask(days).points
    assert points[1].retracted == (1, 1_000_000)
    assert points[1].events == plain[1].events - 1
    assert [points[at] for at in (0, 2, 3)] == [plain[at] for at in (0, 2, 3)]
    shown = curve_json(ask(days))
    assert [point.get("retracted") for point in shown["points"]] == [
        None,
        {"events": 1, "sum": "1"},
        None,
        None,
    ]


def test_a_window_that_cannot_be_read_is_missing_in_its_step_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    pipeline.write({"key": "k", "ts": NOW}, {"key": "k", "ts": NOW - HOUR, "value": 2})
    real = pipeline.store.tallies

    def refuse(spec: Any, keys: Any) -> Any:
        if spec.start == START:
            raise Throttled("BatchGetItem: slow down")
        return real(spec, keys)

    monkeypatch.setattr(pipeline.store, "tallies", refuse)
    answer = answer_series(pipeline.reader(), {"key": "k"}, TIME_LEFT)
    assert answer.is_complete is False
    assert answer.counts
    shown = answer.body
    assert shown["missing"] == [window_id(START)]
    assert shown["complete"] is False
    assert [
        (point["start"], point["events"], point["sum"], point.get("complete", True))
        for point in shown["points"][-2:]
    ] == [
        ("2026-11-20T07:00:00+00:00", 1, "2", True),
        ("2026-11-20T08:00:00+00:00", 0, "0", False),
    ]
    assert shown["until"] == "2026-11-20T09:00:00+00:00"


def test_it_begins_with_the_first_window_and_ends_with_the_current_one(days: Days) -> None:
    curve = ask(days, None, None, "day")
    assert curve.points[0].start == FIRST
    assert curve.points[-1].end == LAST + HOUR
    assert curve.count.events == days.pipeline.reader().count("k").events


@pytest.mark.parametrize(
    ("since", "until", "step", "zone", "said"),
    [
        (FIRST + 1, LAST, "hour", "UTC", "lies inside a window"),
        (LAST, FIRST, "hour", "UTC", "is not before until"),
        (FIRST, LAST, "day", "Asia/Kathmandu", "tz Asia/Kathmandu: a day begins there at 2026"),
        (FIRST, LAST, "hour", "Asia/Kathmandu", "an hour begins there at 2026-11-01T00:15:00.000Z"),
        (0, LAST, "hour", "UTC", "more than 10,000 steps of an hour"),
        (FIRST, LAST, "minute", "UTC", "ask for minutes by `minutes`"),
        (FIRST, LAST, "year", "UTC", "step 'year': must be minute"),
    ],
)
def test_what_is_refused(
    days: Days, since: int, until: int, step: StepName, zone: str, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        ask(days, since, until, step, zone_named(zone))
    assert said in str(refused.value)


def test_windows_of_a_day_cannot_be_divided_by_a_zone() -> None:
    made = Days(hours=24)
    made.catalog.found(Calendar(Grid.of(86_400), FIRST))
    made.at(5)
    assert len(ask(made, step="week").points) == 2
    with pytest.raises(UsageError, match="inside the window 20261101T000000Z"):
        ask(made, zone=NEW_YORK)


def test_windows_that_divide_no_hour_need_a_longer_step() -> None:
    made = Days(hours=24)
    made.catalog.found(Calendar(Grid.of(420), FIRST))
    made.at(5)
    since = Grid.of(420).at(FIRST).start
    with pytest.raises(UsageError, match="cannot be divided; give a longer step"):
        ask(made, since, since + 70 * 420_000, step="hour")


def test_there_are_no_windows_yet() -> None:
    with pytest.raises(Absent, match="no windows"):
        ask(Days())


def test_a_period_is_held_by_one_step_alone() -> None:
    """Bounds within a day: a reader that took the day whole would count it in the wrong step."""
    assert Steps([FIRST, FIRST + DAY, FIRST + 2 * DAY]).hold(day_of(FIRST))
    assert not Steps([FIRST, FIRST + DAY - 1, FIRST + 2 * DAY]).hold(day_of(FIRST))


def test_a_reader_that_takes_any_day_rolled_up_is_caught(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Steps, "hold", lambda *_: True)
    wrong = [point.events for point in ask(days, zone=NEW_YORK).points]
    assert wrong != by_hand(days, datetime.date, NEW_YORK)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "key is missing"),
        ({"key": "k", "step": "year"}, "step 'year': must be minute, hour, day, week, month"),
        ({"key": "k", "tz": "Mars/Olympus"}, "no time zone has this name"),
        ({"key": "k", "zone": "UTC"}, "'zone': known are key, since, until, step, tz"),
    ],
)
def test_bad_parameters(parameters: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        answer_series(opened().reader(), parameters, TIME_LEFT)
    assert said in str(refused.value)
