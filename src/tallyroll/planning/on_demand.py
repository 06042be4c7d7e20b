"""What DynamoDB does today: on-demand tables, warm throughput, and splits for heat.

Sources, Amazon DynamoDB Developer Guide: [demand] "DynamoDB on-demand capacity mode"; [warm]
"Understanding DynamoDB warm throughput"; [keys] "Best practices for designing and using partition
keys effectively"; [hot] "Key range throughput exceeded (hot partitions)"; [burst] "Burst and
adaptive capacity". AWS Database Blog: [blog] "Scaling DynamoDB: How partitions, hot keys, and split
for heat impact performance", parts 1 to 3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import ceil

from tallyroll.errors import UsageError
from tallyroll.limits import (
    PARTITION_READ_UNITS,
    PARTITION_WRITE_UNITS,
    WARM_READ_UNITS_MIN,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning.partitions import (
    PartitionUnits,
    initial_partitions,
    partitions_after_increase,
    units_per_partition,
)

GROWTH = 2  # times the previous peak that an on-demand table takes at once [demand]
GROWTH_SECONDS = 1_800  # more than that within 30 minutes may be throttled [demand]
Rows = list[tuple[str, ...]]
"""A table, its headings first."""


def new_on_demand_units() -> PartitionUnits:
    """What a new on-demand table takes at once: 12,000 reads and 4,000 writes a second [warm]."""
    return PartitionUnits(read=WARM_READ_UNITS_MIN, write=WARM_WRITE_UNITS_MIN)


def warm_partitions(
    *, read_units: float = WARM_READ_UNITS_MIN, write_units: float = WARM_WRITE_UNITS_MIN
) -> int:
    """How many partitions a table of this warm throughput has: at least 4, as a new on-demand table
    [blog].

    It takes one kind of units alone to fill a partition, so the larger of the two counts decides.
    The classic formula would add them.
    """
    if read_units < 0 or write_units < 0:
        raise UsageError(f"warm throughput {read_units} and {write_units}: must be 0 or more")
    reads = max(read_units, WARM_READ_UNITS_MIN) / PARTITION_READ_UNITS
    writes = max(write_units, WARM_WRITE_UNITS_MIN) / PARTITION_WRITE_UNITS
    return ceil(max(reads, writes))


def grown_write_units(*, start_units: float, peak_units: float, seconds: float) -> float:
    """The write units a second that an on-demand table takes at most, when it has been loaded as
    much as it takes for so long, and `peak_units` were enough.

    It doubles its previous peak within 30 minutes [demand].
    """
    units = max(start_units, float(WARM_WRITE_UNITS_MIN))
    for _ in range(int(seconds // GROWTH_SECONDS)):
        if units >= peak_units:
            break
        units *= GROWTH
    return units


def split_for_heat(
    *, write_units: Sequence[float], monotonic_sort_keys: bool = False, local_indexes: bool = False
) -> int | None:
    """Where a hot partition is split, from the write units a second of its item collections in the
    order of their hashes: so many of them go to the first half. None: a split does not help.

    DynamoDB chooses the point that divides the load best [burst]. A single collection is divided by
    its sort keys (0 is given), but not if it has local indexes. If its sort keys ascend with time,
    a split does not help, since all writes go to the second half [hot]. A single item is never
    divided.
    """
    if not write_units:
        return None
    if len(write_units) == 1:
        return None if monotonic_sort_keys or local_indexes else 0
    sums = list(accumulate(write_units))
    at = bisect_left(sums, sums[-1] / 2)
    first = min(range(max(0, at - 1), min(at + 1, len(sums) - 1)), key=lambda n: _worse(sums, n))
    return first + 1


def _worse(sums: Sequence[float], last: int) -> float:
    """The load of the busier half, if the first half ends with the collection at `last`."""
    return max(sums[last], sums[-1] - sums[last])


def disagreements() -> Rows:
    """Where the classic arithmetic and today's DynamoDB disagree, with numbers of both."""
    start = new_on_demand_units()
    classic = initial_partitions(read_units=start.read, write_units=start.write)
    doubled = partitions_after_increase(partitions=4, read_units=0, write_units=5_000)
    share = units_per_partition(partitions=4, write_units=1_000).write
    return [
        ("question", "classic, provisioned", "today"),
        (
            f"partitions of a table of {start.read:,} read and {start.write:,} write units",
            f"{classic}: the sum of both shares",
            f"{warm_partitions()}: the larger of both",
        ),
        (
            "partitions after 4,000 write units became 5,000",
            f"{doubled}: every partition is split",
            f"{warm_partitions(write_units=5_000)}: only as many as are needed",
        ),
        (
            "write units of one of 4 partitions of a table of 1,000",
            f"{share:,.0f}: an even share, and {share * 300:,.0f} units of burst",
            f"up to {PARTITION_WRITE_UNITS:,}, while the table has units left",
        ),
        (
            "a partition of several hot keys",
            "throttled until the table's throughput is raised",
            "split for heat, between the keys",
        ),
        (
            "one key with ascending sort keys at 1,500 write units",
            "throttled",
            "throttled: no split helps; it takes write sharding",
        ),
        (
            "partitions after a peak has passed",
            "kept, each with a smaller share",
            "kept, each still up to its own maximum",
        ),
    ]
