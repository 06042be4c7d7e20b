"""Lengths of windows: so many seconds, or a week, month, quarter or year of the UTC calendar.

A length is a number of ms, or a calendar's name. Windows of a number begin at multiples of it since
the epoch, which was a Thursday; weeks begin on Mondays. Times are ms since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime
from math import gcd, lcm

from tallyroll.errors import UsageError
from tallyroll.limits import TS_MS_MAX, WINDOW_SECONDS_MAX, WINDOW_SECONDS_MIN

WINDOW_LENGTHS = f"{WINDOW_SECONDS_MIN} s to {WINDOW_SECONDS_MAX // 86_400} days"
"""The legal lengths of windows, for people."""

WEEK, MONTH, QUARTER, YEAR = CALENDAR = ("week", "month", "quarter", "year")
NAMES = ("hour", "day", *CALENDAR)
"""What the setting `window` may name."""

WindowLength = int | str
"""The length of windows: ms, or one of `CALENDAR`."""

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
WEEK_MS, YEAR_MS = 7 * DAY_MS, 366 * DAY_MS
_MONDAY = 4 * DAY_MS  # the first one
_PLAIN = {"hour": HOUR_MS, "day": DAY_MS}
_MONTHS = {MONTH: 1, QUARTER: 3, YEAR: 12}
_DAYS = {MONTH: (28, 31), QUARTER: (90, 92), YEAR: (365, 366)}


@dataclass(frozen=True, slots=True)
class Lasting:
    """How long (ms) windows of one length are: at least, at most, and on average."""

    shortest: int
    longest: int
    mean: float


def length_of(seconds: int | str) -> WindowLength:
    """The length of so many seconds, or of a name in `NAMES`. Raises UsageError."""
    if isinstance(seconds, str):
        if seconds not in NAMES:
            raise UsageError(f"window {seconds!r}: give {', '.join(NAMES)}")
        return _PLAIN.get(seconds, seconds)
    check_length(seconds)
    return seconds * 1000


def check_length(window_seconds: int) -> None:
    """Raise UsageError for an illegal length: it must be of `WINDOW_LENGTHS`, and in whole
    minutes if it is over a minute.
    """
    if not WINDOW_SECONDS_MIN <= window_seconds <= WINDOW_SECONDS_MAX:
        raise UsageError(f"window length {window_seconds} s: must be {WINDOW_LENGTHS}")
    if window_seconds > 60 and window_seconds % 60:
        raise UsageError(f"window length {window_seconds} s: over a minute, use whole minutes")


def start_of(length: WindowLength, ts: int) -> int:
    """The start of the window of this length that contains `ts`."""
    if isinstance(length, int):
        return ts // length * length
    if length == WEEK:
        return (ts - _MONDAY) // WEEK_MS * WEEK_MS + _MONDAY
    return _begin(_month_number(ts) // _MONTHS[length] * _MONTHS[length])


def end_of(length: WindowLength, start: int) -> int:
    """The end of the window of this length that begins at `start`."""
    if isinstance(length, int):
        return start + length
    if length == WEEK:
        return start + WEEK_MS
    return _begin(_month_number(start) + _MONTHS[length])


def lasting_of(length: WindowLength) -> Lasting:
    """How long windows of this length are."""
    if isinstance(length, int):
        return Lasting(length, length, length)
    if length == WEEK:
        return Lasting(WEEK_MS, WEEK_MS, WEEK_MS)
    shortest, longest = _DAYS[length]
    # The Gregorian calendar repeats after 400 years, of 146,097 days.
    return Lasting(shortest * DAY_MS, longest * DAY_MS, 146_097 * DAY_MS * _MONTHS[length] / 4_800)


def dividing(*lengths: WindowLength) -> int:
    """The longest span (ms) whose multiples since the epoch include the bounds of all windows."""
    return gcd(*(each if isinstance(each, int) else DAY_MS for each in lengths))


def common_bound(before: WindowLength, after: WindowLength, at: int) -> int | None:
    """The first instant from `at` on at which a window of either length begins; None if there is
    none within a year.
    """
    if isinstance(before, int) and isinstance(after, int):
        both = lcm(before, after)
        bound = -(-at // both) * both
        return bound if bound <= at + YEAR_MS else None
    longer, other = sorted((before, after), key=lambda each: -lasting_of(each).mean)
    bound = start_of(longer, at)
    while bound < at or start_of(other, bound) != bound:
        bound = end_of(longer, bound)
        if bound > at + YEAR_MS:
            return None
    return bound


def text_of_length(length: WindowLength) -> str:
    """A length for people: `3600 s`, or `a month`."""
    return f"{length / 1000:g} s" if isinstance(length, int) else f"a {length}"


def _month_number(ts: int) -> int:
    at = datetime.fromtimestamp(ts // 1000, UTC)
    return at.year * 12 + at.month - 1


def _begin(number: int) -> int:
    """When a month begins."""
    year, month = divmod(number, 12)
    if year > MAXYEAR:
        return TS_MS_MAX + 1
    return round(datetime(year, month + 1, 1, tzinfo=UTC).timestamp()) * 1000
