"""Dollars a month, line by line. `make costs` prints the idle month from here."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tallyroll.limits import ACTION_UNITS, UNIT_BYTES, WARM_WRITE_UNITS_MIN
from tallyroll.planning import prices
from tallyroll.planning.plan import WRITER_MS_PER_MESSAGE, Plan, archived_share
from tallyroll.planning.writes import (
    DAY_UNITS,
    GATE_UNITS_A_WINDOW,
    MONTH_UNITS,
    TOTAL_UNITS,
)
from tallyroll.settings import Settings

HOURS_A_MONTH = 730
SECONDS_A_MONTH = HOURS_A_MONTH * 3_600
DAYS_A_MONTH = HOURS_A_MONTH / 24
SQS_CHUNK_BYTES = 64 * 1024
SQS_BATCH = 10
READ_UNIT_BYTES = 4 * 1024
POLLERS, POLL_SECONDS = 5, 20  # of an SQS trigger; one receive call of each lasts so long
FUNCTION_GB = 1_769 / 1024  # what the constructs give functions: one whole processor
FUNCTION_MS_IDLE = 300  # assumed: an idle run of roller or cleanup
READ_MS = 20  # assumed: a read of the aggregator
METRICS_WATCHED = 37  # by alarms, which are charged by metric; a test counts them
PAGES = 4  # composite alarms, which are charged by the alarm; a test counts them
METRICS_IDLE = 21  # of roller and cleanup; a test counts them


@dataclass(frozen=True, slots=True)
class Cost:
    """One line of a month's bill, in US dollars."""

    name: str
    dollars: float
    formula: str


def idle_month(settings: Settings) -> dict[str, float]:
    """What a pipeline costs in a month, whether anything is counted or not."""
    tables = windows_a_month(settings)
    gates = tables * settings.gates * GATE_UNITS_A_WINDOW
    runs = HOURS_A_MONTH * 60 + HOURS_A_MONTH * 12
    listed = tables * settings.buckets + runs * 20
    each_run = prices.LAMBDA_REQUEST + function_dollars(FUNCTION_MS_IDLE)
    return {
        "gates of new tables": gates * prices.WRITE_UNIT,
        "reads of roller and cleanup": listed * prices.READ_UNIT,
        "roller and cleanup": runs * each_run,
        "alarms": METRICS_WATCHED * prices.ALARM_MONTH + PAGES * prices.COMPOSITE_ALARM_MONTH,
        "metrics": METRICS_IDLE * prices.METRIC_MONTH,
        "dashboard": prices.DASHBOARD_MONTH,
    }


def windows_a_month(settings: Settings) -> float:
    """How many windows, and so tables, a month has."""
    return SECONDS_A_MONTH / settings.window_seconds


def function_dollars(ms: float) -> float:
    """What a function costs that runs for so many ms, without its request."""
    return ms / 1_000 * FUNCTION_GB * prices.LAMBDA_GB_SECOND


def month_of(plan: Plan) -> list[Cost]:
    """What a pipeline of this plan costs in a month at the load's mean rate."""
    return [
        *_writing(plan),
        *_windows(plan),
        *_queue(plan),
        *_reading(plan),
        *_storage(plan),
        *_idle(plan),
    ]


def dollars_of(plan: Plan) -> dict[str, float]:
    """The lines of a month by their names, and their sum."""
    found = {line.name: line.dollars for line in month_of(plan)}
    return {**found, "in all": sum(found.values())}


def _writing(plan: Plan) -> list[Cost]:
    events, units = plan.load.mean * SECONDS_A_MONTH, plan.batch.per_event.each
    return [
        Cost(
            "writes of events",
            events * units * prices.WRITE_UNIT,
            f"{events:,.0f} events x {units:.4f} units x ${prices.WRITE_UNIT * 1e6:g} a million",
        )
    ]


def _windows(plan: Plan) -> list[Cost]:
    settings, load = plan.settings, plan.load
    windows = windows_a_month(settings) if load.mean else 0.0
    keys = min(load.keys, max(1.0, load.mean * settings.window_seconds))
    day_keys = keys * windows and load.keys
    rolled = (DAY_UNITS * DAYS_A_MONTH + MONTH_UNITS) * day_keys if settings.rollups else 0.0
    extra = max(0, plan.warm_units - WARM_WRITE_UNITS_MIN)
    warm = windows_a_month(settings) * extra * prices.WARM_WRITE_UNIT
    return [
        Cost(
            "sealing",
            windows * keys * TOTAL_UNITS * prices.WRITE_UNIT,
            f"{windows:,.0f} windows x {keys:,.0f} keys x {TOTAL_UNITS} units",
        ),
        Cost(
            "roll-ups",
            rolled * prices.WRITE_UNIT,
            f"{day_keys:,.0f} keys x ({DAY_UNITS} units a day + {MONTH_UNITS} a month)",
        ),
        Cost(
            "warm throughput",
            warm,
            f"{windows_a_month(settings):,.0f} tables x {extra:,} units above a new table's x"
            f" ${prices.WARM_WRITE_UNIT:g}, once each",
        ),
    ]


