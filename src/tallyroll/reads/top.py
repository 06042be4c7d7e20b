"""The largest keys of one window."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from tallyroll.model.amounts import Summed
from tallyroll.model.states import Status
from tallyroll.model.tallies import Sum, retracted_of
from tallyroll.model.totals import Corrections, Listed, net
from tallyroll.model.windows import WindowId


@dataclass(frozen=True, slots=True)
class Top(Summed):
    """The largest keys of a window, and the sums over all its keys: `value`, and `amount` in
    millionths.

    What was `retracted` (events, amount) is not in them, nor in those of the keys.

    `missing` is the number of buckets that could not be read in time. If there are any, all numbers
    are lower bounds and other keys may be larger.
    """

    window: WindowId
    status: Status
    largest: tuple[Listed, ...]
    keys: int
    events: int
    amount: int
    missing: int
    as_of: int
    retracted: tuple[int, int] = (0, 0)

    @property
    def complete(self) -> bool:
        """Whether the numbers include every tally of the window."""
        return not self.missing


@dataclass(slots=True)
class Largest:
    """The `n` largest of the keys added so far, by events or by amount, and the sums over all."""

    n: int
    by_amount: bool
    largest: Sequence[Listed] = ()
    keys: int = 0
    events: int = 0
    amount: int = 0
    retracted: tuple[int, int] = (0, 0)

    def add(self, more: Sequence[Listed]) -> None:
        """Add keys that were not added before."""
        more = [net(each) for each in more]
        events, amount = sum(each.n for each in more), sum(each.amount for each in more)
        retracted = retracted_of(each.retracted for each in more)
        self.merge(Largest(self.n, self.by_amount, more, len(more), events, amount, retracted))

    def merge(self, other: Largest) -> None:
        """Add the keys of another, which have not been added before."""
        self.largest = heapq.nsmallest(self.n, [*self.largest, *other.largest], key=self._rank)
        self.keys += other.keys
        self.events += other.events
        self.amount += other.amount
        self.retracted = retracted_of((self.retracted, other.retracted))

    def _rank(self, total: Listed) -> tuple[int, str]:
        return -total.amount if self.by_amount else -total.n, total.key


def listed_of(one: Sum) -> Listed:
    """A key's tallies as its listed total."""
    return Listed(one.key, one.n, one.amount, corrections=Corrections(before=one.retracted))
