"""A plan: what a load needs, line by line, each number with its formula and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.limits import (
    GATES_MAX,
    GATES_PER_COMMIT,
    IN_FLIGHT_MAX,
    PARTITION_WRITE_UNITS,
    SHARDS_MAX,
    STRIPES_PER_COMMIT,
    TABLE_UNITS_QUOTA,
    WARM_UNITS_MAX,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning.load import Load
from tallyroll.planning.on_demand import warm_partitions
from tallyroll.planning.shards import SHARD_SHARE_MAX, shards_at_start, sustained_shards
from tallyroll.planning.writers import TRANSACTION_MS, batch_seconds, message_ms
from tallyroll.planning.writes import BatchWrites, batch_writes
from tallyroll.settings import Settings

WARM_HEADROOMS = (1.25, 1.5, 2.0, 3.0)  # of warm throughput over the peak, the least that does
SHARDS_READ_MAX = 1_000  # a count reads as many stripes as shards: more N only if nothing else does
WRITERS_HEADROOM = 1.25  # of writers over what the peak keeps busy
BATCH_SIZE, BATCH_WINDOW_SECONDS = 1_000, 1
WRITERS_MIN, WRITERS_DEFAULT, WRITERS_MAX = 2, 4, 1_000
ARCHIVED_SHARE = 0.35  # assumed: of an item's bytes in a compressed archive
HOUR_SECONDS = 3_600


@dataclass(frozen=True, slots=True)
class Line:
    """One number of a plan: how it is computed, from what source, and what is wrong with it, if
    anything is.
    """

    name: str
    value: float
    formula: str
    source: str
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Writers:
    """How many writers take a load, and what one of them takes, in messages a second."""

    needed: int
    each_per_second: float
    batch_seconds: float


@dataclass(frozen=True)
class Plan:
    """What a load needs, for windows of these settings."""

    load: Load
    settings: Settings
    batch: BatchWrites
    writers: Writers
    shards: int
    start_shards: int | None
    warm_units: int

    @property
    def table_units(self) -> float:
        """Write units a second of one table at the peak."""
        return self.load.events_per_second * self.batch.per_event.each

    @property
    def partitions(self) -> int:
        """The partitions of a new table."""
        return warm_partitions(write_units=self.warm_units)

    @property
    def in_flight(self) -> float:
        """Messages that SQS has in flight at the peak."""
        held = BATCH_WINDOW_SECONDS + self.writers.batch_seconds
        return self.load.messages_per_second * held

    @property
    def stripes(self) -> int:
        """The least stripes of a key's tally."""
        return min(SHARDS_MAX, max(64, STRIPES_PER_COMMIT * self.commits_at_once))

    @property
    def gates(self) -> int:
        """The gates of a window."""
        return min(GATES_MAX, max(256, GATES_PER_COMMIT * self.commits_at_once))

    @property
    def commits_at_once(self) -> int:
        """Transactions that all writers have in flight at the most."""
        return self.writers.needed * self.settings.transactions_at_once

    @property
    def chosen_shards(self) -> int:
        """N to deploy: of the first second if there is one, else the most."""
        return self.start_shards or SHARDS_MAX

    def context(self) -> dict[str, Any]:
        """The CDK context that deploys the plan."""
        context: dict[str, Any] = {
            "tallyroll:window_seconds": self.settings.window_seconds,
            "tallyroll:retention_seconds": self.settings.retention_ms // 1000,
            "tallyroll:accept_for_seconds": self.settings.accept_for_ms // 1000,
            "tallyroll:max_concurrency": self.writers.needed,
            "tallyroll:warm_units": self.warm_units,
        }
        if hot := self.hot_shards():
            context["tallyroll:hot_shards"] = hot
        else:
            context["tallyroll:shards"] = max(Settings().shards, self.chosen_shards)
        context["tallyroll:shards_max"] = max(Settings().shards_max, self.chosen_shards)
        return context

    def hot_shards(self, least: int = Settings().shards) -> dict[str, int]:
        """N of the keys that the load names, where it is more than `least`, by default N of keys
        that nobody names. None needs more than the hottest, besides which the others take their
        units of the table.
        """
        writes, found = self.batch.per_event, {}
        for key, rate in self.load.hot.items():
            shards = shards_at_start(
                writes,
                events_per_second=rate,
                partitions=self.partitions,
                other_units=self.table_units - rate * writes.each,
            )
            found[key] = min(shards or SHARDS_MAX, self.chosen_shards)
        return {key: shards for key, shards in found.items() if shards > least}


