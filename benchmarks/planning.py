"""The tables of docs/planning.md: `python -m benchmarks.planning`.

Two of them are simulated: whether planned numbers of shards keep what they promise, over a grid of
loads and seeds; and the largest loads of one key, over the start of a new hour.
"""

from __future__ import annotations

import time
from dataclasses import replace

from benchmarks.processes import peak_mib
from benchmarks.tables import Rows, show
from tallyroll.errors import UsageError
from tallyroll.planning.alternatives import cheaper
from tallyroll.planning.costs import (
    AGGREGATOR,
    COUNTS_READ,
    FUNCTION_GB,
    FUNCTION_MS_IDLE,
    HTTP_API,
    dollars_of,
)
from tallyroll.planning.load import COMPRESSED_SHARE, PeakLoad
from tallyroll.planning.on_demand import disagreements
from tallyroll.planning.partition_model.flow import flowed
from tallyroll.planning.partition_model.loads import fixed, flat, one_key
from tallyroll.planning.partition_model.result import TimeSeries
from tallyroll.planning.partition_model.study import world_of
from tallyroll.planning.partition_model.table import TableRules
from tallyroll.planning.partition_model.world import World
from tallyroll.planning.plan import ARCHIVED_SHARE, Plan, planned
from tallyroll.planning.reads import READ_MS, reading_of
from tallyroll.planning.shards import SHARD_SHARE_MAX
from tallyroll.planning.writers import PACKED_EVENT_MS, TRANSACTION_MS, WRITER_MS_PER_MESSAGE
from tallyroll.planning.writes import BATCH_WINDOW_SECONDS

EXAMPLE = PeakLoad(events_per_second=5_000, hottest_per_second=2_000, mean_per_second=300)
ONE_KEY = PeakLoad(events_per_second=980, hottest_per_second=980, keys=1)
READ_COSTS = (COUNTS_READ, HTTP_API, AGGREGATOR)
READS = ((10, 1), (100, 1), (1_000, 1), (20_000, 1), (20_000, 10))  # a second, staleness
SEEDS = 20
LOADS = (3_000, 10_000, 40_000)  # events a second of one key, with ids of their own
FEWER = 0.8  # of the planned shards
SPLIT_SECONDS, PAUSE_SECONDS, JUDGED_SECONDS = 900, 600, 120
PAUSE_BURST_SECONDS = 5.0  # so that a pause saves little for what comes after it
SCALES = ((10_000, 1), (100_000, 1), (1_000_000, 1), (1_000_000, 1_000))  # events/s, in a packet
SCALE_SECONDS = 5_400  # an hour, and half of the next


def assumed() -> Rows:
    """The figures that a plan does not compute."""
    return [
        ("what", "value"),
        ("share of a partition that one shard takes", f"{SHARD_SHARE_MAX}"),
        ("a writer's own time for a message, ms", f"{WRITER_MS_PER_MESSAGE}"),
        ("the same, for each event of a packet, ms", f"{PACKED_EVENT_MS}"),
        ("a full transaction, ms", f"{TRANSACTION_MS}"),
        ("Lambda's batch window, s", f"{BATCH_WINDOW_SECONDS}"),
        ("memory of functions, GB", f"{FUNCTION_GB:.2f}"),
        ("an idle run of roller, cleanup or dropper, ms", f"{FUNCTION_MS_IDLE}"),
        ("a read of the aggregator, from its cache or not, ms", f"{READ_MS}"),
        ("share of an item's bytes in an archive, of single events", f"{ARCHIVED_SHARE}"),
        ("share of a payload's bytes in a packet, unless a file is read", f"{COMPRESSED_SHARE}"),
    ]


def of_cheaper() -> Rows:
    """The example of docs/planning.md beside its cheaper plans, in US dollars a month."""
    plan = planned(EXAMPLE)
    rows: Rows = [("plan", "a month", "what it loses")]
    rows.append(("as planned", f"{dollars_of(plan)['in all']:,.2f}", ""))
    return rows + [(each.name, f"{each.dollars:,.2f}", each.loses) for each in cheaper(plan)]


def of_reads() -> Rows:
    """What reads of one key cost in US dollars a month, beside 980 events a second."""
    rows: Rows = [
        (
            "reads/s of one key",
            "at most old",
            "sandboxes",
            "reads of tables/s",
            *READ_COSTS,
            "in all",
        )
    ]
    for asked, staleness in READS:
        load = replace(ONE_KEY, reads_per_second=asked, staleness_seconds=staleness)
        plan, reading = planned(load), reading_of(load)
        costs = [dollars_of(plan)[name] for name in READ_COSTS]
        rows.append(
            (
                f"{asked:,}",
                f"{staleness} s",
                f"{reading.sandboxes:,}",
                f"{reading.from_tables:,.0f}",
                *(f"{cost:,.2f}" for cost in (*costs, sum(costs))),
            )
        )
    return rows


