"""`tallyroll event`, `events` and `top`: what single windows hold."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable

from tallyroll import pipeline
from tallyroll.cli.screen import Screen
from tallyroll.model.amounts import format_amount
from tallyroll.model.stored import StoredEvent, StoredPacket, event_line
from tallyroll.model.windows import iso, parse_instant
from tallyroll.reads.http import required_id, required_key, required_window
from tallyroll.reads.jsonable import found_json, top_json
from tallyroll.reads.merge import EVENTS_MAX
from tallyroll.settings import Settings

TIME_LEFT_MS = 60_000


def event(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll event`. Gives the exit status."""
    key, event_id = required_key(arguments.key), required_id(arguments.id)
    window = None if arguments.window is None else required_window(arguments.window)
    ts = None if arguments.ts is None else parse_instant(arguments.ts)
    found = pipeline.Pipeline(settings).reader.event(key, event_id, window, ts)
    if screen.json:
        screen.emit(found_json(found))
        return 0
    screen.table(("key", "window", "state"), [(found.key, found.window, found.status)])
    _show_events(_apart(found.what), screen)
    return 0


def events(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll events`. Gives the exit status, 1 if time ran out."""
    key, window = required_key(arguments.key), required_window(arguments.window)
    lookups = pipeline.Pipeline(settings).reader
    cursor, left, whole = arguments.cursor, arguments.limit, True
    listed: list[StoredEvent] = []
    while left and whole:
        page = lookups.events(key, window, TIME_LEFT_MS, limit=min(left, EVENTS_MAX), cursor=cursor)
        found = [one for what in page.found for one in _apart(what)]
        if screen.json:
            sys.stdout.writelines(f"{event_line(key, one)}\n" for one in found)
        else:
            listed += found
        left -= len(found)
        cursor, whole = page.cursor, page.complete
        if cursor is None:
            break
    if not screen.json and listed:
        _show_events(listed, screen)
    if left == arguments.limit and cursor is None:
        screen.tell(f"no events of {key} in {window}")
    if cursor is not None:
        why = "there may be more" if whole else "not all could be read in time"
        screen.tell(f"{why}: go on with --cursor {cursor}")
    return int(not whole)


def top(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll top`. Gives the exit status, 1 if not all tallies could be read."""
    window = required_window(arguments.window)
    found = pipeline.Pipeline(settings).reader.top(
        window, arguments.n, TIME_LEFT_MS, by_amount=arguments.by == "sum"
    )
    if screen.json:
        screen.emit(top_json(found))
    else:
        screen.table(
            ("window", "state", "keys", "events", "sum", "as of"),
            [
                (
                    window,
                    found.status,
                    f"{found.keys:,}",
                    f"{found.events:,}",
                    format_amount(found.amount),
                    iso(found.as_of),
                )
            ],
        )
        if found.largest:
            screen.table(
                ("key", "events", "sum"),
                [(key.key, f"{key.n:,}", format_amount(key.amount)) for key in found.largest],
            )
    if not found.complete:
        screen.tell(
            f"{window}: {found.missing} buckets of tallies could not be read: all numbers are lower"
            " bounds, and other keys may be larger"
        )
    return int(not found.complete)


def _apart(what: StoredEvent | StoredPacket) -> tuple[StoredEvent, ...]:
    return what.events if isinstance(what, StoredPacket) else (what,)


def _show_events(found: Iterable[StoredEvent], screen: Screen) -> None:
    screen.table(
        ("id", "time", "value", "payload"),
        [(one.id, iso(one.ts), format_amount(one.amount), one.payload or "") for one in found],
    )
