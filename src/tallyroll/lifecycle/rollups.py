"""Roll-ups sum the totals of a day's or a month's windows, so that a count over a long time is a
small read.

A period's sums count only while the catalog says that they include all its windows. An epoch
identifies one set of windows, and only sealed windows are summed. So all runs put the same sums for
an epoch, and sums of an earlier epoch never replace those of a later one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from tallyroll.errors import ProofMismatch, StateConflict, StoreError
from tallyroll.lifecycle.runner import Rolled
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

_log = logging.getLogger(__name__)
_by_key = attrgetter("key")


@dataclass(frozen=True, slots=True)
class _Part:
    """A listing that is summed: that of a window, or of a day and its epoch."""

    name: str
    epoch: int = 0


class RollUps:
    """Rolls up periods whose windows are all sealed, for the roller."""

    def __init__(self, catalog: Catalog, totals: Totals, effects: Effects) -> None:
        self._catalog = catalog
        self._totals = totals
        self._effects = effects

    def run(self, alive: Sequence[Window], deadline: int, rolled: Rolled) -> None:
        """Roll up the due periods, days first, until `deadline` (ms); the next run continues.
        `alive` are the windows that are not dropped.

        Problems with a period are reported in `rolled`, and the next period has its turn. Raises
        StoreError if the due periods cannot be read.
        """
        unsealed = [window.start for window in alive if not window.status.sealed]
        pending = [period_of(name) for name in self._catalog.unrolled()]
        waiting: list[Period] = []
        for period in sorted(pending, key=lambda each: (not each.is_day, each)):
            over = period.end <= self._effects.now()
            if not over or any(start in period for start in unsealed) or _holds(period, waiting):
                waiting.append(period)
                continue
            if self._effects.now() >= deadline:
                return
            try:
                if not self._settle(period, deadline, rolled):
                    waiting.append(period)
            except StateConflict as conflict:
                waiting.append(period)
                _log.info("%s: another run was faster, or a window was made: %s", period, conflict)
            except (StoreError, ProofMismatch) as error:
                waiting.append(period)
                rolled.mismatches += isinstance(error, ProofMismatch)
                rolled.problems.append(f"{period.name} (not rolled up): {error}")
            except Exception as error:  # noqa: BLE001  (one period must not block the others)
                waiting.append(period)
                _log.exception("%s: unexpected", period.name)
                rolled.problems.append(f"{period.name} (not rolled up): unexpected: {error!r}")

    def _settle(self, period: Period, deadline: int, rolled: Rolled) -> bool:
        """Roll up a period, unless that is not worthwhile; return whether it is settled."""
        # Read the state before the windows: if a window is created in between, the epoch changes,
        # and the state that was read can no longer be advanced.
        [state] = self._catalog.periods(period.name, period.name)
        windows = self._catalog.windows(period.start, period.end)
        if not all(window.status.sealed for window in windows):
            return False
        parts = self._parts(period, windows)
        listed = all(window.listed == LISTING_BUCKETS for window in windows)
        if not listed or not PARTS_MIN <= len(parts) <= PARTS_MAX:
            self._catalog.advance_period(replace(state, progress=None), settled=True)
            return True
        named = windows_digest(window.id for window in windows)
        if state.progress is None or state.digest != named:
            begun = replace(state, windows=len(windows), digest=named, progress=_Place().text())
            state = self._catalog.advance_period(begun)
        for place, sums in self._sums(_Place.parse(state.progress), parts):
            rows = [
                PeriodTotal(key, state.name, n, amount, state.epoch, state.windows, state.digest)
                for key, n, amount in sums
            ]
            self._totals.roll(rows)
            state = self._catalog.advance_period(replace(state, progress=place.text()))
            if self._effects.now() >= deadline:
                return False
        done = replace(state, rolled=state.epoch, progress=None)
        self._catalog.advance_period(done, settled=True)
        rolled.steps["roll-up"] += 1
        return True

    def _parts(self, period: Period, windows: Sequence[Window]) -> list[_Part]:
        """The listings that make up a period: those of its windows. In a month, those of rolled-up
        days replace those of their windows.
        """
        days: dict[str, PeriodState] = {}
        if not period.is_day:
            first, last = day_of(period.start).name, day_of(period.end - DAY_MS).name
            days = {day.name: day for day in self._catalog.periods(first, last) if day.stands}
        parts: dict[str, _Part] = {}
        for window in windows:
            day = days.get(day_of(window.start).name)
            part = _Part(day.name, day.epoch) if day else _Part(window.id)
            parts[part.name] = part
        return list(parts.values())

    def _sums(self, place: _Place, parts: Sequence[_Part]) -> Iterator[tuple[_Place, list[Sum]]]:
        """The sums of the keys after `place`, a slice at a time, each with the place after it."""
        page = max(1, ROWS_HELD // len(parts))
        for bucket in range(place.bucket, LISTING_BUCKETS + 1):
            after = place.key if bucket == place.bucket else ""
            listings = [self._listing(part, bucket, after, page) for part in parts]
            for batch in merged(listings, _by_key, page, self._effects):
                sums = [_sum(key, rows) for key, rows in groupby(batch, _by_key)]
                for first in range(0, len(sums), KEYS_PER_SLICE):
                    some = sums[first : first + KEYS_PER_SLICE]
                    yield _Place(bucket, some[-1].key), some

    def _listing(self, part: _Part, bucket: int, after: str, limit: int) -> Iterator[list[Listed]]:
        for page in self._totals.listing(part.name, bucket, after, limit):
            if any(row.epoch > part.epoch for row in page):
                raise StateConflict(f"{part.name} is being rolled up again")
            # A later epoch has every key of an earlier one, so an older row was not replaced.
            if any(row.epoch < part.epoch for row in page):
                raise ProofMismatch([f"{part.name} is rolled up, and rows of its listing are not"])
            yield page


@dataclass(frozen=True, slots=True)
class _Place:
    """The progress of a roll-up: the sums of this bucket's keys up to `key` are put."""

    bucket: int = 1
    key: str = ""

    @classmethod
    def parse(cls, text: str | None) -> _Place:
        return cls(*json.loads(text)) if text else cls()

    def text(self) -> str:
        return json.dumps([self.bucket, self.key], ensure_ascii=False)


def _holds(period: Period, waiting: Sequence[Period]) -> bool:
    """Whether a period is a month with a waiting day. It is summed from that day later."""
    return not period.is_day and any(day.is_day and day.start in period for day in waiting)


def _sum(key: str, rows: Iterator[Listed]) -> Sum:
    n = amount = 0
    for row in rows:
        n, amount = n + row.n, amount + row.amount
    return Sum(key, n, amount)
