"""The largest keys of one window."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tallyroll.model.states import Status
from tallyroll.model.tallies import Tally
from tallyroll.model.totals import Listed
from tallyroll.model.windows import WindowId


@dataclass(frozen=True, slots=True)
class Top:
    """The largest keys of a window, and the sums over all its keys.

    `missing` is the number of buckets that could not be read in time. If there are any, all numbers
    are lower bounds and other keys may be larger.
    """

    window: WindowId
    status: Status
    largest: tuple[Tally, ...]
    keys: int
    events: int
    amount: int
    missing: int
    as_of: int

    @property
    def complete(self) -> bool:
        """Whether the numbers include every tally of the window."""
        return not self.missing


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest of the keys seen so far, and the sums over all of them."""

    largest: tuple[Listed, ...] = ()
    keys: int = 0
    events: int = 0
    amount: int = 0

    def with_some(self, more: Sequence[Listed], n: int, *, by_amount: bool) -> Largest:
        """This with more keys added; keeps the `n` largest."""
        events, amount = sum(each.n for each in more), sum(each.amount for each in more)
        return self.merged(Largest(tuple(more), len(more), events, amount), n, by_amount=by_amount)

    def merged(self, other: Largest, n: int, *, by_amount: bool) -> Largest:
        """This and that of other keys together; keeps the `n` largest."""
        both = heapq.nsmallest(n, [*self.largest, *other.largest], key=rank(by_amount=by_amount))
        return Largest(
            tuple(both),
            self.keys + other.keys,
            self.events + other.events,
            self.amount + other.amount,
        )


def rank(*, by_amount: bool) -> Callable[[Listed], tuple[int, str]]:
    """The sort key that puts the largest first."""
    return lambda total: (-total.amount if by_amount else -total.n, total.key)
