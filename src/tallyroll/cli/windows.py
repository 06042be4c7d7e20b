"""`tallyroll windows`: list them, open past ones, warm tables. Each gives its exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from tallyroll.cli.arguments import DURATION, SINCE, UNTIL, Run
from tallyroll.cli.heat.warming import warm_window
from tallyroll.cli.recomputing import recompute
from tallyroll.cli.screen import Cell, Screen, known, short_time, size_text, some
from tallyroll.errors import StoreError
from tallyroll.lifecycle.overdue import late, next_missing
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.amounts import format_amount
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window, takes_events
from tallyroll.model.windows import WindowId, iso
from tallyroll.operations.backfill import open_past, wait_open
from tallyroll.operations.deployed import deployed
from tallyroll.operations.doctor.table_checks import why_creating
from tallyroll.operations.doctor.window_checks import remedy_of
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.table_listing import TableCard
from tallyroll.resources import declare
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

READS_AT_ONCE = 16
HOT_SHOWN = 3
WHY_SHOWN = 5
STAGES = {
    "made": Status.CREATING,
    "opened": Status.OPEN,
    "sealed": Status.SEALED,
    "proven": Status.PROVEN,
    "dropped": Status.DROPPED,
}
_LISTED = ("window", "state", "since", "hot", "keys", "events", "table", "late")
_WIDE = (
    *("window", "length", "state", "since", "shards", "hot", "keys", "events", "sum", "table"),
    *(*STAGES, "late", "archived", "archive", "problem"),
)
_OPENED = ("window", "length", "state", "keys", "events", "accepts until")
_LENGTHS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))

app = App(
    name="windows",
    help="""See the pipeline's windows, open past ones to load history, or warm tables.

For example:
  tallyroll windows list""",
)
app.command(warm_window, name="warm")
app.command(recompute)


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A window, and what was asked for of it."""

    window: Window
    late: str | None = None
    spec: Spec | None = None
    table: TableCard | None = None


@app.command(name="list")
def list_windows(
    *,
    since: Annotated[int | None, SINCE] = None,
    until: Annotated[int | None, UNTIL] = None,
    states: Annotated[
        list[Status] | None, Parameter("--state", metavar="S", show_choices=False)
    ] = None,
    every: Annotated[bool, Parameter("--all")] = False,
    hot: bool = False,
    size: bool = False,
    wide: bool = False,
    run: Run,
) -> int:
    """List windows: those that are not dropped, or all of them.

    Of each: state and since when (UTC), what it holds, and whether it is late in
    its step. Messages say why windows that should be open are not.

    For example:
      tallyroll windows list --all --since 2026-11-01 --hot
      tallyroll windows list --state closing --state exporting --json

    :param states: only windows in this state, such as open or sealed; may be repeated
    :param every: also those that are dropped
    :param hot: list the keys that have shards of their own, too
    :param size: ask for the tables' size, which is some hours old
    :param wide: all columns: also length, shards, sum, when each state began, the archive
    """
    every = every or Status.DROPPED in (states or ())
    wanted = set(states or Status) - (set() if every else {Status.DROPPED})
    made, screen = run.pipeline(), run.screen
    catalog = made.catalog
    since, until = run.bounds(made, since, until)
    end = TS_MS_MAX + 1 if until is None else until
    if since is None and not every:
        found = list_live(catalog, catalog.live(), 0, end)
    else:
        found = catalog.windows(since or 0, end)
    shown = [window for window in found if window.status in wanted]
    settings = deployed(run.settings, made.deployment, None).settings
    now = made.effects.now()
    specs = catalog.specs([window.id for window in shown]) if hot else {}
    tables = _tables(made, shown) if size else {}
    listed = rows_of(shown, now, settings, specs, tables)
    screen.show(_WIDE if wide else _LISTED, listed, listed_json, _in_words)
    if not shown:
        screen.tell("no windows" if every else "no windows that are not dropped")
    _tell_late(listed, screen)
    _tell_creating(made, shown, now, settings, screen)
    calendar = catalog.calendar()
    if calendar and not states and until is None:
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
    accept_for: Annotated[int, DURATION] = 24 * 3_600_000,
    wait: bool = False,
    timeout: Annotated[int, DURATION] = 15 * 60_000,
    run: Run,
) -> int:
    """Open past windows on purpose.

    So events which happened before the pipeline's first window can be loaded. The
    roller makes the windows' tables; send events once they are open (--wait), for
    what is sent before is rejected. A window that exists stays as it is.

    For example:
      tallyroll windows open --since yesterday --until today --wait

    :param accept_for: how long from now they take events: 90s, 30m, 24h (the default), 7d
    :param wait: wait until they are open
    :param timeout: wait no longer than that (15m by default)
    """
    made, screen, name = run.pipeline(), run.screen, run.settings.name
    calendar, now = run.calendar(made), made.effects.now()
    first, last = (bound or 0 for bound in run.bounds(made, since, until))
    store = run.settings.store
    past = open_past(made.catalog, calendar, name, first, last, now, accept_for, store)
    windows = past.windows
    screen.tell(f"{len(past.created)} created, {len(past.existed)} were there already")
    if wait:
        with screen.progress("opening", len(windows)) as bar:

            def on_progress(states: Sequence[Window]) -> None:
                made_ = sum(window.status is not Status.CREATING for window in states)
                bar(completed=made_, done=f"{made_} of {len(states)} windows")

            windows = wait_open(made.catalog, windows, made.effects, timeout, on_progress)
    created = frozenset(window.id for window in past.created)
    screen.show(
        _OPENED,
        windows,
        lambda window: _window_json(window) | {"created": window.id in created},
        lambda window: _in_words(WindowRow(window)),
    )
    now = made.effects.now()
    shut = [window.id for window in windows if not takes_events(window, now)]
    if shut:
        screen.tell(f"{some(shut)} will take no more events: their time is over")
    late = [window.id for window in windows if window.status is Status.CREATING]
    if wait and late:
        screen.tell(f"{some(late)} not open yet: does the roller run? wait on with the same call")
    return int(bool(shut or (wait and late)))


