"""Tallies: a key's counts in a window, spread over stripes, and their sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

Series = tuple[tuple[int, int], ...]
"""(sixtieth of a window, events) pairs, ascending."""


class ReadCost(NamedTuple):
    """What it took to sum up records: the rows that were read, and what the store charges for that
    at the most.
    """

    rows: int
    cost_max: int


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of a key, or of one of its stripes: `n` events, `amount` their sum in millionths.

    `cost` is what it cost to store the records. `reading` is set if they were read one by one.
    `retracted` (events, amount) is in neither `n` nor `amount`. `blocks` are those of the shards on
    which `covered` events were stored; a release that does not know them stores without both.
    `raised` is the number of the key's stripes, if it was raised: the first stripe says it.
    """

    key: str
    n: int
    amount: int
    series: Series = ()
    cost: int = 0
    reading: ReadCost | None = field(default=None, compare=False)
    retracted: tuple[int, int] = (0, 0)
    blocks: frozenset[int] = field(default=frozenset(), compare=False)
    covered: int = field(default=0, compare=False)
    raised: int = field(default=0, compare=False)

    @property
    def stored(self) -> int:
        """The events that were stored, retracted ones among them: those that `cost` is of."""
        return self.n + self.retracted[0]


@dataclass(frozen=True, slots=True)
class Stripe:
    """One stripe of a key's tally. A bucket lists its stripes by `place`, `{key}.{stripe}`, in code
    point order.
    """

    place: str
    tally: Tally


class Sum(NamedTuple):
    """A key, its events, and their amount (millionths); the `retracted` ones are not in them."""

    key: str
    n: int
    amount: int
    retracted: tuple[int, int] = (0, 0)


def added(parts: Iterable[Series]) -> Series:
    """The sum of these series."""
    total: Counter[int] = Counter()
    for slot, events in chain.from_iterable(parts):
        total[slot] += events
    return tuple(sorted(total.items()))


def retracted_of(parts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The (events, amount) that were retracted in all these parts."""
    events = amount = 0
    for part in parts:
        events, amount = events + part[0], amount + part[1]
    return events, amount


def gathered(key: str, stripes: Sequence[Tally]) -> Tally:
    """The sum of a key's stripes; zero if there are none."""
    return Tally(
        key=key,
        n=sum(stripe.n for stripe in stripes),
        amount=sum(stripe.amount for stripe in stripes),
        series=added(stripe.series for stripe in stripes),
        cost=sum(stripe.cost for stripe in stripes),
        retracted=retracted_of(stripe.retracted for stripe in stripes),
        blocks=frozenset().union(*(stripe.blocks for stripe in stripes)),
        covered=sum(stripe.covered for stripe in stripes),
        raised=max((stripe.raised for stripe in stripes), default=0),
    )


def gather(begun: list[Sum], stripes: Sequence[Stripe]) -> list[Sum]:
    """Add stripes, in the order of their places, to the keys in `begun`; return the keys that are
    complete.

    A key is complete when a place does not begin with its name and a dot. Other keys' stripes may
    lie between its own: those of `a.1` lie between the first and the second stripe of `a`. So
    `begun` holds at most as many keys as a name has dots, and one.
    """
    ended = []
    for stripe in stripes:
        tally = stripe.tally
        while begun and not stripe.place.startswith(f"{begun[-1].key}."):
            ended.append(begun.pop())
        n, amount, retracted = tally.n, tally.amount, tally.retracted
        if begun and begun[-1].key == tally.key:
            before = begun.pop()
            n, amount = n + before.n, amount + before.amount
            retracted = retracted_of((retracted, before.retracted))
        begun.append(Sum(tally.key, n, amount, retracted))
    return ended


def place_of(stripe: Stripe) -> str:
    """The place of a stripe, by which buckets are merged."""
    return stripe.place
