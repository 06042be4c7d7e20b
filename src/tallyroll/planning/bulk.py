"""A bulk load: what it takes to write given items within a given time, and what it costs once.

Source: [part] as in `tallyroll.planning.partitions`, its example of a bulk load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from tallyroll.errors import UsageError
from tallyroll.limits import PARTITION_WRITE_UNITS, WARM_WRITE_UNITS_MIN
from tallyroll.model.windows import Grid
from tallyroll.planning import prices
from tallyroll.planning.costs import SECONDS_A_MONTH, WRITES, CostLine, month_of
from tallyroll.planning.lines import PlanLine, lines_of
from tallyroll.planning.load import PeakLoad, Sample
from tallyroll.planning.partitions import (
    bulk_load_write_units,
    initial_partitions,
    rounded_units,
)
from tallyroll.planning.plan import Plan, planned
from tallyroll.planning.writes import TOTAL_UNITS, gate_units
from tallyroll.settings import Settings

WITHIN_MAX_SECONDS = 30 * 86_400
ITEMS_MAX = 10**12
_OF_PLAN = (
    "write units an event",
    "write units a second",
    "shards, from the first second",
    "initial partitions",
    "warm throughput",
    "writers",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkLoad:
    """Items to write: how many, the bytes of one, the share of the hottest key, and how many keys
    they have. `windows` are those that they lie in, `totals` the keys of each, summed up.
    """

    items: int
    item_bytes: int
    keys: int
    hottest_share: float
    windows: int
    totals: int
    packed_event_bytes: float | None = None

    def load(self, seconds: float, *, packed: int = 1) -> PeakLoad:
        """The load that writes them in that time, keys in turn. Raises UsageError."""
        if not 1 <= self.items <= ITEMS_MAX:
            raise UsageError(f"items {self.items:,}: must be from 1 to 10^12")
        if not 1 <= seconds <= WITHIN_MAX_SECONDS:
            raise UsageError(f"within {seconds:g} s: must be from 1 s to 30 days")
        rate = self.items / seconds
        return PeakLoad(
            events_per_second=rate,
            hottest_per_second=rate * self.hottest_share,
            mean_per_second=self.items / SECONDS_A_MONTH,
            event_bytes=self.item_bytes,
            keys=self.keys,
            packed=packed,
            packed_event_bytes=self.packed_event_bytes,
        )


def bulk_of(sample: Sample, settings: Settings) -> BulkLoad:
    """The bulk load of a file's events. Raises UsageError if there are none, or none with times."""
    load = sample.load(packed=1, reads_per_second=0, staleness_seconds=0)
    grid = Grid.of(settings.window_length)
    starts = {second: grid.at(second * 1_000).start for second in sample.by_second}
    return BulkLoad(
        items=sample.events,
        item_bytes=load.event_bytes,
        keys=load.keys,
        hottest_share=max(sample.by_key.values()) / sample.events,
        windows=len(set(starts.values())),
        totals=len({(key, starts[second]) for key, second in sample.by_key_second}),
        packed_event_bytes=load.packed_event_bytes,
    )


def bulk_plan(bulk: BulkLoad, settings: Settings, *, seconds: float, packed: int = 1) -> Plan:
    """The plan of a pipeline that takes the load in that time. Raises UsageError."""
    return planned(bulk.load(seconds, packed=packed), settings)


def bulk_lines(bulk: BulkLoad, made: Plan) -> list[PlanLine]:
    """What it takes: as items of a table, as the guide computes it, and as events here."""
    seconds = bulk.items / made.load.events_per_second
    units = bulk_load_write_units(items=bulk.items, item_bytes=bulk.item_bytes, seconds=seconds)
    rounded = max(1, rounded_units(units=units))
    classic = "Guidelines for tables, 2012-08-10: a bulk load"
    here = {line.name: line for line in lines_of(made)}
    return [
        PlanLine(
            "write units a second, as plain items",
            round(units) if units >= 10 else round(units, 2),
            f"{bulk.items:,} items x {units * seconds / bulk.items:g} / {seconds:,.0f} s; to two"
            f" digits {rounded:,}",
            classic,
        ),
        PlanLine(
            "partitions, as plain items",
            initial_partitions(write_units=units),
            f"ceil({units:,.6g} / {PARTITION_WRITE_UNITS:,}); of {rounded:,}"
            f" {initial_partitions(write_units=rounded)}",
            classic,
        ),
        PlanLine(
            "events a second",
            ceil(made.load.events_per_second),
            f"{bulk.items:,} events / {seconds:,.0f} s: tallyroll load --rate",
            "docs/load.md",
        ),
        *(here[name] for name in _OF_PLAN),
        PlanLine(
            "windows to open",
            bulk.windows,
            "that the events lie in; tallyroll load --open-windows opens those that are over",
            "docs/load.md",
        ),
    ]


def bulk_costs(bulk: BulkLoad, made: Plan) -> list[CostLine]:
    """What it costs once, in US dollars, without storage."""
    month: Mapping[str, CostLine] = {line.name: line for line in month_of(made)}
    gates = bulk.windows * gate_units(gates=made.gates)
    warm = bulk.windows * max(0, made.warm_units - WARM_WRITE_UNITS_MIN)
    write = f"${prices.WRITE_UNIT * 1e6:g} a million"
    return [
        month[WRITES],
        month["SQS"],
        month["writers"],
        CostLine(
            "gates of new tables",
            gates * prices.WRITE_UNIT,
            f"{bulk.windows:,} windows x {made.gates:,} gates, {gates:,} units x {write}",
        ),
        CostLine(
            "sealing",
            bulk.totals * TOTAL_UNITS * prices.WRITE_UNIT,
            f"{bulk.totals:,} totals x {TOTAL_UNITS} units x {write}",
        ),
        CostLine(
            "warm throughput",
            warm * prices.WARM_WRITE_UNIT,
            f"{bulk.windows:,} tables, {warm:,} units above a new table's x"
            f" ${prices.WARM_WRITE_UNIT:g}, once each; {prices.WARM_ASSUMED}"
            if warm
            else "none: a new table takes it",
        ),
    ]
