"""A plan line by line, each number with its formula and its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from tallyroll.limits import (
    GATES_MAX,
    GATES_PER_COMMIT,
    IDENTITY_UNITS,
    IN_FLIGHT_MAX,
    PARTITION_READ_UNITS,
    PARTITION_WRITE_UNITS,
    SHARDS_MAX,
    STRIPES_PER_COMMIT,
    TABLE_UNITS_QUOTA,
    TRANSACTION_ACTIONS_MAX,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning import prices
from tallyroll.planning.identities import IdentityLoad
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.plan import (
    WRITERS_DEFAULT,
    WRITERS_HEADROOM,
    Plan,
)
from tallyroll.planning.reads import API_READS_QUOTA, READ_MS, SANDBOXES_QUOTA
from tallyroll.planning.shards import SHARD_SHARE_MAX
from tallyroll.planning.suffixes import product_shares, product_warning
from tallyroll.planning.writers import TRANSACTION_MS, message_ms
from tallyroll.planning.writes import BATCH_SIZE, BATCH_WINDOW_SECONDS, LogLoad
from tallyroll.settings import Settings


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One number of a plan: how it is computed, from what source, and what is wrong with it, if
    anything is.
    """

    name: str
    value: float
    formula: str
    source: str
    warning: str = ""


def lines_of(plan: Plan) -> list[PlanLine]:
    """The plan, line by line."""
    return [
        *_unit_lines(plan),
        *_table_lines(plan),
        *(_identity_lines(plan, plan.identities) if plan.identities else ()),
        *_writer_lines(plan),
        *(_reading_lines(plan) if plan.load.reads_per_second else ()),
        *_storage_lines(plan),
    ]


def _unit_lines(plan: Plan) -> list[PlanLine]:
    load, batch, writes = plan.load, plan.record_batch, plan.per_event
    recorded, logged = load.recorded.events_per_second, plan.logged
    in_logs = f" + {logged.events:,.0f} logged events x {_each(logged.writes, logged):.4f}"
    over_quota = f"over the default quota of {TABLE_UNITS_QUOTA:,} a table: ask for more"
    return [
        PlanLine(
            "write units an event",
            round(writes.each, 4),
            f"({batch.records} records x {batch.record_units} + 2 x ({batch.tallies:.1f} tallies +"
            f" {batch.transactions} gates)) / {batch.records * load.events_each:g} events",
            "Transactions: two units per KB of each item",
        ),
        PlanLine(
            "events a transaction",
            round(batch.records * load.events_each / batch.transactions, 1),
            f"{batch.records} records / {batch.transactions} transactions of at most"
            f" {TRANSACTION_ACTIONS_MAX} actions",
            f"Transactions: {TRANSACTION_ACTIONS_MAX} actions",
        ),
        PlanLine(
            "write units a second",
            ceil(plan.table_units),
            f"{recorded:,.0f} events x {writes.each:.4f}{in_logs if load.logs else ''}",
            "Quotas: table throughput",
            over_quota if max(plan.table_units, plan.warm_units) > TABLE_UNITS_QUOTA else "",
        ),
        *(_log_lines(plan) if load.logs else ()),
    ]


def _log_lines(plan: Plan) -> list[PlanLine]:
    logged = plan.logged
    source = "docs/benchmarks.md, logs"
    by = f"{plan.writers.needed} writers, a batch a second each; as measured with as many"
    return [
        PlanLine(
            "events in a leaf of a log",
            round(logged.events / (logged.leaves or 1), 1),
            f"those of a batch in a slot: {plan.writers.needed} writers, a batch a second each",
            "docs/sharding.md, logs",
        ),
        PlanLine(
            "write units of a logged event",
            round(_each(logged.writes, logged), 4),
            by,
            source,
        ),
        PlanLine("read units of a logged event", round(_each(logged.reads, logged), 4), by, source),
    ]


def _each(units: float, logged: LogLoad) -> float:
    return units / logged.events if logged.events else 0.0


