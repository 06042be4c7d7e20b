"""Roll-ups sum the totals of a day's or a month's windows, so that a count over a long time is a
small read.

A period's sums count only while the catalog says that they include all its windows. An epoch
identifies one set of windows, and only sealed windows are summed. So all runs put the same sums for
an epoch, and sums of an earlier epoch never replace those of a later one.

Totals never change. The corrections of a period have sums of their own: each correction adds to
those of its window, day and month at once, so they hold for every epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from tallyroll.errors import ProofMismatch, StateConflict
from tallyroll.lifecycle.runner import Rolled, turn
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import DAY_MS, Period, PeriodState, day_of, period_of, windows_digest
from tallyroll.model.states import Window
from tallyroll.model.tallies import Sum
from tallyroll.model.totals import Listed, PeriodTotal
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.paging import merged
from tallyroll.ports.totals import Totals

PARTS_MIN = 2  # the sum of one window is its total
PARTS_MAX = 1_500  # listings read concurrently: enough for a day of windows of a minute
ROWS_HELD = 20_000  # in the pages of all parts together
KEYS_PER_SLICE = 1_000  # the most that a run repeats after another one was cut off
BEGINNING = '[1, ""]'  # as a state's progress: the first bucket, before all keys
_by_key = attrgetter("key")

_Parts = dict[str, int]
"""The listings that are summed, of windows or days, each with its epoch (0 for a window)."""


@dataclass(eq=False)
class RollUps:
    """Rolls up periods whose windows are all sealed, for the roller."""

    catalog: Catalog
    totals: Totals
    effects: Effects

    def run(self, alive: Sequence[Window], deadline: int, rolled: Rolled) -> None:
        """Roll up the due periods, days first, until `deadline` (ms); the next run continues.
        `alive` are the windows that are not dropped.

        Problems with a period are reported in `rolled`, and the next period has its turn. Raises
        StoreError if the due periods cannot be read.
        """
        unsealed = [window.start for window in alive if not window.status.sealed]
        pending = [period_of(name) for name in self.catalog.unrolled()]
        waiting: list[Period] = []
        for period in sorted(pending, key=lambda each: (not each.is_day, each)):
            waits = (
                period.end > self.effects.now()
                or any(start in period for start in unsealed)
                # A month is summed from its days, so it waits for them.
                or (not period.is_day and any(each.start in period for each in waiting))
            )
            if not waits and self.effects.now() >= deadline:
                return
            if waits or not self._take_turn(period, deadline, rolled):
                waiting.append(period)

    def _take_turn(self, period: Period, deadline: int, rolled: Rolled) -> bool:
        with turn(lambda: f"{period.name} (not rolled up)", rolled):
            if self._settle(period, deadline, rolled):
                return True
        return False

    def _settle(self, period: Period, deadline: int, rolled: Rolled) -> bool:
        """Roll up a period, unless that is not worthwhile; return whether it is settled."""
        # Read the state before the windows: if a window is created in between, the epoch changes,
        # and the state that was read can no longer be advanced.
        [state] = self.catalog.periods(period.name, period.name)
        windows = self.catalog.windows(period.start, period.end)
        if not all(window.status.sealed for window in windows):
            return False
        parts = self._parts(period, windows)
        listed = all(window.listed == LISTING_BUCKETS for window in windows)
        if not listed or not PARTS_MIN <= len(parts) <= PARTS_MAX:
            self.catalog.advance_period(replace(state, progress=None), settled=True)
            return True
        named = windows_digest(window.id for window in windows)
        if state.progress is None or state.digest != named:
            begun = replace(state, windows=len(windows), digest=named, progress=BEGINNING)
            state = self.catalog.advance_period(begun)
        for progress, sums in self._sums(state.progress or BEGINNING, parts):
            rows = [
                PeriodTotal(key, state.name, n, amount, state.epoch, state.windows, state.digest)
                for key, n, amount, _ in sums
            ]
            self.totals.roll(rows)
            state = self.catalog.advance_period(replace(state, progress=progress))
            if self.effects.now() >= deadline:
                return False
        done = replace(state, rolled=state.epoch, progress=None)
        self.catalog.advance_period(done, settled=True)
        rolled.steps["roll-up"] += 1
        return True

    def _parts(self, period: Period, windows: Sequence[Window]) -> _Parts:
        """The parts of a period: its windows; in a month, rolled-up days instead of theirs."""
        days: dict[str, PeriodState] = {}
        if not period.is_day:
            first, last = day_of(period.start).name, day_of(period.end - DAY_MS).name
            days = {day.name: day for day in self.catalog.periods(first, last) if day.complete}
        parts: _Parts = {}
        for window in windows:
            day = days.get(day_of(window.start).name)
            parts |= {day.name: day.epoch} if day else {window.id: 0}
        return parts

    def _sums(self, progress: str, parts: _Parts) -> Iterator[tuple[str, list[Sum]]]:
        """Slices of the sums of the keys that are left, each with the progress after it."""
        page = max(1, ROWS_HELD // len(parts))
        begun, after = json.loads(progress)
        for bucket in range(begun, LISTING_BUCKETS + 1):
            listings = [
                self._listing(name, epoch, bucket, after, page) for name, epoch in parts.items()
            ]
            for batch in merged(listings, _by_key, page, self.effects):
                sums = [_sum(key, rows) for key, rows in groupby(batch, _by_key)]
                for first in range(0, len(sums), KEYS_PER_SLICE):
                    some = sums[first : first + KEYS_PER_SLICE]
                    yield json.dumps([bucket, some[-1].key], ensure_ascii=False), some
            after = ""

    def _listing(
        self, name: str, epoch: int, bucket: int, after: str, limit: int
    ) -> Iterator[list[Listed]]:
        for page in self.totals.listing(name, bucket, after, limit):
            if any(row.epoch > epoch for row in page):
                raise StateConflict(f"{name} is being rolled up again")
            # A later epoch has every key of an earlier one, so an older row was not replaced.
            if any(row.epoch < epoch for row in page):
                raise ProofMismatch([f"{name} is rolled up, and rows of its listing are not"])
            yield page


def _sum(key: str, rows: Iterator[Listed]) -> Sum:
    n = amount = 0
    for row in rows:
        n, amount = n + row.n, amount + row.amount
    return Sum(key, n, amount)
