"""The worked examples of AWS's guides, computed by the code that the planner uses: `python -m
benchmarks.guide` prints the table of docs/guide.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallyroll.model.sharding import product
from tallyroll.planning import (
    PartitionUnits,
    adaptive_capacity,
    bulk_load_write_units,
    burst_units,
    initial_partitions,
    partitions_after_increase,
    rounded_units,
    split_for_heat,
    split_partition,
    storage_partitions,
    units_per_partition,
)
from tallyroll.planning.suffixes import product_shares

GB = 10**9  # a partition holds ten
ITEMS, KB, MINUTE = 20_000_000, 1_024, 60


def examples() -> Iterator[tuple[str, str, str]]:
    """The row, the guide's example, and what comes out here."""
    shares = product_shares(200)
    worked = ", ".join(f"{each} -> {product(each, 200)}" for each in ("1", "97531", "12345678"))
    yield "6", "product of code points mod 200 + 1, of these ids", worked
    yield "6", "the share of 8-digit ids on suffix 1", f"{shares[1]:.1%}"
    yield "6", "suffixes that no 8-digit id has", f"{200 - len(shares)} of 200"
    yield "23", "300 s of 50 unused units", f"{burst_units(unused_units=50, idle_seconds=900):,.0f}"
    load = adaptive_capacity(demanded_write_units=[1_500, 10], provisioned_write_units=4_000)
    yield "27", "4,000 units, partitions asked for 1,500 and 10", _listed(load)
    load = adaptive_capacity(demanded_write_units=[50, 50, 50, 150], provisioned_write_units=400)
    yield "29", "400 units, partitions asked for 50, 50, 50, 150", _listed(load)
    ascending = split_for_heat(write_units=[1_500], monotonic_sort_keys=True)
    yield "31", "a split of one key with rising sort keys", "none" if ascending is None else "some"
    indexed = split_for_heat(write_units=[1_500], local_indexes=True)
    yield "32", "a split of one key with a local index", "none" if indexed is None else "some"
    for row, read, write in (("35", 1_000, 500), ("36", 1_000, 1_000), ("37", 5_000, 2_000)):
        made = initial_partitions(read_units=read, write_units=write)
        yield row, f"{read:,} RCU and {write:,} WCU", _shares(made, read, write)
    doubled = partitions_after_increase(partitions=4, read_units=8_000, write_units=2_000)
    yield "38", "4 partitions, raised to 8,000 RCU", _shares(doubled, 8_000, 2_000)
    full = storage_partitions(stored_bytes=8 * 10 * GB + 1)
    yield "41", "80 GB and one byte", f"{full} partitions"
    split = split_partition(shares=[PartitionUnits(1_250, 500)] * 4, full=3)
    yield "42", "one of 4 split by size", "; ".join(f"{s.read:g}/{s.write:g}" for s in split)
    fast, slow = (
        bulk_load_write_units(items=ITEMS, item_bytes=KB, seconds=minutes * MINUTE)
        for minutes in (30, 180)
    )
    eleven = initial_partitions(write_units=rounded_units(units=fast))
    yield "44", "20 million items of 1 KB in 30 minutes", _loaded(fast)
    after = units_per_partition(partitions=eleven, write_units=200).write
    yield "45", "then cut to 200 units", f"{after:.1f} units a partition"
    yield "47", "the same in 3 hours", _loaded(slow)


def of_guide() -> list[tuple[str, ...]]:
    """The table, its headings first."""
    return [("row", "the guide's example", "computed here"), *examples()]


def _listed(units: list[float]) -> str:
    return ", ".join(f"{each:,.0f}" for each in units)


def _shares(partitions: int, read: float, write: float) -> str:
    each = units_per_partition(partitions=partitions, read_units=read, write_units=write)
    return f"{partitions}, each {each.read:,.0f} RCU and {each.write:,.0f} WCU"


def _loaded(units: float) -> str:
    rounded = rounded_units(units=units)
    partitions = initial_partitions(write_units=rounded)
    return f"{units:,.0f} units, rounded {rounded:,}: {partitions} partitions"


def main() -> None:
    """Print the table."""
    for row in of_guide():
        print(" | ".join(row))


if __name__ == "__main__":
    main()
