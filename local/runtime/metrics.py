"""Publishes how often the writer was invoked and failed, as Lambda does by the minute."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local.runtime.poller import Poller
from local.runtime.pool import FunctionError


class LambdaMetrics:
    """What a schedule invokes to publish the counts of a poller's invocations since last time.

    Args:
        client: A boto3 client of CloudWatch.
        function: The writer's name.
        poller: What invokes it.
    """

    def __init__(self, client: Any, function: str, poller: Poller) -> None:
        self._client = client
        self._dimensions = [{"Name": "FunctionName", "Value": function}]
        self._poller = poller
        self._told = (0, 0)

    def invoke(self, event: Any, *, kill_after_ms: float | None = None) -> None:  # noqa: ARG002
        """Put the counts, if there was an invocation. Raises FunctionError."""
        polled = self._poller.polled
        ended, failed = polled.ended, polled.killed + polled.broken
        more = {"Invocations": ended - self._told[0], "Errors": failed - self._told[1]}
        if not more["Invocations"]:
            return
        now = datetime.now(UTC).replace(microsecond=0)
        try:
            self._client.put_metric_data(
                Namespace="AWS/Lambda",
                MetricData=[
                    {
                        "MetricName": name,
                        "Dimensions": self._dimensions,
                        "Timestamp": now,
                        "Value": value,
                    }
                    for name, value in more.items()
                ],
            )
        except (BotoCoreError, ClientError) as error:
            raise FunctionError(type(error).__name__, str(error)) from error
        self._told = (ended, failed)
