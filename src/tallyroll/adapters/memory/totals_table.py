"""The totals port in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tallyroll.errors import ProofMismatch, StateConflict
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import PeriodName, period_of
from tallyroll.model.sharding import calculated
from tallyroll.model.totals import Listed, PeriodTotal, Total
from tallyroll.model.windows import WindowId


class MemoryTotals:
    """Totals by key and window or period, and their listings."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, WindowId], Total] = {}
        self._rolled: dict[tuple[str, PeriodName], PeriodTotal] = {}
        self._listings: dict[tuple[str, int], dict[str, Listed]] = {}

    def put(self, totals: Sequence[Total]) -> None:
        findings = []
        for total in totals:
            stored = self._totals.setdefault((total.key, total.window), total)
            if stored != total:
                findings.append(f"total {total} differs from the stored {stored}")
                continue
            self._list(total.window, Listed(total.key, total.n, total.amount))
        if findings:
            raise ProofMismatch(findings)

    def roll(self, totals: Sequence[PeriodTotal]) -> None:
        for total in totals:
            stored = self._rolled.get((total.key, total.period))
            if stored and stored.epoch > total.epoch:
                raise StateConflict(f"{total} comes after {stored}")
            if stored and stored.epoch == total.epoch and stored != total:
                raise ProofMismatch([f"{total} differs from the stored {stored}"])
            self._rolled[total.key, total.period] = total
            if period_of(total.period).is_day:
                self._list(total.period, Listed(total.key, total.n, total.amount, total.epoch))

    def _list(self, name: str, listed: Listed) -> None:
        bucket = calculated(listed.key, LISTING_BUCKETS)
        self._listings.setdefault((name, bucket), {})[listed.key] = listed

    def listing(
        self, name: WindowId | PeriodName, bucket: int, after: str, limit: int
    ) -> Iterator[list[Listed]]:
        while True:
            rows = self._listings.get((name, bucket), {})
            keys = sorted(key for key in rows if key > after)[:limit]
            yield [rows[key] for key in keys]
            if len(keys) < limit:
                return
            after = keys[-1]

    def of_key(self, key: str, since: WindowId, until: WindowId) -> list[Total]:
        found = [
            total
            for total in self._totals.values()
            if total.key == key and since <= total.window < until
        ]
        return sorted(found, key=lambda total: total.window)

    def of_window(self, window: WindowId, keys: Sequence[str]) -> dict[str, Total]:
        found = ((key, self._totals.get((key, window))) for key in keys)
        return {key: total for key, total in found if total}

    def periods_of_key(self, key: str, first: PeriodName, last: PeriodName) -> list[PeriodTotal]:
        found = [
            total
            for total in self._rolled.values()
            if total.key == key and first <= total.period <= last
        ]
        return sorted(found, key=lambda total: total.period)

    def listed(self) -> list[Total]:
        """All totals of windows, in the order in which they were put."""
        return list(self._totals.values())

    def rolled(self) -> list[PeriodTotal]:
        """All totals of days and months, in the order in which they were first put."""
        return list(self._rolled.values())
