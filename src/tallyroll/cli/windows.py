"""`tallyroll windows`: the windows listed, and past ones opened. Each gives its exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from cyclopts import App, Parameter

from tallyroll.cli.arguments import DURATION, SINCE, UNTIL, Run
from tallyroll.cli.screen import Screen, some
from tallyroll.errors import Missing
from tallyroll.lifecycle.overdue import late, next_missing
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.amounts import format_amount
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Status, Window, takes_events
from tallyroll.model.windows import WindowId, iso
from tallyroll.operations.backfill import open_past, wait_open
from tallyroll.operations.deployed import deployed
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.tables import TableCard

SPECS_PER_READ = 100
READS_AT_ONCE = 16
HOT_SHOWN = 3
STAGES = (
    ("made", Status.CREATING),
    ("opened", Status.OPEN),
    ("sealed", Status.SEALED),
    ("proven", Status.PROVEN),
    ("dropped", Status.DROPPED),
)
_STAGES = tuple(name for name, _ in STAGES)
_LISTED = ("window", "length", "state", "since", "shards", "hot", "keys", "events", "sum", "table")
_OPENED = ("window", "length", "state", "shards", "keys", "events", "sum")
_LENGTHS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_UNITS = ("B", "KB", "MB", "GB", "TB")

app = App(
    name="windows",
    help="""See the pipeline's windows, or open past ones to load history.

For example:
  tallyroll windows list""",
)


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A window, and what was asked for of it."""

    window: Window
    late: str | None
    spec: Spec | None = None
    table: TableCard | None = None


@app.command(name="list")
def list_windows(
    *,
    since: Annotated[int | None, SINCE] = None,
    until: Annotated[int | None, UNTIL] = None,
    states: Annotated[
        list[Status] | None,
        Parameter(
            "--state",
            metavar="S",
            show_choices=False,
            help="only windows in this state, such as open or sealed; may be repeated",
        ),
    ] = None,
    every: Annotated[bool, Parameter("--all", help="also those that are dropped")] = False,
    hot: Annotated[
        bool, Parameter(help="list the keys that have shards of their own, too")
    ] = False,
    size: Annotated[
        bool, Parameter(help="ask for the tables' size, which is some hours old")
    ] = False,
    run: Run,
) -> int:
    """List windows: those that are not dropped, or all of them.

    Of each: state and since when, what it holds, its archive, when each state
    began (UTC), and whether it is late in its step.

    For example:
      tallyroll windows list --all --since 2026-11-01 --hot
      tallyroll windows list --state closing --state exporting --json
    """
    wanted = frozenset(states or ())
    every = every or Status.DROPPED in wanted
    made, screen = run.pipeline(), run.screen
    catalog = made.catalog
    end = TS_MS_MAX + 1 if until is None else until
    if since is None and not every:
        found = list_live(catalog, catalog.live(), 0, end)
    else:
        found = catalog.windows(since or 0, end)
    shown = [
        one
        for one in found
        if (every or one.status is not Status.DROPPED) and (not wanted or one.status in wanted)
    ]
    settings = deployed(run.settings, made.deployment, None).settings
    now = made.effects.now()
    specs = _specs(catalog, shown) if hot else {}
    tables = _tables(made, shown) if size else {}
    listed = [
        WindowRow(
            window, late(window, now, settings), specs.get(window.id), tables.get(window.table)
        )
        for window in shown
    ]
    if screen.json:
        for row in listed:
            screen.emit(listed_json(row))
    elif listed:
        _show(listed, screen)
    if not shown:
        screen.tell("no windows" if every else "no windows that are not dropped")
    _tell_late(listed, screen)
    calendar = catalog.calendar()
    if calendar and not wanted and until is None:
        missing = next_missing(calendar, {window.id: window for window in found}, now, settings)
        if missing and missing[0].start >= (since or 0):
            ids = ", ".join(span.id for span in missing)
            screen.tell(f"not made: {ids}; does the roller run? (tallyroll doctor)")
    return 0


@app.command(name="open")
def open_windows(
    *,
    since: Annotated[int, SINCE],
    until: Annotated[int, UNTIL],
    accept_for: Annotated[
        int,
        DURATION,
        Parameter(help="how long from now they take events: 90s, 30m, 24h (the default), 7d"),
    ] = 24 * 3_600_000,
    wait: Annotated[bool, Parameter(help="wait until they are open")] = False,
    timeout: Annotated[
        int, DURATION, Parameter(help="wait no longer than that (15m by default)")
    ] = 15 * 60_000,
    run: Run,
) -> int:
    """Open past windows on purpose.

    So events which happened before the pipeline's first window can be loaded. The
    roller makes the windows' tables; send events once they are open (--wait), for
    what is sent before is rejected. A window that exists stays as it is.

    For example:
      tallyroll windows open --since 2026-10-01 --until 2026-10-02 --accept-for 12h --wait
    """
    made, screen, name = run.pipeline(), run.screen, run.settings.name
    calendar = _calendar(made.catalog, name)
    now = made.effects.now()
    past = open_past(made.catalog, calendar, name, since, until, now, accept_for)
    windows = past.windows
    screen.tell(f"{len(past.created)} created, {len(past.existed)} were there already")
    if wait:
        with screen.progress() as bar:
            task = bar.add_task("opening", total=len(windows), done="")

            def told(states: Sequence[Window]) -> None:
                made_ = sum(window.status is not Status.CREATING for window in states)
                bar.update(task, completed=made_, done=f"{made_} of {len(states)} windows")

            windows = wait_open(made.catalog, windows, made.effects, timeout, told)
    created = frozenset(window.id for window in past.created)
    _show_windows(windows, screen, created)
    now = made.effects.now()
    shut = [window.id for window in windows if not takes_events(window, now)]
    if shut:
        screen.tell(f"{some(shut)} will take no more events: their time is over")
    late = [window.id for window in windows if window.status is Status.CREATING]
    if wait and late:
        screen.tell(f"{some(late)} not open yet: does the roller run? wait on with the same call")
    return int(bool(shut or (wait and late)))


