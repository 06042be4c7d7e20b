"""`tallyroll windows list`: the windows, where they stand, and which are late."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tallyroll import pipeline
from tallyroll.cli.screen import Screen
from tallyroll.cli.views import STAGES, instant, length, short, window_json
from tallyroll.lifecycle.overdue import late, next_missing
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.amounts import format_amount
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import WindowId, iso
from tallyroll.operations.deployed import deployed
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.tables import TableCard
from tallyroll.settings import Settings

SPECS_PER_READ = 100
READS_AT_ONCE = 16
HOT_SHOWN = 3
_COLUMNS = ("window", "length", "state", "since", "shards", "hot", "keys", "events", "sum")
_UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A window, and what was asked for of it."""

    window: Window
    late: str | None
    spec: Spec | None = None
    table: TableCard | None = None


def list_windows(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll windows list`. Gives the exit status."""
    since, until = instant(arguments.since), instant(arguments.until)
    wanted = frozenset(arguments.states or ())
    every = arguments.all or Status.DROPPED in wanted
    made = pipeline.Pipeline(settings)
    catalog = made.catalog
    end = TS_MS_MAX + 1 if until is None else until
    if since is None and not every:
        found = list_live(catalog, catalog.live(), 0, end)
    else:
        found = catalog.windows(since or 0, end)
    shown = [
        window
        for window in found
        if (every or window.status is not Status.DROPPED)
        and (not wanted or window.status in wanted)
    ]
    settings = deployed(settings, pipeline.Pipeline(settings).deployment, None).settings
    now = made.effects.now()
    specs = _specs(catalog, shown) if arguments.hot else {}
    tables = _tables(made, shown) if arguments.size else {}
    listed = [
        WindowRow(
            window, late(window, now, settings), specs.get(window.id), tables.get(window.table)
        )
        for window in shown
    ]
    if screen.json:
        for each in listed:
            screen.emit(listed_json(each))
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


def _show(listed: Sequence[WindowRow], screen: Screen) -> None:
    stages = tuple(name for name, _ in STAGES)
    screen.table(
        (*_COLUMNS, "table", *stages, "late", "archived", "archive", "problem"),
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
        "" if window.items is None else f"{window.items:,}",
        window.archive or "",
        window.problem or "",
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
