"""Sealed sums: what stands in the table of totals, and what the core asks of it."""

from __future__ import annotations

from dataclasses import dataclass

from tallyroll.model.periods import PeriodName
from tallyroll.model.windows import WindowId


@dataclass(frozen=True, slots=True)
class Total:
    """The sealed sum of one key in one window."""

    key: str
    window: WindowId
    n: int
    amount: int


@dataclass(frozen=True, slots=True)
class PeriodTotal:
    """The sum of one key in a day or month, over so many `windows` whose ids have this `digest`; it
    counts only while the period's state says that the sums of this `epoch` stand.
    """

    key: str
    period: PeriodName
    n: int
    amount: int
    epoch: int
    windows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A key's total as a listing has it; `epoch` is 0 in that of a window."""

    key: str
    n: int
    amount: int
    epoch: int = 0
