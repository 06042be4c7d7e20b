"""Counts: one exact number per key, from the sums of rolled-up days and months, the totals of other
sealed windows, and the tallies of live windows. Next on the reading path: `archive/recount.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from tallyroll.errors import Missing, StoreError
from tallyroll.limits import SKEW_MS_MAX
from tallyroll.model.periods import KINDS, PeriodName, PeriodState, period_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.totals import NO_CORRECTIONS, PeriodTotal, Total
from tallyroll.model.windows import WindowId, window_id
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.live_windows import list_live
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.reads.counts import (
    COUNT_MS,
    Count,
    Gathering,
    PeriodCount,
    WindowCount,
    period_count,
    window_count,
)
from tallyroll.reads.coverage import Gap, every, rolled_within, uncovered
from tallyroll.reads.lookups import deadline_of
from tallyroll.reads.ranges.dated import DatedReads
from tallyroll.reads.ranges.follow import FollowingReads
from tallyroll.reads.series import Fits, SeriesReads
from tallyroll.settings import Settings

WINDOWS_AT_ONCE = 16
AFTER_ALL_WINDOWS: WindowId = "99999999T999999Z"

Asked = tuple[str, int | None, int | None, bool]
"""The arguments of a count: key, since, until, by window."""


class Reader(SeriesReads, DatedReads, FollowingReads):
    """Reads a pipeline: counts of keys, single events, all events of a key, the largest keys.

    Use one per process, since it caches counts.
    """

    def __init__(
        self, settings: Settings, store: Store, catalog: Catalog, totals: Totals, effects: Effects
    ) -> None:
        super().__init__(store, catalog, totals, effects)
        self._settings = settings
        self._counts: dict[Asked, Count] = {}

    def count(
        self,
        key: str,
        since: int | None = None,
        until: int | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        consistent: bool = False,
        by_window: bool = False,
    ) -> Count:
        """Count a key over [since, until) in ms, both on bounds of windows; None is open.

        `events` of the answer is the number of events, `value` their sum as a decimal number, and
        `amount` the same in millionths. What cannot be read within `time_left_ms` is `missing`.

        With `by_window`, counts every window singly, even in rolled-up days and months. Reads are
        strongly consistent, but the answer may come from the cache unless `consistent`. Raises
        UsageError, naming the nearest bound, if the range is off the bounds or backwards.
        """
        now = self._effects.now()
        asked = (key, since, until, by_window)
        cached = self._counts.get(asked)
        if cached and not consistent and 0 <= now - cached.as_of < self._settings.cache_live_ms:
            return cached
        calendar = self._catalog.calendar()
        if calendar:
            calendar.grid.check_range(since, until)
        fits = every if self._settings.rollups and not by_window else None
        count = self._count(key, since, until, now, deadline_of(now, time_left_ms), fits)
        kept = self._settings.cache_live_ms
        self._counts = {
            other: counted for other, counted in self._counts.items() if now - counted.as_of < kept
        }
        if count.complete and kept:
            self._counts[asked] = replace(count, gathering=None)
        return count

    def _count(
        self,
        key: str,
        since: int | None,
        until: int | None,
        now: int,
        deadline: int,
        fits: Fits | None,
    ) -> Count:
        """Count a key. Rolled-up days and months that fit are read as a whole; none, if it is None.

        States are read first. A window that is sealed after its state was read still has its
        tallies, and one that was sealed before has its totals, so no window is left out and none is
        counted twice.

        The same holds for periods. A period's sums are written before its state says that they are
        complete, and only sums of a later epoch replace them. So sums read after the state are
        those of all the period's windows, at the time of the state or later. A window of the period
        is not read on its own, even if it was created in between.

        Corrections are read with the totals. Those of a period include the windows that were
        created after its state was read, of which the sums may know nothing. A window can be
        corrected once it is sealed, which takes `settle_ms` at least. So after that time the states
        are read again, and if one has changed, every window is read singly.
        """
        began = self._effects.now()
        end = now + SKEW_MS_MAX if until is None else until
        rolled = self._rolled_within(since or 0, end, fits) if fits else []
        periods = [period_of(state.name) for state in rolled]
        live = {
            window.id: window
            for window in list_live(self._catalog, self._catalog.live(), since or 0, end)
            if not window.status.sealed and not any(window.start in period for period in periods)
        }
        gaps = uncovered(since or 0, until, periods)
        totals, sums = self._sealed(key, gaps, rolled)
        if any(total.corrections != NO_CORRECTIONS for total in sums.values()) and (
            self._effects.now() - began >= self._settings.settle_ms
            and rolled != self._rolled_within(since or 0, end, fits or every)
        ):
            return self._count(key, since, until, now, deadline, None)
        sealed = [window_count(total) for total in totals if total.window not in live]
        counted, why_missing, gathering = self._tally(key, list(live.values()), deadline)
        windows = sorted([*sealed, *counted], key=lambda count: count.window)
        named = [period_count(state, sums.get(state.name)) for state in rolled]
        parts: list[WindowCount | PeriodCount] = [*windows, *named]
        return Count(
            key=key,
            events=sum(part.events for part in parts),
            amount=sum(part.amount for part in parts),
            windows=tuple(windows),
            as_of=now,
            why_missing=why_missing,
            periods=tuple(named),
            gathering=gathering,
        )

    def _rolled_within(self, since: int, until: int, fits: Fits) -> list[PeriodState]:
        rolled = rolled_within(self._catalog, self._effects, since, until, fits)
        return sorted(rolled, key=lambda state: period_of(state.name))

    def _sealed(
        self, key: str, gaps: Sequence[Gap], rolled: Sequence[PeriodState]
    ) -> tuple[list[Total], dict[PeriodName, PeriodTotal]]:
        """A key's totals of the windows that start in the gaps, and its sums of the periods, both
        with their corrections.
        """
        of_windows = [
            partial(
                self._totals.of_key,
                key,
                window_id(since),
                AFTER_ALL_WINDOWS if until is None else window_id(until),
            )
            for since, until in gaps
        ]
        of_periods = [
            partial(self._totals.periods_of_key, key, min(names), max(names))
            for kind in KINDS
            if (names := [state.name for state in rolled if state.name.startswith(kind)])
        ]
        totals = self._effects.together(of_windows, WINDOWS_AT_ONCE)
        sums = self._effects.together(of_periods, WINDOWS_AT_ONCE)
        return (
            list(chain.from_iterable(totals)),
            {total.period: total for total in chain.from_iterable(sums)},
        )

    def _tally(
        self, key: str, windows: Sequence[Window], deadline: int
    ) -> tuple[list[WindowCount], dict[WindowId, str], Gathering | None]:
        """A key's counts in live windows, why other windows could not be read in time, and what
        reading took.
        """
        specs = self._specs.specs([window.id for window in windows])
        begun = [window for window in windows if window.id in specs]  # others are empty
        jobs = [
            partial(self._tally_window, key, window, specs[window.id], deadline) for window in begun
        ]
        began = self._effects.now()
        answers = self._effects.together(jobs, WINDOWS_AT_ONCE)
        gathering = None
        if begun:
            stripes = sum(self._width(spec, key) for spec in specs.values())
            gathering = Gathering(stripes, self._effects.now() - began)
        counted = [answer for answer in answers if isinstance(answer, WindowCount)]
        named = zip((window.id for window in begun), answers, strict=True)
        return counted, {id_: why for id_, why in named if isinstance(why, str)}, gathering

    def _width(self, spec: Spec, key: str) -> int:
        """How many partitions hold what a key's live count is summed from."""
        tallied = self._store.metering_of(spec.table).tallied
        return spec.stripes_of(key) if tallied else spec.shards_of(key)

    def _tally_window(
        self, key: str, window: Window, spec: Spec, deadline: int
    ) -> WindowCount | str:
        """A key's count in a live window, or why it could not be read."""
        if self._effects.now() >= deadline:
            return "no time left"
        try:
            tally = self._store.tallies(spec, [key])[key]
        except Missing as missing:
            gone = f"it is not sealed, and its table is gone: {missing}"
            try:
                return self._total_of(key, window) or gone
            except StoreError as error:
                return str(error)
        except StoreError as error:
            return str(error)
        return WindowCount(
            window.id, tally.n, tally.amount, window.status, tally.reading, tally.retracted
        )

    def _total_of(self, key: str, window: Window) -> WindowCount | None:
        """The total of a window that was sealed after its state was read; None: it was not."""
        state = self._catalog.window(window.id)
        if state is None or not state.status.sealed:
            return None
        totals = self._totals.of_key(key, window.id, window_id(window.end))
        counts = [window_count(total, state.status) for total in totals]
        return counts[0] if counts else WindowCount(window.id, 0, 0, state.status)
