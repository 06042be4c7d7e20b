"""Dollars a month, line by line. `make costs` prints the idle month from here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from tallyroll.limits import (
    ACTION_UNITS,
    QUEUE_BATCH_MAX,
    QUEUE_CHARGED_BYTES,
    READ_UNIT_BYTES,
    WARM_WRITE_UNITS_MIN,
    write_units,
)
from tallyroll.planning import prices
from tallyroll.planning.identities import ITEM_BYTES as IDENTITY_BYTES
from tallyroll.planning.identities import IdentityLoad
from tallyroll.planning.plan import Plan
from tallyroll.planning.reads import READ_MS
from tallyroll.planning.writes import (
    DAY_UNITS,
    GATE_UNITS_A_WINDOW,
    MONTH_UNITS,
    TOTAL_UNITS,
    KeysTotalled,
    distinct_keys,
)
from tallyroll.settings import Settings

HOURS_A_MONTH = 730
SECONDS_A_MONTH = HOURS_A_MONTH * 3_600
SECONDS_A_DAY = 24 * 3_600
DAYS_A_MONTH = HOURS_A_MONTH / 24
# Pollers of an SQS trigger; one receive call of each lasts so long. With a maximum concurrency
# Lambda does not reduce them on an idle queue. Source: AWS Lambda Developer Guide, "Configuring
# scaling behavior for SQS event source mappings".
POLLERS, POLL_SECONDS = 5, 20
TOTAL_ITEM_BYTES = 60  # of an item in the table of totals, with a key of ten bytes; a test compares
TALLY_ITEM_BYTES = 70  # the same, of a stripe of a tally
FUNCTION_GB = 1_769 / 1024  # what the constructs give functions: one whole processor
FUNCTION_MS_IDLE = 300  # assumed: an idle run of roller, cleanup or dropper
RUNS_A_MONTH = HOURS_A_MONTH * 60 + 2 * HOURS_A_MONTH * 12  # of roller, cleanup and dropper
RUN_READS = 20  # read units of one of them
METRICS_WATCHED = 57  # by alarms, which are charged by metric; a test counts them
PAGES = 4  # composite alarms, which are charged by the alarm; a test counts them
METRICS_IDLE = 24  # of roller, cleanup and dropper; a test counts them
WRITES = "writes of events"
WRITES_OF_LOGS, READS_OF_LOGS = "writes of logs", "reads of their slots"
WRITES_OF_IDS, IDS = "writes of their ids", "ids that stay taken"
COUNTS_READ, HTTP_API, AGGREGATOR = "counts read", "HTTP API", "aggregator"
WARM_THROUGHPUT = "warm throughput"


@dataclass(frozen=True, slots=True)
class CostLine:
    """One line of a month's bill, in US dollars."""

    name: str
    dollars: float
    formula: str


@dataclass(frozen=True, slots=True)
class StoredSize:
    """What is stored for some events: bytes and items of window tables, items of totals, and the
    share of the window tables' bytes that archives have.
    """

    table_bytes: float
    table_items: float
    total_items: float
    archived_share: float

    def stored_gb(self, settings: Settings) -> float:
        """GB in window tables for a month, if the events are those of a month: tables are dropped
        when the retention has passed.
        """
        kept = (settings.accept_for_ms + settings.retention_ms) / 1_000
        kept += settings.lasting.mean / 2_000
        billed = self.table_bytes + self.table_items * prices.ITEM_OVERHEAD_BYTES
        return billed / prices.GB * kept / SECONDS_A_MONTH

    @property
    def export_units(self) -> float:
        """Read units of one scan, which asks for consistency."""
        return self.table_bytes / READ_UNIT_BYTES

    @property
    def archive_gb(self) -> float:
        """GB of archives."""
        return self.table_bytes * self.archived_share / prices.GB

    @property
    def totals_gb(self) -> float:
        """GB in the table of totals, which nothing deletes."""
        return self.total_items * (TOTAL_ITEM_BYTES + prices.ITEM_OVERHEAD_BYTES) / prices.GB

    def costs(self, settings: Settings) -> list[CostLine]:
        """What it costs; archives and totals for their first month."""
        stored, recovered = self.stored_gb(settings), settings.point_in_time_recovery
        total_price = prices.TABLE_GB_MONTH + prices.RECOVERY_GB_MONTH
        return [
            CostLine(
                "tables",
                stored * prices.TABLE_GB_MONTH,
                f"{stored:,.2f} GB at once x ${prices.TABLE_GB_MONTH:g}, with"
                f" {prices.ITEM_OVERHEAD_BYTES} bytes for each item",
            ),
            CostLine(
                "point-in-time recovery",
                stored * prices.RECOVERY_GB_MONTH * recovered,
                f"{stored:,.2f} GB at once x ${prices.RECOVERY_GB_MONTH:g}"
                if recovered
                else "off for window tables",
            ),
            CostLine(
                "exports",
                self.export_units * prices.READ_UNIT,
                f"{self.export_units:,.0f} read units x {_a_million(prices.READ_UNIT)}: each"
                " item is scanned once, 4 KB a unit",
            ),
            CostLine(
                "archives, of one month",
                self.archive_gb * prices.ARCHIVE_GB_MONTH,
                f"{self.archive_gb:,.2f} GB x ${prices.ARCHIVE_GB_MONTH:g}; each month adds as"
                " much",
            ),
            CostLine(
                "totals, of one month",
                self.totals_gb * total_price,
                f"{self.totals_gb:,.2f} GB x ${total_price:g} with point-in-time recovery; each"
                " month adds as much",
            ),
        ]


