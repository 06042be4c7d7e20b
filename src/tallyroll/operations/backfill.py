"""Loading history: past windows, which the roller would never make, are opened on purpose.

A pipeline's regular windows begin at its genesis; an event that happened before is rejected as too
late. Opening the past window puts its first state with accept times of its own into the catalog;
the roller makes its table, opens it, and closes and seals it like any other. The sums of its day
and month, if they are rolled up, stand no more from then on, until it is sealed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from tallyroll.errors import UsageError
from tallyroll.limits import SPEC_ABSENT_CACHED_MS
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.windows import Grid, Span, WindowId, iso, table_name
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.live_windows import cover

WINDOWS_PER_CALL_MAX = 1_000  # tables are quickly made by mistake, and slowly paid for
ACCEPT_FOR_MS_MAX = 366 * 86_400_000
WAIT_POLL_MS = 2_000


@dataclass(frozen=True, slots=True)
class PastWindows:
    """The windows of a range: those that were created now, and those that were there already."""

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
) -> PastWindows:
    """Create the windows that start in [since, until) and have no state yet; times in ms.

    They take events that are sent from `now` until `accept_for_ms` later, once the roller has made
    them. Repeating a call does no harm: a window that exists, in whatever state, stays as it is,
    and is looked at again if the live pointer has passed it.
    Raises UsageError, before anything is created, for a range off the bounds of windows, of over
    1,000 windows or with a regular window that the roller has yet to make; and StoreError, after
    which some may have been created.
    """
    if not 0 < accept_for_ms <= ACCEPT_FOR_MS_MAX:
        raise UsageError(f"accept for {accept_for_ms} ms: must be more than 0, at most 366 days")
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
        window = _past_window(pipeline, span, now, accept_for_ms)
        if catalog.create(window):
            created.append(window)
        elif stands := catalog.window(span.id):
            states[span.id] = stands
    cover(catalog, list(states.values()))
    return PastWindows(tuple(created), tuple(states.values()))


def wait_open(
    catalog: Catalog,
    windows: Sequence[Window],
    effects: Effects,
    timeout_ms: int,
    told: Callable[[Sequence[Window]], None],
) -> list[Window]:
    """Wait until the roller has made these windows (ascending, at least one), or for `timeout_ms`.

    Gives their last states: some are still `creating` if time ran out. `told` hears of every look.
    Writers remember for 5 s that a window has no spec, so one that has just opened is waited for
    that much longer. Raises StoreError.
    """
    wanted: frozenset[WindowId] = frozenset(window.id for window in windows)
    deadline = effects.now() + timeout_ms
    while True:
        found = catalog.windows(windows[0].start, windows[-1].end)
        states = [window for window in found if window.id in wanted]
        told(states)
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


def _past_window(pipeline: str, span: Span, now: int, accept_for_ms: int) -> Window:
    return Window(
        id=span.id,
        table=table_name(pipeline, span.id),
        start=span.start,
        end=span.end,
        times={Status.CREATING: now},
        accept_from=now,
        accept_until=now + accept_for_ms,
    )
