"""A table's partitions: ranges of hashes, what each may take, and how they are split.

Sources as in `tallyroll.planning.on_demand`. When DynamoDB splits a hot partition is not
documented; `split_after_seconds` is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tallyroll.limits import (
    BURST_SECONDS,
    PARTITION_BYTES,
    PARTITION_WRITE_UNITS,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning.on_demand import GROWTH, GROWTH_SECONDS, split_for_heat, warm_partitions
from tallyroll.planning.partitions import initial_partitions, storage_partitions

Floats = NDArray[np.float64]
SPLIT_AFTER_SECONDS = 120.0  # assumed: of throttling, until a partition is split for heat
MINOR = 0.05  # of the hottest collection: what has less is not divided from it


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """How a table behaves.

    `warm_units`: its warm throughput, 0 for AWS's own; `provisioned_units`: write units a second of
    a table that is not on demand. Without `adaptive`, a provisioned partition takes its even share
    only. `burst_seconds` of unused capacity are kept. Partitions are split after
    `split_after_seconds` of throttling, infinite for never, but within one collection only if its
    sort keys do not ascend and it has no local indexes. `partitions` and `stored_bytes` are those
    that it starts with; 0: as many as its throughput and bytes need, and none.
    """

    warm_units: float = 0.0
    provisioned_units: float = 0.0
    adaptive: bool = True
    burst_seconds: float = BURST_SECONDS
    split_after_seconds: float = SPLIT_AFTER_SECONDS
    ascending_sort_keys: bool = True
    local_indexes: bool = False
    partitions: int = 0
    stored_bytes: int = 0

    @property
    def start_units(self) -> float:
        """Write units a second of a new table."""
        return self.provisioned_units or max(self.warm_units, float(WARM_WRITE_UNITS_MIN))

    @property
    def start_partitions(self) -> int:
        """Partitions at the start."""
        if self.provisioned_units:
            made = initial_partitions(write_units=self.provisioned_units)
        else:
            made = warm_partitions(write_units=self.start_units)
        return max(made, self.partitions, storage_partitions(stored_bytes=self.stored_bytes))

    def emptied(self) -> TableRules:
        """Those of the next window's table, which is new."""
        return replace(self, partitions=0, stored_bytes=0)