def idle_month(settings: Settings) -> dict[str, float]:
    """What a pipeline costs in a month, whether anything is counted or not."""
    tables = windows_a_month(settings)
    gates = tables * settings.gates * GATE_UNITS_A_WINDOW
    listed = tables * settings.buckets + RUNS_A_MONTH * RUN_READS
    each_run = prices.LAMBDA_REQUEST + function_dollars(FUNCTION_MS_IDLE)
    return {
        "gates of new tables": gates * prices.WRITE_UNIT,
        WARM_THROUGHPUT: warm_dollars(settings, settings.warm_units),
        "reads of scheduled functions": listed * prices.READ_UNIT,
        "scheduled functions": RUNS_A_MONTH * each_run,
        "polling": POLLERS * SECONDS_A_MONTH / POLL_SECONDS * prices.SQS_REQUEST,
        "alarms": METRICS_WATCHED * prices.ALARM_MONTH + PAGES * prices.COMPOSITE_ALARM_MONTH,
        "metrics": METRICS_IDLE * prices.METRIC_MONTH,
        "dashboard": prices.DASHBOARD_MONTH,
    }


def warm_dollars(settings: Settings, warm_units: int) -> float:
    """What warm throughput costs in a month: above a new table's own, for each window's table."""
    extra = max(0, warm_units - WARM_WRITE_UNITS_MIN)
    return windows_a_month(settings) * extra * prices.WARM_WRITE_UNIT


def windows_a_month(settings: Settings) -> float:
    """How many windows, and so tables, a month has."""
    return SECONDS_A_MONTH / (settings.lasting.mean / 1_000)


def function_dollars(ms: float) -> float:
    """What a function costs that runs for so many ms, without its request."""
    return ms / 1_000 * FUNCTION_GB * prices.LAMBDA_GB_SECOND


def _a_million(price: float) -> str:
    return f"${price * 1e6:g} a million"


def _run_of(ms: float) -> str:
    """What a run of a function costs, as a formula."""
    return (
        f"({ms / 1_000:g} s x {FUNCTION_GB:.4g} GB x {_a_million(prices.LAMBDA_GB_SECOND)} +"
        f" {_a_million(prices.LAMBDA_REQUEST)})"
    )


def month_of(plan: Plan) -> list[CostLine]:
    """What a pipeline of this plan costs in a month at the load's mean rate."""
    return [
        *_writing(plan),
        *_windows(plan),
        *_queue(plan),
        *_reading(plan),
        *_storage(plan),
        *(_identities(plan, plan.identities) if plan.identities else ()),
        *_idle(plan),
    ]


def dollars_of(plan: Plan) -> dict[str, float]:
    """The lines of a month by their names, and their sum."""
    found = {line.name: line.dollars for line in month_of(plan)}
    return {**found, "in all": sum(found.values())}


