"""The rows of the table of totals: final sums of windows, days and months."""

from __future__ import annotations

from dataclasses import dataclass

from tallyroll.model.amounts import Summed
from tallyroll.model.periods import PeriodName
from tallyroll.model.windows import WindowId


@dataclass(frozen=True, slots=True)
class Total:
    """The final sum of one key in one window."""

    key: str
    window: WindowId
    n: int
    amount: int


@dataclass(frozen=True, slots=True)
class PeriodTotal:
    """The sum of one key in a day or month, over `windows` windows whose ids have this `digest`.

    It counts only while this `epoch` is the period's current one, and is rolled up.
    """

    key: str
    period: PeriodName
    n: int
    amount: int
    epoch: int
    windows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Listed(Summed):
    """A key's total in the listing of a window or day: `n` events, and their `value` (`amount` in
    millionths). `epoch` is 0 for a window.
    """

    key: str
    n: int
    amount: int
    epoch: int = 0
