"""The dashboard: is it exact, does it keep up, what is hot, what does it cost?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch

from tallyroll.adapters.dynamodb.throughput import OF_KEY, OF_TABLE, Limit
from tallyroll.cdk.alarm_rules import TABLES
from tallyroll.cdk.functions import PipelineFunction
from tallyroll.cdk.ingest import Queues
from tallyroll.cdk.metrics import (
    DOLLARS_PER_MILLION_WRITE_UNITS,
    MINUTE,
    PipelineMetrics,
    computed,
    of_account,
)
from tallyroll.model.states import Status
from tallyroll.model.windows import KEYSPACES
from tallyroll.reasons import Reason
from tallyroll.resources import THROTTLED_KEYS_RULE
from tallyroll.settings import Settings
from tallyroll.settings.common import RETRACTION_OFF
from tallyroll.settings.options import Options

if TYPE_CHECKING:
    from constructs import Construct

_WIDTH, _HEIGHT = 8, 6  # three graphs per row
_HOUR = cdk.Duration.hours(1)
_FIVE_MINUTES = cdk.Duration.minutes(5)

Widgets = list[cloudwatch.IWidget]


def make_dashboard(
    scope: Construct,
    options: Options,
    metrics: PipelineMetrics,
    queues: Queues,
    functions: Sequence[PipelineFunction],
    alarms: Mapping[str, cloudwatch.IAlarm],
    of_api: Sequence[cloudwatch.IMetric] = (),
) -> cloudwatch.Dashboard:
    """The dashboard of a pipeline, with a graph of its API if there are metrics `of_api`.

    It is named after the pipeline and its Region, since all Regions of an account share one list of
    dashboards. Source: CloudWatch API Reference, PutDashboard.
    """
    alarm_status = cloudwatch.AlarmStatusWidget(
        title="Alarms", alarms=list(alarms.values()), width=24, height=4
    )
    return cloudwatch.Dashboard(
        scope,
        "Dashboard",
        dashboard_name=f"{options.name}-{cdk.Stack.of(scope).region}",
        widgets=[
            [alarm_status],
            [_heading("Is it exact?", "all of these are zero, or have a reason that is known")],
            _exact(metrics, queues),
            [_heading("Does it keep up?", "the oldest event is young, the states move on")],
            [
                *_keeping_up(options, metrics, queues),
                *([_graph("Private API", of_api)] if of_api else []),
            ],
            [
                _heading(
                    "What is hot?",
                    "throttles of keys ask for shards, of the table for warm throughput; conflicts"
                    " for gates and stripes",
                )
            ],
            _hot(options, metrics),
            *_throttled_keys(options.settings()),
            [_heading("What does it cost?", "prices of us-east-1, on demand")],
            _cost(options, metrics, functions),
        ],
    )


def _exact(metrics: PipelineMetrics, queues: Queues) -> Widgets:
    mismatches = [
        metrics.of(function, "ProofFailures", label=function)
        for function in ("roller", "cleanup", "dropper")
    ]
    dead = queues.dead_letters.metric_approximate_number_of_messages_visible(
        period=MINUTE, statistic="Maximum", label="dead letters"
    )
    return [
        _graph("Archives and totals that disagree", mismatches),
        _graph("What was not counted", [*metrics.by("Rejected", Reason), dead]),
        _graph("What was absorbed", metrics.writer("Duplicates", "UnknownOutcomes")),
    ]


def _keeping_up(options: Options, metrics: PipelineMetrics, queues: Queues) -> Widgets:
    events = queues.events
    backlog: list[cloudwatch.IMetric] = [
        events.metric_approximate_number_of_messages_visible(
            period=MINUTE, statistic="Maximum", label="waiting"
        ),
        events.metric_approximate_number_of_messages_not_visible(
            period=MINUTE, statistic="Maximum", label="in flight"
        ),
    ]
    age = events.metric_approximate_age_of_oldest_message(
        period=MINUTE, statistic="Maximum", label="oldest event, s"
    )
    latency: list[cloudwatch.IMetric] = [
        metrics.of("writer", "BatchLatency", "p50", label="a batch, median, ms"),
        metrics.of("writer", "BatchLatency", "p99", label="a batch, p99, ms"),
        metrics.of("aggregator", "ReadLatency", "p99", label="a read, p99, ms"),
        metrics.of("aggregator", "GatherLatency", "p99", label="of it, stripes gathered, p99, ms"),
    ]
    answered = {
        name: metrics.of("aggregator", f"Counts{name.title()}") for name in ("kept", "read")
    }
    hits = computed("100 * kept / (kept + read)", answered, "% of counts")
    retracted = () if options.settings().retraction == RETRACTION_OFF else ("EventsRetracted",)
    stuck: list[cloudwatch.IMetric] = [
        metrics.of("roller", "StuckFor", "Maximum", label="closing"),
        metrics.of("cleanup", "StuckFor", "Maximum", label="past retention"),
    ]
    return [
        _graph("Age of the oldest event", [age]),
        _graph("Backlog", backlog),
        _graph(
            "Events", metrics.writer("EventsCounted", *retracted, "HandedBack", "AwaitingWindow")
        ),
        _graph("Windows by state", metrics.windows(*(status.value for status in Status))),
        _graph("Longest standstill of a window, s", stuck),
        _graph("Tables used, % of the quota", _of_quota(options, metrics)),
        _graph("Latency", latency),
        _graph("Counts from what is kept", [hits]),
        *([_shared(metrics)] if options.cache_url else []),
    ]


def _shared(metrics: PipelineMetrics) -> cloudwatch.IWidget:
    """The hit rate of the shared cache, and what of it failed."""
    asked = {name: metrics.of("aggregator", f"Shared{name.title()}") for name in ("hits", "misses")}
    rate = computed("100 * hits / (hits + misses)", asked, "hits, % of counts asked of it")
    failed = metrics.of("aggregator", "SharedErrors", label="calls that failed")
    return _graph("Shared cache", [rate, failed])


def _of_quota(options: Options, metrics: PipelineMetrics) -> list[cloudwatch.IMetric]:
    """Both numbers of tables that the alarm `window-tables` looks at, as shares of the quota."""
    settings = options.settings()
    counted = {
        "own": (metrics.of("roller", "WindowTables", "Maximum", period=_FIVE_MINUTES), "pipeline")
    }
    if settings.store != KEYSPACES:
        every = of_account(TABLES, "ResourceCount", "Maximum", _FIVE_MINUTES)
        counted["all"] = (every, "account and Region")
    return [
        computed(f"100 * {id_} / {settings.quota}", {id_: metric}, f"{whose}, %", _FIVE_MINUTES)
        for id_, (metric, whose) in counted.items()
    ]


def _hot(options: Options, metrics: PipelineMetrics) -> Widgets:
    limits = [limit for limit in Limit if limit is not Limit.IDENTITIES or options.has_identities]
    requests = metrics.of_kinds("StoreRequests", _kinds(options))
    refused = {
        "throttles": metrics.of("writer", "Throttles"),
        "conflicts": metrics.of("writer", "Conflicts"),
        **requests,
    }
    share = computed(
        f"100 * (throttles + conflicts) / ({' + '.join(requests)})",
        refused,
        "% of requests refused",
    )
    shards: list[cloudwatch.IMetric] = [
        metrics.of("roller", "HotKeys", "Maximum", label="keys with shards of their own"),
        metrics.of("roller", "ShardsMost", "Maximum", label="most shards of a key"),
        metrics.of("aggregator", "GatherWidth", "Maximum", label="most stripes in a read"),
    ]
    return [
        _graph("Hot keys of the current window", shards),
        _graph(
            "Throttled, by limit",
            [metrics.of("writer", f"Throttles-{each}", label=_bounded(each)) for each in limits],
        ),
        _graph("In conflict", metrics.writer("Conflicts")),
        _graph("Share of requests that were refused", [share]),
    ]


def _bounded(limit: Limit) -> str:
    """A limit with what it bounds, as far as that is known."""
    if limit in OF_KEY:
        return f"{limit} (key)"
    return f"{limit} (table)" if limit in OF_TABLE else limit


def _kinds(options: Options) -> list[str]:
    """The kinds of events that a pipeline may have."""
    return ["Single", "Packed", *(["Logged"] if options.logs else [])]


def _cost(
    options: Options, metrics: PipelineMetrics, functions: Sequence[PipelineFunction]
) -> Widgets:
    hourly = metrics.of_kinds("WriteUnits", _kinds(options), _HOUR)
    price = DOLLARS_PER_MILLION_WRITE_UNITS / 1_000_000
    dollars = computed(f"({' + '.join(hourly)}) * {price:.10f}", hourly, "$ an hour", _HOUR)
    each: list[cloudwatch.IMetric] = [
        computed(
            f"units{kind} / events{kind}",
            {
                f"units{kind}": metrics.of("writer", f"WriteUnits{kind}"),
                f"events{kind}": metrics.of("writer", f"{kind}EventsCounted"),
            },
            kind.lower(),
        )
        for kind in _kinds(options)
    ]
    seconds: list[cloudwatch.IMetric] = [
        computed(
            f"{function.package} / 1000",
            {function.package: function.function.metric_duration(period=_HOUR, statistic="Sum")},
            f"{function.package}, s",
            _HOUR,
        )
        for function in functions
    ]
    sizes: list[cloudwatch.IMetric] = [
        metrics.of("writer", "ItemSize", "p50", label="an item, median, bytes"),
        metrics.of("writer", "ItemSize", "p99", label="an item, p99, bytes"),
    ]
    # Its percentile rank. Source: Amazon CloudWatch User Guide, "Statistics definitions".
    large = metrics.of("writer", "ItemSize", "PR(4096:)", label="% of items over 4 KB")
    return [
        _graph("Write units of events, in dollars", [dollars]),
        _graph("Write units an event", each),
        _graph("Lambda, seconds an hour", seconds),
        _graph("Size of stored items", sizes),
        _graph("Share of large items", [large]),
    ]


def _heading(question: str, answer: str) -> cloudwatch.IWidget:
    return cloudwatch.TextWidget(markdown=f"## {question}\n{answer}", width=24, height=2)


def _graph(title: str, shown: Sequence[cloudwatch.IMetric]) -> cloudwatch.IWidget:
    return cloudwatch.GraphWidget(
        title=title,
        left=list(shown),
        left_y_axis=cloudwatch.YAxisProps(min=0),
        width=_WIDTH,
        height=_HEIGHT,
    )


def _throttled_keys(settings: Settings) -> list[list[cloudwatch.IWidget]]:
    """A row of the dashboard. Each window's table has rules of its own, whose names end with the
    time at which they were made, so no graph can name them.
    """
    if not settings.contributor_insights:
        return []
    text = (
        f"**Which keys are throttled:** `tallyroll --name {settings.name} doctor` names them. Their"
        f" graphs are in CloudWatch's *Contributor Insights*, rules `{THROTTLED_KEYS_RULE}"
        f"{settings.name}-...`, one for each window's table."
    )
    return [[cloudwatch.TextWidget(markdown=text, width=24, height=2)]]