def _writing(plan: Plan) -> list[CostLine]:
    events, units = plan.load.recorded.mean * SECONDS_A_MONTH, plan.per_event.each
    return [
        *(_logs(plan) if plan.load.logs else ()),
        CostLine(
            WRITES,
            events * units * prices.WRITE_UNIT,
            f"{events:,.0f} events x {units:.4f} units x {_a_million(prices.WRITE_UNIT)}",
        ),
    ]


def _logs(plan: Plan) -> list[CostLine]:
    logged = plan.logged_on_average
    events = logged.events * SECONDS_A_MONTH
    lines = (
        (WRITES_OF_LOGS, logged.writes, prices.WRITE_UNIT),
        (READS_OF_LOGS, logged.reads, prices.READ_UNIT),
    )
    return [
        CostLine(
            name,
            units * SECONDS_A_MONTH * price,
            f"{events:,.0f} logged events x {units / max(1e-9, logged.events):.4f} units x"
            f" {_a_million(price)}",
        )
        for name, units, price in lines
    ]


def _windows(plan: Plan) -> list[CostLine]:
    settings, keys = plan.settings, totalled(plan)
    rolled = keys.rollup_units if settings.rollups else 0.0
    return [
        CostLine(
            "sealing",
            keys.sealing_units * prices.WRITE_UNIT,
            f"{keys.windows:,.0f} totals x {TOTAL_UNITS} units x {_a_million(prices.WRITE_UNIT)}:"
            f" keys of {windows_a_month(settings):,.0f} windows",
        ),
        CostLine(
            "roll-ups",
            rolled * prices.WRITE_UNIT,
            f"({keys.days:,.0f} keys of days x {DAY_UNITS} units + {keys.months:,.0f} of the month"
            f" x {MONTH_UNITS}) x {_a_million(prices.WRITE_UNIT)}"
            if settings.rollups
            else "off",
        ),
    ]


def totalled(plan: Plan) -> KeysTotalled:
    """How many totals a month's windows, days and the month itself have."""

    def keys_in(seconds: float) -> float:
        return distinct_keys(plan.load, plan.load.mean * seconds / plan.load.events_each)

    return KeysTotalled(
        windows=windows_a_month(plan.settings) * keys_in(plan.settings.lasting.mean / 1_000),
        days=DAYS_A_MONTH * keys_in(SECONDS_A_DAY),
        months=keys_in(SECONDS_A_MONTH),
    )


def _queue(plan: Plan) -> list[CostLine]:
    load = plan.load
    messages = load.mean * SECONDS_A_MONTH / load.events_each
    chunks = ceil(QUEUE_BATCH_MAX * load.message_bytes / QUEUE_CHARGED_BYTES)
    requests = messages / QUEUE_BATCH_MAX * (2 * chunks + 1)
    batches, batch_ms = messages / plan.batch.records, plan.writers.batch_seconds * 1_000
    return [
        CostLine(
            "SQS",
            requests * prices.SQS_REQUEST,
            f"{requests:,.0f} requests x {_a_million(prices.SQS_REQUEST)}: {messages:,.0f} messages"
            f" by tens, sent and received ({chunks} x 64 KB each), deleted",
        ),
        CostLine(
            "writers",
            batches * (prices.LAMBDA_REQUEST + function_dollars(batch_ms)),
            f"{batches:,.0f} batches x {_run_of(batch_ms)}: {plan.batch.records:,} messages each",
        ),
    ]


def _reading(plan: Plan) -> list[CostLine]:
    settings, found = plan.settings, plan.reading
    asked, read = (each * SECONDS_A_MONTH for each in (found.asked, found.from_tables))
    live = 1 + settings.accept_for_ms / settings.lasting.mean
    larger = f"the larger of {plan.stripes:,} stripes and the N of keys that have their own"
    return [
        CostLine(
            COUNTS_READ,
            read * plan.items_of_count * live * prices.READ_UNIT,
            f"{read:,.0f} reads of tables x {plan.items_of_count:,} items ({larger}) x {live:.3g}"
            f" open windows x 1 read unit x {_a_million(prices.READ_UNIT)}",
        ),
        CostLine(
            HTTP_API,
            asked * prices.API_REQUEST,
            f"{asked:,.0f} requests x {_a_million(prices.API_REQUEST)}",
        ),
        CostLine(
            AGGREGATOR,
            asked * (prices.LAMBDA_REQUEST + function_dollars(READ_MS)),
            f"{asked:,.0f} requests, from a cache or not, x {_run_of(READ_MS)}",
        ),
    ]


