"""What a process keeps of counts: the plans of ranges, and the sealed sums of keys.

Sums are kept as of the revisions of their months, which were read before them. Revisions count
corrections. A correction's transaction may be seen in part until it is answered: the revision
already, and not yet the sums. So sums are kept only once their months' revisions have been known
for `settle_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import RLock

from tallyroll.model.periods import PeriodName, month_of, period_of
from tallyroll.model.totals import NO_CORRECTIONS, PeriodTotal, Total
from tallyroll.model.windows import window_start
from tallyroll.reads.counting.plans import Range, ReadPlan

RANGES_MAX = 100
ROWS_MAX = 50_000  # some 300 bytes each


@dataclass(frozen=True, slots=True)
class Sealed:
    """A key's totals of windows, and its sums of periods, both with their corrections; and the
    revisions of their months, from before they were read.
    """

    totals: tuple[Total, ...]
    sums: Mapping[PeriodName, PeriodTotal]
    revisions: Mapping[PeriodName, int]

    @property
    def corrected(self) -> bool:
        """Whether a period's sum has corrections."""
        return any(total.corrections != NO_CORRECTIONS for total in self.sums.values())

    @property
    def rows(self) -> int:
        """How many rows it keeps."""
        return 1 + len(self.totals) + len(self.sums)


def months_of(totals: tuple[Total, ...], sums: Mapping[PeriodName, PeriodTotal]) -> set[PeriodName]:
    """The months in which a key has events that are summed up. In others nothing of it can be
    corrected.
    """
    starts = {window_start(total.window) for total in totals}
    starts |= {period_of(name).start for name in sums}
    return {month_of(start).name for start in starts}


@dataclass(slots=True)
class KeptRange:
    """A plan, and what is sealed of keys."""

    plan: ReadPlan
    sealed: dict[str, Sealed] = field(default_factory=dict)


class Kept:
    """Plans of at most 100 ranges, those that were asked for last, and at most 50,000 rows."""

    def __init__(self, settle_ms: int) -> None:
        self._settle_ms = settle_ms
        self._ranges: dict[Range, KeptRange] = {}
        self._rows = 0
        self._lock = RLock()
        self._known: dict[PeriodName, tuple[int, int]] = {}

    def of(self, asked: Range) -> KeptRange | None:
        """What is kept of a range."""
        with self._lock:
            found = self._ranges.pop(asked, None)
            if found:
                self._ranges[asked] = found
            return found

    def forget(self, asked: Range) -> None:
        """Keep nothing of a range."""
        with self._lock:
            if found := self._ranges.pop(asked, None):
                self._rows -= sum(sealed.rows for sealed in found.sealed.values())

    def keep(self, plan: ReadPlan, sealed: Mapping[str, Sealed], now: int) -> None:
        """Keep a plan, and what is sealed of keys by it. What is kept of its range by a plan that
        says something else is forgotten.

        Not if the creation of a window may be seen in part: the pointer already, and not yet the
        window's state, or that its day is not summed up any more.
        """
        pointer = plan.pointer
        with self._lock:
            kept = self._ranges.get(plan.range)
            if pointer is None or plan.lacks(pointer.created):
                self.forget(plan.range)
                return
            if kept is None or not kept.plan.agrees(plan):
                self.forget(plan.range)
                kept = self._ranges[plan.range] = KeptRange(plan)
            kept.plan = plan
            for key, one in sealed.items():
                if before := kept.sealed.pop(key, None):
                    self._rows -= before.rows
                if self._settled(one.revisions, now):
                    kept.sealed[key] = one
                    self._rows += one.rows
            while self._rows > ROWS_MAX or len(self._ranges) > RANGES_MAX:
                self.forget(next(iter(self._ranges)))

    def _settled(self, revisions: Mapping[PeriodName, int], now: int) -> bool:
        settled = True
        for month, revision in revisions.items():
            if not revision:
                continue
            known, since = self._known.get(month, (-1, now))
            if known != revision:
                self._known[month] = revision, now
                since = now
            settled &= now - since >= self._settle_ms
        return settled