def _queue(plan: Plan) -> list[Cost]:
    load = plan.load
    messages = load.mean * SECONDS_A_MONTH / load.events_each
    chunks = ceil(SQS_BATCH * load.message_bytes / SQS_CHUNK_BYTES)
    requests = messages / SQS_BATCH * (2 * chunks + 1)
    polls = POLLERS * SECONDS_A_MONTH / POLL_SECONDS
    batches = messages / plan.batch.records
    return [
        Cost(
            "SQS",
            requests * prices.SQS_REQUEST,
            f"{messages:,.0f} messages by tens: sent and received ({chunks} x 64 KB), deleted",
        ),
        Cost(
            "polling",
            polls * prices.SQS_REQUEST,
            f"{POLLERS} pollers, a receive each {POLL_SECONDS} s",
        ),
        Cost(
            "writers",
            function_dollars(messages * WRITER_MS_PER_MESSAGE) + batches * prices.LAMBDA_REQUEST,
            f"{messages:,.0f} messages x {WRITER_MS_PER_MESSAGE} ms x {FUNCTION_GB:.2f} GB, in"
            f" {batches:,.0f} runs",
        ),
    ]


def _reading(plan: Plan) -> list[Cost]:
    settings, load = plan.settings, plan.load
    asked = load.reads_per_second * SECONDS_A_MONTH
    if load.staleness_seconds:
        read = min(asked, load.keys * SECONDS_A_MONTH / load.staleness_seconds)
    else:
        read = asked
    live = 1 + settings.accept_for_ms / 1_000 / settings.window_seconds
    units = max(plan.stripes, plan.chosen_shards) * live
    return [
        Cost(
            "counts read",
            read * units * prices.READ_UNIT,
            f"{read:,.0f} reads x {units:,.0f} stripes in {live:g} open windows",
        ),
        Cost(
            "HTTP API",
            asked * (prices.API_REQUEST + prices.LAMBDA_REQUEST + function_dollars(READ_MS)),
            f"{asked:,.0f} requests, {READ_MS} ms of the aggregator each",
        ),
    ]


def _storage(plan: Plan) -> list[Cost]:
    settings, load = plan.settings, plan.load
    second_bytes = load.mean / load.events_each * load.item_bytes
    kept = (settings.accept_for_ms + settings.retention_ms) / 1_000 + settings.window_seconds / 2
    stored = second_bytes * kept / prices.GB
    month = second_bytes * SECONDS_A_MONTH
    recovery = stored * prices.RECOVERY_GB_MONTH if settings.point_in_time_recovery else 0.0
    units = month / READ_UNIT_BYTES
    archive = month * archived_share(load) / prices.GB
    return [
        Cost(
            "tables",
            stored * prices.TABLE_GB_MONTH,
            f"{stored:,.2f} GB at once x ${prices.TABLE_GB_MONTH:g}",
        ),
        Cost(
            "point-in-time recovery",
            recovery,
            f"{stored:,.2f} GB at once x ${prices.RECOVERY_GB_MONTH:g}",
        ),
        Cost(
            "exports",
            units * prices.READ_UNIT,
            f"{units:,.0f} read units: each item is scanned once, 4 KB a unit",
        ),
        Cost(
            "archives, of one month",
            archive * prices.ARCHIVE_GB_MONTH,
            f"{archive:,.2f} GB x ${prices.ARCHIVE_GB_MONTH:g}; each month adds as much",
        ),
    ]


def _idle(plan: Plan) -> list[Cost]:
    from_settings = {
        "gates of new tables": f"{GATE_UNITS_A_WINDOW} units a gate and window",
        "reads of roller and cleanup": "listings of each window, and of each run",
        "roller and cleanup": "a run each minute, and each five minutes",
        "alarms": f"{METRICS_WATCHED} metrics x ${prices.ALARM_MONTH:g},"
        f" {PAGES} composite alarms x ${prices.COMPOSITE_ALARM_MONTH:g}",
        "metrics": f"{METRICS_IDLE} metrics x ${prices.METRIC_MONTH:g}",
        "dashboard": "one",
    }
    gates = windows_a_month(plan.settings) * plan.gates * GATE_UNITS_A_WINDOW * prices.WRITE_UNIT
    found = {**idle_month(plan.settings), "gates of new tables": gates}
    return [Cost(name, dollars, from_settings[name]) for name, dollars in found.items()]


def deleting_month(plan: Plan) -> Cost:
    """What it would cost to delete a month's records one by one, where tables are dropped now."""
    records = plan.load.mean * SECONDS_A_MONTH / plan.load.events_each
    units = ceil(plan.load.item_bytes / UNIT_BYTES)
    return Cost(
        "deleting item by item instead",
        records * units * prices.WRITE_UNIT,
        f"{records:,.0f} records x {units} units; dropping their tables costs nothing"
        f" (in transactions it would be {ACTION_UNITS} times as much)",
    )
