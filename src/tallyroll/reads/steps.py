"""Cuts a span of time into the hours, days, weeks or months of a time zone.

A step ends where the next one begins, so steps, and the steps of adjacent spans, never overlap. An
hour in which the zone's clocks are changed is cut there: both parts are steps. A day without its
midnight begins when the clocks have passed it; one that has it twice, at the first.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Literal

from tallyroll.errors import UsageError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.amounts import shown
from tallyroll.model.windows import iso

StepName = Literal["hour", "day", "week", "month"]
MINUTE: Literal["minute"] = "minute"  # a step of windows that are not sealed
STEPS: dict[StepName, int] = {
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
    "month": 28 * 86_400_000,
}
"""The lengths of steps, and about how long (ms) each is, at the least."""
STEPS_MAX = 10_000
NEVER = TS_MS_MAX + 1


def step_named(name: str) -> StepName:
    """The step of this name. Raises UsageError."""
    if name == MINUTE:
        raise UsageError(f"step {name}: ask for minutes by `minutes`, not by `series`")
    if name not in STEPS:
        raise UsageError(f"step {shown(name)}: must be {MINUTE}, {', '.join(STEPS)}")
    return name


def zone_named(name: str) -> tzinfo:
    """The time zone of this name, as IANA's database has it. Raises UsageError."""
    if name == "UTC":  # without the database
        return UTC
    from zoneinfo import ZoneInfo, available_timezones  # most requests need no zone

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        from difflib import get_close_matches

        near = get_close_matches(name, sorted(available_timezones()), n=1)
        like = near[0] if near else "Europe/Berlin"
        raise UsageError(f"tz {shown(name)}: no time zone has this name; {like} is one") from None


def cuts(since: int, until: int, step: StepName, zone: tzinfo) -> list[int]:
    """The bounds of the steps in [since, until) in ms: `since`, each begin of a step after it, and
    `until`. Raises UsageError if there are more than `STEPS_MAX` steps, or `until` has no date in
    the zone.
    """
    if since >= until:
        raise UsageError(f"since {iso(since)} is not before until {iso(until)}")
    check_shown(until, zone)
    bounds = [since]
    while len(bounds) <= STEPS_MAX:
        bound = _after(bounds[-1], step, zone)
        if bound >= until:
            return [*bounds, until]
        bounds.append(bound)
    raise UsageError(
        f"from {iso(since)} to {iso(until)} there are more than {STEPS_MAX:,} steps of"
        f" a{'n' * (step == 'hour')} {step}: give a longer step, or a shorter range"
    )


def check_shown(until: int, zone: tzinfo) -> None:
    """Raise UsageError if `until` (ms) comes after the year 9999 in a zone: there are no dates."""
    try:
        _local(min(until, TS_MS_MAX), zone)
    except (OverflowError, ValueError):
        raise UsageError(
            f"until {iso(until)}: in tz {zone} that is after the year 9999; give an earlier one, or"
            " tz UTC"
        ) from None


def local_iso(ms: int, zone: tzinfo) -> str:
    """An instant of a step in its zone: `2026-11-20T00:00:00+01:00`."""
    at = datetime.fromtimestamp(ms // 1000, zone).replace(microsecond=ms % 1000 * 1000)
    return at.isoformat()


def _after(at: int, step: StepName, zone: tzinfo) -> int:
    """The begin of the first step after `at`."""
    if step == "hour":
        offset, length = _offset(at, zone), STEPS[step]
        bound = at - (at + offset) % length + length
        return _first(at, bound, lambda instant: _offset(instant, zone) != offset)
    today, bound = _local(at, zone).date(), at
    day = today
    while bound <= at:  # the zone may have skipped a whole day
        try:
            day = _next_day(day, step)
        except (OverflowError, ValueError):  # after the year 9999
            return NEVER
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        bound = round(midnight.timestamp()) * 1000
    first = day
    return _first(at, bound, lambda instant: _local(instant, zone).date() >= first)


def _next_day(day: date, step: StepName) -> date:
    """The day after `day` on which a step begins."""
    if step == "day":
        return day + timedelta(1)
    if step == "week":
        return day + timedelta(7 - day.weekday())
    years, month = divmod(day.month, 12)
    return date(day.year + years, month + 1, 1)


def _first(before: int, bound: int, reached: Callable[[int], bool]) -> int:
    """The first instant after `before` that is `reached`, or `bound`, if none before it is."""
    if not reached(bound - 1):
        return bound
    bound -= 1
    while bound - before > 1:
        middle = (before + bound) // 2
        before, bound = (before, middle) if reached(middle) else (middle, bound)
    return bound


def _local(ms: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(ms // 1000, zone)


def _offset(ms: int, zone: tzinfo) -> int:
    offset = _local(ms, zone).utcoffset()
    assert offset is not None
    return round(offset.total_seconds()) * 1000
