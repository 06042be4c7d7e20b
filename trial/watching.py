"""Which metrics that alarms watch must have data after a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tallyroll.adapters.dynamodb.throughput import OF_KEY, OF_TABLE
from tallyroll.cdk.alarm_rules import API, DEAD_LETTERS, rules_for
from tallyroll.cdk.alarm_values import MetricNamespace, Watched
from tallyroll.settings import Settings

# A trial counts without the API and its function.
_UNUSED = (API, "aggregator")
# What is published only in trouble. An empty queue that nobody asks publishes nothing.
_IN_TROUBLE = frozenset(
    {
        (MetricNamespace.QUEUE, DEAD_LETTERS, "ApproximateAgeOfOldestMessage"),
        (MetricNamespace.QUEUE, DEAD_LETTERS, "ApproximateNumberOfMessagesVisible"),
        (MetricNamespace.PIPELINE, "writer", "HeldByRate"),
        (MetricNamespace.PIPELINE, "writer", "OldestHandedBack"),
        *((MetricNamespace.PIPELINE, "writer", f"Throttles-{each}") for each in OF_KEY + OF_TABLE),
    }
)


def has_data(metric: Watched) -> bool:
    """Whether a trial in health brings data of a metric."""
    named = (metric.source, metric.of, metric.name)
    return metric.of not in _UNUSED and named not in _IN_TROUBLE


def watched(cloudwatch: Any, pipeline: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each metric that must have data, as CloudWatch describes it, after its alarm's name. An alarm
    that is not there has an empty description.
    """
    settings = Settings(name=pipeline)
    rules = rules_for(settings, settings.queue_retention_ms // 1000)
    named = {f"{pipeline}-{id_}": rule for id_, rule in rules.items()}
    described = cloudwatch.describe_alarms(AlarmNames=[*named])["MetricAlarms"]
    alarms = {alarm["AlarmName"]: alarm for alarm in described}
    for name, rule in named.items():
        if name not in alarms:
            yield name, {}
            continue
        parts = alarms[name].get("Metrics") or ()
        by_id = {one["Id"]: one["MetricStat"]["Metric"] for one in parts if "MetricStat" in one}
        for id_, metric in rule.metrics.items():
            if has_data(metric):  # CloudFormation names the only metric of an alarm as it likes
                yield (
                    name,
                    by_id[id_] if rule.expression else next(iter(by_id.values()), alarms[name]),
                )
