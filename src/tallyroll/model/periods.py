"""Periods, the UTC days and months over which totals of windows are rolled up: names and states.

A window belongs to the day and the month in which it starts, however long it is.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from tallyroll.model.windows import WindowId, window_id, window_start

DAY_MS = 86_400_000
KINDS = DAY, MONTH = "day#", "month#"
PeriodName = str
"""A day or month in UTC, also the sort key of its sums: `day#20261120`, `month#202611`."""


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A day or a month, [start, end) in ms."""

    start: int
    end: int
    name: PeriodName

    def __contains__(self, ts: int) -> bool:
        return self.start <= ts < self.end

    @property
    def is_day(self) -> bool:
        """Whether it is a day."""
        return self.name.startswith(DAY)


@dataclass(frozen=True, slots=True)
class PeriodState:
    """The state of a period in the catalog.

    `epoch` is how many windows were ever created in the period, so it identifies one set of
    windows. `rolled` is the epoch whose sums are complete; they count only while it is the current
    one. `windows` and `digest` are the number of the windows that are summed and the digest of
    their ids. `progress` is how far the roll-up of the current epoch is. `version` guards the
    roller's writes.
    """

    name: PeriodName
    epoch: int
    version: int = 0
    rolled: int | None = None
    windows: int = 0
    digest: str = ""
    progress: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the period's sums are those of all its windows."""
        return self.rolled == self.epoch


def day_of(ts: int) -> Period:
    """The UTC day that contains `ts` (ms)."""
    start = ts // DAY_MS * DAY_MS
    return Period(start, start + DAY_MS, DAY + window_id(start)[:8])


def month_of(ts: int) -> Period:
    """The UTC month that contains `ts` (ms)."""
    at = datetime.fromtimestamp(ts // 1000, UTC)
    start = ts // DAY_MS * DAY_MS - (at.day - 1) * DAY_MS
    days = calendar.monthrange(at.year, at.month)[1]
    return Period(start, start + days * DAY_MS, MONTH + window_id(start)[:6])


def period_of(name: PeriodName) -> Period:
    """The period of that name."""
    if name.startswith(DAY):
        return day_of(window_start(f"{name.removeprefix(DAY)}T000000Z"))
    return month_of(window_start(f"{name.removeprefix(MONTH)}01T000000Z"))


def periods_at(ts: int) -> tuple[Period, Period]:
    """The day and the month of a window that starts at `ts` (ms)."""
    return day_of(ts), month_of(ts)


def shown_name(name: PeriodName) -> str:
    """The period for people and JSON: `2026-11-20`, `2026-11`."""
    digits = name.partition("#")[2]
    return "-".join(part for part in (digits[:4], digits[4:6], digits[6:]) if part)


def windows_digest(windows: Iterable[WindowId]) -> str:
    """A digest of the ids of a period's windows, in their order: 32 hexadecimal digits."""
    return blake2b("\n".join(windows).encode(), digest_size=16).hexdigest()