def _table_lines(plan: Plan) -> list[PlanLine]:
    load, writes = plan.load, plan.per_event
    hottest = load.recorded.hottest_per_second
    hot_units = hottest * writes.record
    unreached = (
        f"no N up to {SHARDS_MAX:,} takes the peak at once: the rest waits in the queue until"
        " partitions are split; pack events"
    )
    cold = f"hourly tables start at {WARM_WRITE_UNITS_MIN:,}"
    return [
        PlanLine(
            "shards, at least",
            plan.shards,
            f"ceil({hot_units:,.0f} record units of the hottest key / ({SHARD_SHARE_MAX} x"
            f" {PARTITION_WRITE_UNITS:,}))",
            f"Partition keys: {PARTITION_WRITE_UNITS:,} write units a partition; with fewer, splits"
            " do not help",
        ),
        PlanLine(
            "shards, from the first second",
            plan.chosen_shards,
            f"the fullest of {plan.partitions:,} partitions, in 95 % of placements, takes"
            f" {hottest:,.0f} events",
            "docs/sharding.md, limits per key",
            "" if plan.start_shards else unreached,
        ),
        PlanLine(
            "least stripes of a tally",
            plan.stripes,
            f"max(64, {STRIPES_PER_COMMIT} x {plan.commits_at_once} transactions at once)",
            "docs/sharding.md, conflicts",
        ),
        PlanLine(
            "gates of a window",
            plan.gates,
            f"min({GATES_MAX:,}, max(256, {GATES_PER_COMMIT} x {plan.commits_at_once}"
            " transactions at once))",
            "docs/sharding.md, conflicts",
        ),
        PlanLine(
            "initial partitions",
            plan.partitions,
            f"max(4, {max(plan.warm_units, WARM_WRITE_UNITS_MIN):,} / {PARTITION_WRITE_UNITS:,})",
            "Warm throughput, Partition keys",
        ),
        PlanLine(
            "warm throughput",
            plan.warm_units,
            f"0: {ceil(plan.table_units):,} units fit into a new table's {WARM_WRITE_UNITS_MIN:,}"
            if not plan.warm_units
            else f"{ceil(plan.table_units):,} units and headroom, in whole partitions; {cold}",
            f"Warm throughput: {WARM_WRITE_UNITS_MIN:,} writes for a new on-demand table",
            ""
            if not plan.warm_units
            else f"charged for each table, so for each window; {prices.WARM_ASSUMED}",
        ),
        *_uneven(plan.settings),
        *_without_more_shards(plan),
    ]


def _uneven(settings: Settings) -> list[PlanLine]:
    """What the plan leaves out if shards are uneven."""
    warning, name = product_warning(settings), "share of random ids on the fullest shard"
    if not warning:
        return []
    most = max(product_shares(settings.shards).values())
    formula = f"the product of code points modulo {settings.shards}, ids of eight digits"
    return [PlanLine(name, round(most, 4), formula, "docs/sharding.md", warning)]


def _without_more_shards(plan: Plan) -> list[PlanLine]:
    """What the table would need with N as it is set, if the plan has more."""
    shards = plan.settings.shards
    units = plan.warm_units_of(shards)
    if shards >= plan.chosen_shards or units is None:
        return []
    return [
        PlanLine(
            f"warm throughput with {shards:,} shards",
            units,
            f"the same {plan.load.recorded.hottest_per_second:,.0f} events, in 95 % of placements,"
            f" without the plan's {plan.chosen_shards:,} shards",
            "docs/sharding.md, limits per key",
        )
    ]


def _identity_lines(plan: Plan, found: IdentityLoad) -> list[PlanLine]:
    load, most = plan.load, TABLE_UNITS_QUOTA
    extra = found.warm_units - WARM_WRITE_UNITS_MIN
    once = f"{extra:,} units above a new table's x ${prices.WARM_WRITE_UNIT:g}"
    return [
        PlanLine(
            "write units of an event's id",
            round(found.each, 4),
            f"{IDENTITY_UNITS} / {load.events_each:g} events, beside those of its record",
            "Transactions: two units per KB of each item",
        ),
        PlanLine(
            "write units of ids a second",
            ceil(found.units),
            f"{load.messages_per_second:,.0f} messages x {IDENTITY_UNITS}, of all windows together",
            "Quotas: table throughput",
            f"over the default quota of {most:,}, which is {most // IDENTITY_UNITS:,} messages a"
            " second of all windows together: ask for more, or pack events"
            if max(found.units, found.warm_units) > most
            else "",
        ),
        PlanLine(
            "warm throughput of identities",
            found.warm_units,
            f"{ceil(found.units):,} units and headroom, in whole partitions"
            if found.warm_units
            else f"0: {ceil(found.units):,} units fit into a new table's {WARM_WRITE_UNITS_MIN:,}",
            f"Warm throughput: {WARM_WRITE_UNITS_MIN:,} writes for a new on-demand table",
            f"set by UpdateTable on NAME-identities, and charged once: {once} ="
            f" ${extra * prices.WARM_WRITE_UNIT:,.2f}; {prices.WARM_ASSUMED}"
            if found.warm_units
            else "",
        ),
    ]


