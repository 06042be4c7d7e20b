"""The local engine publishes the writer's metrics, as Lambda and CloudWatch Logs do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from local.runtime.metrics import WriterMetrics
from local.runtime.poller import Polled, Poller
from local.runtime.pool import FunctionError


class Counter:
    """A poller that has only counted."""

    polled = Polled()


class CloudWatch:
    """Takes metrics, unless it fails."""

    def __init__(self) -> None:
        self.taken: list[dict[str, float]] = []
        self.printed: list[dict[str, Any]] = []
        self.fails = False

    def put_metric_data(self, **params: Any) -> None:
        if self.fails:
            raise ClientError({"Error": {"Code": "No"}}, "PutMetricData")
        if params["Namespace"] == "Tallyroll":
            self.printed += params["MetricData"]
            return
        assert params["Namespace"] == "AWS/Lambda"
        self.taken.append({one["MetricName"]: one["Value"] for one in params["MetricData"]})


def test_invocations_since_last_time_are_told() -> None:
    poller, client = Counter(), CloudWatch()
    metrics = WriterMetrics(client, "votes-writer", "votes", cast("Poller", poller))
    metrics.invoke({})
    assert client.taken == []
    poller.polled = replace(poller.polled, ended=5, killed=1, broken=2, errors=9)
    metrics.invoke({})
    metrics.invoke({})
    poller.polled = replace(poller.polled, ended=6)
    metrics.invoke({})
    assert client.taken == [{"Invocations": 5, "Errors": 3}, {"Invocations": 1, "Errors": 0}]


def test_what_could_not_be_told_is_told_next_time() -> None:
    poller, client = Counter(), CloudWatch()
    metrics = WriterMetrics(client, "votes-writer", "votes", cast("Poller", poller))
    poller.polled = replace(poller.polled, ended=5)
    client.fails = True
    with pytest.raises(FunctionError):
        metrics.invoke({})
    client.fails = False
    metrics.invoke({})
    assert client.taken == [{"Invocations": 5, "Errors": 0}]


def test_what_the_writer_prints_is_published() -> None:
    client = CloudWatch()
    metrics = WriterMetrics(client, "votes-writer", "votes", cast("Poller", Counter()))
    for counted in (3, 0, 7):
        metrics.log(json.dumps({"_aws": {}, "EventsCounted": [counted], "Duplicates": [1]}))
    for line in ('no JSON "_aws"', '["_aws"]', '{"level": "INFO"}'):
        metrics.log(line)
    client.fails = True
    with pytest.raises(FunctionError):
        metrics.invoke({})
    client.fails = False
    for _ in range(2):
        metrics.invoke({})
    (one,) = client.printed
    assert one["MetricName"] == "EventsCounted"
    assert {each["Name"]: each["Value"] for each in one["Dimensions"]} == {
        "pipeline": "votes",
        "service": "writer",
    }
    counts = {"SampleCount": 2, "Sum": 10, "Minimum": 3, "Maximum": 7}
    assert one["StatisticValues"] == counts


def test_what_a_measured_plan_reads_is_published_too() -> None:
    client = CloudWatch()
    metrics = WriterMetrics(client, "votes-writer", "votes", cast("Poller", Counter()))
    counts = {"Messages": [4], "SingleEventsCounted": [3], "PackedEventsCounted": [200]}
    metrics.log(json.dumps({"_aws": {}, **counts}))
    metrics.invoke({})
    sums = {each["MetricName"]: each["StatisticValues"]["Sum"] for each in client.printed}
    assert sums == {name: value for name, (value,) in counts.items()}
