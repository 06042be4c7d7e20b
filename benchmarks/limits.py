"""How many events a second one key and one table take at first: `python -m benchmarks.limits`.

A new table on demand takes 4,000 write units a second, and a partition 1,000 (DynamoDB Developer
Guide, "DynamoDB on-demand capacity mode" and "Designing partition keys to distribute your
workload"). So it is taken to have four partitions of equal ranges of hashes. The N shards of a key
are N partition keys; their hashes place each on one of the partitions, all alike likely. The
partition that got most shards is the first to be full, and holds up the key: its records are spread
evenly over the shards. Gates and tallies are spread over many partition keys, and are counted as
spread evenly.

The distribution of the most shards on one partition is computed, not drawn. Left out is what helps
later: bursts out of unused capacity, and the split of partitions that stay hot. Everything is
without conflicts; `benchmarks.conflicts` has these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log

from rich.console import Console
from rich.table import Table

from benchmarks.conflicts import units_each
from tallyroll.limits import PARTITION_WRITE_UNITS, WARM_WRITE_UNITS_MIN
from tallyroll.settings import Settings

RECORD_UNITS = 2  # of a record of up to 1 KB in a transaction
SHARDS = (Settings().shards, 32, 64, 200)
TABLE_UNITS = (WARM_WRITE_UNITS_MIN, 40_000)  # new on demand; and with warm throughput
TAIL = 1e-9  # chances below are left out
WIDTH = 100
Rows = list[tuple[str, ...]]
"""A table, its headings first."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Events a second over all placements of a key's shards: the mean, what 5 % of the placements
    do not reach, and what 5 % exceed.
    """

    mean: float
    low: float
    high: float


def key_rates(shards: int, partitions: int) -> Rates:
    """What one key with N shards takes of a table with so many partitions."""
    chances = [
        (key_rate(shards, partitions, most), chance) for most, chance in fullest(shards, partitions)
    ]
    chances.sort()
    return Rates(
        mean=sum(rate * chance for rate, chance in chances),
        low=_quantile(chances, 0.05),
        high=_quantile(chances, 0.95),
    )


def key_rate(shards: int, partitions: int, most: int) -> float:
    """Events a second of a key if `most` of its shards lie on one partition."""
    shared = units_each() - RECORD_UNITS
    return PARTITION_WRITE_UNITS / (RECORD_UNITS * most / shards + shared / partitions)


def table_rate(partitions: int) -> float:
    """Events a second of a table whose keys are so many that all partitions are loaded alike."""
    return partitions * PARTITION_WRITE_UNITS / units_each()


def fullest(shards: int, partitions: int) -> Iterator[tuple[int, float]]:
    """The most shards that lie on one partition, ascending, each with its chance."""
    below = 0.0
    for most in range(-(-shards // partitions), shards + 1):
        up_to = _chance_of_at_most(most, shards, partitions)
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


def _quantile(chances: Sequence[tuple[float, float]], share: float) -> float:
    """The value that this share of the chances does not exceed; `chances` ascend by value."""
    passed = 0.0
    for value, chance in chances:
        passed += chance
        if passed >= share:
            return value
    return chances[-1][0]


def of_keys(units: int = WARM_WRITE_UNITS_MIN) -> Rows:
    """Events a second of one key by its shards, and of the whole table, of so many write units a
    second.
    """
    partitions = units // PARTITION_WRITE_UNITS
    rows: Rows = [("of a table", "mean", "5th percentile", "95th percentile")]
    for shards in SHARDS:
        found = key_rates(shards, partitions)
        rates = (found.mean, found.low, found.high)
        rows.append((f"one key, N = {shards}", *(f"{rate:,.0f}" for rate in rates)))
    rows.append(("many keys, together", *(f"{table_rate(partitions):,.0f}",) * 3))
    return rows


def main() -> None:
    """Print the tables."""
    console = Console(width=WIDTH)
    for units in TABLE_UNITS:
        rows = of_keys(units)
        table = Table(title=f"Events a second, at {units:,} write units a second")
        for number, heading in enumerate(rows[0]):
            table.add_column(heading, justify="right" if number else "left")
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
    console.print(
        "single events in full batches, without conflicts; percentiles of where shards are placed"
    )


if __name__ == "__main__":
    main()