def rows_of(
    windows: Sequence[Window],
    now: int,
    settings: Settings,
    specs: Mapping[WindowId, Spec] = {},
    tables: Mapping[str, TableCard] = {},
) -> list[WindowRow]:
    """The rows of windows at `now` (ms), with their specs and tables where they are known."""
    return [
        WindowRow(one, late(one, now, settings), specs.get(one.id), tables.get(one.table))
        for one in windows
    ]


def listed_json(listed: WindowRow) -> dict[str, Any]:
    """A window as JSON: `since` is when its state began, `late` what it is late with, if it is, and
    `remedy` what to do about that.
    """
    window, card = listed.window, listed.table
    return _window_json(window) | known(
        since=_iso(window.times.get(window.status)),
        late=listed.late,
        remedy=remedy_of(window) if listed.late else None,
        hot=dict(listed.spec.hot) if listed.spec else None,
        size={"items": card.items, "bytes": card.size} if card else None,
    )


def _tables(made: Pipeline, windows: Sequence[Window]) -> dict[str, TableCard]:
    names = [window.table for window in windows if window.status is not Status.DROPPED]
    jobs = [partial(made.tables.card, name) for name in names]
    cards = made.effects.together(jobs, READS_AT_ONCE)
    return {name: card for name, card in zip(names, cards, strict=True) if card}


def _window_json(window: Window) -> dict[str, Any]:
    """A window's state as JSON: times as ISO 8601, the sum as a string of all its digits."""
    return {
        "window": window.id,
        "table": window.table,
        "state": window.status,
        "start": iso(window.start),
        "end": iso(window.end),
        "times": {state: iso(at) for state, at in window.times.items()},
    } | known(
        accept_from=_iso(window.accept_from),
        accept_until=_iso(window.accept_until),
        shards=window.shards,
        keys=window.keys,
        events=window.events,
        sum=None if window.amount is None else format_amount(window.amount),
        archive=window.attempt.archive or None,
        items=window.attempt.items or None,
        problem=window.attempt.problem or None,
    )


def _iso(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


def _in_words(row: WindowRow) -> dict[str, Cell]:
    window, card = row.window, row.table
    size = f"{card.items:,} items, {size_text(card.size, whole_from=100)}" if card else ""
    return {
        "length": length(window.end - window.start),
        "since": _moment(window.times.get(window.status)),
        "shards": str(window.shards or ""),
        "hot": _hot(row.spec),
        "table": size,
        "late": row.late and "late",
        "accepts until": _moment(window.accept_until),
        "archived": window.attempt.items or None,
        **{stage: _moment(window.times.get(status)) for stage, status in STAGES.items()},
    }


def _hot(spec: Spec | None) -> str:
    if spec is None or not spec.hot:
        return ""
    largest = sorted(spec.hot.items(), key=lambda each: (-each[1], each[0]))
    shown = ", ".join(f"{key} {shards:,}" for key, shards in largest[:HOT_SHOWN])
    more = len(largest) - HOT_SHOWN
    return f"{shown}, {more} more" if more > 0 else shown


def _tell_late(listed: Sequence[WindowRow], screen: Screen) -> None:
    """Tell of one late window in each state, and how many more there are."""
    late = [row for row in listed if row.late]
    counts = Counter(row.window.status for row in late)
    for row in late:
        if count := counts.pop(row.window.status, 0):
            others = f" (and {count - 1} more)" if count > 1 else ""
            screen.tell(f"late: {row.window.id}: {row.late}{others}")


def _tell_creating(
    made: Pipeline, windows: Sequence[Window], now: int, settings: Settings, screen: Screen
) -> None:
    """Tell why windows that should be open are not, as their tables show it."""
    wait = [
        window
        for window in windows
        if window.status is Status.CREATING and now >= window.start - settings.freeze_lead_ms
    ]
    declared = declare(settings)
    looks = [
        partial(why_creating, window, made.tables, declared.window_table(window.id))
        for window in wait[:WHY_SHOWN]
    ]
    try:
        reasons = made.effects.together(looks, READS_AT_ONCE)
    except StoreError as error:
        screen.tell(f"why windows are not open yet is not known: {error}")
        return
    for window, why in zip(wait, reasons, strict=False):
        screen.tell(f"creating: {window.id}: {why}")
    if more := len(wait) - len(looks):
        screen.tell(f"... and {more:,} more should be open")


def length(ms: int) -> str:
    """A window's length, which is whole seconds, as people say it: `1 h`, `90 min`, `5 s`."""
    return next(f"{ms // unit} {name}" for unit, name in _LENGTHS if ms % unit == 0)


def _moment(ms: int | None) -> str:
    return "" if ms is None else short_time(iso(ms))
