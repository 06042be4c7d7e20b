"""Publishes the writer's metrics that the pipeline reads: how often it was invoked and failed, as
Lambda does by the minute, and its own, which it prints as EMF, as CloudWatch Logs does.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local.runtime.poller import Poller
from local.runtime.pool import FunctionError
from tallyroll.adapters.aws.cloudwatch import (
    EVENTS_COUNTED,
    HANDED_BACK_AGE,
    NOTES_FAILED,
    OWN_NAMESPACE,
)

OWN = (
    EVENTS_COUNTED,
    HANDED_BACK_AGE,
    NOTES_FAILED,
    "Messages",
    "SingleEventsCounted",
    "PackedEventsCounted",
    "LoggedEventsCounted",
    "StoreRequestsSingle",
    "StoreRequestsPacked",
    "StoreRequestsLogged",
    "WriteUnitsLogged",
)


class WriterMetrics:
    """What a schedule invokes to publish what has happened since last time.

    Args:
        client: A boto3 client of CloudWatch.
        function: The writer's name.
        pipeline: The pipeline's name.
        poller: What invokes the writer.
    """

    def __init__(self, client: Any, function: str, pipeline: str, poller: Poller) -> None:
        self._client = client
        self._of_lambda = [{"Name": "FunctionName", "Value": function}]
        self._of_writer = [
            {"Name": "pipeline", "Value": pipeline},
            {"Name": "service", "Value": "writer"},
        ]
        self._poller = poller
        self._report = (0, 0)
        self._printed: defaultdict[str, list[float]] = defaultdict(list)
        self._lock = threading.Lock()

    def log(self, line: str) -> None:
        """Take in one line of the writer's output."""
        if '"_aws"' not in line:
            return
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if not isinstance(entry, dict) or "_aws" not in entry:
            return
        with self._lock:
            for name in OWN:
                values = entry.get(name, [])
                self._printed[name] += [value for value in values if value]

    def invoke(self, event: Any, *, kill_after_ms: float | None = None) -> None:  # noqa: ARG002
        """Put the counts, if there was an invocation. Raises FunctionError."""
        polled = self._poller.polled
        ended, failed = polled.ended, polled.killed + polled.broken
        more = {"Invocations": ended - self._report[0], "Errors": failed - self._report[1]}
        if more["Invocations"]:
            values = {name: {"Value": value} for name, value in more.items()}
            self._put("AWS/Lambda", self._of_lambda, values)
            self._report = (ended, failed)
        with self._lock:
            printed = {name: list(values) for name, values in self._printed.items() if values}
        if printed:
            sets = {name: {"StatisticValues": _set(values)} for name, values in printed.items()}
            self._put(OWN_NAMESPACE, self._of_writer, sets)
        with self._lock:
            for name, sent in printed.items():
                del self._printed[name][: len(sent)]

    def _put(self, namespace: str, dimensions: list[Any], values: dict[str, Any]) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        data = [
            {"MetricName": name, "Dimensions": dimensions, "Timestamp": now, **value}
            for name, value in values.items()
        ]
        try:
            self._client.put_metric_data(Namespace=namespace, MetricData=data)
        except (BotoCoreError, ClientError) as error:
            raise FunctionError(type(error).__name__, str(error)) from error


def _set(values: list[float]) -> dict[str, float]:
    return {
        "SampleCount": len(values),
        "Sum": sum(values),
        "Minimum": min(values),
        "Maximum": max(values),
    }
