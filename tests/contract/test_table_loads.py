"""How much is asked of tables, by DynamoDB's metrics on CloudWatch, on moto."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.pipeline import Pipeline
from tallyroll.ports.table_listing import TableLoad
from tallyroll.settings import Settings
from tests.contract.engines import SteadyEffects

AGO_MS = 300_000
UNITS, THROTTLED = "ConsumedWriteCapacityUnits", "WriteThrottleEvents"


@pytest.fixture
def metrics() -> Iterator[QueueMetrics]:
    with mock_aws():
        yield Pipeline(Settings(name="votes"), SteadyEffects()).queue_metrics


def put(at: int, table: str, values: Mapping[str, float]) -> None:
    make_client("cloudwatch").put_metric_data(
        Namespace="AWS/DynamoDB",
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": "TableName", "Value": table}],
                "Timestamp": datetime.fromtimestamp(at / 1000, UTC),
                "Value": value,
            }
            for name, value in values.items()
        ],
    )


def load(metrics: QueueMetrics, table: str) -> TableLoad:
    return metrics.table_load(table, metrics._effects.now() - AGO_MS)


def minute(metrics: QueueMetrics, ago: int) -> int:
    return metrics._effects.now() // 60_000 * 60_000 - ago * 60_000


def test_the_busiest_minute_and_all_throttles(metrics: QueueMetrics) -> None:
    put(minute(metrics, 3), "t", {UNITS: 120_000, THROTTLED: 7})
    put(minute(metrics, 2), "t", {UNITS: 240_000, THROTTLED: 3})
    put(minute(metrics, 30), "t", {UNITS: 900_000, THROTTLED: 99})
    put(minute(metrics, 2), "other", {UNITS: 900_000, THROTTLED: 99})
    assert load(metrics, "t") == TableLoad(units=4_000, throttled=10)


def test_limits_that_were_given_are_told_apart_from_those_of_partitions(
    metrics: QueueMetrics,
) -> None:
    given = {
        "WriteAccountLimitThrottleEvents": 1,
        "WriteMaxOnDemandThroughputThrottleEvents": 2,
        "WriteProvisionedThroughputThrottleEvents": 4,
        "WriteKeyRangeThroughputThrottleEvents": 8,
    }
    put(minute(metrics, 2), "t", {UNITS: 60, THROTTLED: 15, **given})
    assert load(metrics, "t") == TableLoad(units=1, throttled=15, given=7)


def test_a_table_that_is_not_throttled_takes_one_call(metrics: QueueMetrics) -> None:
    put(minute(metrics, 2), "t", {UNITS: 240_000})
    asked: list[str] = []
    metrics._caller._observe = lambda operation, _ms, _code: asked.append(operation)
    assert load(metrics, "t") == TableLoad()
    assert asked == ["GetMetricStatistics"]
