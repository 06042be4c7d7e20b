"""Opens past windows, which the roller does not create, to load history.

A pipeline's regular windows begin at its genesis; earlier events are rejected as too late. Opening
a past window puts its first state, with accept times of its own, into the catalog. The roller then
makes its table, opens, closes and seals it like any other. Roll-ups of its day and month are
invalid until it is sealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from tallyroll.errors import UsageError
from tallyroll.limits import SPEC_ABSENT_CACHED_MS
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.windows import DYNAMODB, Grid, Span, iso, table_name
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.live_windows import cover

WINDOWS_PER_CALL_MAX = 1_000  # limits the cost of a mistake: each window has a table
ACCEPT_FOR_MS_MAX = 366 * 86_400_000
WAIT_POLL_MS = 2_000


@dataclass(frozen=True, slots=True)
class PastWindows:
    """The windows of a range: those created now, and those that existed."""

    created: tuple[Window, ...]
    existed: tuple[Window, ...]

    @property
    def windows(self) -> list[Window]:
        """All of them, ascending."""
        return sorted((*self.created, *self.existed), key=lambda window: window.start)


def open_past(
    catalog: Catalog,
    calendar: Calendar,
    pipeline: str,
    since: int,
    until: int,
    now: int,
    accept_for_ms: int,
    store: str = DYNAMODB,
    on_progress: Callable[[], object] = lambda: None,
) -> PastWindows:
    """Create the windows that start in [since, until) and have no state yet, in this store; times
    in ms.

    Once the roller has made them, they take events sent from `now` until `accept_for_ms` later. A
    call may be repeated: it keeps the states of existing windows, and moves the live pointer back
    to cover them. Calls `on_progress` after each that it has created.
    Raises UsageError, before anything is created, if the range is off the bounds of windows, has
    over 1,000 windows, or includes a regular window that does not exist yet. Raises StoreError,
    after which some windows may have been created.
    """
    if not 0 < accept_for_ms <= ACCEPT_FOR_MS_MAX:
        most = f"{ACCEPT_FOR_MS_MAX // 86_400_000} days"
        raise UsageError(f"accept for {accept_for_ms} ms: must be more than 0, at most {most}")
    spans = _spans(calendar.grid, since, until)
    states = {window.id: window for window in catalog.windows(since, until)}
    absent = [span for span in spans if span.id not in states]
    for span in absent:
        if span.start >= calendar.genesis:
            raise UsageError(
                f"window {span.id} is a regular one, which the roller makes by itself: only windows"
                f" before the pipeline's first, {iso(calendar.genesis)}, are opened on purpose"
            )
    created = []
    for span in absent:
        window = Window(
            id=span.id,
            table=table_name(pipeline, span.id, store),
            start=span.start,
            end=span.end,
            times={Status.CREATING: now},
            accept_from=now,
            accept_until=now + accept_for_ms,
        )
        if catalog.create(window):
            created.append(window)
        elif stored := catalog.window(span.id):
            states[span.id] = stored
        on_progress()
    cover(catalog, list(states.values()))
    return PastWindows(tuple(created), tuple(states.values()))


def past_of(calendar: Calendar, needed: Iterable[Span]) -> list[Span]:
    """Those of the needed windows that lie before the pipeline's first, ascending. Raises
    UsageError if they are over 1,000.
    """
    past = sorted(span for span in needed if span.start < calendar.genesis)
    if len(past) > WINDOWS_PER_CALL_MAX:
        raise UsageError(
            f"the events need {len(past):,} past windows, {past[0].id} to {past[-1].id}, each with"
            f" a table: load them in parts of at most {WINDOWS_PER_CALL_MAX:,}, or into a pipeline"
            f" whose windows are longer than {(past[0].end - past[0].start) // 1000:,} s"
            " (tallyroll:window)"
        )
    return past


def absent_of(catalog: Catalog, past: Sequence[Span]) -> list[Span]:
    """Those of the windows, ascending, that have no state yet. Raises StoreError."""
    known = {
        window.id for run in _runs(past) for window in catalog.windows(run[0].start, run[-1].end)
    }
    return [span for span in past if span.id not in known]


def open_needed(
    catalog: Catalog,
    calendar: Calendar,
    pipeline: str,
    past: Sequence[Span],
    now: int,
    accept_for_ms: int,
    store: str = DYNAMODB,
    on_progress: Callable[[], object] = lambda: None,
) -> list[Window]:
    """Create those of these windows, of `past_of`, that have no state yet; return the states of
    all, ascending. Calls `on_progress` after each that it has created. Raises what `open_past`
    raises.
    """
    opened: list[Window] = []
    for run in _runs(past):
        since, until = run[0].start, run[-1].end
        part = open_past(
            catalog, calendar, pipeline, since, until, now, accept_for_ms, store, on_progress
        )
        opened += part.windows
    return opened


def _runs(spans: Sequence[Span]) -> list[list[Span]]:
    """The ascending spans, in runs without gaps."""
    runs: list[list[Span]] = []
    for span in spans:
        if runs and runs[-1][-1].end == span.start:
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


def wait_open(
    catalog: Catalog,
    windows: Sequence[Window],
    effects: Effects,
    timeout_ms: int,
    on_progress: Callable[[Sequence[Window]], None],
) -> list[Window]:
    """Wait until the roller has made these windows (ascending, at least one), or for `timeout_ms`.

    Returns their last states; some are still `creating` if time ran out. Calls `on_progress` with
    each read. Waits 5 s longer after a window has opened, since writers cache for that long that it
    has no spec. Raises StoreError.
    """
    wanted = {window.id for window in windows}
    deadline = effects.now() + timeout_ms
    while True:
        found = catalog.windows(windows[0].start, windows[-1].end)
        states = [window for window in found if window.id in wanted]
        on_progress(states)
        now = effects.now()
        if now >= deadline:
            return states
        if not any(window.status is Status.CREATING for window in states):
            newest = max((window.times.get(Status.OPEN, 0) for window in states), default=0)
            effects.sleep(min(max(0, newest + SPEC_ABSENT_CACHED_MS - now), SPEC_ABSENT_CACHED_MS))
            return states
        effects.sleep(min(WAIT_POLL_MS, deadline - now))


def _spans(grid: Grid, since: int, until: int) -> list[Span]:
    grid.check_range(since, until)
    spans = list(islice(grid.over(since, until), WINDOWS_PER_CALL_MAX + 1))
    if len(spans) > WINDOWS_PER_CALL_MAX:
        raise UsageError(
            f"{iso(since)} to {iso(until)} has over {WINDOWS_PER_CALL_MAX:,} windows: open them in"
            f" parts, the first until {iso(spans[-1].start)}"
        )
    return spans
