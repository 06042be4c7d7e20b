"""The rows of the table of totals: final sums of windows, days and months, and their corrections.

A total never changes. What is retracted from a sealed window is a correction beside its total: the
net sum of a key is its total less its corrections. The total itself is net of what was retracted
while the window was live, which the corrections know as `before`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeVar

from tallyroll.model.amounts import Summed
from tallyroll.model.periods import PeriodName
from tallyroll.model.retractions import RetractionNote
from tallyroll.model.windows import WindowId


@dataclass(frozen=True, slots=True)
class Correction:
    """The retraction of an event of a sealed window: `n` events and `amount` (millionths) are taken
    from each of its keys.

    `keys` are ascending. `digest` is that of the event's record under the least key. `index` is
    that of the event in the packet `id`. `at` is when it was retracted (ms), `by` whom and `why`.
    """

    window: WindowId
    id: str
    keys: tuple[str, ...]
    n: int
    amount: int
    digest: bytes
    at: int
    by: str = ""
    why: str = ""
    index: int | None = None

    @property
    def note(self) -> RetractionNote:
        """What it says of the retraction."""
        return RetractionNote(self.by, self.why, self.at)


class Corrections(NamedTuple):
    """The sums of a key's corrections in a window, day or month: `n` events, their `amount`.

    `before` is the (events, amount) that were retracted before the windows were sealed.
    """

    n: int = 0
    amount: int = 0
    before: tuple[int, int] = (0, 0)


NO_CORRECTIONS = Corrections()


class Corrected(Summed):
    """What has a sum of events, and corrections beside it."""

    __slots__ = ()

    n: int
    corrections: Corrections

    @property
    def retracted(self) -> tuple[int, int]:
        """The (events, amount) that were retracted, before the seal and after it."""
        n, amount, before = self.corrections
        return n + before[0], amount + before[1]


@dataclass(frozen=True, slots=True)
class Total(Corrected):
    """The final sum of one key in one window, and its corrections."""

    key: str
    window: WindowId
    n: int
    amount: int
    corrections: Corrections = NO_CORRECTIONS


@dataclass(frozen=True, slots=True)
class PeriodTotal(Corrected):
    """The sum of one key in a day or month, over `windows` windows whose ids have this `digest`.

    It counts only while this `epoch` is the period's current one, and is rolled up. The
    corrections are those of all windows of the period, whether they were rolled up or not.
    """

    key: str
    period: PeriodName
    n: int
    amount: int
    epoch: int
    windows: int
    digest: str
    corrections: Corrections = NO_CORRECTIONS


@dataclass(frozen=True, slots=True)
class Listed(Corrected):
    """A key's total in the listing of a window or day: `n` events, and their `value` (`amount` in
    millionths). `epoch` is 0 for a window. `corrections` are listed apart.
    """

    key: str
    n: int
    amount: int
    epoch: int = 0
    corrections: Corrections = NO_CORRECTIONS

    @property
    def events(self) -> int:
        """The same as `n`."""
        return self.n


R = TypeVar("R", Total, PeriodTotal, Listed)


def net(row: R) -> R:
    """The row less its corrections, which are all `before` it then."""
    n, amount, _ = row.corrections
    done = Corrections(before=row.retracted)
    return replace(row, n=row.n - n, amount=row.amount - amount, corrections=done)


def joined(rows: Iterable[Listed]) -> Iterator[Listed]:
    """Of listed totals and listed corrections in the order of keys, the totals with corrections.

    Corrections without a total are left out: the total was put after its place was read.
    """
    for _, of_key in groupby(rows, attrgetter("key")):
        total, *more = sorted(of_key, key=lambda row: row.corrections != NO_CORRECTIONS)
        if total.corrections == NO_CORRECTIONS:
            yield replace(total, corrections=more[0].corrections) if more else total
