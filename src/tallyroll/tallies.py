"""A key's tally, gathered from its stripes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tallyroll.ports import Tally


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
