"""Windows partition time: every instant is in exactly one, and its id is its start in UTC.

The grid has the windows' lengths: each a number of ms, or a week, month, quarter or year in UTC.
Windows of a number of ms begin at multiples of it since the epoch, which was a Thursday; weeks
begin on Mondays. A change of length starts at a boundary that both lengths share. Times are ms
since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime
from functools import lru_cache
from math import gcd, lcm

from tallyroll.errors import UsageError
from tallyroll.limits import TS_MS_MAX, WINDOW_SECONDS_MAX, WINDOW_SECONDS_MIN

WindowId = str
"""A window's start in UTC, to the second: `20261120T080000Z`."""

DYNAMODB, KEYSPACES = STORES = ("dynamodb", "keyspaces")
"""Where window tables may be."""

TABLE_SUFFIX = "-20261120T080000Z"  # such as follows a pipeline's name in that of a table
_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_IN_KEYSPACES = f"{KEYSPACES}:"


WINDOW_LENGTHS = f"{WINDOW_SECONDS_MIN} s to {WINDOW_SECONDS_MAX // 86_400} days"
"""The legal lengths of windows, for people."""

WEEK, MONTH, QUARTER, YEAR = CALENDAR = ("week", "month", "quarter", "year")
WINDOW_NAMES = ("hour", "day", *CALENDAR)
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


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A window's half-open span of time, [start, end), in ms."""

    start: int
    end: int

    @property
    def id(self) -> WindowId:
        """The window id of this span."""
        return window_id(self.start)

    def __contains__(self, ts: int) -> bool:
        return self.start <= ts < self.end


@dataclass(frozen=True, slots=True)
class Grid:
    """The windows' lengths: (effective_from ms, length) pairs, ascending and append-only. The first
    pair also holds before its time.
    """

    lengths: tuple[tuple[int, WindowLength], ...]

    @classmethod
    def of(cls, length: int | str) -> Grid:
        """A grid of one length, in seconds or by name. Raises UsageError for an illegal one."""
        return cls(((0, length_of(length)),))

    def at(self, ts: int) -> Span:
        """The window that contains `ts` (ms since the epoch, not negative)."""
        for since, length in reversed(self.lengths):  # noqa: B007  (the first pair, if none begun)
            if since <= ts:
                break
        start = start_of(length, ts)
        return Span(start, end_of(length, start))

    def after(self, span: Span) -> Span:
        """The next window."""
        return self.at(span.end)

    def with_length(self, length: int | str, made_until: int) -> Grid:
        """The grid whose windows have this length, in seconds or by name, from the first boundary
        of both lengths at or after `made_until` (ms), the end of the last window that exists.

        Raises UsageError for an illegal length, and if there is no such boundary within a year.
        """
        since, before = self.lengths[-1]
        after = length_of(length)
        at = max(made_until, since + 1)
        bound = common_bound(before, after, at)
        if bound is None:
            by_days = common_bound(before, DAY_MS, at) is not None
            days = "day first (tallyroll:window=day)"
            minutes = "minute first (tallyroll:window_seconds=60)"
            raise UsageError(
                f"windows of {text_of_length(before)} cannot become windows of"
                f" {text_of_length(after)}: within a year none of either begin together; make them"
                f" of a {days if by_days else minutes}, then of"
                f" {text_of_length(after)}"
            )
        return Grid((*self.lengths, (bound, after)))

    def over(self, since: int, until: int) -> Iterator[Span]:
        """The windows that start in [since, until), ascending."""
        span = self.at(since)
        if span.start < since:
            span = self.after(span)
        while span.start < until:
            yield span
            span = self.after(span)

    def check_range(self, since: int | None, until: int | None) -> None:
        """Raise UsageError unless `since` and `until` are bounds of windows, in order; None is an
        open side.
        """
        for name, instant in (("since", since), ("until", until)):
            if instant is None:
                continue
            span = self.at(instant)
            if span.start != instant:
                is_last = span.end > TS_MS_MAX  # no text names its end, in the year 10000
                near = instant - span.start <= span.end - instant
                nearest = span.start if near or is_last else span.end
                raise UsageError(
                    f"{name} {iso(instant)} lies inside a window: the nearest bound is"
                    f" {iso(nearest)}"
                )
        if since is not None and until is not None and since >= until:
            raise UsageError(f"since {iso(since)} is not before until {iso(until)}")


def length_of(seconds: int | str) -> WindowLength:
    """The length of so many seconds, or of a name in `WINDOW_NAMES`. Raises UsageError."""
    if isinstance(seconds, str):
        if seconds not in WINDOW_NAMES:
            raise UsageError(f"window {seconds!r}: give {', '.join(WINDOW_NAMES)}")
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


@lru_cache(maxsize=1_024)
def window_id(start_ms: int) -> WindowId:
    """The id of the window that starts at `start_ms` (a whole second)."""
    return datetime.fromtimestamp(start_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


@lru_cache(maxsize=1_024)
def window_start(window: WindowId) -> int:
    """The start, in ms, of a window by its id. Raises UsageError for a malformed id."""
    try:
        if not _ID.fullmatch(window):
            raise ValueError
        instant = datetime.strptime(window, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(f"window {window!r}: an id looks like 20261120T080000Z") from None
    return int(instant.timestamp()) * 1000


def is_window_id(text: str) -> bool:
    """Whether a text is a well-formed window id: 16 characters, for a second since 1970."""
    try:
        return window_start(text) >= 0
    except UsageError:
        return False


def table_name(pipeline: str, window: WindowId, store: str = DYNAMODB) -> str:
    """The name of a window's table, which also names its store: `votes-20261120T080000Z` is in
    DynamoDB, `keyspaces:votes-20261120T080000Z` in Keyspaces.
    """
    name = f"{pipeline}-{window}"
    return _IN_KEYSPACES + name if store == KEYSPACES else name


def store_of(table: str) -> str:
    """The store of a window table, by its name."""
    return KEYSPACES if table.startswith(_IN_KEYSPACES) else DYNAMODB


def name_in_store(table: str) -> str:
    """The name of a window table in its own store."""
    return table.removeprefix(_IN_KEYSPACES)


def parse_instant(text: str) -> int:
    """The ms since the epoch of a window id, an ISO 8601 instant (UTC if it has no zone) or a whole
    number of ms. Raises UsageError for anything else.
    """
    try:
        if _ID.fullmatch(text):
            return window_start(text)
        if text.isascii() and text.isdigit():
            instant_ms = int(text)
        else:
            instant = datetime.fromisoformat(text)
            if instant.tzinfo is None:
                instant = instant.replace(tzinfo=UTC)
            instant_ms = round(instant.timestamp() * 1000)
    except (ValueError, OverflowError):
        instant_ms = -1
    if not 0 <= instant_ms <= TS_MS_MAX:
        raise UsageError(
            f"time {text!r}: give 2026-11-20T08:00:00Z, 20261120T080000Z or ms since the epoch"
        )
    return instant_ms


def iso(ms: int) -> str:
    """An instant for people and JSON: `2026-11-20T08:00:00.000Z`."""
    return (
        datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
    )
