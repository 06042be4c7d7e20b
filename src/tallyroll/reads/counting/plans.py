"""What a count of a range is read from: rolled-up days and months, live windows, and gaps of sealed
windows.

A plan takes two rounds of requests. First come the live pointer, the revisions of corrections and
the calendar. All else is read after the pointer, so a plan lacks no window whose creation the
pointer has seen. What is created later gives the pointer another version.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tallyroll.limits import SKEW_MS_MAX
from tallyroll.model.periods import Period, PeriodName, PeriodState, period_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import LivePointer, Status, Window
from tallyroll.model.windows import WindowId, window_start
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedSpecs
from tallyroll.ports.counting.glances import Glance, Glances, Seen
from tallyroll.ports.effects import Effects
from tallyroll.ports.totals import Totals
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
    totals of all other windows. Windows that start at or after `end` (ms) are not in it. `listed`
    are all windows that may be live, and `revisions` those of all months.
    """

    range: Range
    pointer: LivePointer | None
    end: int
    rolled: tuple[PeriodState, ...]
    live: Mapping[WindowId, Window]
    specs: Mapping[WindowId, Spec]
    listed: frozenset[WindowId]
    revisions: Mapping[PeriodName, int]

    @property
    def unbegun(self) -> list[WindowId]:
        """The live windows that have no spec."""
        return [window for window in self.live if window not in self.specs]

    def agrees(self, other: ReadPlan) -> bool:
        """Whether another plan of the range, of the same pointer, reads the same."""
        return (self.pointer, self.rolled, self.live.keys(), self.specs.keys()) == (
            other.pointer,
            other.rolled,
            other.live.keys(),
            other.specs.keys(),
        )

    def covers(self, now: int) -> bool:
        """Whether no window that may have events at `now` (ms) starts after its end."""
        return self.range.until is not None or now + SKEW_MS_MAX <= self.end

    def lacks(self, created: WindowId | None) -> bool:
        """Whether it may be from before the creation of a window that its pointer names: what a
        transaction writes is not seen all at once. The roller's next run names none.
        """
        if created is None:
            return False
        start = window_start(created)
        if any(start in period_of(state.name) for state in self.rolled):
            return True
        return (self.range.since or 0) <= start < self.end and created not in self.listed

    @property
    def gaps(self) -> list[Gap]:
        """The spans of the range outside its rolled-up periods."""
        periods = [period_of(state.name) for state in self.rolled]
        return uncovered(self.range.since or 0, self.range.until, periods)


class Planner:
    """Reads plans."""

    def __init__(
        self,
        catalog: Catalog,
        totals: Totals,
        specs: CachedSpecs,
        effects: Effects,
        glances: Glances,
    ) -> None:
        self._catalog = catalog
        self._totals = totals
        self._specs = specs
        self._effects = effects
        self._glances = glances

    def plan(self, of: Range, end: int) -> ReadPlan:
        """The plan of a range, of windows that start before `end` (ms). Raises UsageError, naming
        the nearest bound, if the range is off the bounds or backwards.
        """
        first: list[Callable[[], Seen | Mapping[PeriodName, int]]] = [
            partial(self._glances.look, Glance((), (), (), (), ())),
            self._totals.revisions,
        ]
        seen, revisions = self._effects.together(first, READS_AT_ONCE)
        assert isinstance(seen, Seen)
        assert isinstance(revisions, Mapping)
        pointer, calendar = seen.pointer, seen.calendar
        if calendar:
            calendar.grid.check_range(of.since, of.until)
        since = of.since or 0
        end = end if of.until is None else of.until
        spans = pointer.spans(since, end) if pointer else []
        genesis = calendar.genesis if calendar else 0
        jobs: list[Callable[[], _Listed]] = [partial(self.rolled, of, end, genesis)]
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
        met = frozenset(window.id for window in windows)
        return ReadPlan(of, pointer, end, tuple(rolled), live, begun, met, revisions)

    def rolled(self, of: Range, end: int, genesis: int = 0) -> list[PeriodState]:
        """The rolled-up periods of a range that fit, ascending; see `rolled_within`."""
        if of.fits is None:
            return []
        found = rolled_within(self._catalog, self._effects, of.since or 0, end, of.fits, genesis)
        return sorted(found, key=lambda state: period_of(state.name))
