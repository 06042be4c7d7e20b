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
    """The largest keys of a window, and what all its keys together hold.

    If buckets are `missing`, which could not be read in time, all numbers are lower bounds and
    other keys may be larger.
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
        """Whether every tally of the window is in the numbers."""
        return not self.missing


@dataclass(frozen=True, slots=True)
class _Largest:
    """The largest of some keys, and what all of these hold."""

    largest: tuple[Listed, ...] = ()
    keys: int = 0
    events: int = 0
    amount: int = 0

    def with_some(self, more: Sequence[Listed], n: int, *, by_amount: bool) -> _Largest:
        """With other keys; the `n` largest stay."""
        ranked = heapq.nsmallest(n, [*self.largest, *more], key=_rank(by_amount=by_amount))
        return _Largest(
            tuple(ranked),
            self.keys + len(more),
            self.events + sum(each.n for each in more),
            self.amount + sum(each.amount for each in more),
        )


def _rank(*, by_amount: bool) -> Callable[[Listed], tuple[int, str]]:
    return lambda total: (-total.amount if by_amount else -total.n, total.key)
