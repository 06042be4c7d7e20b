"""What else loads partitions: reads of counts, and the totals of a window that is sealed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyroll.limits import (
    BURST_SECONDS,
    LISTING_BUCKETS,
    PARTITION_READ_UNITS,
)
from tallyroll.planning.partition_model.table import Floats, TableModel, TableRules
from tallyroll.planning.writers import TRANSACTION_MS
from tallyroll.planning.writes import TOTAL_UNITS

TOTALS_PER_SECOND = 50 * 8 * 1_000 / TRANSACTION_MS  # by 8 transactions at once; a test compares
BURST_STEPS_MAX = 6 * 3_600


class CountReads:
    """Counts of a window that is open: each reads all buckets of its key's tallies, one read unit
    each. A partition gives 3,000 a second beside its writes, and keeps unused ones for 300 s.
    """

    def __init__(self, table: TableModel, buckets: int, per_second: float) -> None:
        self._places = table.places[table.order >= len(table.order) - buckets]
        self._per_second = per_second
        self._tokens: Floats = np.full(table.partitions, float(PARTITION_READ_UNITS))

    def refused(self, table: TableModel, seconds: float) -> float:
        """The share of the read units of a step that partitions refuse."""
        if not self._per_second:
            return 0.0
        count = table.partitions
        if len(self._tokens) != count:
            self._tokens = np.full(count, self._tokens.sum() / count)
        at = np.minimum(np.searchsorted(table.bounds, self._places), count - 1)
        wanted = np.bincount(at, minlength=count) * self._per_second * seconds
        kept = PARTITION_READ_UNITS * BURST_SECONDS
        self._tokens = np.minimum(self._tokens + PARTITION_READ_UNITS * seconds, kept)
        granted = np.minimum(wanted, self._tokens)
        self._tokens -= granted
        return float(1 - granted.sum() / wanted.sum())


@dataclass(frozen=True, slots=True)
class Burst:
    """The totals of so many keys: their write units, how long they take, and for how long the table
    of totals throttles them.
    """

    keys: int
    write_units: int
    seconds: float
    throttled_seconds: float


def burst_of_totals(keys: int, *, seed: int = 1) -> Burst:
    """The burst of a sealing on a new table of totals: half of the units go to the keys, half to
    the 16 partition keys of the window's listing. What is refused is tried again.
    """
    chance = np.random.default_rng(seed)
    own, listed = np.full(keys, 0.5 / keys), np.full(LISTING_BUCKETS, 0.5 / LISTING_BUCKETS)
    weights = np.concatenate([own, listed])
    table = TableModel(TableRules(), chance.random(len(weights)), weights, np.zeros(len(weights)))
    units = TOTAL_UNITS * keys
    left, throttled, steps = float(units) * table.shares, 0, 0
    while left.sum() > 0.5 and steps < BURST_STEPS_MAX:
        if steps:
            table.pass_by(1.0)
        if len(left) != table.partitions:
            left = left.sum() * table.shares
        wanted = left * min(1.0, TOTALS_PER_SECOND * TOTAL_UNITS / float(left.sum()))
        granted = table.serve(wanted, 1.0)
        left = left - granted
        throttled += float(wanted.sum() - granted.sum()) > 1.0
        steps += 1
        if table.split_hot():
            left = left.sum() * table.shares
    return Burst(keys, units, float(steps), float(throttled))
