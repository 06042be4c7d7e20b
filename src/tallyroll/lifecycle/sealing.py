"""Sealing: all tallies are read once, in order, and become totals, slice by slice.

A store that keeps no tallies while it takes events writes them first (`Store.fold`).

A key's stripes lie in several buckets, and each bucket lists its stripes in the order of
`{key}.{stripe}`. Merged in that order, the buckets bring a key's stripes together. So memory holds
only the stripes that were just read and the keys that are not complete, however many keys there
are. The progress is a place in that order and a few numbers. The window's state keeps them, and any
run can continue from there. Next on the reading path: `reads/reader.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from tallyroll.limits import SERIES_SLOTS
from tallyroll.model.specs import Spec, sixtieth_seconds
from tallyroll.model.tallies import Stripe, Sum, Tally, gather, place_of
from tallyroll.model.totals import Total
from tallyroll.ports.effects import Effects
from tallyroll.ports.paging import STRIPES_HELD, merged
from tallyroll.ports.store import Metering, Store
from tallyroll.ports.totals import Totals

STRIPES_PER_SLICE = 2_000  # the most that a run repeats after another one was cut off


@dataclass(frozen=True, slots=True)
class Sealing:
    """The progress of a window's sealing: the sums of the stripes up to `place`, once the store has
    folded the window, up to `fold`.

    `keys`, `events` and `amount` (millionths) are those of the keys whose totals are put. `begun`
    has the keys of which more stripes may follow; each name, followed by a dot, begins the next.
    `units` and `additions` are, by sixtieth of the window, the cost of records and the number of
    additions to tallies. `done`: all totals are put.
    """

    place: str = ""
    keys: int = 0
    events: int = 0
    amount: int = 0
    begun: tuple[Sum, ...] = ()
    units: tuple[int, ...] = (0,) * SERIES_SLOTS
    additions: tuple[int, ...] = (0,) * SERIES_SLOTS
    done: bool = False
    fold: str = ""

    @classmethod
    def parse(cls, text: str | None) -> Sealing:
        """The progress in a window's state; None: the beginning."""
        if text is None:
            return cls()
        facts: dict[str, Any] = json.loads(text)
        facts["begun"] = tuple(Sum(*each) for each in facts["begun"])
        facts |= {name: tuple(facts[name]) for name in ("units", "additions")}
        return cls(**facts)

    def text(self) -> str:
        """The text for a window's state."""
        facts = asdict(self)
        facts["begun"] = [each[:3] for each in self.begun]  # all that sealing needs
        if not self.fold:  # as always, for the roller of another release
            del facts["fold"]
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))

    def counted(self, ended: Sequence[Sum], **changes: Any) -> Sealing:
        """The progress with the sums of these keys and with changes."""
        return replace(
            self,
            keys=self.keys + len(ended),
            events=self.events + sum(each.n for each in ended),
            amount=self.amount + sum(each.amount for each in ended),
            **changes,
        )

    def peak(self, spec: Spec, metering: Metering) -> int:
        """What writes cost a second in the window's busiest sixtieth, rounded up."""
        busiest = max(map(metering.total_cost, self.units, self.additions))
        return ceil(busiest / sixtieth_seconds(spec))


def seal(
    spec: Spec, store: Store, totals: Totals, effects: Effects, sealing: Sealing
) -> Iterator[Sealing]:
    """Put the totals of a window whose gates were shut `settle_ms` ago; yield the progress after
    each part that is folded and each slice of totals.

    Continues from `sealing`, which may be any progress that was yielded before. No commit can
    succeed any more, so all runs read the same tallies. The wait after the shutting is needed
    because a query may show parts of a running transaction (DynamoDB Developer Guide, "Isolation
    levels and handling transaction conflicts"). Raises StoreError, and ProofMismatch if a total
    exists with another value.
    """
    for progress in store.fold(spec, sealing.fold):
        sealing = replace(sealing, fold=progress)
        yield sealing
    page = max(1, STRIPES_HELD // spec.buckets)
    buckets = [
        store.stripes(spec, number, sealing.place, page) for number in range(1, spec.buckets + 1)
    ]
    for batch in merged(buckets, place_of, page, effects):
        for first in range(0, len(batch), STRIPES_PER_SLICE):
            stripes = batch[first : first + STRIPES_PER_SLICE]
            sealing, ended = _with(sealing, stripes, spec, store.metering_of(spec.table))
            # Before the totals, so that a read of a total finds what was retracted from it.
            _note_retracted(spec, store, totals, stripes)
            totals.put([Total(key, spec.window, n, amount) for key, n, amount, _ in ended])
            yield sealing
    totals.put([Total(key, spec.window, n, amount) for key, n, amount, _ in sealing.begun])
    yield sealing.counted(sealing.begun, begun=(), done=True)


def _note_retracted(spec: Spec, store: Store, totals: Totals, stripes: Sequence[Stripe]) -> None:
    """Note what was retracted of the keys in these stripes, from all stripes of each key: tallies
    do not change any more, so a key that comes again has the same.
    """
    some = {stripe.tally.key: None for stripe in stripes if any(stripe.tally.retracted)}
    if some:
        tallies = store.tallies(spec, list(some))
        totals.put_retracted(spec.window, {key: tallies[key].retracted for key in some})


def _with(
    sealing: Sealing, stripes: Sequence[Stripe], spec: Spec, metering: Metering
) -> tuple[Sealing, list[Sum]]:
    """The progress after these stripes, and the sums of the keys that are complete."""
    begun = list(sealing.begun)
    ended = gather(begun, stripes)
    units, additions = list(sealing.units), list(sealing.additions)
    for stripe in stripes:
        _weigh(stripe.tally, spec, metering, units, additions)
    load = {"units": tuple(units), "additions": tuple(additions)}
    return sealing.counted(ended, place=stripes[-1].place, begun=tuple(begun), **load), ended


def _weigh(
    stripe: Tally, spec: Spec, metering: Metering, units: list[int], additions: list[int]
) -> None:
    """Add a stripe's load in each sixtieth to the cost of records and the additions to tallies.

    How many commits wrote the stripe's records is not known: the store estimates it.
    """
    seconds = max(1, ceil(sixtieth_seconds(spec)))
    for slot, events in stripe.series:
        cost = -(-events * stripe.cost // stripe.stored) if events > 0 and stripe.stored > 0 else 0
        units[slot] += cost
        additions[slot] += metering.likely_increments(cost, seconds)
