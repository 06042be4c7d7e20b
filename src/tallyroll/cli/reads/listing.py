"""`tallyroll events`: a key's events in a window or a range, or as they count. It gives its exit
status.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from tallyroll.archive.runs import SortedRuns
from tallyroll.cli.archive.sources import ArchiveAccess, ArchiveSource
from tallyroll.cli.arguments import BUCKET, NUMBER, SINCE, UNTIL, WINDOW, Run
from tallyroll.cli.screen import Cell, Screen, excerpt
from tallyroll.errors import UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.retractions import RetractionNote
from tallyroll.model.stored import StoredEvent, apart, event_line
from tallyroll.model.windows import iso, window_start
from tallyroll.pipeline.archived_ranges import WholeRange
from tallyroll.reads.found import Events
from tallyroll.reads.http import required_key
from tallyroll.reads.jsonable import retracted_json
from tallyroll.reads.merge import EVENTS_MAX
from tallyroll.reads.ranges.pages import EventsPage
from tallyroll.reads.reader import PortReader

TIME_LEFT_MS = 60_000
WINDOW_EVENTS = 100  # of a window, if there is no limit
ROWS_A_TABLE = 1_000
SORTED_IN_MEMORY = 50_000

Bounds = tuple[int | None, int | None]


def events(
    key: str,
    /,
    *,
    window: Annotated[str | None, WINDOW] = None,
    since: Annotated[int | None, SINCE] = None,
    until: Annotated[int | None, UNTIL] = None,
    follow: bool = False,
    archived: bool = False,
    bucket: Annotated[str | None, BUCKET] = None,
    order: Literal["id", "time"] = "id",
    limit: Annotated[int | None, NUMBER] = None,
    cursor: Annotated[str | None, Parameter(metavar="C")] = None,
    run: Run,
) -> int:
    """List the events of a key in a window, or in the windows in [since, until).

    They come by window, and within it in the order of their ids (by code point),
    packets unpacked. With --json each is a line as `tallyroll send` takes it and
    `tallyroll archive read` gives it; one that was retracted has `retracted`, with
    who and why. One of a log has the id of its message in the queue, and as `log`
    its id there. If there are more, a message tells the cursor that goes on.

    With --follow, those that count later come too, until Ctrl-C ends it.

    A window that was dropped is an error, unless --archived: its proven archive is
    read then, whole and verified, if the totals say that the key has events in it.

    For example:
      tallyroll events candidate-7 --since today --json
      tallyroll events candidate-7 --since -1h --follow
      tallyroll events candidate-7 --since 2026-11-20 --until 2026-11-21 --archived
      tallyroll events candidate-7 --window 20261120T080000Z --limit 1000 --json

    :param key: the key
    :param follow: go on with events as they count
    :param archived: read dropped windows from their archives
    :param order: by id (the default), or by time, for which a range is sorted on disk
    :param limit: at most so many: of a window 100 by default, of a range all
    :param cursor: go on after an earlier answer
    """
    key = required_key(key)
    ranged = since is not None or until is not None
    if window is None and not (ranged or follow):
        raise UsageError("give --window, or --since, or --follow")
    if window is not None and (ranged or follow or order == "time"):
        raise UsageError("--window: give it without --since, --until, --follow and --order time")
    if follow and (until is not None or order == "time" or limit or cursor):
        raise UsageError("--follow: give it without --until, --order time, --limit and --cursor")
    if order == "time" and (limit or cursor):
        raise UsageError("--order time: give it without --limit and --cursor")
    if archived:
        if follow or limit or cursor:
            raise UsageError("--archived: give it without --follow, --limit and --cursor")
        stream = _with_archived(run, key, (window, since, until), bucket)
        return _show_range(key, stream, order, run.screen)
    made, screen = run.pipeline(), run.screen
    reader = made.reader
    if window is not None:
        window = run.window(made, window)
        of_window = _of_window(reader, key, window, limit or WINDOW_EVENTS, cursor)
        return _show_pages(key, of_window, window, screen)
    since, until = run.bounds(made, since, until)
    if follow:
        _follow(reader, key, since, screen)
    if limit or cursor:
        pages = _of_range(reader, key, (since, until), limit or sys.maxsize, cursor)
        return _show_pages(key, pages, "the range", screen)
    stream = (one for found in reader.events_within(key, since, until) for one in apart(found.what))
    return _show_range(key, stream, order, screen)


def _follow(reader: PortReader, key: str, since: int | None, screen: Screen) -> None:
    for found in reader.follow(key, since):
        for one in apart(found.what):
            sys.stdout.write(f"{_line(key, one) if screen.json else _text(one)}\n")
            sys.stdout.flush()


def _with_archived(
    run: Run, key: str, asked: tuple[str | None, int | None, int | None], bucket: str | None
) -> Iterator[StoredEvent]:
    """The events of a window or a range, of dropped windows from their archives."""
    access = ArchiveAccess(run, ArchiveSource(bucket=bucket))
    made, (window, since, until) = access.made, asked
    if window is None:
        since, until = run.bounds(made, since, until)
    else:
        span = run.calendar(made).grid.at(window_start(run.window(made, window)))
        since, until = span.start, span.end
    ports = (made.catalog, made.totals, access.bucket, made.codec, made.effects)
    found = WholeRange(made.reader, *ports, access.watched).events(key, since, until)
    return (event for one in found for event in apart(one.what))


def _show_range(key: str, stream: Iterator[StoredEvent], order: str, screen: Screen) -> int:
    if not _show(key, _by_time(stream) if order == "time" else stream, screen):
        screen.tell(f"no events of {key} in the range")
    return 0


def _of_window(
    reader: PortReader, key: str, window: str, left: int, cursor: str | None
) -> Iterator[Events]:
    while left:
        page = reader.events(key, window, TIME_LEFT_MS, limit=min(left, EVENTS_MAX), cursor=cursor)
        yield page
        left, cursor = left - sum(len(apart(what)) for what in page.found), page.cursor
        if cursor is None or not page.complete:
            return


def _of_range(
    reader: PortReader, key: str, bounds: Bounds, left: int, cursor: str | None
) -> Iterator[EventsPage]:
    while left:
        most = min(left, EVENTS_MAX)
        page = reader.events_page(key, *bounds, TIME_LEFT_MS, limit=most, cursor=cursor)
        yield page
        left, cursor = left - len(page.found), page.cursor
        if cursor is None or not page.complete:
            return


def _show_pages(
    key: str, pages: Iterator[Events] | Iterator[EventsPage], where: str, screen: Screen
) -> int:
    """Show pages, and where to go on after the last; give the exit status."""
    cursor, whole = None, True

    def listed() -> Iterator[StoredEvent]:
        nonlocal cursor, whole
        for page in pages:
            cursor, whole = page.cursor, page.complete
            found = page.found if isinstance(page, Events) else [one.what for one in page.found]
            for what in found:
                yield from apart(what)

    if not _show(key, listed(), screen) and cursor is None:
        screen.tell(f"no events of {key} in {where}")
    if cursor is not None:
        why = "there may be more" if whole else "not all could be read in time"
        screen.tell(f"{why}: go on with --cursor={cursor}")
    return int(not whole)


def _show(key: str, found: Iterator[StoredEvent], screen: Screen) -> bool:
    """Show events as they come, and say whether there were any: lines, or tables of so many rows
    that a long list needs little memory.
    """
    some = False
    while rows := list(islice(found, ROWS_A_TABLE)):
        some = True
        if screen.json:
            sys.stdout.writelines(f"{_line(key, one)}\n" for one in rows)
        else:
            show_events(rows, screen)
    return some


def _by_time(found: Iterator[StoredEvent]) -> Iterator[StoredEvent]:
    runs: SortedRuns[tuple[int, int, StoredEvent]] = SortedRuns(SORTED_IN_MEMORY)
    for number, one in enumerate(found):  # of one time: in their order
        runs.add((one.ts, number, one))
    return (one for _, _, one in runs.rows())


def _text(one: StoredEvent) -> str:
    cells = (*_columns(one), _retracted(one.retracted), excerpt(_payload(one)))
    return "  ".join(str(cell) for cell in cells if cell)


def _line(key: str, one: StoredEvent) -> str:
    line = event_line(key, one)
    if one.retracted is None:
        return line
    # At the end of the text as it stands: its value may have more digits than a double holds.
    return f'{line[:-1]},"retracted":{json.dumps(retracted_json(one.retracted))}}}'


def show_events(found: Iterable[StoredEvent], screen: Screen) -> None:
    """A table of events."""
    heads = ("id", "time", "value", "retracted by", "payload")
    screen.table(
        heads,
        [(*_columns(one), _retracted(one.retracted), excerpt(_payload(one))) for one in found],
    )


def _columns(one: StoredEvent) -> tuple[Cell, ...]:
    return one.id, iso(one.ts), format_amount(one.amount)


def _retracted(note: RetractionNote | None) -> str:
    if note is None:
        return ""
    return (note.by or "somebody") + (f": {note.why}" if note.why else "")


def _payload(one: StoredEvent) -> str:
    if one.reference:
        return f"s3://{one.reference.bucket}/{one.reference.key}"
    return one.payload or ""


def show_places(places: Sequence[dict[str, Any]], screen: Screen, *what: str) -> None:
    """Show what holds events: lines of JSON, or a table that has `what`, too."""
    columns = ("key", "window", "state", *what, "table", "archive")
    screen.show(columns, places, dict, lambda _: {})
