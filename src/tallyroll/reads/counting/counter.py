"""Counts keys over a range, from the sums of rolled-up days and months, the totals of other sealed
windows, and the tallies of live windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from tallyroll.errors import Missing, StoreError
from tallyroll.limits import SKEW_MS_MAX
from tallyroll.model.periods import KINDS, PeriodName
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.tallies import Tally
from tallyroll.model.totals import PeriodTotal, Total
from tallyroll.model.windows import WindowId, window_id
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedSpecs
from tallyroll.ports.counting.glances import Glance, Glances, Seen
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.reads.counting.kept import Kept, KeptRange, Sealed, months_of
from tallyroll.reads.counting.plans import Planner, Range, ReadPlan
from tallyroll.reads.counts import (
    Count,
    Gathering,
    PeriodCount,
    WindowCount,
    period_count,
    window_count,
)
from tallyroll.reads.coverage import every

READS_AT_ONCE = 16
PLAN_MS = 3_600_000  # for how long a plan of an open range may be kept
AFTER_ALL_WINDOWS: WindowId = "99999999T999999Z"


Read = Sealed | dict[str, WindowCount] | str
"""A key's totals; or the counts of the keys in a live window, or why it could not be read."""


class Counter:
    """Counts keys.

    Three rounds of requests follow each other: the live pointer; states of windows and periods;
    totals, sums and tallies. So totals are read after states. A window that is sealed after its
    state was read still has its tallies, and one that was sealed before has its totals: no window
    is left out and none is counted twice.

    The same holds for periods. A period's sums are written before its state says that they are
    complete, and only sums of a later epoch replace them. So sums read after the state are those of
    all the period's windows, at the time of the state or later. A window of the period is not read
    on its own, even if it was created in between.

    Corrections are read with the totals. Those of a period include the windows that were created
    after its state was read, of which the sums may know nothing. A window can be corrected once it
    is sealed, which takes `settle_ms` at least. So after that time the states are read again, and
    if one has changed, every window is read singly.

    A process that has counted in a range before asks once: whether the pointer, the revisions and
    the states are still what they were, and for the tallies of live windows. Windows that had not
    begun may have begun: their specs are asked for, too. If anything has changed, or cannot be
    read, it counts as if it knew nothing. `tests/model/counting.py` is a model of it.
    """

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        totals: Totals,
        effects: Effects,
        specs: CachedSpecs,
        glances: Glances,
        settle_ms: int,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._totals = totals
        self._effects = effects
        self._settle_ms = settle_ms
        self._glances = glances
        self._kept = Kept(settle_ms)
        self._planner = Planner(catalog, totals, specs, effects, glances)

    def counts(
        self,
        keys: Sequence[str],
        of: Range,
        now: int,
        deadline: int,
        *,
        afresh: bool = False,
        eventual: bool = False,
    ) -> list[Count]:
        """The counts of distinct keys over a range, as of `now` (ms), in their order; `afresh`
        without what is kept; if `eventual`, what has to be read may be a moment old, where all else
        of the keys is known: nothing of such a read is kept. Begins no read of a window after
        `deadline` (ms). Raises UsageError for a range off the bounds.
        """
        kept = None if afresh or now >= deadline else self._kept.of(of)
        eventual &= self._glances.has_eventual
        eventual = eventual and kept is not None and all(key in kept.sealed for key in keys)
        counts = self._warm(keys, kept, now, eventual=eventual) if kept else None
        return counts or self._cold(keys, of, now, deadline)

    def _cold(self, keys: Sequence[str], of: Range, now: int, deadline: int) -> list[Count]:
        """The counts, by three rounds of requests."""
        began = self._effects.now()
        end = now + SKEW_MS_MAX + PLAN_MS
        plan = self._planner.plan(of, end)
        sealed, tallied, took_ms = self._read(keys, plan, deadline)
        if any(one.corrected for one in sealed.values()) and (
            self._effects.now() - began >= self._settle_ms
            and list(plan.rolled) != self._planner.rolled(replace(of, fits=of.fits or every), end)
        ):
            return self._cold(keys, of.single(), now, deadline)
        self._kept.keep(plan, sealed, now)
        return [self._count(key, plan, sealed[key], tallied, took_ms, now) for key in keys]

    def _warm(
        self, keys: Sequence[str], kept: KeptRange, now: int, *, eventual: bool
    ) -> list[Count] | None:
        """The counts, by one round of requests, and another one if sums of a key are not kept;
        None if anything has changed. An `eventual` round cannot tell that what is kept is old: it
        may be older itself.
        """
        plan, began = kept.plan, self._effects.now()
        known = {key: kept.sealed[key] for key in keys if key in kept.sealed}
        new = [key for key in keys if key not in known]
        specs = list(plan.specs.values())
        months = sorted({month for one in known.values() for month in one.revisions})
        glance = Glance(keys, months, list(plan.live), plan.unbegun, specs, eventual)
        try:
            seen, revisions = self._look(glance, ask_all=bool(new))
        except StoreError:
            if not eventual:
                self._kept.forget(plan.range)  # else the next count would fail as this one did
            return None
        if not self._holds(plan, known, seen, now):
            if not eventual:
                self._kept.forget(plan.range)
            return None
        took_ms = self._effects.now() - began
        if new:
            jobs = [partial(self._sealed, key, plan, revisions) for key in new]
            found = dict(zip(new, self._effects.together(jobs, READS_AT_ONCE), strict=True))
            late = self._effects.now() - began >= self._settle_ms
            if late and any(one.corrected for one in found.values()):
                return None
            self._kept.keep(plan, found, now)
            known |= found
        plan = replace(plan, live=seen.windows)
        tallied: dict[WindowId, Read] = {
            window: {
                key: tally_count(tally, seen.windows[window]) for key, tally in tallies.items()
            }
            for window, tallies in seen.tallies.items()
        }
        counts = [self._count(key, plan, known[key], tallied, took_ms, now) for key in keys]
        return [replace(count, source="eventual" if eventual else "confirmed") for count in counts]

    def _look(self, glance: Glance, *, ask_all: bool) -> tuple[Seen, Mapping[PeriodName, int]]:
        """What a glance shows, and all revisions, if they are asked for."""
        jobs: list[Callable[[], Seen | Mapping[PeriodName, int]]] = [
            partial(self._glances.look, glance)
        ]
        if ask_all:
            jobs.append(self._totals.revisions)
        seen, *revisions = self._effects.together(jobs, READS_AT_ONCE)
        assert isinstance(seen, Seen)
        [all_of_them] = [one for one in revisions if not isinstance(one, Seen)] or [{}]
        return seen, all_of_them

    @staticmethod
    def _holds(plan: ReadPlan, known: Mapping[str, Sealed], seen: Seen, now: int) -> bool:
        """Whether a plan, and what is known of keys, are still what they were."""
        if seen.calendar:
            seen.calendar.grid.check_range(plan.range.since, plan.range.until)
        return (
            plan.covers(now)
            and seen.pointer == plan.pointer
            and not seen.specs
            and seen.windows.keys() == plan.live.keys()
            and not any(window.status.sealed for window in seen.windows.values())
            and all(
                seen.revisions[month] == revision
                for one in known.values()
                for month, revision in one.revisions.items()
            )
        )

    def _read(
        self, keys: Sequence[str], plan: ReadPlan, deadline: int
    ) -> tuple[dict[str, Sealed], dict[WindowId, Read], int]:
        """What is sealed of each key, the keys' counts in each live window that has begun or why
        it could not be read, and how long that took (ms).
        """
        windows = [plan.live[window] for window in plan.live if window in plan.specs]
        jobs = [partial(self._sealed, key, plan, plan.revisions) for key in keys]
        tallying = [
            partial(self._tally_window, keys, window, plan.specs[window.id], deadline)
            for window in windows
        ]
        began = self._effects.now()
        found: list[Read] = self._effects.together([*jobs, *tallying], READS_AT_ONCE)
        took_ms = self._effects.now() - began
        sealed = {
            key: one for key, one in zip(keys, found, strict=False) if isinstance(one, Sealed)
        }
        tallied = zip((window.id for window in windows), found[len(keys) :], strict=True)
        return sealed, dict(tallied), took_ms

    def _count(
        self,
        key: str,
        plan: ReadPlan,
        sealed: Sealed,
        tallied: Mapping[WindowId, Read],
        took_ms: int,
        now: int,
    ) -> Count:
        kept = [window_count(total) for total in sealed.totals if total.window not in plan.live]
        live = [found[key] for found in tallied.values() if isinstance(found, dict)]
        windows = sorted([*kept, *live], key=lambda count: count.window)
        named = [period_count(state, sealed.sums.get(state.name)) for state in plan.rolled]
        parts: list[WindowCount | PeriodCount] = [*windows, *named]
        stripes = sum(self._width(spec, key) for spec in plan.specs.values())
        return Count(
            key=key,
            events=sum(part.events for part in parts),
            amount=sum(part.amount for part in parts),
            windows=tuple(windows),
            as_of=now,
            why_missing={name: why for name, why in tallied.items() if isinstance(why, str)},
            periods=tuple(named),
            gathering=Gathering(stripes, took_ms) if plan.specs else None,
        )

    def _sealed(self, key: str, plan: ReadPlan, revisions: Mapping[PeriodName, int]) -> Sealed:
        """What is sealed of a key; the revisions were read before."""
        of_windows = [
            partial(
                self._totals.of_key,
                key,
                window_id(since),
                AFTER_ALL_WINDOWS if until is None else window_id(until),
            )
            for since, until in plan.gaps
        ]
        rolled = {state.name for state in plan.rolled}
        named = [[name for name in rolled if name.startswith(kind)] for kind in KINDS]
        if plan.range.until is None:  # few rows lie behind the last day, or before the first month
            named = [list(rolled)]
        of_periods = [
            partial(self._totals.periods_of_key, key, min(names), max(names))
            for names in named
            if names
        ]
        found: list[list[Total] | list[PeriodTotal]] = self._effects.together(
            [*of_windows, *of_periods], READS_AT_ONCE
        )
        rows = list(chain.from_iterable(found))
        totals = tuple(row for row in rows if isinstance(row, Total))
        sums = {
            row.period: row for row in rows if isinstance(row, PeriodTotal) and row.period in rolled
        }
        months = months_of(totals, sums)
        return Sealed(totals, sums, {month: revisions.get(month, 0) for month in months})

    def _width(self, spec: Spec, key: str) -> int:
        """How many partitions hold what a key's live count is summed from."""
        tallied = self._store.metering_of(spec.table).tallied
        return spec.stripes_of(key) if tallied else spec.shards_of(key)

    def _tally_window(self, keys: Sequence[str], window: Window, spec: Spec, deadline: int) -> Read:
        """The keys' counts in a live window, or why they could not be read."""
        if self._effects.now() >= deadline:
            return "no time left"
        try:
            tallies = self._store.tallies(spec, keys)
        except Missing as missing:
            gone = f"it is not sealed, and its table is gone: {missing}"
            try:
                return self._totals_of(keys, window) or gone
            except StoreError as error:
                return str(error)
        except StoreError as error:
            return str(error)
        return {key: tally_count(tallies[key], window) for key in keys}

    def _totals_of(self, keys: Sequence[str], window: Window) -> Read | None:
        """The totals of a window that was sealed after its state was read; None: it was not."""
        state = self._catalog.window(window.id)
        if state is None or not state.status.sealed:
            return None
        counts = {key: WindowCount(window.id, 0, 0, state.status) for key in keys}
        for key in keys:
            for total in self._totals.of_key(key, window.id, window_id(window.end)):
                counts[key] = window_count(total, state.status)
        return counts


def tally_count(tally: Tally, window: Window) -> WindowCount:
    """A key's count in a live window, from its tally."""
    return WindowCount(
        window.id, tally.n, tally.amount, window.status, tally.reading, tally.retracted
    )
