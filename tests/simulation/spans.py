"""Where windows lie: which lengths they have since when, and which were opened or made."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tallyroll.model.states import Window
from tallyroll.model.windows import MONTH, QUARTER, WEEK, WindowLength
from tallyroll.settings import Settings
from tests.simulation.sent import Opened
from tests.simulation.short_months import CYCLE_DAYS, DAY_MS, DAYS, ORIGIN_MS, WEEK_DAYS
from tests.simulation.world import World


def _months() -> list[int]:
    """When months begin by the short calendar, from long before a life until long after it."""
    bounds = [ORIGIN_MS - 1_000 * CYCLE_DAYS * DAY_MS]
    for days in 2_000 * DAYS:
        bounds.append(bounds[-1] + days * DAY_MS)
    return bounds


MONTHS = _months()
QUARTERS = MONTHS[4_000 % 3 :: 3]  # the one at the origin begins a quarter
WEEK_MS = WEEK_DAYS * DAY_MS


def _window(length: WindowLength, ts: int) -> tuple[int, int]:
    """The begin and end (ms) of the window of a length in which an instant lies."""
    if isinstance(length, int):
        start = ts - ts % length
        return start, start + length
    if length == WEEK:
        start = ts - (ts - ORIGIN_MS) % WEEK_MS
        return start, start + WEEK_MS
    bounds = {MONTH: MONTHS, QUARTER: QUARTERS}[length]
    number = bisect_right(bounds, ts)
    return bounds[number - 1], bounds[number]


def _length(settings: Settings) -> WindowLength:
    """The length that a deployment asks for: ms, or a name."""
    return settings.window or settings.window_seconds * 1000


class Spans:
    """The spans of windows, by the oracle's own reckoning; `deployed` are the settings of all
    deployments.
    """

    def __init__(self, world: World, window_ms: int) -> None:
        self._world = world
        self._lengths: list[tuple[int, WindowLength]] = [(0, window_ms)]
        self._known: dict[int, tuple[int, int]] = {}
        self._made: list[tuple[int, int]] = []
        self.deployed: list[Settings] = []
        self.opened: dict[str, Opened] = {}

    def at(self, ts: int) -> tuple[int, int]:
        """The begin and end (ms) of the window in which an instant lies."""
        found = self._known.get(ts)
        if found is None:
            length = next(length for since, length in reversed(self._lengths) if since <= ts)
            found = self._known[ts] = _window(length, ts)
        return found

    def on_founded(self, founded: Sequence[tuple[int, WindowLength]]) -> None:
        """Take the first roller's word for the length of windows: it may come after deployments."""
        if founded not in [((0, _length(each)),) for each in self.deployed]:
            self._world.fail(f"5: windows of {founded} are what no deployment would found")
        self._lengths = list(founded)
        self._known.clear()

    def on_length(self, since: int, length: WindowLength) -> None:
        """Take note that windows have another length from `since` on."""
        begun, before = self._lengths[-1]
        begins = {_window(each, since)[0] for each in (before, length)}
        if begins != {since} or since <= begun:
            self._world.fail(f"5: windows of {length} may not begin at {since}")
        self._lengths.append((since, length))
        self._known.clear()

    def on_created(self, window: Window) -> None:
        """Check that a window lies between others; take note of it if it is one of the past."""
        span = window.start, window.end
        if span != self.at(window.start):
            self._world.fail(
                f"5: {window.id} lasts until {window.end}, windows are {self._lengths}"
            )
        if any(span[0] < end and start < span[1] for start, end in self._made):
            self._world.fail(f"5: {window.id} overlaps with another window")
        self._made.append(span)
        if window.accept_from is not None and window.accept_until is not None:
            opened = Opened(window.accept_from, window.accept_until, self._world.now)
            self.opened[window.id] = opened
