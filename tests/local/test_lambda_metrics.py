"""The local engine tells of the writer's invocations, as Lambda does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from local.runtime.metrics import LambdaMetrics
from local.runtime.poller import Polled, Poller
from local.runtime.pool import FunctionError


class Counter:
    """A poller that has only counted."""

    polled = Polled()


class CloudWatch:
    """Takes metrics, unless it fails."""

    def __init__(self) -> None:
        self.taken: list[dict[str, float]] = []
        self.fails = False

    def put_metric_data(self, **params: Any) -> None:
        if self.fails:
            raise ClientError({"Error": {"Code": "No"}}, "PutMetricData")
        assert params["Namespace"] == "AWS/Lambda"
        self.taken.append({one["MetricName"]: one["Value"] for one in params["MetricData"]})


def test_invocations_since_last_time_are_told() -> None:
    poller, client = Counter(), CloudWatch()
    metrics = LambdaMetrics(client, "votes-writer", cast("Poller", poller))
    metrics.invoke({})
    assert client.taken == []
    poller.polled = replace(poller.polled, ended=5, killed=1, broken=2, errors=9)
    metrics.invoke({})
    metrics.invoke({})
    poller.polled = replace(poller.polled, ended=6)
    metrics.invoke({})
    assert client.taken == [
        {"Invocations": 5, "Errors": 3},
        {"Invocations": 1, "Errors": 0},
    ]


def test_what_could_not_be_told_is_told_next_time() -> None:
    poller, client = Counter(), CloudWatch()
    metrics = LambdaMetrics(client, "votes-writer", cast("Poller", poller))
    poller.polled = replace(poller.polled, ended=5)
    client.fails = True
    with pytest.raises(FunctionError):
        metrics.invoke({})
    client.fails = False
    metrics.invoke({})
    assert client.taken == [{"Invocations": 5, "Errors": 0}]
