"""`tallyroll count` and `tallyroll windows open`; how windows are shown."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tallyroll import pipeline
from tallyroll.cli.screen import Screen
from tallyroll.errors import Missing, Rejected, UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.events import check_key
from tallyroll.model.states import Calendar, Status, Window, takes_events
from tallyroll.model.windows import WindowId, iso, parse_instant
from tallyroll.operations.backfill import open_past, wait_open
from tallyroll.ports.catalog import Catalog
from tallyroll.reads.jsonable import counter_json
from tallyroll.reads.reader import Count
from tallyroll.settings import Settings

TIME_LEFT_MS = 60_000
STAGES = (
    ("made", Status.CREATING),
    ("opened", Status.OPEN),
    ("sealed", Status.SEALED),
    ("proven", Status.PROVEN),
    ("dropped", Status.DROPPED),
)
_COLUMNS = ("window", "length", "state", "shards", "keys", "events", "sum")
_LENGTHS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def count(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll count`. Gives the exit status, 1 if a count is not whole."""
    for key in arguments.keys:
        try:
            check_key(key)
        except Rejected as rejected:
            raise UsageError(rejected.detail) from None
    since, until = instant(arguments.since), instant(arguments.until)
    reader = pipeline.Pipeline(settings).reader
    counts = []
    for key in dict.fromkeys(arguments.keys):
        counted = reader.count(key, since, until, TIME_LEFT_MS, by_window=arguments.windows)
        counts.append(counted)
        if screen.json:
            screen.emit(counter_json(counted))
        if counted.missing:
            screen.tell(f"{key}: could not read {', '.join(counted.missing)}: the rest is counted")
    if not screen.json:
        _show_counts(counts, screen, windows=arguments.windows)
    return int(not all(counted.complete for counted in counts))


def _show_counts(counts: Sequence[Count], screen: Screen, *, windows: bool) -> None:
    whole = {True: "yes", False: "no"}
    screen.table(
        ("key", "events", "sum", "complete", "as of"),
        [
            (c.key, f"{c.events:,}", format_amount(c.amount), whole[c.complete], iso(c.as_of))
            for c in counts
        ],
    )
    if windows:
        screen.table(
            ("key", "window", "state", "events", "sum"),
            [
                (c.key, w.window, w.status, f"{w.events:,}", format_amount(w.amount))
                for c in counts
                for w in c.windows
            ],
            keep=("key",),
        )


def open_windows(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll windows open`. Gives the exit status, 1 if a window of the range will take no
    events or, with --wait, is not open in time.
    """
    since, until = parse_instant(arguments.since), parse_instant(arguments.until)
    made = pipeline.Pipeline(settings)
    calendar = _calendar(made.catalog, settings.name)
    now = made.effects.now()
    past = open_past(made.catalog, calendar, settings.name, since, until, now, arguments.accept_for)
    windows = past.windows
    screen.tell(f"{len(past.created)} created, {len(past.existed)} were there already")
    if arguments.wait:
        with screen.progress() as bar:
            task = bar.add_task("opening", total=len(windows), done="")

            def told(states: Sequence[Window]) -> None:
                made_ = sum(window.status is not Status.CREATING for window in states)
                bar.update(task, completed=made_, done=f"{made_} of {len(states)} windows")

            windows = wait_open(made.catalog, windows, made.effects, arguments.timeout, told)
    created = frozenset(window.id for window in past.created)
    _show_windows(windows, screen, created)
    now = made.effects.now()
    shut = [window.id for window in windows if not takes_events(window, now)]
    if shut:
        screen.tell(f"{_some(shut)} will take no more events: their time is over")
    late = [window.id for window in windows if window.status is Status.CREATING]
    if arguments.wait and late:
        screen.tell(f"{_some(late)} not open yet: does the roller run? wait on with the same call")
    return int(bool(shut or (arguments.wait and late)))


def instant(text: str | None) -> int | None:
    """The ms that an option names. Raises UsageError."""
    return None if text is None else parse_instant(text)


def window_json(window: Window) -> dict[str, Any]:
    """A window's state as JSON: times as ISO 8601, the sum as a string of all its digits."""
    optional = {
        "accept_from": None if window.accept_from is None else iso(window.accept_from),
        "accept_until": None if window.accept_until is None else iso(window.accept_until),
        "shards": window.shards,
        "keys": window.keys,
        "events": window.events,
        "sum": None if window.amount is None else format_amount(window.amount),
        "archive": window.archive,
        "items": window.items,
        "problem": window.problem,
    }
    return {
        "window": window.id,
        "table": window.table,
        "state": window.status,
        "start": iso(window.start),
        "end": iso(window.end),
        "times": {state: iso(at) for state, at in window.times.items()},
        **{name: value for name, value in optional.items() if value is not None},
    }


def _calendar(catalog: Catalog, name: str) -> Calendar:
    calendar = catalog.calendar()
    if calendar is None:
        raise Missing(f"the pipeline {name!r} has no calendar: its roller has not run yet")
    return calendar


def _show_windows(windows: Sequence[Window], screen: Screen, created: frozenset[WindowId]) -> None:
    """Windows as a table or JSON Lines; `created` tells those made by this call from the others."""
    if screen.json:
        for window in windows:
            screen.emit(window_json(window) | {"created": window.id in created})
        return
    if not windows:
        return
    stages = tuple(name for name, _ in STAGES)
    screen.table(
        (*_COLUMNS, *stages, "accepts until", "archive", "problem"),
        [_row(window) for window in windows],
    )


def _row(window: Window) -> tuple[str, ...]:
    counted = window.events is not None and window.amount is not None
    return (
        window.id,
        length(window.end - window.start),
        window.status,
        str(window.shards or ""),
        "" if window.keys is None else f"{window.keys:,}",
        f"{window.events:,}" if counted else "",
        format_amount(window.amount or 0) if counted else "",
        *(short(window.times.get(status)) for _, status in STAGES),
        short(window.accept_until),
        window.archive or "",
        window.problem or "",
    )


def length(ms: int) -> str:
    """A window's length as people say it: `1 h`, `90 min`, `5 s`."""
    for unit, name in _LENGTHS:
        if ms % unit == 0:
            return f"{ms // unit} {name}"
    return f"{ms} ms"


def short(ms: int | None) -> str:
    """A time in a table: `11-20 08:00:00`, UTC; nothing for none."""
    return "" if ms is None else datetime.fromtimestamp(ms // 1000, UTC).strftime("%m-%d %H:%M:%S")


def _some(windows: Sequence[WindowId]) -> str:
    more = f" and {len(windows) - 5} more" if len(windows) > 5 else ""
    return ", ".join(windows[:5]) + more
