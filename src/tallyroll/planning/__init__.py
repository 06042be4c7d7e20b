"""How many shards and partitions, how much throughput, and what it costs, before a deployment.

The functions here are plain arithmetic: they call nothing and need no AWS account.
"""

from tallyroll.planning.on_demand import (
    grown_write_units,
    new_on_demand_units,
    split_for_heat,
    warm_partitions,
)
from tallyroll.planning.partitions import (
    PartitionUnits,
    adaptive_capacity,
    bulk_load_write_units,
    burst_lasts_seconds,
    burst_units,
    initial_partitions,
    isolated_items,
    partitions_after_increase,
    rounded_units,
    split_partition,
    storage_partitions,
    table_steps,
    units_per_partition,
)

__all__ = [
    "PartitionUnits",
    "adaptive_capacity",
    "bulk_load_write_units",
    "burst_lasts_seconds",
    "burst_units",
    "grown_write_units",
    "initial_partitions",
    "isolated_items",
    "new_on_demand_units",
    "partitions_after_increase",
    "rounded_units",
    "split_for_heat",
    "split_partition",
    "storage_partitions",
    "table_steps",
    "units_per_partition",
    "warm_partitions",
]
