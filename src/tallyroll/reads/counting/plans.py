"""What a count of a range is read from: rolled-up days and months, live windows, and gaps of sealed
windows.

A plan takes two rounds of requests. First come the live pointer and the calendar. All else is read
after the pointer, so a plan lacks no window whose creation the pointer has seen: what is created
later gives the pointer another version.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tallyroll.model.periods import Period, PeriodState, period_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Status, Window
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedSpecs
from tallyroll.ports.effects import Effects
from tallyroll.reads.coverage import Gap, rolled_within, uncovered

READS_AT_ONCE = 16

_Listed = tuple[list[Window], dict[WindowId, Spec]] | list[PeriodState]
Fits = Callable[[Period], bool]


@dataclass(frozen=True, slots=True)
class Range:
    """The windows that start in [since, until) ms; None is open. Of rolled-up days and months those
    that fit are read as a whole; none, if `fits` is None. `parts` tells what fits from what else
    may fit.
    """

    since: int | None
    until: int | None
    parts: Hashable
    fits: Fits | None = field(compare=False)

    def single(self) -> Range:
        """The same range, to be read window by window."""
        return Range(self.since, self.until, None, None)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What to read for a range, as of the `pointer`: the `rolled` periods, the windows that are
    `live`, with the `specs` of those that have begun, and of the `gaps` between the periods the
    totals of all other windows. Windows that start at or after `end` (ms) are not in it.
    """

    range: Range
    pointer: LivePointer | None
    end: int
    rolled: tuple[PeriodState, ...]
    live: Mapping[WindowId, Window]
    specs: Mapping[WindowId, Spec]

    @property
    def gaps(self) -> list[Gap]:
        """The spans of the range outside its rolled-up periods."""
        periods = [period_of(state.name) for state in self.rolled]
        return uncovered(self.range.since or 0, self.range.until, periods)


class Planner:
    """Reads plans."""

    def __init__(self, catalog: Catalog, specs: CachedSpecs, effects: Effects) -> None:
        self._catalog = catalog
        self._specs = specs
        self._effects = effects

    def plan(self, of: Range, end: int) -> ReadPlan:
        """The plan of a range, of windows that start before `end` (ms). Raises UsageError, naming
        the nearest bound, if the range is off the bounds or backwards.
        """
        versions: list[LivePointer | Calendar | None] = self._effects.together(
            [self._catalog.live, self._catalog.calendar], READS_AT_ONCE
        )
        pointer, calendar = versions
        assert not isinstance(pointer, Calendar)
        if isinstance(calendar, Calendar):
            calendar.grid.check_range(of.since, of.until)
        since = of.since or 0
        end = end if of.until is None else of.until
        spans = pointer.spans(since, end) if pointer else []
        jobs: list[Callable[[], _Listed]] = [partial(self._periods, of, end)]
        jobs += [partial(self._catalog.windows_with_specs, span.start, span.end) for span in spans]
        found = self._effects.together(jobs, READS_AT_ONCE)
        rolled = [state for each in found if isinstance(each, list) for state in each]
        listed = [each for each in found if isinstance(each, tuple)]
        windows = [window for some, _ in listed for window in some]
        specs = {name: spec for _, some in listed for name, spec in some.items()}
        inside = [period_of(state.name) for state in rolled]
        live = {
            window.id: window
            for window in windows
            if not window.status.sealed and not any(window.start in period for period in inside)
        }
        begun = {name: specs[name] for name in live if name in specs}
        # A listing is no snapshot: it may lack a spec that was put before the state that it shows.
        lacking = [
            name
            for name, window in live.items()
            if name not in begun and window.status is not Status.CREATING
        ]
        if lacking:
            begun |= self._specs.specs(lacking)
        return ReadPlan(of, pointer, end, tuple(rolled), live, begun)

    def rolled(self, of: Range, end: int) -> list[PeriodState]:
        """The rolled-up periods of a range that fit, ascending."""
        if of.fits is None:
            return []
        found = rolled_within(self._catalog, self._effects, of.since or 0, end, of.fits)
        return sorted(found, key=lambda state: period_of(state.name))

    def _periods(self, of: Range, end: int) -> _Listed:
        return self.rolled(of, end)
