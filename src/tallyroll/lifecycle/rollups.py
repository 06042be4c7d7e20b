"""Rolling up: the totals of a day's or a month's windows are summed once more, so that a count over
all time stays a small read.

The sums are derived, and count only while the catalog says that they are those of all windows of
the period. An epoch names one set of windows, and only sealed ones are summed: whichever runs put
the sums of an epoch, they put the same ones, and those of an earlier epoch never take their place.
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
PARTS_MAX = 1_500  # windows and days read side by side: a day of windows of a minute
ROWS_HELD = 20_000  # pages of all parts together
KEYS_PER_SLICE = 1_000  # what a run that is cut off has done in vain, at the most

_log = logging.getLogger(__name__)
_by_key = attrgetter("key")


@dataclass(frozen=True, slots=True)
class _Part:
    """A listing that is summed: a window's, or a day's of an epoch."""

    name: str
    epoch: int = 0


class RollUps:
    """Rolls up periods whose windows are all sealed, for the roller."""

    def __init__(self, catalog: Catalog, totals: Totals, effects: Effects) -> None:
        self._catalog = catalog
        self._totals = totals
        self._effects = effects

    def run(self, alive: Sequence[Window], deadline: int, rolled: Rolled) -> None:
        """Roll up what is due, days first, until `deadline` (ms); `alive` are the windows that are
        not dropped, as the run knows them. What is not done by then goes on in the next run.

        What goes wrong with a period is told in `rolled`, and the others have their turn. Raises
        StoreError if it cannot be read what is due.
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
            except Exception as error:  # noqa: BLE001  (one must not keep the others from theirs)
                waiting.append(period)
                _log.exception("%s: unexpected", period.name)
                rolled.problems.append(f"{period.name} (not rolled up): unexpected: {error!r}")

    def _settle(self, period: Period, deadline: int, rolled: Rolled) -> bool:
        """Roll up a period, or find that there is nothing to gain; whether that came to its end."""
        # The state before the windows: one that is created since then belongs to another epoch,
        # and nothing of this one can be written to the state any more.
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
        """What a period is summed from: its windows; of a month, the days that are rolled up and
        the windows of the others.
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
            # Every key of an earlier epoch is in a later one, too: what is older is not put yet.
            if any(row.epoch < part.epoch for row in page):
                raise ProofMismatch([f"{part.name} is rolled up, and rows of its listing are not"])
            yield page


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a roll-up has come: the keys of this bucket up to `key` are put."""

    bucket: int = 1
    key: str = ""

    @classmethod
    def parse(cls, text: str | None) -> _Place:
        return cls(*json.loads(text)) if text else cls()

    def text(self) -> str:
        return json.dumps([self.bucket, self.key], ensure_ascii=False)


def _holds(period: Period, waiting: Sequence[Period]) -> bool:
    """Whether a month holds a day that is still to be rolled up, and is then summed from it."""
    return not period.is_day and any(day.is_day and day.start in period for day in waiting)


def _sum(key: str, rows: Iterator[Listed]) -> Sum:
    n = amount = 0
    for row in rows:
        n, amount = n + row.n, amount + row.amount
    return Sum(key, n, amount)