def _storage(plan: Plan) -> list[CostLine]:
    keys, items = totalled(plan), plan.items_of(SECONDS_A_MONTH)
    tallies = min(items.items, keys.windows * plan.stripes)
    periods = keys if plan.settings.rollups else replace(keys, days=0, months=0)
    kept = StoredSize(
        table_bytes=items.table_bytes + tallies * TALLY_ITEM_BYTES,
        table_items=items.items + tallies,
        total_items=periods.items,
        archived_share=items.archived_share,
    )
    return kept.costs(plan.settings)


def _identities(plan: Plan, found: IdentityLoad) -> list[CostLine]:
    events = plan.load.recorded.mean * SECONDS_A_MONTH
    gb, price = found.stored_gb, prices.TABLE_GB_MONTH + prices.RECOVERY_GB_MONTH
    return [
        CostLine(
            WRITES_OF_IDS,
            events * found.each * prices.WRITE_UNIT,
            f"{events:,.0f} events x {found.each:.4f} units x {_a_million(prices.WRITE_UNIT)}",
        ),
        CostLine(
            IDS,
            gb * price,
            f"{gb:,.2f} GB x ${price:g} with point-in-time recovery: {found.items:,.0f} of"
            f" {found.days} days x {IDENTITY_BYTES + prices.ITEM_OVERHEAD_BYTES} bytes, once those"
            " have passed",
        ),
    ]


def _idle(plan: Plan) -> list[CostLine]:
    tables, polls = windows_a_month(plan.settings), POLLERS * SECONDS_A_MONTH / POLL_SECONDS
    from_settings = {
        "gates of new tables": f"{tables:,.0f} tables x {plan.gates:,} gates x"
        f" {GATE_UNITS_A_WINDOW} units x {_a_million(prices.WRITE_UNIT)}",
        WARM_THROUGHPUT: f"{tables:,.0f} tables x"
        f" {max(0, plan.warm_units - WARM_WRITE_UNITS_MIN):,} units above a new table's x"
        f" ${prices.WARM_WRITE_UNIT:g}, once each"
        + (f"; {prices.WARM_ASSUMED}" if plan.warm_units else ""),
        "polling": f"{polls:,.0f} requests x {_a_million(prices.SQS_REQUEST)}: {POLLERS} pollers, a"
        f" receive each {POLL_SECONDS} s",
        "reads of scheduled functions": f"({tables:,.0f} tables x {plan.settings.buckets:,} buckets"
        f" + {RUNS_A_MONTH:,} runs x {RUN_READS}) x {_a_million(prices.READ_UNIT)}",
        "scheduled functions": f"{RUNS_A_MONTH:,} runs x {_run_of(FUNCTION_MS_IDLE)}: roller each"
        " minute, cleanup and dropper each five",
        "alarms": f"{METRICS_WATCHED} metrics x ${prices.ALARM_MONTH:g},"
        f" {PAGES} composite alarms x ${prices.COMPOSITE_ALARM_MONTH:g}",
        "metrics": f"{METRICS_IDLE} metrics x ${prices.METRIC_MONTH:g}",
        "dashboard": f"${prices.DASHBOARD_MONTH:g}",
    }
    gates = tables * plan.gates * GATE_UNITS_A_WINDOW * prices.WRITE_UNIT
    warm = warm_dollars(plan.settings, plan.warm_units)
    planned = {"gates of new tables": gates, WARM_THROUGHPUT: warm}
    found = {**idle_month(plan.settings), **planned}
    return [CostLine(name, dollars, from_settings[name]) for name, dollars in found.items()]


def deleting_month(plan: Plan) -> CostLine:
    """What it would cost to delete a month's records one by one, where tables are dropped now."""
    items = plan.items_of(SECONDS_A_MONTH)
    records, units = items.items, write_units(items.table_bytes / max(1, items.items))
    return CostLine(
        "deleting item by item instead",
        records * units * prices.WRITE_UNIT,
        f"{records:,.0f} records x {units} units x {_a_million(prices.WRITE_UNIT)};"
        " dropping their tables costs nothing"
        f" (in transactions it would be {ACTION_UNITS} times as much)",
    )