def planned(load: Load, settings: Settings | None = None) -> Plan:
    """The plan of a load. Raises UsageError for a load that no pipeline takes."""
    settings = settings or Settings()
    settings.check_tables_fit()
    batch = batch_writes(load, messages=_batch_messages(load))
    writes = batch.per_event
    shards = sustained_shards(record_units=load.hottest_per_second * writes.record)
    if shards > SHARDS_MAX:
        most = SHARDS_MAX * SHARD_SHARE_MAX * PARTITION_WRITE_UNITS / writes.record
        raise UsageError(
            f"hottest_per_second {load.hottest_per_second:,.0f}: one key takes at most {most:,.0f}"
            f" a second, with {SHARDS_MAX:,} shards; pack its events, or more of them in a packet"
        )
    writers = _writers(load, batch, settings)
    units = load.events_per_second * writes.each
    warm, start = _warm(load, batch, units)
    return Plan(load, settings, batch, writers, shards, start, warm)


def _batch_messages(load: Load) -> int:
    """Messages that Lambda gathers for one writer: what comes in the batch window, up to the batch
    size.
    """
    return max(1, min(BATCH_SIZE, round(load.messages_per_second * BATCH_WINDOW_SECONDS)))


def _writers(load: Load, batch: BatchWrites, settings: Settings) -> Writers:
    seconds = batch_seconds(batch, at_once=settings.transactions_at_once)
    each = batch.records / seconds
    needed = max(WRITERS_MIN, ceil(load.messages_per_second / each * WRITERS_HEADROOM))
    if needed > WRITERS_MAX:
        raise UsageError(
            f"events_per_second {load.events_per_second:,.0f}: takes {needed:,} writers, and an SQS"
            f" trigger runs at most {WRITERS_MAX:,}; pack events, or divide them among pipelines"
        )
    return Writers(max(needed, WRITERS_DEFAULT), each, seconds)


def _warm(load: Load, batch: BatchWrites, units: float) -> tuple[int, int | None]:
    """The warm throughput, 0 for a new table's own, and the N with which the hottest key takes its
    peak from the first second on. More partitions are taken until such an N is at most 1,000.
    """
    writes, rate = batch.per_event, load.hottest_per_second

    def start(warm: float) -> int | None:
        partitions = warm_partitions(write_units=warm)
        return shards_at_start(
            writes,
            events_per_second=rate,
            partitions=partitions,
            other_units=units - rate * writes.each,
        )

    if units <= WARM_WRITE_UNITS_MIN and (shards := start(WARM_WRITE_UNITS_MIN)):
        return 0, shards
    choices = []
    for headroom in WARM_HEADROOMS:
        warm = max(WARM_WRITE_UNITS_MIN, units * headroom)
        warm = ceil(warm / PARTITION_WRITE_UNITS) * PARTITION_WRITE_UNITS
        if warm <= WARM_UNITS_MAX and (shards := start(warm)):
            choices.append((warm if warm > WARM_WRITE_UNITS_MIN else 0, shards))
            if shards <= SHARDS_READ_MAX:
                return choices[-1]
    if choices:
        return choices[0]
    warm = ceil(units * WARM_HEADROOMS[0] / PARTITION_WRITE_UNITS) * PARTITION_WRITE_UNITS
    return min(WARM_UNITS_MAX, warm), None


def archived_share(load: Load) -> float:
    """The share of the items' bytes that archives have. Packets are compressed already."""
    return ARCHIVED_SHARE if load.packed == 1 else 1.0


def lines_of(plan: Plan) -> list[Line]:
    """The plan, line by line."""
    return [
        *_unit_lines(plan),
        *_table_lines(plan),
        *_writer_lines(plan),
        *_storage_lines(plan),
    ]


def _unit_lines(plan: Plan) -> list[Line]:
    load, batch, writes = plan.load, plan.batch, plan.batch.per_event
    over_quota = f"over the default quota of {TABLE_UNITS_QUOTA:,} a table: ask for more"
    return [
        Line(
            "write units an event",
            round(writes.each, 4),
            f"({batch.records} records x {batch.record_units} + 2 x ({batch.tallies:.1f} tallies +"
            f" {batch.transactions} gates)) / {batch.records * load.events_each:g} events",
            "Transactions: two units per KB of each item",
        ),
        Line(
            "events a transaction",
            round(batch.records * load.events_each / batch.transactions, 1),
            f"{batch.records} records / {batch.transactions} transactions of at most 100 actions",
            "Transactions: 100 actions",
        ),
        Line(
            "write units a second",
            ceil(plan.table_units),
            f"{load.events_per_second:,.0f} events x {writes.each:.4f}",
            "Quotas: table throughput",
            over_quota if max(plan.table_units, plan.warm_units) > TABLE_UNITS_QUOTA else "",
        ),
    ]


