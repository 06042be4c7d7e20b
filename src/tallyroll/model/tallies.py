"""A key's tally, gathered from its stripes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


def gathered(key: str, stripes: Sequence[Tally]) -> Tally:
    """The sums of a key's stripes; zero if there are none."""
    series: Counter[int] = Counter()
    for stripe in stripes:
        for slot, events in stripe.series:
            series[slot] += events
    return Tally(
        key=key,
        n=sum(stripe.n for stripe in stripes),
        amount=sum(stripe.amount for stripe in stripes),
        series=tuple(sorted(series.items())),
        units=sum(stripe.units for stripe in stripes),
    )


@dataclass(frozen=True, slots=True)
class Tally:
    """How many events a key has taken in, their sum, the events per sixtieth of the window, and the
    write units that its records took.
    """

    key: str
    n: int
    amount: int
    series: tuple[tuple[int, int], ...] = ()
    units: int = 0


@dataclass(frozen=True, slots=True)
class Stripe:
    """One stripe of a key's tally; a bucket lists its stripes by `place`, `{key}.{stripe}`, in code
    point order.
    """

    place: str
    tally: Tally


Sum = tuple[str, int, int]
"""A key, its events and their amount (millionths)."""


def gather(begun: list[Sum], stripes: Sequence[Stripe]) -> list[Sum]:
    """Add stripes, in the order of their places, to the keys that are begun; give those that ended
    before or among them.

    Stripes of `a.1` lie among those of `a`, between its first and its second, so a key ends only
    when a place does not begin with its name and a dot. Those begun are as many as a name has dots.
    """
    ended = []
    for stripe in stripes:
        tally = stripe.tally
        while begun and not stripe.place.startswith(f"{begun[-1][0]}."):
            ended.append(begun.pop())
        if begun and begun[-1][0] == tally.key:
            _, n, amount = begun.pop()
        else:
            n = amount = 0
        begun.append((tally.key, n + tally.n, amount + tally.amount))
    return ended


def place_of(stripe: Stripe) -> str:
    """By what stripes are merged."""
    return stripe.place
