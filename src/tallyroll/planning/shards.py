"""How many events a second one key and one table take at first, by where shards are placed.

A new table on demand takes 4,000 write units a second, and a partition 1,000 (DynamoDB Developer
Guide, "DynamoDB on-demand capacity mode" and "Designing partition keys to distribute your
workload"). So it is taken to have four partitions of equal ranges of hashes. The N shards of a key
are N partition keys; their hashes place each on one of the partitions, all alike likely. The
partition that got most shards is the first to be full, and holds up the key: its records are spread
evenly over the shards. Gates and tallies are spread over many partition keys, and are counted as
spread evenly.

The distribution of the most shards on one partition is computed, not drawn; where that would take
long, as if the partitions' numbers of shards were independent. Left out is what helps later: bursts
out of unused capacity, and the split of partitions that stay hot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, exp, lgamma, log
from typing import TypeVar

from tallyroll.limits import PARTITION_WRITE_UNITS, SHARDS_MAX, WARM_UNITS_MAX, WARM_WRITE_UNITS_MIN

TAIL = 1e-9  # chances below are left out
UNLUCKY = 0.05  # the share of placements that a plan leaves to the queue
SHARD_SHARE_MAX = 0.9  # of a partition's write units that one shard takes in a plan
PARTITIONS_MIN = WARM_WRITE_UNITS_MIN // PARTITION_WRITE_UNITS
PARTITIONS_MAX = WARM_UNITS_MAX // PARTITION_WRITE_UNITS
EXACT_STEPS_MAX, PLAN_STEPS_MAX = 60_000, 5_000

V = TypeVar("V", int, float)


@dataclass(frozen=True, slots=True)
class Rates:
    """Events a second over all placements of a key's shards: the mean, what 5 % of the placements
    do not reach, and what 5 % exceed.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class KeyWrites:
    """The write units of one event of a key: those on the shard of its record, and those that are
    spread over the whole table (gates and tallies).
    """

    record: float
    shared: float

    @property
    def each(self) -> float:
        """All of them."""
        return self.record + self.shared


def key_rates(writes: KeyWrites, *, shards: int, partitions: int) -> Rates:
    """What one key with N shards takes of a table with so many partitions."""
    chances = [
        (key_rate(writes, shards=shards, partitions=partitions, most=most), chance)
        for most, chance in fullest(shards, partitions)
    ]
    chances.sort()
    return Rates(
        mean=sum(rate * chance for rate, chance in chances),
        low=_quantile(chances, UNLUCKY),
        high=_quantile(chances, 1 - UNLUCKY),
    )


def key_rate(writes: KeyWrites, *, shards: int, partitions: int, most: int) -> float:
    """Events a second of a key if `most` of its shards lie on one partition."""
    return PARTITION_WRITE_UNITS / (writes.record * most / shards + writes.shared / partitions)


def table_rate(writes: KeyWrites, *, partitions: int) -> float:
    """Events a second of a table whose keys are so many that all partitions are loaded alike."""
    return partitions * PARTITION_WRITE_UNITS / writes.each


def sustained_shards(*, record_units: float) -> int:
    """The least N of a key whose records take so many write units a second: each shard takes 0.9 of
    a partition at the most.

    With fewer, no split helps: a shard whose ids ascend cannot be divided.
    """
    return max(1, ceil(record_units / (SHARD_SHARE_MAX * PARTITION_WRITE_UNITS)))


def shards_at_start(
    writes: KeyWrites, *, events_per_second: float, partitions: int, other_units: float = 0.0
) -> int | None:
    """An N with which a key takes so many events a second from the first second on, in 95 % of the
    placements; a twelfth less may do. None: no N up to 10,000 is enough for so few partitions.

    Other keys take `other_units` write units a second, spread evenly.
    """
    free = 1 - other_units / partitions / PARTITION_WRITE_UNITS

    def enough(shards: int) -> bool:
        most = unlucky_most(shards, partitions)
        rate = key_rate(writes, shards=shards, partitions=partitions, most=most)
        return rate * free >= events_per_second

    shards = sustained_shards(record_units=events_per_second * writes.record)
    while shards <= SHARDS_MAX:
        if enough(shards):
            return shards
        shards = max(shards + 1, shards * 13 // 12)
    return SHARDS_MAX if enough(SHARDS_MAX) else None


def partitions_at_start(
    writes: KeyWrites, *, events_per_second: float, shards: int, other_units: float = 0.0
) -> int | None:
    """The fewest partitions, at least a new table's 4, with which a key with N shards takes so many
    events a second from the first second on, in 95 % of the placements. None: no table has enough.

    Other keys take `other_units` write units a second, spread evenly.
    """

    def enough(partitions: int) -> bool:
        free = 1 - other_units / partitions / PARTITION_WRITE_UNITS
        most = unlucky_most(shards, partitions)
        rate = key_rate(writes, shards=shards, partitions=partitions, most=most)
        return rate * free >= events_per_second

    least, most = PARTITIONS_MIN - 1, PARTITIONS_MIN
    while not enough(most):
        if most >= PARTITIONS_MAX:
            return None
        least, most = most, min(PARTITIONS_MAX, 2 * most)
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def unlucky_most(shards: int, partitions: int) -> int:
    """The most shards on one partition that 95 % of the placements do not exceed."""
    return _quantile(fullest(shards, partitions, PLAN_STEPS_MAX), 1 - UNLUCKY)


def fullest(
    shards: int, partitions: int, exact_steps_max: int = EXACT_STEPS_MAX
) -> Iterator[tuple[int, float]]:
    """The most shards that lie on one partition, ascending, each with its chance."""
    at_least = -(-shards // partitions)
    exact = partitions * shards * (at_least + 1) <= exact_steps_max
    mean, one, below = shards / partitions, 0.0, 0.0
    if not exact:
        one = sum(_poisson(number, mean) for number in range(at_least))
    for most in range(at_least, shards + 1):
        if exact:
            up_to = _chance_of_at_most(most, shards, partitions)
        else:
            one += _poisson(most, mean)
            up_to = min(1.0, one) ** partitions
        if up_to - below > TAIL:
            yield most, up_to - below
        below = up_to
        if up_to > 1 - TAIL:
            return


def _chance_of_at_most(most: int, shards: int, partitions: int) -> float:
    """The chance that no partition has more than `most` of the shards.

    Independent Poisson numbers, given their sum, are distributed like the shards on partitions. So
    it is the chance that all are at most `most` and their sum is `shards`, over that of the sum.
    """
    mean = shards / partitions
    one = [_poisson(number, mean) for number in range(min(most, shards) + 1)]
    sums = [1.0]
    for _ in range(partitions):
        sums = _folded(sums, one, shards)
    return sums[shards] / _poisson(shards, shards) if len(sums) > shards else 0.0


def _poisson(number: int, mean: float) -> float:
    return exp(number * log(mean) - mean - lgamma(number + 1))


def _folded(left: Sequence[float], right: Sequence[float], most: int) -> list[float]:
    """The distribution of a sum of two numbers, up to `most`."""
    found = [0.0] * min(len(left) + len(right) - 1, most + 1)
    for at, chance in enumerate(left):
        for number, other in enumerate(right[: len(found) - at]):
            found[at + number] += chance * other
    return found


def _quantile(chances: Iterable[tuple[V, float]], share: float) -> V:
    """The value that this share of the chances does not exceed; `chances` ascend by value, and add
    up to nearly 1.
    """
    passed = 0.0
    for value, chance in chances:
        passed += chance
        if passed >= share:
            return value
    raise AssertionError(f"chances that add up to {passed}")
