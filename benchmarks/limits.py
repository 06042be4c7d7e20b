"""How many events a second one key and one table take at first: `python -m benchmarks.limits`.

`tallyroll.planning.shards` has the model. Everything is without conflicts; `benchmarks.conflicts`
has these. `--write` draws `docs/limits.svg`.
"""

from __future__ import annotations

import argparse
from functools import cache

from benchmarks.conflicts import units_each
from benchmarks.tables import Rows, show
from tallyroll.limits import ACTION_UNITS, PARTITION_WRITE_UNITS
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.plan import planned
from tallyroll.planning.shards import KeyWrites, Rates, key_rates, table_rate

SHARDS_BEFORE = 16  # N of a key before the window started with more
SHARDS = (SHARDS_BEFORE, 64, 256, 1_024)
SHARDS_NEEDED = (SHARDS_BEFORE, 256, 1_024)
RATES = (500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000)  # events a second of one key
PARTITIONS = (4, 20, 40, 80)  # 4: a new table; else as many as it has thousands of warm units


@cache
def writes() -> KeyWrites:
    """The write units of an event whose record has up to 1 KB."""
    return KeyWrites(ACTION_UNITS, units_each() - ACTION_UNITS)


@cache
def rates_of(shards: int, partitions: int) -> Rates:
    """Events a second of one key with N shards, of a table with so many partitions."""
    return key_rates(writes(), shards=shards, partitions=partitions)


def of_keys(*, unlucky: bool = False) -> Rows:
    """Events a second of one key, by partitions and by N, and of the whole table: the mean over
    where the shards are placed; or, `unlucky`, what 5 % of the placements do not reach.
    """
    rows: Rows = [
        ("partitions", *(f"one key, N = {each:,}" for each in SHARDS), "many keys, together")
    ]
    for partitions in PARTITIONS:
        found = [rates_of(shards, partitions) for shards in SHARDS]
        rates = [each.low if unlucky else each.mean for each in found]
        rates.append(table_rate(writes(), partitions=partitions))
        rows.append((f"{partitions}", *(f"{rate:,.0f}" for rate in rates)))
    return rows


def of_rates() -> Rows:
    """What one key of so many events a second needs from the first second on: the warm throughput
    with each N, and what a plan has.
    """
    rows: Rows = [
        (
            "events/s of one key",
            "write units/s",
            *(f"warm units, N = {each:,}" for each in SHARDS_NEEDED),
            "planned N, at least",
            "planned warm units",
            "writers",
            "stripes",
        )
    ]
    for rate in RATES:
        plan = planned(PeakLoad(events_per_second=rate, hottest_per_second=rate, keys=1))
        needed = [plan.warm_units_of(shards) for shards in SHARDS_NEEDED]
        rows.append(
            (
                f"{rate:,}",
                f"{plan.table_units:,.0f}",
                *("no table" if units is None else _warm(units) for units in needed),
                f"{plan.chosen_shards:,}",
                _warm(plan.warm_units),
                f"{plan.writers.needed:,}",
                f"{plan.stripes:,}",
            )
        )
    return rows


def _warm(units: int) -> str:
    return f"{units:,}" if units else "none"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="draw docs/limits.svg")
    if parser.parse_args().write:
        from benchmarks.limits_chart import FILE, drawn  # noqa: PLC0415 - it imports this

        FILE.write_text(drawn(), encoding="utf-8")
    show("Events a second, on average", of_keys(), left=0)
    show(
        "Events a second that 95 % of the placements of shards reach", of_keys(unlucky=True), left=0
    )
    show("What a rate of one key needs from the first second on", of_rates(), left=0)
    each = writes().each
    print(
        f"single events of {each:.2f} write units in full batches, without conflicts, before"
        f" DynamoDB splits hot partitions; each takes {PARTITION_WRITE_UNITS:,} units a second"
    )


if __name__ == "__main__":
    main()