def _writer_lines(plan: Plan) -> list[PlanLine]:
    load, batch, writers = plan.load, plan.batch, plan.writers
    each = writers.each_per_second
    rounds = ceil(batch.transactions / plan.settings.transactions_at_once)
    beyond = "messages wait, and SQS delivers no more of them: pack events"
    return [
        PlanLine(
            "writers",
            writers.needed,
            f"max({WRITERS_DEFAULT}, ceil({load.messages_per_second:,.0f} messages /"
            f" {each:,.0f} x {WRITERS_HEADROOM}))",
            "assumed times of a message and a transaction",
        ),
        PlanLine(
            "messages a batch",
            batch.records,
            f"min({BATCH_SIZE:,}, what comes in {BATCH_WINDOW_SECONDS} s)",
            "Lambda: batch size and batch window of SQS",
        ),
        PlanLine(
            f"events a second of {WRITERS_DEFAULT} writers",
            round(WRITERS_DEFAULT * each * load.events_each),
            f"{WRITERS_DEFAULT} x {batch.records * load.events_each:g} events /"
            f" ({batch.records} x {message_ms(load.events_each):g} ms + {rounds} x"
            f" {TRANSACTION_MS} ms)",
            "assumed times of a message and a transaction",
        ),
        PlanLine(
            "messages in flight",
            ceil(plan.in_flight),
            f"{load.messages_per_second:,.0f} x ({BATCH_WINDOW_SECONDS} s +"
            f" {writers.batch_seconds:.2f} s), of about {IN_FLIGHT_MAX:,}",
            "SQS: messages in flight of a standard queue",
            beyond if plan.in_flight > IN_FLIGHT_MAX else "",
        ),
    ]


def _reading_lines(plan: Plan) -> list[PlanLine]:
    load, found = plan.load, plan.reading
    cached = f"{found.sandboxes:,} caches x {load.asked:,} keys / {load.staleness_seconds:g} s"
    over_api = (
        f"over API Gateway's default quota of {API_READS_QUOTA:,} a second, and the most of"
        " tallyroll:reads_per_second"
    )
    table = plan.partitions * PARTITION_READ_UNITS
    over_table = (
        f"over the {min(table, TABLE_UNITS_QUOTA):,} that the table gives: counts are throttled."
        " Let them be older: tallyroll:cache_live_seconds"
    )
    over_lambda = f"over Lambda's default quota of {SANDBOXES_QUOTA:,} functions at once"
    return [
        PlanLine(
            "counts asked for, a second",
            found.asked,
            "as asked for",
            "Quotas of API Gateway",
            over_api if found.asked > API_READS_QUOTA else "",
        ),
        PlanLine(
            "sandboxes of the aggregator",
            found.sandboxes,
            f"{found.asked:,.10g} reads x {READ_MS} ms, one at a time each (Little's law)",
            "Lambda: concurrency; assumed time of a read",
            over_lambda if found.sandboxes > SANDBOXES_QUOTA else "",
        ),
        PlanLine(
            "of these from tables, a second",
            round(found.from_tables, 1),
            f"min({found.asked:,.10g}, {cached}): each sandbox has a cache of its own"
            if load.staleness_seconds
            else "nothing is cached",
            "docs/deploy.md, tallyroll:cache_live_seconds",
        ),
        PlanLine(
            "read units a second, of a table",
            round(plan.read_units),
            f"{found.from_tables:,.10g} of them x {plan.items_of_count:,} stripes;"
            f" {plan.partitions} partitions have {table:,}",
            f"Partition keys: {PARTITION_READ_UNITS:,} read units a partition; Quotas: table"
            " throughput",
            over_table if plan.read_units > min(table, TABLE_UNITS_QUOTA) else "",
        ),
    ]


def _storage_lines(plan: Plan) -> list[PlanLine]:
    settings = plan.settings
    kept = plan.items_of(settings.lasting.mean / 1_000)
    return [
        PlanLine(
            "tables at once",
            settings.tables_kept,
            f"{settings.ahead_windows} ahead + 1 + ({settings.accept_for_ms // 1000:,} s +"
            f" {settings.retention_ms // 1000:,} s) / {settings.lasting.shortest // 1000:,} s, of"
            f" {settings.table_quota:,}",
            "Quotas: tables of an account in a Region",
        ),
        PlanLine(
            "archive of a window, MB",
            round(kept.table_bytes * kept.archived_share / 1e6, 3),
            f"{kept.items:,.0f} records x {kept.table_bytes / max(1, kept.items):,.0f} bytes x"
            f" {kept.archived_share:.3g} compressed",
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
            **_logs_json(plan.load),
        },
        "shards": plan.shards,
        "shards_at_start": plan.start_shards,
        "warm_units": plan.warm_units,
        "partitions": plan.partitions,
        "writers": plan.writers.needed,
        "lines": told(lines_of(plan)),
        "dollars_a_month": {name: round(cost, 2) for name, cost in dollars.items()},
        "context": plan.context(),
    }


def _logs_json(load: PeakLoad) -> dict[str, Any]:
    return {"logs": {key: each._asdict() for key, each in load.logs.items()}} if load.logs else {}


def told(lines: Iterable[PlanLine]) -> list[dict[str, Any]]:
    """The lines for machines."""
    return [{**asdict(line), "warning": line.warning or None} for line in lines]
