"""Windows by the calendar: each instant is in exactly one, across any change of length."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.errors import UsageError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.windows import (
    DAY_MS,
    HOUR_MS,
    WINDOW_NAMES,
    YEAR_MS,
    Grid,
    Span,
    common_bound,
    dividing,
    end_of,
    iso,
    lasting_of,
    length_of,
    start_of,
    text_of_length,
    window_start,
)

SECONDS = (1, 60, 300, 3600, 5 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
LENGTHS = st.sampled_from([*SECONDS, *WINDOW_NAMES])
TIMES = st.integers(0, TS_MS_MAX)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("name", "ts", "start", "end"),
    [
        ("hour", "2026-11-27T17:20", "2026-11-27T17:00", "2026-11-27T18:00"),
        ("day", "2026-11-27T17:20", "2026-11-27", "2026-11-28"),
        ("week", "2026-11-27T17:20", "2026-11-23", "2026-11-30"),
        ("week", "2026-11-23", "2026-11-23", "2026-11-30"),
        ("week", "2026-11-22T23:59:59.999", "2026-11-16", "2026-11-23"),
        ("week", "1970-01-05", "1970-01-05", "1970-01-12"),
        ("month", "2028-02-29T12:00", "2028-02-01", "2028-03-01"),
        ("month", "2026-12-31T23:59:59.999", "2026-12-01", "2027-01-01"),
        ("quarter", "2026-11-27", "2026-10-01", "2027-01-01"),
        ("quarter", "2026-03-31", "2026-01-01", "2026-04-01"),
        ("year", "2028-12-31", "2028-01-01", "2029-01-01"),
        ("year", "1970-01-01", "1970-01-01", "1971-01-01"),
    ],
)
def test_the_window_of_a_time(name: str, ts: str, start: str, end: str) -> None:
    length = length_of(name)
    assert iso(start_of(length, at(ts))) == iso(at(start))
    assert iso(end_of(length, at(start))) == iso(at(end))
    assert Grid.of(name).at(at(ts)) == Span(at(start), at(end))


@given(TIMES, st.sampled_from(WINDOW_NAMES))
def test_by_the_calendar_of_datetime(ts: int, name: str) -> None:
    day = datetime.fromtimestamp(ts // 1000, UTC).date()
    first = {
        "hour": None,
        "day": day,
        "week": day - timedelta(day.weekday()) if day.toordinal() > 7 else None,
        "month": day.replace(day=1),
        "quarter": day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "year": day.replace(month=1, day=1),
    }[name]
    span = Grid.of(name).at(ts)
    assert ts in span
    assert first is None or span.start == at(first.isoformat())
    assert span.end % HOUR_MS == 0


@given(st.lists(LENGTHS, min_size=1, max_size=4), st.integers(0, at("2200-01-01")), st.data())
def test_each_time_is_in_one_window_across_changes(
    lengths: list[int | str], made_until: int, data: st.DataObject
) -> None:
    grid = Grid.of(lengths[0])
    for length in lengths[1:]:
        if grid.lengths[-1][1] == length_of(length):
            continue
        if common_bound(grid.lengths[-1][1], length_of(length), made_until + 1) is None:
            continue
        grid = grid.with_length(length, made_until)
        made_until = grid.lengths[-1][0]
    for since, _ in grid.lengths[1:]:
        assert grid.at(since).start == since
        assert grid.at(since - 1).end == since
    near = data.draw(st.sampled_from([since for since, _ in grid.lengths] or [0]))
    ts = max(0, near + data.draw(st.integers(-10 * YEAR_MS, 10 * YEAR_MS)))
    span = grid.at(ts)
    assert ts in span
    assert grid.at(span.start) == grid.at(span.end - 1) == span
    assert grid.after(span).start == span.end
    assert window_start(span.id) == span.start


@pytest.mark.parametrize("name", WINDOW_NAMES[2:])
def test_how_long_they_last(name: str) -> None:
    starts = [start_of(length_of(name), at("2000-01-01"))]
    while starts[-1] < at("2400-01-01"):
        starts.append(end_of(length_of(name), starts[-1]))
    took = [after - before for before, after in pairwise(starts)]
    lasting = lasting_of(length_of(name))
    assert (lasting.shortest, lasting.longest) == (min(took), max(took))
    assert abs(lasting.mean - sum(took) / len(took)) < DAY_MS / 24
    assert monthrange(2028, 2)[1] == 29


@pytest.mark.parametrize(
    ("before", "after", "since", "bound"),
    [
        (3600, "month", "2026-11-27T17:00", "2026-12-01"),
        ("month", 3600, "2026-12-01", "2026-12-01"),
        ("month", "quarter", "2026-12-01", "2027-01-01"),
        ("year", "week", "2027-01-01", None),
        ("week", "year", "2026-11-30", None),
        ("week", "month", "2026-11-30", "2027-02-01"),
        ("day", "week", "2026-11-27", "2026-11-30"),
        (7 * 86_400, "week", "2026-11-26", None),
        (7 * 86_400, "day", "2026-11-26", "2026-11-26"),
        (7 * 86_400, 3600, "2026-11-26T01:00", "2026-12-03"),
        (366 * 86_400, 365 * 86_400, "2026-11-26", None),
    ],
)
def test_the_next_bound_of_both(
    before: int | str, after: int | str, since: str, bound: str | None
) -> None:
    found = common_bound(length_of(before), length_of(after), at(since))
    assert found == (at(bound) if bound else None)


def test_where_there_is_no_way_the_error_names_one() -> None:
    grid = Grid.of(7 * 86_400)
    with pytest.raises(UsageError, match=r"of 604800 s cannot become windows of a week: .*") as no:
        grid.with_length("week", at("2026-11-26"))
    assert "make them of a day first (tallyroll:window=day), then of a week" in str(no.value)
    days = grid.with_length("day", at("2026-11-26"))
    weeks = days.with_length("week", days.lengths[-1][0])
    assert weeks.lengths[1:] == ((at("2026-11-26"), DAY_MS), (at("2026-11-30"), "week"))


def test_where_days_are_no_way_minutes_are() -> None:
    """A minute short of a day: these begin with a day once in 1,439 days."""
    grid, now = Grid.of(86_340), at("2026-11-26")
    with pytest.raises(UsageError, match=r"minute first \(tallyroll:window_seconds=60\)"):
        grid.with_length("day", now)
    minutes = grid.with_length(60, now)
    days = minutes.with_length("day", minutes.lengths[-1][0])
    assert days.lengths[-1][0] - now < 3 * DAY_MS


def test_the_end_of_time() -> None:
    for name in WINDOW_NAMES[3:]:
        span = Grid.of(name).at(TS_MS_MAX)
        assert span.end == TS_MS_MAX + 1


def test_packets_fit_every_window() -> None:
    assert dividing(60_000, "week", "month") == 60_000
    assert dividing(60_000, length_of(10)) == 10_000
    assert dividing(7 * DAY_MS, "month") == DAY_MS


def test_names() -> None:
    assert (length_of("hour"), length_of("day"), length_of("year")) == (HOUR_MS, DAY_MS, "year")
    assert (text_of_length(90_000), text_of_length("month")) == ("90 s", "a month")
    with pytest.raises(UsageError, match="'fortnight': give hour, day, week, month, quarter, year"):
        length_of("fortnight")
