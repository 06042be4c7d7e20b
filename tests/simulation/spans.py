"""Where windows lie: which lengths they have since when, and which were opened or made."""

from __future__ import annotations

from collections.abc import Sequence

from tallyroll.model.states import Window
from tallyroll.model.windows import WindowLength
from tallyroll.settings import Settings
from tests.simulation.sent import Opened
from tests.simulation.world import World


def _in_ms(lengths: Sequence[tuple[int, WindowLength]]) -> tuple[tuple[int, int], ...]:
    """The lengths, which are numbers here: a simulated life is too short for the calendar's."""
    found = []
    for since, length in lengths:
        assert isinstance(length, int)
        found.append((since, length))
    return tuple(found)


class Spans:
    """The spans of windows, by the oracle's own reckoning; `deployed` are the settings of all
    deployments.
    """

    def __init__(self, world: World, window_ms: int) -> None:
        self._world = world
        self._lengths = [(0, window_ms)]
        self._known: dict[int, tuple[int, int]] = {}
        self._made: list[tuple[int, int]] = []
        self.deployed: list[Settings] = []
        self.opened: dict[str, Opened] = {}

    def at(self, ts: int) -> tuple[int, int]:
        """The begin and end (ms) of the window in which an instant lies."""
        found = self._known.get(ts)
        if found is None:
            length = next(length for since, length in reversed(self._lengths) if since <= ts)
            start = ts - ts % length
            found = self._known[ts] = start, start + length
        return found

    def on_founded(self, founded: Sequence[tuple[int, WindowLength]]) -> None:
        """Take the first roller's word for the length of windows: it may come after deployments."""
        lengths = _in_ms(founded)
        if lengths not in [((0, each.window_seconds * 1000),) for each in self.deployed]:
            self._world.fail(f"5: windows of {lengths} are what no deployment would found")
        self._lengths = list(lengths)
        self._known.clear()

    def on_length(self, since: int, length: WindowLength) -> None:
        """Take note that windows have another length from `since` on."""
        [(_, length_ms)] = _in_ms([(since, length)])
        if since % length_ms or since % self._lengths[-1][1] or since <= self._lengths[-1][0]:
            self._world.fail(f"5: windows of {length_ms} ms may not begin at {since}")
        self._lengths.append((since, length_ms))
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
