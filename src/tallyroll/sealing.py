"""Sealing: list all tallies, put the totals. May be repeated from the start at any time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tallyroll.errors import OutOfTime
from tallyroll.ports import Effects, Store, Tally, Total, Totals
from tallyroll.specs import Spec

BUCKETS_AT_ONCE = 16
TOTALS_PER_PUT = 2_000  # several requests side by side


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a sealed window holds: distinct keys, events, and the sum of values in millionths."""

    keys: int
    events: int
    amount: int


def add_up(stripes: list[Tally]) -> dict[str, Tally]:
    """The tally of each key from its stripes (series are left out)."""
    sums: dict[str, Tally] = {}
    for stripe in stripes:
        before = sums.get(stripe.key)
        n, amount = (before.n, before.amount) if before else (0, 0)
        sums[stripe.key] = Tally(stripe.key, n + stripe.n, amount + stripe.amount)
    return sums


def seal(spec: Spec, store: Store, totals: Totals, effects: Effects, deadline: int) -> Sealed:
    """Make the totals of a window final, whose gates have been shut for a while.

    No commit can succeed any more, so this listing is the last word. A while, because a query may
    show a transaction in part until it is answered (DynamoDB Developer Guide, "Isolation levels and
    handling transaction conflicts"). Raises OutOfTime, and ProofMismatch if a different total
    stands already.
    """
    numbers = range(1, spec.buckets + 1)
    listed = effects.together(
        [partial(store.bucket, spec, number) for number in numbers], BUCKETS_AT_ONCE
    )
    sums = add_up([stripe for bucket in listed for stripe in bucket])
    rows = [Total(tally.key, spec.window, tally.n, tally.amount) for tally in sums.values()]
    for first in range(0, len(rows), TOTALS_PER_PUT):
        if effects.now() >= deadline:
            raise OutOfTime(f"window {spec.window}: {first} of {len(rows)} totals put")
        totals.put(rows[first : first + TOTALS_PER_PUT])
    return Sealed(len(rows), sum(row.n for row in rows), sum(row.amount for row in rows))