def world(plan: Plan, *, shards: int, warm_units: int) -> World:
    """A pipeline of a plan, with other shards or warm throughput."""
    bare = World(
        shards=shards,
        writes=plan.batch.per_event,
        rules=TableRules(warm_units=warm_units),
        writers=plan.writers.needed,
        gates=plan.gates,
    )
    return world_of(plan.load, bare)


def course(
    plan: Plan, *, shards: int, warm_units: int, seconds: float, seed: int = 1
) -> TimeSeries:
    """The course of a plan's load on one key."""
    shape = fixed("flat", flat(plan.load.events_per_second), one_key())
    made = world(plan, shards=shards, warm_units=warm_units)
    return flowed(shape, made, seconds=seconds, seed=seed)


def plan_of(events_per_second: float, packed: int = 1) -> Plan:
    """The plan of one hot key."""
    return planned(
        PeakLoad(
            events_per_second=events_per_second,
            hottest_per_second=events_per_second,
            keys=1,
            packed=packed,
        )
    )


def throttled(plan: Plan, shards: int, *, from_start: bool) -> int:
    """With how many of the seeds anything is throttled: from the first second on; or once hot
    partitions were split, and a pause let the queue become empty.
    """
    begins = 0 if from_start else SPLIT_SECONDS + PAUSE_SECONDS
    load = plan.load.events_per_second

    def rate(second: float) -> float:
        return 0.0 if SPLIT_SECONDS <= second < begins else load

    shape = fixed("with a pause", rate, one_key())
    made = world(plan, shards=shards, warm_units=plan.warm_units)
    made = replace(made, rules=replace(made.rules, burst_seconds=PAUSE_BURST_SECONDS))
    found = 0
    for seed in range(1, SEEDS + 1):
        run = flowed(shape, made, seconds=begins + JUDGED_SECONDS, seed=seed)
        found += any(refused > 0 for refused in run.refused[begins:])
    return found


def validated(loads: tuple[int, ...] = LOADS) -> Rows:
    """Whether planned shards keep what they promise."""
    rows: Rows = [
        (
            "events/s of one key",
            "shards, at least",
            "throttled after splits",
            f"the same with {FEWER:g} N",
            "shards, from the first second",
            "throttled from the start",
        )
    ]
    for load in loads:
        plan = plan_of(load)
        if plan.start_shards is None:
            raise UsageError(f"{load}: no number of shards takes it at once")
        fewer = int(plan.shards * FEWER)
        counts = (
            throttled(plan, plan.shards, from_start=False),
            throttled(plan, fewer, from_start=False),
            throttled(plan, plan.start_shards, from_start=True),
        )
        after, less, start = (f"{count} of {SEEDS}" for count in counts)
        rows.append((f"{load:,}", f"{plan.shards:,}", after, less, f"{plan.start_shards:,}", start))
    return rows


def at_scale() -> Rows:
    """The largest loads of one key, over the start of a new hour."""
    rows: Rows = [
        (
            "events/s of one key",
            "in a packet",
            "shards",
            "warm throughput",
            "longest delay, s",
            "throttled",
            "counted in time",
        )
    ]
    for rate, packed in SCALES:
        plan = plan_of(rate, packed)
        for warm in (plan.warm_units, 0) if plan.warm_units else (0,):
            shards = plan.chosen_shards
            run = course(plan, shards=shards, warm_units=warm, seconds=SCALE_SECONDS)
            rows.append(
                (
                    f"{rate:,}",
                    f"{packed:,}",
                    f"{shards:,}",
                    f"{warm:,}" if warm else "none",
                    f"{run.delay_max:,.0f}",
                    f"{run.refused_share:.1%}",
                    f"{sum(run.counted) / sum(run.came):.1%}",
                )
            )
    return rows


def measured() -> str:
    """What an hour of a million events a second on one key takes this machine."""
    began = time.process_time()
    plan = plan_of(1_000_000)
    course(plan, shards=plan.chosen_shards, warm_units=plan.warm_units, seconds=3_600)
    took = time.process_time() - began
    return (
        f"an hour of 1,000,000 events/s on one key: {took:.1f} s of the processor; at most"
        f" {peak_mib():,.0f} MiB in all"
    )


def main() -> None:
    """Print the tables."""
    for title, rows in (
        ("The classic arithmetic of partitions, and today's", disagreements()),
        ("Assumed by a plan, not computed", assumed()),
        ("A plan and cheaper ones, in US dollars", of_cheaper()),
        ("Reads of one key, in US dollars a month", of_reads()),
        (f"Throttled with so many of {SEEDS} seeds", validated()),
        ("One key at scale, over an hour and a half", at_scale()),
    ):
        show(title, rows, left=len(rows[0]))
    print(measured())


if __name__ == "__main__":
    main()
