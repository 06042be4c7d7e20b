"""How many events a second one key and one table take at first: `python -m benchmarks.limits`.

`tallyroll.planning.shards` has the model. Everything is without conflicts; `benchmarks.conflicts`
has these.
"""

from __future__ import annotations

from benchmarks.conflicts import units_each
from benchmarks.tables import Rows, show
from tallyroll.limits import (
    ACTION_UNITS,
    PARTITION_WRITE_UNITS,
    SHARDS_FEW,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning.shards import KeyWrites, key_rates, table_rate
from tallyroll.settings import Settings

SHARDS = (SHARDS_FEW, 64, Settings().shards, 1_024)
TABLE_UNITS = (WARM_WRITE_UNITS_MIN, 40_000)  # new on demand; and with warm throughput


def writes() -> KeyWrites:
    """The write units of an event whose record has up to 1 KB."""
    return KeyWrites(ACTION_UNITS, units_each() - ACTION_UNITS)


def of_keys(units: int = WARM_WRITE_UNITS_MIN) -> Rows:
    """Events a second of one key by its shards, and of the whole table, of so many write units a
    second.
    """
    partitions = units // PARTITION_WRITE_UNITS
    rows: Rows = [("of a table", "mean", "5th percentile", "95th percentile")]
    for shards in SHARDS:
        found = key_rates(writes(), shards=shards, partitions=partitions)
        rates = (found.mean, found.low, found.high)
        rows.append((f"one key, N = {shards}", *(f"{rate:,.0f}" for rate in rates)))
    together = table_rate(writes(), partitions=partitions)
    rows.append(("many keys, together", *(f"{together:,.0f}",) * 3))
    return rows


def main() -> None:
    """Print the tables."""
    for units in TABLE_UNITS:
        show(f"Events a second, at {units:,} write units a second", of_keys(units))
    print(
        "single events in full batches, without conflicts; percentiles of where shards are placed"
    )


if __name__ == "__main__":
    main()