def _table_lines(plan: Plan) -> list[Line]:
    load, writes = plan.load, plan.batch.per_event
    hot_units = load.hottest_per_second * writes.record
    unreached = (
        f"no N up to {SHARDS_MAX:,} takes the peak at once: the rest waits in the queue until"
        " partitions are split; pack events"
    )
    cold = f"hourly tables start at {WARM_WRITE_UNITS_MIN:,}"
    return [
        Line(
            "shards, at least",
            plan.shards,
            f"ceil({hot_units:,.0f} record units of the hottest key / ({SHARD_SHARE_MAX} x"
            f" {PARTITION_WRITE_UNITS:,}))",
            "Partition keys: 1,000 write units a partition; with fewer, splits do not help",
        ),
        Line(
            "shards, from the first second",
            plan.chosen_shards,
            f"the fullest of {plan.partitions:,} partitions, in 95 % of placements, takes"
            f" {load.hottest_per_second:,.0f} events",
            "docs/sharding.md, limits per key",
            "" if plan.start_shards else unreached,
        ),
        Line(
            "stripes of a tally",
            plan.stripes,
            f"max(64, {STRIPES_PER_COMMIT} x {plan.commits_at_once} transactions at once)",
            "docs/sharding.md, conflicts",
        ),
        Line(
            "gates of a window",
            plan.gates,
            f"min({GATES_MAX:,}, max(256, {GATES_PER_COMMIT} x {plan.commits_at_once}"
            " transactions at once))",
            "docs/sharding.md, conflicts",
        ),
        Line(
            "initial partitions",
            plan.partitions,
            f"max(4, {max(plan.warm_units, WARM_WRITE_UNITS_MIN):,} / {PARTITION_WRITE_UNITS:,})",
            "Warm throughput, Partition keys",
        ),
        Line(
            "warm throughput",
            plan.warm_units,
            f"0: {plan.table_units:,.0f} units fit into a new table's {WARM_WRITE_UNITS_MIN:,}"
            if not plan.warm_units
            else f"{plan.table_units:,.0f} units and headroom, in whole partitions; {cold}",
            "Warm throughput: 4,000 writes for a new on-demand table",
            "" if not plan.warm_units else "charged for each table, so for each window",
        ),
    ]


def _writer_lines(plan: Plan) -> list[Line]:
    load, batch, writers = plan.load, plan.batch, plan.writers
    each = writers.each_per_second
    rounds = ceil(batch.transactions / plan.settings.transactions_at_once)
    beyond = "messages wait, and SQS delivers no more of them: pack events"
    return [
        Line(
            "writers",
            writers.needed,
            f"max({WRITERS_DEFAULT}, ceil({load.messages_per_second:,.0f} messages /"
            f" {each:,.0f} x {WRITERS_HEADROOM}))",
            "assumed times of a message and a transaction",
        ),
        Line(
            "messages a batch",
            batch.records,
            f"min({BATCH_SIZE:,}, what comes in {BATCH_WINDOW_SECONDS} s)",
            "Lambda: batch size and batch window of SQS",
        ),
        Line(
            f"events a second of {WRITERS_DEFAULT} writers",
            round(WRITERS_DEFAULT * each * load.events_each),
            f"{WRITERS_DEFAULT} x {batch.records * load.events_each:g} events /"
            f" ({batch.records} x {message_ms(load.events_each):g} ms + {rounds} x"
            f" {TRANSACTION_MS} ms)",
            "assumed times of a message and a transaction",
        ),
        Line(
            "messages in flight",
            ceil(plan.in_flight),
            f"{load.messages_per_second:,.0f} x ({BATCH_WINDOW_SECONDS} s +"
            f" {writers.batch_seconds:.2f} s), of about {IN_FLIGHT_MAX:,}",
            "SQS: messages in flight of a standard queue",
            beyond if plan.in_flight > IN_FLIGHT_MAX else "",
        ),
    ]


def _storage_lines(plan: Plan) -> list[Line]:
    settings, load = plan.settings, plan.load
    records = load.mean * settings.window_seconds / load.events_each
    share = archived_share(load)
    archived = records * load.item_bytes * share
    return [
        Line(
            "tables at once",
            settings.tables_kept,
            f"{settings.ahead_windows} ahead + 1 + ({settings.accept_for_ms // 1000:,} s +"
            f" {settings.retention_ms // 1000:,} s) / {settings.window_seconds:,} s, of"
            f" {settings.table_quota:,}",
            "Quotas: tables of an account in a Region",
        ),
        Line(
            "archive of a window, MB",
            round(archived / 1e6, 3),
            f"{records:,.0f} records x {load.item_bytes:,.0f} bytes x {share:g} compressed",
            "assumed share of compression",
        ),
    ]


def as_json(plan: Plan, dollars: Mapping[str, float]) -> dict[str, Any]:
    """The plan for machines."""
    return {
        "load": {
            "events_per_second": plan.load.events_per_second,
            "hottest_per_second": plan.load.hottest_per_second,
            "mean_per_second": plan.load.mean,
            "event_bytes": plan.load.event_bytes,
            "keys": plan.load.keys,
            "packed": plan.load.packed,
        },
        "shards": plan.shards,
        "shards_at_start": plan.start_shards,
        "warm_units": plan.warm_units,
        "partitions": plan.partitions,
        "writers": plan.writers.needed,
        "lines": [
            {
                "name": line.name,
                "value": line.value,
                "formula": line.formula,
                "source": line.source,
                "warning": line.warning or None,
            }
            for line in lines_of(plan)
        ],
        "dollars_a_month": {name: round(cost, 2) for name, cost in dollars.items()},
        "context": plan.context(),
    }
