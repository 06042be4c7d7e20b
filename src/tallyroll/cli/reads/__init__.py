"""`tallyroll count`, `event`, `events` and `top`: what is read. Each gives its exit status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from tallyroll.cli.arguments import (
    BUCKET,
    DATE,
    MOMENT,
    NUMBER,
    SINCE,
    UNTIL,
    WINDOW,
    Run,
    exclusive,
)
from tallyroll.cli.reads.archived import ARCHIVES_MS, with_archives
from tallyroll.cli.reads.board import watch_largest
from tallyroll.cli.reads.listing import show_events, show_places
from tallyroll.cli.reads.watching import COUNTS_MS, CountsView, Watch
from tallyroll.cli.screen import Cell, Screen, number_of
from tallyroll.errors import UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.stored import StoredEvent, apart
from tallyroll.model.totals import Listed
from tallyroll.model.windows import iso
from tallyroll.operations.overview.whereabouts import event_places, key_places
from tallyroll.reads.counts import Count, WindowCount, counter_json
from tallyroll.reads.found import FoundEvent
from tallyroll.reads.http import required_id, required_key
from tallyroll.reads.jsonable import top_json
from tallyroll.reads.ranges.dated import EventMatches, matches_json
from tallyroll.reads.ranges.largest import TopOfRange, TotalOfAll, total_json
from tallyroll.reads.reader import KEYS_MAX
from tallyroll.reads.top import Top

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

TIME_LEFT_MS = 60_000
EVENTUALLY = ", maybe a moment old"
_WHERE = exclusive()
_SHOWN = exclusive()


def count(
    keys: Annotated[list[str] | None, Parameter("KEY")] = None,
    /,
    *,
    over_all: Annotated[bool, Parameter("--all")] = False,
    since: Annotated[int | None, SINCE] = None,
    until: Annotated[int | None, UNTIL] = None,
    windows: Annotated[bool, Parameter(group=_SHOWN)] = False,
    watch: Annotated[bool, Parameter(group=_SHOWN)] = False,
    where: Annotated[bool, Parameter(group=_SHOWN)] = False,
    eventual: bool = False,
    run: Run,
) -> int:
    """Count keys: over all time, or over the windows in [since, until).

    With --all, the total over all keys is counted. With --watch keys are counted
    every two seconds, until Ctrl-C ends it: bars, the events a second, and those of
    the last looks. With --json each look is a line a key.

    For example:
      tallyroll count candidate-7 candidate-8 --since 20261120T080000Z --windows
      tallyroll count candidate-7 --since -24h
      tallyroll count candidate-7 candidate-8 --since today --watch

    :param keys: a key
    :param over_all: the total over all keys, instead of some
    :param windows: list each window's share, too
    :param watch: count again and again
    :param where: list what holds the events, too: tables, shards and archives
    :param eventual: with --watch: looks may be a moment old, for half the units
    """
    if over_all:
        if keys or windows or watch or where:
            raise UsageError("--all: give it without keys, --windows, --watch and --where")
        return _count_all(since, until, run)
    if eventual and not watch:
        raise UsageError("--eventual: give it with --watch; a first look is consistent")
    if not keys:
        raise UsageError("KEY is missing: give one or more, or --all")
    for key in keys:
        required_key(key)
    made = run.pipeline()
    reader, (since, until) = made.reader, run.bounds(made, since, until)

    def look() -> tuple[list[Count], int]:
        waiting = run.waiting()  # asked before: what does not wait then is counted
        asked = list(dict.fromkeys(keys))
        counts: list[Count] = []
        for at in range(0, len(asked), KEYS_MAX):
            some = asked[at : at + KEYS_MAX]
            counts += reader.counts(
                some, since, until, TIME_LEFT_MS, by_window=windows or where, eventual=eventual
            )
        return counts, waiting

    def show(looked: tuple[list[Count], int]) -> None:
        _show_counts(*looked, run.screen, windows=windows)

    if watch:
        picture = CountsView(run.screen).picture
        return Watch(
            run.screen, made.effects, COUNTS_MS, look, show, picture, _manner
        ).until_ended()
    counts, waiting = look()
    show((counts, waiting))
    for counted in counts if where else ():
        show_places(key_places(made.catalog, counted), run.screen, "events", "shards")
    return int(not all(counted.complete for counted in counts))


def _manner(looked: tuple[list[Count], int]) -> str:
    """What is said of a look: where a store has only consistent reads, none is eventual."""
    return EVENTUALLY if any(count.source == "eventual" for count in looked[0]) else ""


def _count_all(since: int | None, until: int | None, run: Run) -> int:
    made, screen = run.pipeline(), run.screen
    waiting = run.waiting()
    first, last = run.bounds(made, since, until)
    found = made.reader.total(first, last)
    if screen.json:
        screen.emit(total_json(found))
    else:
        named, sums = _sums([found])
        screen.table(
            (*named, "complete", "as of"), [(*sums(found), found.complete, iso(found.as_of))]
        )
    if found.missing:
        screen.tell(f"could not read {', '.join(found.missing)}: the rest is counted")
    if waiting:
        screen.tell(_waits(waiting))
    return int(not found.complete)


def _waits(waiting: int) -> str:
    return (
        f"{number_of(waiting, 'message')} in the queue: their events may be missing from this"
        " count (tallyroll status)"
    )


def _show_counts(counts: Sequence[Count], waiting: int, screen: Screen, *, windows: bool) -> None:
    """Show counts; so many messages wait in the queue."""
    for counted in counts:
        key = counted.key
        if screen.json:
            screen.emit(counter_json(counted))
        if (reading := counted.reading) and not screen.json:
            rows, units = number_of(reading.rows, "row"), number_of(reading.cost_max, "read unit")
            what = f"{rows} read, {units} at most"
            screen.tell(f"{key}: live windows in Keyspaces have no tallies: {what}")
        if counted.missing:
            screen.tell(f"{key}: could not read {', '.join(counted.missing)}: the rest is counted")
            for why in dict.fromkeys(counted.why_missing.values()):
                screen.tell(f"  {why}")
    if not screen.json:
        named, sums = _sums(counts)
        screen.table(
            ("key", *named, "complete", "as of"),
            [(c.key, *sums(c), c.complete, iso(c.as_of)) for c in counts],
        )
        if windows:
            screen.table(
                ("key", "window", "state", *named),
                [(c.key, w.window, w.status, *sums(w)) for c in counts for w in c.windows],
            )
        if any(counted.source == "eventual" for counted in counts):
            screen.tell(
                "eventual: this look may be a moment old, and go back behind an earlier one"
            )
    if waiting:
        screen.tell(_waits(waiting))


def event(
    key: str,
    event_id: Annotated[str, Parameter("ID")],
    /,
    *,
    date: Annotated[int | None, DATE, Parameter(group=_WHERE)] = None,
    ts: Annotated[int | None, MOMENT, Parameter(group=_WHERE)] = None,
    window: Annotated[str | None, WINDOW, Parameter(group=_WHERE)] = None,
    archived: bool = False,
    bucket: Annotated[str | None, BUCKET] = None,
    fetch: bool = False,
    where: bool = False,
    run: Run,
) -> int:
    """Read one event by its id.

    Its window follows from --ts or --window, else from where its id is taken, if
    ids count once beyond their window (the setting identity), else from the time
    in an id that is a UUIDv7. With --date all windows of the day are asked at once;
    an id that counted in several of them is found in each. The id of a packed event
    is {packet id}:{index}; a packet's own id gives all its events.

    A window that was dropped is an error, unless --archived: its proven archive is
    asked then, by its index, or whole and verified if it has none.

    For example:
      tallyroll event candidate-7 ballot-123 --date today
      tallyroll event candidate-7 ballot-123 --date 2026-11-20 --archived
      tallyroll event candidate-7 ballot-123 --ts 2026-11-20T08:15:00Z
      tallyroll event video-42 0193a1c0-7b1e-4c39-9d4f-6e1f0a2b3c4d:17 --ts -1h

    :param key: its key
    :param event_id: its id
    :param archived: read dropped windows from their archives
    :param fetch: an uploaded payload itself, not the reference to it
    :param where: what holds it, too: table, record and shard, or archive
    """
    key, event_id = required_key(key), required_id(event_id)
    made, screen = run.pipeline(), run.screen
    reader, asked = made.reader, (key, event_id)
    if archived:
        made, reader = with_archives(run, bucket)
    if date is None:
        chosen = None if window is None else run.window(made, window)
        found = reader.event(*asked, chosen, ts, ARCHIVES_MS, archived=archived)
        matches = EventMatches((found,))
    else:
        matches = reader.event_on(*asked, date, ARCHIVES_MS, archived=archived)
    if fetch:
        matches = replace(matches, found=tuple(_fetched(made, one) for one in matches.found))
    if where:
        places = event_places(made.catalog, key, matches_json(matches))
        show_places(places, screen, "record", "shard")
    elif screen.json:
        screen.emit(matches_json(matches))
    if screen.json:
        return 0
    for found in matches.found:
        screen.table(("key", "window", "state"), [(found.key, found.window, found.status)])
        show_events(apart(found.what), screen)
    if matches.archives:
        dropped = number_of(len(matches.archives), "window")
        screen.tell(f"{dropped} of the day were dropped: others with this id may be in the archive")
    return 0


def _fetched(made: Pipeline, found: FoundEvent) -> FoundEvent:
    from tallyroll.pipeline.buckets import payload

    if isinstance(found.what, StoredEvent) and (there := found.what.reference):
        whole = replace(found.what, payload=payload(made, there), reference=None)
        return replace(found, what=whole)
    return found


def top(
    *,
    window: Annotated[str | None, WINDOW] = None,
    since: Annotated[int | None, SINCE] = None,
    until: Annotated[int | None, UNTIL] = None,
    n: Annotated[int, NUMBER, Parameter("-n")] = 10,
    by: Literal["events", "sum"] = "events",
    watch: bool = False,
    run: Run,
) -> int:
    """List the keys that have most events, or the largest sums: of a window, or of
    the windows in [since, until).

    Of a live window they come from its tallies, exact at this moment; of a sealed
    one from its totals, also when its table is gone. A live window in Keyspaces has
    no tallies: its largest keys are known once it is sealed.

    With --watch the range is read every two seconds, until Ctrl-C ends it: what is
    sealed but once. Its last line says how many read units that takes.

    For example:
      tallyroll top --window current -n 3
      tallyroll top --since today --by sum

    :param n: how many keys (10 by default)
    :param by: by events (the default) or sum
    :param watch: with --since or --until: read again and again
    """
    ranged = since is not None or until is not None
    if ranged == (window is not None):
        raise UsageError("give --window, or --since or --until")
    if watch:
        if not ranged:
            raise UsageError("--watch: give it with --since or --until")
        return watch_largest(since, until, n, run, by_sum=by == "sum")
    made, screen = run.pipeline(), run.screen
    by_amount = by == "sum"
    if window is None:
        first, last = run.bounds(made, since, until)
        ranged_top = made.reader.top_within(first, last, n, TIME_LEFT_MS, by_amount=by_amount)
        return _show_top_of_range(ranged_top, screen)
    window = run.window(made, window)
    found = made.reader.top(window, n, TIME_LEFT_MS, by_amount=by_amount)
    if screen.json:
        screen.emit(top_json(found))
    else:
        named, sums = _sums([found])
        screen.table(
            ("window", "state", "keys", *named, "as of"),
            [(window, found.status, found.keys, *sums(found), iso(found.as_of))],
        )
        if found.largest:
            screen.table(("key", *named), [(key.key, *sums(key)) for key in found.largest])
    if not found.complete:
        screen.tell(
            f"{window}: {found.missing} buckets of tallies could not be read: all numbers are lower"
            " bounds, and other keys may be larger"
        )
    return int(not found.complete)


def _show_top_of_range(found: TopOfRange, screen: Screen) -> int:
    if screen.json:
        screen.emit(total_json(found))
    else:
        named, sums = _sums([found])
        span = found.span
        screen.table(
            ("since", "until", "keys", *named, "as of"),
            [(iso(span.start), iso(span.end), found.keys, *sums(found), iso(found.as_of))],
        )
        if found.largest:
            screen.table(("key", *named), [(key.key, *sums(key)) for key in found.largest])
    if found.missing:
        screen.tell(
            f"could not read {', '.join(found.missing)}: numbers of events are lower bounds, and"
            " other keys may be larger"
        )
    return int(not found.complete)


def _sums(
    answers: Sequence[Count | Top | TotalOfAll],
) -> tuple[
    Sequence[str],
    Callable[[Count | WindowCount | Top | TotalOfAll | Listed], Sequence[Cell]],
]:
    """The columns of events and sums, and what is in them; with those that were retracted, if there
    are any.
    """
    if not any(any(answer.retracted) for answer in answers):
        return ("events", "sum"), lambda of: (of.events, format_amount(of.amount))
    return ("events", "sum", "retracted", "retracted sum"), lambda of: (
        of.events,
        format_amount(of.amount),
        of.retracted[0],
        format_amount(of.retracted[1]),
    )
