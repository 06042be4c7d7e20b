"""A count: what it holds, and its JSON.

A field of the answer is added here: to `Count`, with what `Reader` puts into it, and to
`counter_json`, which the HTTP API and the commands give. docs/api.md describes the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tallyroll.model.amounts import Summed, format_amount
from tallyroll.model.periods import PeriodName, PeriodState, shown_name
from tallyroll.model.states import Status
from tallyroll.model.tallies import ReadCost, retracted_of
from tallyroll.model.totals import PeriodTotal, Total, net
from tallyroll.model.windows import WindowId, iso

NONE_RETRACTED = (0, 0)
Source = Literal["kept", "shared", "confirmed", "eventual", "read"]
COUNT_MS = 60_000  # for a count whose caller sets no limit


@dataclass(frozen=True, slots=True)
class WindowCount(Summed):
    """A key's count in one window; its sum is `value`, and `amount` in millionths.

    `status` is a live window's status when it was read, and `sealed` for every window that has its
    totals, even if its table is dropped. `reading` is set if its records were read one by one.
    What was `retracted` (events, amount) is not counted.
    """

    window: WindowId
    events: int
    amount: int
    status: Status
    reading: ReadCost | None = None
    retracted: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class PeriodCount(Summed):
    """A key's count in all `windows` windows of a day or month; its sum is `value`, and `amount` in
    millionths. What was `retracted` (events, amount) is not counted.
    """

    period: PeriodName
    windows: int
    events: int
    amount: int
    retracted: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Gathering:
    """The number of tally stripes that a count read in all live windows, and the time that took. In
    a store that keeps no tallies, the shards whose records were summed up.
    """

    stripes: int
    took_ms: int


@dataclass(frozen=True, slots=True)
class Count(Summed):
    """A key's events and their sum (`value`; `amount` in millionths) over a range, as of a time
    (ms): the sum over `windows` and over `periods`, the rolled-up days and months.

    `why_missing` names the windows that could not be read in time, each with the reason; if it is
    empty, the count is complete. `gathering` is set if live windows were read for it. `source` says
    whether it was kept here or in a shared cache, confirmed by one look at what had been read
    before, or read as a whole.
    """

    key: str
    events: int
    amount: int
    windows: tuple[WindowCount, ...]
    as_of: int
    why_missing: Mapping[WindowId, str] = field(default_factory=dict)
    periods: tuple[PeriodCount, ...] = ()
    gathering: Gathering | None = None
    source: Source = field(default="read", compare=False)

    @property
    def is_live(self) -> bool:
        """Whether a part of it grows yet."""
        return any(not window.status.sealed for window in self.windows)

    @property
    def missing(self) -> tuple[WindowId, ...]:
        """The windows that could not be read in time."""
        return tuple(self.why_missing)

    @property
    def retracted(self) -> tuple[int, int]:
        """The (events, amount) that were counted and then retracted."""
        parts: list[WindowCount | PeriodCount] = [*self.windows, *self.periods]
        return retracted_of(part.retracted for part in parts)

    @property
    def reading(self) -> ReadCost | None:
        """What it took to read the records of live windows that have no tallies yet; None if there
        is no such window.
        """
        some = [window.reading for window in self.windows if window.reading]
        if not some:
            return None
        return ReadCost(sum(one.rows for one in some), sum(one.cost_max for one in some))

    @property
    def complete(self) -> bool:
        """Whether the count includes every window of the range."""
        return not self.why_missing


def window_count(total: Total, status: Status = Status.SEALED) -> WindowCount:
    """A key's count in a sealed window, from its total."""
    n, amount, retracted = net(total).n, net(total).amount, total.retracted
    return WindowCount(total.window, n, amount, status, retracted=retracted)


def period_count(state: PeriodState, total: PeriodTotal | None) -> PeriodCount:
    """A key's count in a rolled-up period, from its sums; None: it has none there."""
    if total is None:
        return PeriodCount(state.name, state.windows, 0, 0)
    n, amount = net(total).n, net(total).amount
    return PeriodCount(state.name, total.windows, n, amount, total.retracted)


class CountedEvents(Protocol):
    """What has events, the sum of their values in millionths, and what was retracted of both."""

    @property
    def events(self) -> int:
        """How many events."""

    @property
    def amount(self) -> int:
        """The sum of their values, in millionths."""

    @property
    def retracted(self) -> tuple[int, int]:
        """The (events, amount) that are not counted."""


def counter_json(count: Count) -> dict[str, Any]:
    """A count as JSON. Sums are strings, since they may have more digits than a double holds.

    `rolled_up` has the days and months that were read as a whole; `windows` omits their windows.
    `reading` is there if records were read one by one, and says what that took. `reads` is there if
    it was read eventually.
    """
    answer: dict[str, Any] = {
        "key": count.key,
        **sums_json(count),
        "windows": [
            {"window": window.window, **sums_json(window), "state": window.status}
            for window in count.windows
        ],
        "as_of": iso(count.as_of),
        "complete": count.complete,
    }
    if count.periods:
        answer["rolled_up"] = [
            {"period": shown_name(period.period), "windows": period.windows, **sums_json(period)}
            for period in count.periods
        ]
    if count.reading:
        rows, cost_max = count.reading
        answer["reading"] = {"rows": rows, "read_units_max": cost_max}
    if count.missing:
        answer["missing"] = list(count.missing)
    if count.source == "eventual":
        answer["reads"] = "eventual"
    return answer


def counters_json(counts: Sequence[Count]) -> dict[str, Any]:
    """Counts of several keys as JSON, without their windows: those of 100 keys may be above the
    6 MB of an answer. `as_of` is that of the oldest, and `complete` whether all are.
    """
    by_window = ("windows", "rolled_up")
    return {
        "counters": [
            {name: said for name, said in counter_json(count).items() if name not in by_window}
            for count in counts
        ],
        "as_of": iso(min(count.as_of for count in counts)),
        "complete": all(count.complete for count in counts),
    }


def sums_json(of: CountedEvents) -> dict[str, Any]:
    """Events, and the sum of their values, as a decimal text; `retracted` has those of the events
    that were retracted, if there are any.
    """
    sums: dict[str, Any] = {"events": of.events, "sum": format_amount(of.amount)}
    if of.retracted != NONE_RETRACTED:
        n, amount = of.retracted
        sums["retracted"] = {"events": n, "sum": format_amount(amount)}
    return sums
