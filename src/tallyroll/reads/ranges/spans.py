"""The windows of a range: its bounds, and what was dropped of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from itertools import islice

from tallyroll.errors import Absent, Archived, UsageError
from tallyroll.model.amounts import shown
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.windows import Grid, Span, WindowId, iso
from tallyroll.ports.catalog import Catalog

WINDOWS_MAX = 3_000
"""The most windows of a range: four months of hours, two days of minutes."""
ARCHIVES_NAMED = 100
DAY_MS = 86_400_000
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

Archives = Mapping[WindowId, str]
"""The prefixes of the archives of dropped windows."""


def date_ms(text: str) -> int:
    """When (ms) a date such as 2026-11-20 begins, in UTC. Raises UsageError."""
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if day.year < 1970:
        raise UsageError(f"date {shown(text)}: give one of UTC, such as 2026-11-20")
    return round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def calendar_of(catalog: Catalog) -> Calendar:
    """A pipeline's calendar. Raises Absent."""
    calendar = catalog.calendar()
    if calendar is None:
        raise Absent("the pipeline has no windows: its roller has not run yet")
    return calendar


def range_of(calendar: Calendar, now: int, since: int | None, until: int | None) -> Span:
    """The range [since, until) in ms, both bounds of windows: by default from the pipeline's first
    window on, and to the end of the current one.

    Raises UsageError if it is off the bounds, backwards, or over `WINDOWS_MAX` windows long.
    """
    grid = calendar.grid
    grid.check_range(since, until)
    if until is None and since is not None and since >= grid.at(now).end:
        raise UsageError(f"since {iso(since)}: no window begins there yet; give an earlier time")
    span = Span(
        calendar.genesis if since is None else since,
        grid.at(now).end if until is None else until,
    )
    grid.check_range(span.start, span.end)
    check_length(grid, span)
    return span


def date_span(grid: Grid, day: int) -> Span:
    """The windows that hold a part of the day in UTC that begins at `day` (ms). Raises UsageError
    if there are over `WINDOWS_MAX` of them.
    """
    span = Span(grid.at(day).start, grid.at(day + DAY_MS - 1).end)
    check_length(grid, span)
    return span


def check_length(grid: Grid, span: Span) -> None:
    """Raise UsageError if a span has over `WINDOWS_MAX` windows."""
    over = next(islice(grid.over(span.start, span.end), WINDOWS_MAX, None), None)
    if over:
        raise UsageError(
            f"from {iso(span.start)} to {iso(span.end)} there are more than {WINDOWS_MAX:,}"
            f" windows: give a shorter range, for instance until {iso(over.start)}"
        )


def dropped(window: Window) -> bool:
    """Whether a window's table is, or is being, dropped."""
    return window.status in (Status.DROPPING, Status.DROPPED)


def archives_of(windows: Iterable[Window]) -> Archives:
    """The archives of those windows that were dropped."""
    return {each.id: each.attempt.archive for each in windows if dropped(each)}


def archived(
    what: str, archives: Archives, windows: Iterable[Window] = (), *, remedy: bool = False
) -> Archived:
    """The error that some windows of a range were dropped. With a `remedy` it says since when none
    of these `windows`, ascending, was.
    """
    first, *others = archives.items()
    whole: str | None = None
    for window in windows:
        whole = None if dropped(window) else whole or iso(window.start)
    named = dict([first, *others][:ARCHIVES_NAMED])
    more = f" (of {1 + len(others)} such windows the first)" if others else ""
    hint = "no window of the range is left"
    if whole:
        hint = f"the earliest whole range is since {whole}"
    said = (
        f"{what}: window {first[0]} was dropped, and its events are in the archive, under"
        f" {first[1]}/{more}{f'; {hint}' if remedy else ''}"
    )
    return Archived(*first, said=said, archives=named, since=whole)
