"""Steps of time zones: pinned at changes of clocks, and compared with each minute's label."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyroll.errors import UsageError
from tallyroll.limits import TS_MS_MAX
from tallyroll.reads.steps import STEPS_MAX, StepName, cuts, local_iso, step_named, zone_named

MINUTE, HOUR = 60_000, 3_600_000
DAY = 24 * HOUR
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",  # in 1987 to 2011 its clocks went back at 00:01
    "America/Havana",  # back at 01:00, onto midnight
    "Africa/Cairo",  # a day without its midnight
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # by half an hour
    "Pacific/Apia",  # skipped 2011-12-30
)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def lengths(since: str, until: str, step: StepName, zone: str) -> list[float]:
    bounds = cuts(at(since), at(until), step, ZoneInfo(zone))
    return [(end - start) / HOUR for start, end in pairwise(bounds)]


@pytest.mark.parametrize(
    ("zone", "since", "until", "step", "hours"),
    [
        ("Europe/Berlin", "2026-03-28T23:00Z", "2026-03-29T22:00Z", "day", [23]),
        ("Europe/Berlin", "2026-10-24T22:00Z", "2026-10-25T23:00Z", "day", [25]),
        ("Europe/Berlin", "2026-10-24T22:00Z", "2026-10-25T23:00Z", "hour", [1] * 25),
        ("Europe/Berlin", "2026-10-24T23:00Z", "2026-10-25T23:00Z", "day", [24]),
        ("Europe/Berlin", "2026-10-18T22:00Z", "2026-11-01T23:00Z", "week", [169, 168]),
        ("Europe/Berlin", "2026-09-30T22:00Z", "2026-11-30T23:00Z", "month", [745, 720]),
        ("UTC", "2026-11-20T00:00Z", "2026-11-23T12:00Z", "week", [72, 12]),
        ("UTC", "2027-12-31T23:00Z", "2028-03-01T00:00Z", "month", [1, 744, 696]),
        ("Asia/Kathmandu", "2026-11-20T00:00Z", "2026-11-20T02:00Z", "hour", [0.25, 1, 0.75]),
        ("Australia/Lord_Howe", "2026-04-04T14:00Z", "2026-04-04T16:30Z", "hour", [1, 0.5, 1]),
        ("Pacific/Apia", "2011-12-29T10:00Z", "2011-12-31T10:00Z", "day", [24, 24]),
        ("Africa/Cairo", "2026-04-22T22:00Z", "2026-04-24T21:00Z", "day", [24, 23]),
        ("America/Havana", "2026-10-31T04:00Z", "2026-11-02T05:00Z", "day", [24, 25]),
    ],
)
def test_steps_over_changes_of_clocks(
    zone: str, since: str, until: str, step: StepName, hours: list[float]
) -> None:
    assert lengths(since, until, step, zone) == hours


def test_a_day_that_begins_twice_begins_at_the_first_time() -> None:
    """00:01 becomes 23:01 of the day before: it has no other midnight after that one."""
    zone = "America/St_Johns"
    assert lengths("2010-11-06T02:30Z", "2010-11-08T03:30Z", "day", zone) == [24, 25]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(at("1985-01-01T00:00Z") // MINUTE, at("2037-01-01T00:00Z") // MINUTE),
    st.integers(1, 4 * 24 * 60),
    st.sampled_from(ZONES),
    st.sampled_from(["hour", "day", "week", "month"]),
)
def test_a_step_begins_with_the_first_minute_of_its_label(
    since: int, minutes: int, name: str, step: StepName
) -> None:
    zone = ZoneInfo(name)

    def label(minute: int) -> tuple[object, ...]:
        local = datetime.fromtimestamp(minute * 60, zone)
        if step == "hour":
            return local.date(), local.hour, local.utcoffset()
        if step == "day":
            return (local.date(),)
        if step == "week":
            return (local.date() - timedelta(local.weekday()),)
        return local.year, local.month

    seen, expected = {label(since)}, [since]
    for minute in range(since + 1, since + minutes):
        if label(minute) not in seen:  # one that comes again is that of the first time
            expected.append(minute)
        seen.add(label(minute))
    got = cuts(since * MINUTE, (since + minutes) * MINUTE, step, zone)
    assert [bound / MINUTE for bound in got] == [*expected, since + minutes]


def test_steps_of_adjacent_ranges_meet() -> None:
    zone, middle = ZoneInfo("Europe/Berlin"), at("2026-10-25T01:00Z")
    since, until = at("2026-10-20T00:00Z"), at("2026-11-20T00:00Z")
    first, second = cuts(since, middle, "day", zone), cuts(middle, until, "day", zone)
    assert first[-1] == second[0] == middle
    assert [*first[:-1], *second[1:]] == cuts(since, until, "day", zone)


def test_the_last_day_of_all() -> None:
    assert cuts(TS_MS_MAX - HOUR, TS_MS_MAX, "month", UTC)[1:] == [TS_MS_MAX]
    assert cuts(TS_MS_MAX - HOUR, TS_MS_MAX, "week", UTC)[1:] == [TS_MS_MAX]


def test_too_many_steps_and_none() -> None:
    most = STEPS_MAX * HOUR
    assert len(cuts(0, most, "hour", UTC)) == STEPS_MAX + 1
    with pytest.raises(UsageError, match="more than 10,000 steps of an hour: give a longer step"):
        cuts(0, most + 1, "hour", UTC)
    with pytest.raises(UsageError, match="more than 10,000 steps of a day"):
        cuts(0, TS_MS_MAX, "day", UTC)
    with pytest.raises(UsageError, match="is not before until"):
        cuts(HOUR, HOUR, "hour", UTC)


def test_names() -> None:
    assert step_named("week") == "week"
    assert zone_named("UTC") is UTC
    assert zone_named("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    with pytest.raises(UsageError, match="step 'year': must be minute, hour, day, week, month"):
        step_named("year")


@pytest.mark.parametrize("name", ["Europe/Berlln", "../etc/passwd", "Europe", "", "\0", "x" * 300])
def test_no_time_zone(name: str) -> None:
    with pytest.raises(UsageError, match="no time zone has this name"):
        zone_named(name)


def test_the_nearest_time_zone_is_named() -> None:
    with pytest.raises(UsageError, match=r"'Europe/Berlln': .*; Europe/Berlin is one"):
        zone_named("Europe/Berlln")


def test_an_instant_in_its_zone() -> None:
    zone = ZoneInfo("America/St_Johns")
    assert local_iso(at("2026-11-20T00:00Z"), zone) == "2026-11-19T20:30:00-03:30"
    assert local_iso(1, UTC) == "1970-01-01T00:00:00.001000+00:00"


@pytest.mark.parametrize("step", ["hour", "day", "week", "month"])
def test_a_range_whose_end_has_no_date_in_its_zone_is_refused(step: StepName) -> None:
    since, until = at("9999-12-30T15:00:00+00:00"), at("9999-12-31T15:00:00+00:00")
    with pytest.raises(UsageError, match=r"in tz Asia/Tokyo that is after the year 9999"):
        cuts(since, until, step, ZoneInfo("Asia/Tokyo"))
    for zone in ("UTC", "America/New_York"):
        bounds = cuts(since, TS_MS_MAX, step, ZoneInfo(zone))
        assert local_iso(bounds[-1], ZoneInfo(zone)).startswith("9999-12-31")
    bounds = cuts(since, until - HOUR, step, ZoneInfo("Asia/Tokyo"))
    assert local_iso(bounds[-1], ZoneInfo("Asia/Tokyo")) == "9999-12-31T23:00:00+09:00"
