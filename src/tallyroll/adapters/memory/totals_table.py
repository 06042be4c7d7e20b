"""The totals port in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tallyroll.errors import ProofMismatch, StateConflict
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import PeriodName, month_of, period_of, periods_at
from tallyroll.model.sharding import calculated
from tallyroll.model.totals import (
    NO_CORRECTIONS,
    Correction,
    Corrections,
    Listed,
    PeriodTotal,
    Total,
)
from tallyroll.model.windows import WindowId, window_start
from tallyroll.ports.store import Answer, Element


class MemoryTotals:
    """Totals by key and window or period, their listings, and corrections."""

    def __init__(self) -> None:
        self._corrections: dict[tuple[str, WindowId, str, int | None], Correction] = {}
        self._corrected: dict[tuple[str, WindowId | PeriodName], Corrections] = {}
        self._noted: set[tuple[str, WindowId]] = set()  # what was retracted before is put
        self._revisions = Counter[PeriodName]()
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
        yield from _pages(self._listings.get((name, bucket), {}), after, limit)

    def of_key(self, key: str, since: WindowId, until: WindowId) -> list[Total]:
        found = [
            replace(total, corrections=self._corrected.get((key, total.window), NO_CORRECTIONS))
            for total in self._totals.values()
            if total.key == key and since <= total.window < until
        ]
        return sorted(found, key=lambda total: total.window)

    def of_window(
        self, window: WindowId, keys: Sequence[str], *, corrected: bool = False
    ) -> dict[str, Total]:
        found = {key: total for key in keys if (total := self._totals.get((key, window)))}
        sums = self._corrected if corrected else {}
        return {
            key: replace(total, corrections=sums.get((key, window), NO_CORRECTIONS))
            for key, total in found.items()
        }

    def periods_of_key(self, key: str, first: PeriodName, last: PeriodName) -> list[PeriodTotal]:
        found = [
            replace(total, corrections=self._corrected.get((key, total.period), NO_CORRECTIONS))
            for total in self._rolled.values()
            if total.key == key and first <= total.period <= last
        ]
        return sorted(found, key=lambda total: total.period)

    def correct(self, corrections: Sequence[Correction]) -> list[Element]:
        answers = []
        for each in corrections:
            name = each.keys[0], each.window, each.id, each.index
            if before := self._corrections.get(name):
                answers.append(Element(Answer.DUPLICATE, before.digest))
                continue
            self._corrections[name] = each
            for key in each.keys:
                self._add(key, each.window, Corrections(each.n, each.amount))
            self._revisions[month_of(window_start(each.window)).name] += 1
            answers.append(Element(Answer.FINE))
        return answers

    def put_retracted(self, window: WindowId, retracted: Mapping[str, tuple[int, int]]) -> None:
        findings = []
        for key, before in retracted.items():
            if (key, window) in self._noted:
                if (noted := self._corrected[key, window].before) != before:
                    findings.append(f"key {key!r} window {window}: {noted} are noted, not {before}")
                continue
            self._noted.add((key, window))
            self._add(key, window, Corrections(before=before))
            self._revisions[month_of(window_start(window)).name] += 1
        if findings:
            raise ProofMismatch(findings)

    def sums(self, key: str, window: WindowId) -> tuple[Corrections, ...]:
        days = (period.name for period in periods_at(window_start(window)))
        found = [self._corrected.get((key, name), NO_CORRECTIONS) for name in (window, *days)]
        return (*found, found[0])

    def put_sums(
        self, key: str, window: WindowId, sums: Sequence[Corrections], revision: int
    ) -> None:
        month = month_of(window_start(window)).name
        if self._revisions[month] != revision:
            raise StateConflict(f"{key!r} in {window}: sums of corrections changed meanwhile")
        days = (period.name for period in periods_at(window_start(window)))
        self._corrected |= {(key, n): each for n, each in zip((window, *days), sums, strict=False)}
        self._revisions[month] += 1

    def _add(self, key: str, window: WindowId, more: Corrections) -> None:
        """Add to a key's sums of corrections."""
        for name in (window, *(period.name for period in periods_at(window_start(window)))):
            had = self._corrected.get((key, name), NO_CORRECTIONS)
            before = had.before[0] + more.before[0], had.before[1] + more.before[1]
            self._corrected[key, name] = Corrections(
                had.n + more.n, had.amount + more.amount, before
            )

    def corrections(self, key: str, window: WindowId) -> list[Correction]:
        names = self._corrections.items()
        return [each for name, each in names if name[:2] == (key, window)]

    def corrected(
        self, window: WindowId, bucket: int, after: str, limit: int
    ) -> Iterator[list[Listed]]:
        rows = {
            key: Listed(key, 0, 0, corrections=made)
            for (key, name), made in self._corrected.items()
            if name == window and calculated(key, LISTING_BUCKETS) == bucket
        }
        yield from _pages(rows, after, limit)

    def revision(self, month: PeriodName) -> int:
        return self._revisions[month]

    def revisions(self) -> Mapping[PeriodName, int]:
        return {month: revision for month, revision in self._revisions.items() if revision}

    def listed(self) -> list[Total]:
        """All totals of windows, in the order in which they were put."""
        return list(self._totals.values())

    def rolled(self) -> list[PeriodTotal]:
        """All totals of days and months, in the order in which they were first put."""
        return list(self._rolled.values())


def _pages(rows: Mapping[str, Listed], after: str, limit: int) -> Iterator[list[Listed]]:
    while True:
        keys = sorted(key for key in rows if key > after)[:limit]
        yield [rows[key] for key in keys]
        if len(keys) < limit:
            return
        after = keys[-1]
