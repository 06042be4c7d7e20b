"""Sealing: all tallies are read once, in one order, and become totals, slice by slice.

A key's stripes lie in several buckets. But each bucket lists its stripes in the order of
`{key}.{stripe}`, so the buckets merged in that order bring a key's stripes together, and nothing
but the stripes just read and the keys just begun need be in memory, however many keys there are.
A place in that order is the same for all buckets: what was reached by it is a few numbers, which
the window's state keeps, and any run goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from tallyroll.limits import SERIES_SLOTS, TRANSACTION_ACTIONS_MAX
from tallyroll.model.specs import Spec, sixtieth_seconds
from tallyroll.model.tallies import Stripe, Sum, Tally, gather, place_of
from tallyroll.model.totals import Total
from tallyroll.ports.effects import Effects
from tallyroll.ports.paging import STRIPES_HELD, merged
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals

STRIPES_PER_SLICE = 2_000  # what a run that is cut off has done in vain, at the most
PROGRESSED = "sealing"  # among a window's times: when a slice of its totals was last put
ACTION_UNITS = 2  # of a tally's or a gate's part in a transaction [txn]


@dataclass(frozen=True, slots=True)
class Sealing:
    """How far a window's sealing has come: what the stripes up to `place` sum up to.

    `keys`, `events` and `amount` (millionths) are those of the keys whose totals are put; `begun`
    has (key, n, amount) of those whose stripes may go on, each key's name followed by a dot being
    the beginning of the next one's. `units` and `additions` are, by sixtieth of the window, the
    write units of records and how often tallies were added to. All stripes are in when it is
    `done`.
    """

    place: str = ""
    keys: int = 0
    events: int = 0
    amount: int = 0
    begun: tuple[Sum, ...] = ()
    units: tuple[int, ...] = (0,) * SERIES_SLOTS
    additions: tuple[int, ...] = (0,) * SERIES_SLOTS
    done: bool = False

    @classmethod
    def parse(cls, text: str | None) -> Sealing:
        """What a window's state says; a beginning if it says nothing."""
        if text is None:
            return cls()
        facts: dict[str, Any] = json.loads(text)
        facts["begun"] = tuple(Sum(*each) for each in facts["begun"])
        facts |= {name: tuple(facts[name]) for name in ("units", "additions")}
        return cls(**facts)

    def text(self) -> str:
        """The form in which a window's state keeps it."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    def peak(self, spec: Spec) -> int:
        """The write units a second of the window's busiest sixtieth, rounded up: of records, of the
        additions to tallies and of the gates, which full transactions share.
        """
        busiest = 0
        for units, additions in zip(self.units, self.additions, strict=True):
            actions = units // ACTION_UNITS + additions
            gates = -(-actions // (TRANSACTION_ACTIONS_MAX - 1))
            busiest = max(busiest, units + ACTION_UNITS * (additions + gates))
        return ceil(busiest / sixtieth_seconds(spec))


def seal(
    spec: Spec, store: Store, totals: Totals, effects: Effects, sealing: Sealing
) -> Iterator[Sealing]:
    """Make the totals of a window final, whose gates have been shut for a while, from where
    `sealing` stands; give how far it has come whenever a slice of totals is put.

    No commit can succeed any more, so this listing is the last word, whichever runs read its parts.
    A while, because a query may show a transaction in part until it is answered (DynamoDB Developer
    Guide, "Isolation levels and handling transaction conflicts"). To be repeated from any state
    that it gave. Raises StoreError, and ProofMismatch if a different total stands already.
    """
    page = max(1, STRIPES_HELD // spec.buckets)
    buckets = [
        store.stripes(spec, number, sealing.place, page) for number in range(1, spec.buckets + 1)
    ]
    for batch in merged(buckets, place_of, page, effects):
        for first in range(0, len(batch), STRIPES_PER_SLICE):
            sealing, ended = _with(sealing, batch[first : first + STRIPES_PER_SLICE], spec)
            totals.put(ended)
            yield sealing
    totals.put([Total(key, spec.window, n, amount) for key, n, amount in sealing.begun])
    yield replace(_counted(sealing, sealing.begun), begun=(), done=True)


def _with(sealing: Sealing, stripes: Sequence[Stripe], spec: Spec) -> tuple[Sealing, list[Total]]:
    """The state after these stripes, and the totals of the keys that ended before or among them."""
    begun = list(sealing.begun)
    ended = gather(begun, stripes)
    units, additions = list(sealing.units), list(sealing.additions)
    for stripe in stripes:
        _weigh(stripe.tally, spec, units, additions)
    sealing = replace(
        _counted(sealing, ended),
        place=stripes[-1].place,
        begun=tuple(begun),
        units=tuple(units),
        additions=tuple(additions),
    )
    return sealing, [Total(key, spec.window, n, amount) for key, n, amount in ended]


def _counted(sealing: Sealing, ended: Sequence[Sum]) -> Sealing:
    return replace(
        sealing,
        keys=sealing.keys + len(ended),
        events=sealing.events + sum(each.n for each in ended),
        amount=sealing.amount + sum(each.amount for each in ended),
    )


def _weigh(stripe: Tally, spec: Spec, units: list[int], additions: list[int]) -> None:
    """Add what a stripe took in each sixtieth to the units of records and the additions to tallies.

    How many transactions shared a stripe's records is not known: each of its own while there is at
    most one a second, and full ones beyond.
    """
    a_second_each = max(1, ceil(sixtieth_seconds(spec)))
    for slot, events in stripe.series:
        spent = -(-events * stripe.units // stripe.n) if stripe.n else 0
        records = -(-spent // ACTION_UNITS)
        full = -(-records // (TRANSACTION_ACTIONS_MAX - 2))
        units[slot] += spent
        additions[slot] += min(records, full + a_second_each)
