"""Reads CloudWatch's metrics of a queue, of the writer that it feeds, and of tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tallyroll.adapters.aws.client import Caller
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Invocations
from tallyroll.ports.table_listing import TableLoad

DATAPOINTS_MAX = 1_440  # of one GetMetricStatistics [CloudWatch API Reference]
OWN_NAMESPACE = "Tallyroll"
HANDED_BACK_AGE = "OldestHandedBack"
NOTES_FAILED = "NotesFailed"
EVENTS_COUNTED = "EventsCounted"
TABLE_PERIOD_S = 60  # DynamoDB publishes a minute's sums
# Throttles at limits of a whole table. Source: DynamoDB Developer Guide, "CloudWatch throttling
# metrics".
_GIVEN = (
    "WriteAccountLimitThrottleEvents",
    "WriteMaxOnDemandThroughputThrottleEvents",
    "WriteProvisionedThroughputThrottleEvents",
)


class QueueMetrics:
    """The metrics of one queue, with one datapoint per `period_ms`.

    `writer` is the Lambda function that the queue feeds, "" if there is none; `pipeline` is the
    dimension of the metrics that this function publishes.
    """

    def __init__(
        self,
        caller: Caller,
        effects: Effects,
        *,
        queue: str,
        period_ms: int,
        writer: str = "",
        pipeline: str = "",
    ) -> None:
        self._caller = caller
        self._effects = effects
        self._queue = queue
        self._period_s = max(1, period_ms // 1000)
        self._writer = writer
        self._own = {"pipeline": pipeline, "service": "writer"}

    def ages(self, since: int) -> tuple[tuple[int, int], ...]:
        """The age of the oldest message in each period since `since`: (start, age), both ms."""
        since = max(since, self._effects.now() - DATAPOINTS_MAX * self._period_s * 1000)
        points = self.points(
            "AWS/SQS",
            "ApproximateAgeOfOldestMessage",
            {"QueueName": self._queue},
            "Maximum",
            since,
            self._period_s,
        )
        return tuple((at, round(age * 1000)) for at, age in points.items())

    def invocations(self, since: int) -> tuple[Invocations, ...]:
        """The writer's invocations in each period since `since` (ms).

        Lambda does not count throttled attempts as invocations (AWS Lambda Developer Guide, "Types
        of metrics for Lambda functions"), so they are added. A batch whose notes could not be
        written counts as failed.
        """
        if not self._writer:
            return ()
        period_s = self.period_for(since)
        invoked, errors, throttled = (
            self.points("AWS/Lambda", name, {"FunctionName": self._writer}, "Sum", since, period_s)
            for name in ("Invocations", "Errors", "Throttles")
        )
        unnoted = self.points(OWN_NAMESPACE, NOTES_FAILED, self._own, "Sum", since, period_s)
        failures = (errors, throttled, unnoted)
        return tuple(
            Invocations(
                until=at + period_s * 1000,
                total=round(invoked.get(at, 0) + throttled.get(at, 0)),
                failed=round(sum(each.get(at, 0) for each in failures)),
            )
            for at in sorted({*invoked, *errors, *throttled, *unnoted})
        )

    def handed_back(self, since: int) -> tuple[tuple[int, int], ...]:
        """The age of the oldest message that writers handed back, in the form of `ages`."""
        points = self.points(
            OWN_NAMESPACE, HANDED_BACK_AGE, self._own, "Maximum", since, self.period_for(since)
        )
        return tuple((at, round(age * 1000)) for at, age in points.items())

    def counted(self, since: int) -> tuple[tuple[int, int], ...]:
        """The events that writers counted in each period since `since`: (start ms, number)."""
        period_s = self.period_for(since)
        points = self.points(OWN_NAMESPACE, EVENTS_COUNTED, self._own, "Sum", since, period_s)
        return tuple((at, round(number)) for at, number in points.items())

    def table_load(self, table: str, since: int) -> TableLoad:
        """Of most tables only one metric is asked for: whether any write was throttled."""
        throttled = sum(self._of_table(table, "WriteThrottleEvents", since))
        if not throttled:
            return TableLoad()
        units = max(self._of_table(table, "ConsumedWriteCapacityUnits", since), default=0.0)
        given = sum(sum(self._of_table(table, name, since)) for name in _GIVEN)
        return TableLoad(units / TABLE_PERIOD_S, round(throttled), round(given))

    def _of_table(self, table: str, name: str, since: int) -> list[float]:
        of = {"TableName": table}
        found = self.points("AWS/DynamoDB", name, of, "Sum", since, TABLE_PERIOD_S)
        return list(found.values())

    def now(self) -> int:
        """The time (ms) until which metrics are read."""
        return self._effects.now()

    def period_for(self, since: int) -> int:
        """The shortest period (s) with which one call covers all since `since`."""
        span_s = max(0, self._effects.now() - since) // 1000 + 1
        return -(-span_s // ((DATAPOINTS_MAX - 1) * self._period_s)) * self._period_s

    def points(
        self,
        namespace: str,
        name: str,
        dimensions: Mapping[str, str],
        statistic: str,
        since: int,
        period_s: int,
    ) -> dict[int, float]:
        """A metric's statistic in each period (s) since `since` (ms) that has one: start to value,
        ascending.
        """
        now = self._effects.now()
        if since // 1000 >= now // 1000:  # CloudWatch's times are whole seconds
            return {}
        reply = self._caller.read(
            "GetMetricStatistics",
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
            StartTime=datetime.fromtimestamp(since // 1000, UTC),
            EndTime=datetime.fromtimestamp(now / 1000, UTC),
            Period=period_s,
            Statistics=[statistic],
        )
        return {
            round(point["Timestamp"].timestamp() * 1000): float(point[statistic])
            for point in sorted(reply["Datapoints"], key=lambda point: point["Timestamp"])
        }