def listed_json(listed: WindowRow) -> dict[str, Any]:
    """A window as JSON: `since` is when its state began, `late` what it is late with, if it is."""
    window = listed.window
    began = window.times.get(window.status)
    optional = {
        "since": None if began is None else iso(began),
        "late": listed.late,
        "hot": dict(listed.spec.hot) if listed.spec else None,
        "size": _size_json(listed.table),
    }
    return window_json(window) | {
        name: value for name, value in optional.items() if value is not None
    }


def _size_json(card: TableCard | None) -> dict[str, int] | None:
    return {"items": card.items, "bytes": card.size} if card else None


def _specs(catalog: Any, windows: Sequence[Window]) -> dict[WindowId, Spec]:
    ids = [window.id for window in windows]
    specs: dict[WindowId, Spec] = {}
    for first in range(0, len(ids), SPECS_PER_READ):
        specs |= catalog.specs(ids[first : first + SPECS_PER_READ])
    return specs


def _tables(made: Any, windows: Sequence[Window]) -> dict[str, TableCard]:
    names = [window.table for window in windows if window.status is not Status.DROPPED]
    jobs = [partial(made.tables.card, name) for name in names]
    cards = made.effects.together(jobs, READS_AT_ONCE)
    return {name: card for name, card in zip(names, cards, strict=True) if card}


def window_json(window: Window) -> dict[str, Any]:
    """A window's state as JSON: times as ISO 8601, the sum as a string of all its digits."""
    optional = {
        "accept_from": None if window.accept_from is None else iso(window.accept_from),
        "accept_until": None if window.accept_until is None else iso(window.accept_until),
        "shards": window.shards,
        "keys": window.keys,
        "events": window.events,
        "sum": None if window.amount is None else format_amount(window.amount),
        "archive": window.attempt.archive or None,
        "items": window.attempt.items or None,
        "problem": window.attempt.problem or None,
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


def _show(listed: Sequence[WindowRow], screen: Screen) -> None:
    screen.table(
        (*_LISTED, *_STAGES, "late", "archived", "archive", "problem"),
        [_row(each) for each in listed],
    )


def _row(listed: WindowRow) -> tuple[str, ...]:
    window = listed.window
    counted = window.events is not None and window.amount is not None
    return (
        window.id,
        length(window.end - window.start),
        window.status,
        short(window.times.get(window.status)),
        str(window.shards or ""),
        _hot(listed.spec),
        "" if window.keys is None else f"{window.keys:,}",
        f"{window.events:,}" if counted else "",
        format_amount(window.amount or 0) if counted else "",
        _size(listed.table),
        *(short(window.times.get(status)) for _, status in STAGES),
        "late" if listed.late else "",
        f"{window.attempt.items:,}" if window.attempt.items else "",
        window.attempt.archive,
        window.attempt.problem,
    )


def _hot(spec: Spec | None) -> str:
    if spec is None or not spec.hot:
        return ""
    largest = sorted(spec.hot.items(), key=lambda each: (-each[1], each[0]))
    shown = ", ".join(f"{key} {shards:,}" for key, shards in largest[:HOT_SHOWN])
    more = len(largest) - HOT_SHOWN
    return f"{shown}, {more} more" if more > 0 else shown


def _size(card: TableCard | None) -> str:
    if card is None:
        return ""
    size, unit = float(card.size), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    shown = f"{size:.1f}" if unit and size < 100 else f"{size:.0f}"
    return f"{card.items:,} items, {shown} {_UNITS[unit]}"


def _tell_late(listed: Sequence[WindowRow], screen: Screen) -> None:
    by_text = Counter(each.window.status for each in listed if each.late)
    for each in listed:
        if each.late and by_text[each.window.status]:
            more = by_text.pop(each.window.status) - 1
            others = f" (and {more} more)" if more else ""
            screen.tell(f"late: {each.window.id}: {each.late}{others}")


def _show_windows(windows: Sequence[Window], screen: Screen, created: frozenset[WindowId]) -> None:
    """Windows as a table or JSON Lines; `created` tells those made by this call from the others."""
    if screen.json:
        for window in windows:
            screen.emit(window_json(window) | {"created": window.id in created})
        return
    if not windows:
        return
    screen.table(
        (*_OPENED, *_STAGES, "accepts until", "archive", "problem"),
        [_opened_row(window) for window in windows],
    )


def _opened_row(window: Window) -> tuple[str, ...]:
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
        window.attempt.archive,
        window.attempt.problem,
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