class TableModel:
    """One table. `places` are the hashes of its partition keys, from 0 to 1, and `weights` the
    share of its writes that each of them gets; `spread` is the share of each in gates and tallies.
    """

    def __init__(self, rules: TableRules, places: Floats, weights: Floats, spread: Floats) -> None:
        order = np.argsort(places, kind="stable")
        self.rules = rules
        self.places = places[order]
        self.weights, self.spread = weights[order], spread[order]
        self.order = order
        count = rules.start_partitions
        self.bounds: Floats = np.arange(1, count + 1) / count
        self.units = rules.start_units
        self.tokens: Floats = np.full(count, self._refill)
        self.table_tokens = self.units
        self.stored: Floats = np.full(count, rules.stored_bytes / count)
        self.hot_seconds: Floats = np.zeros(count)
        self.age = 0.0
        self.peak = 0.0
        self.splits = 0
        self._place()

    @property
    def partitions(self) -> int:
        """How many there are now."""
        return len(self.bounds)

    @property
    def _refill(self) -> float:
        """Write units a second of one partition."""
        if self.rules.provisioned_units and not self.rules.adaptive:
            return min(PARTITION_WRITE_UNITS, self.units / len(self.bounds))
        return float(PARTITION_WRITE_UNITS)

    def _place(self) -> None:
        """Find the partition of each partition key, and the shares of each partition."""
        self.at = np.minimum(np.searchsorted(self.bounds, self.places), len(self.bounds) - 1)
        count = len(self.bounds)
        self.shares = _sums(self.at, self.weights, count)
        self.spread_shares = _sums(self.at, self.spread, count)

    def weigh(self, weights: Floats) -> None:
        """Take other shares of the partition keys, in the order in which they were given."""
        parts = np.bincount(self.order)[self.order]
        self.weights = weights[self.order] / parts
        self._place()

    def pass_by(self, seconds: float) -> None:
        """Let time pass: unused capacity is kept, a table on demand grows."""
        refill = self._refill
        kept = refill * max(1.0, self.rules.burst_seconds)
        self.tokens = np.minimum(self.tokens + refill * seconds, kept)
        burst = self.rules.burst_seconds if self.rules.provisioned_units else 1.0
        most = self.units * max(1.0, burst)
        self.table_tokens = min(self.table_tokens + self.units * seconds, most)
        before, self.age = self.age, self.age + seconds
        if not self.rules.provisioned_units and before // GROWTH_SECONDS != self.age // (
            GROWTH_SECONDS
        ):
            self._grow()

    def _grow(self) -> None:
        """On demand, twice the previous peak is taken."""
        self.units = max(self.units, GROWTH * self.peak)
        self.peak = 0.0
        while self.units > len(self.bounds) * PARTITION_WRITE_UNITS:
            self._split(np.ones(len(self.bounds), dtype=bool), by_heat=False)

    def serve(self, wanted: Floats, seconds: float) -> Floats:
        """What each partition grants of the write units that it is asked for within a step. What is
        refused by a partition makes it hot.
        """
        granted = np.minimum(wanted, self.tokens)
        self.note_hot(wanted - granted > 1.0, seconds)
        if (total := float(granted.sum())) > self.table_tokens:
            granted *= self.table_tokens / total
        self.take(granted)
        self.peak = max(self.peak, float(granted.sum()) / seconds)
        return granted

    def take(self, units: Floats) -> None:
        """Take units that were granted."""
        self.tokens -= units
        self.table_tokens -= float(units.sum())

    def store(self, stored_bytes: Floats) -> None:
        """Add bytes to the partitions; full ones are split."""
        self.stored += stored_bytes
        if (full := self.stored > PARTITION_BYTES).any():
            self._split(full, by_heat=False)

    def note_hot(self, refused: NDArray[np.bool_], seconds: float) -> None:
        """Note which partitions refused writes in these seconds."""
        self.hot_seconds = np.where(
            refused, self.hot_seconds + seconds, np.maximum(0.0, self.hot_seconds - seconds)
        )

    def split_hot(self) -> bool:
        """Split the partitions that were hot for long enough; say whether there were any."""
        hot = self.hot_seconds >= self.rules.split_after_seconds
        return bool(hot.any()) and self._split(hot, by_heat=True)

    def _split(self, which: NDArray[np.bool_], *, by_heat: bool) -> bool:
        bounds: list[float] = []
        copied: list[int] = []
        for number, upper in enumerate(self.bounds):
            lower = self.bounds[number - 1] if number else 0.0
            middle = self._middle(number, lower, upper, by_heat=by_heat) if which[number] else None
            for bound in (middle, upper):
                if bound is not None:
                    bounds.append(float(bound))
                    copied.append(number)
        if by_heat:
            self.hot_seconds = np.where(which, 0.0, self.hot_seconds)
        if len(bounds) == len(self.bounds):
            return False
        parts = np.bincount(copied)[copied]
        self.splits += len(bounds) - len(self.bounds)
        self.bounds = np.array(bounds)
        self.tokens = self.tokens[copied] / parts
        self.stored = self.stored[copied] / parts
        self.hot_seconds = self.hot_seconds[copied]
        self._place()
        return True

    def _middle(self, number: int, lower: float, upper: float, *, by_heat: bool) -> float | None:
        """Where a partition is split; None if that would not help."""
        if not by_heat:
            return (lower + upper) / 2
        first, end = np.searchsorted(self.at, [number, number + 1])
        loads = self.weights[first:end]
        inside = [at for at in range(first, end) if loads[at - first] > MINOR * loads.max()]
        at = split_for_heat(
            write_units=[float(loads[place - first]) for place in inside],
            monotonic_sort_keys=self.rules.ascending_sort_keys,
            local_indexes=self.rules.local_indexes,
        )
        if at is None:
            return None
        if at == 0:
            return self._halve(int(inside[0]), lower, upper)
        return float((self.places[inside[at - 1]] + self.places[inside[at]]) / 2)

    def _halve(self, cell: int, lower: float, upper: float) -> float:
        """Divide one partition key by its sort keys: two halves, on both sides of the bound."""
        place = float(self.places[cell])
        gap = min(place - lower, upper - place) / 2
        self.places = np.insert(self.places, cell + 1, place + gap)
        for name in ("weights", "spread"):
            shares = getattr(self, name)
            shares = np.insert(shares, cell + 1, shares[cell] / 2)
            shares[cell] /= 2
            setattr(self, name, shares)
        self.order = np.insert(self.order, cell + 1, self.order[cell])
        self.at = np.insert(self.at, cell + 1, self.at[cell])
        return place + gap / 2


def _sums(at: NDArray[np.intp], weights: Floats, count: int) -> Floats:
    return np.bincount(at, weights, count).astype(np.float64)
