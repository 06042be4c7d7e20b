"""What a trial used, by AWS's metrics, and what that costs by `tallyroll.planning.prices`.

Sources: CloudWatch User Guide; AWS Lambda Developer Guide, "Types of metrics for Lambda functions";
Amazon DynamoDB Developer Guide, "DynamoDB metrics and dimensions"; Amazon SQS Developer Guide,
"Available CloudWatch metrics for Amazon SQS".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any

from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.planning import prices
from tallyroll.planning.costs import FUNCTION_GB, HOURS_A_MONTH, idle_month
from tallyroll.settings import Settings
from trial.load import Load
from trial.watching import watched

# The most that events cost, whatever goes wrong: write units of an event that shares nothing with
# others (`make costs`: 4 for itself, 4 for its total, 6 for roll-ups), three times over; and each
# message received ten times.
UNITS_MOST = 3 * 14
DELIVERIES_MOST = 10
GB_MOST = 1.0  # of tables, archives and logs, each
LOGS_GB = 0.50  # CloudWatch, to take them in
OTHERS_MOST = 4  # functions at once beside the writers: aggregator, roller, cleanup, dropper
METRICS_MOST = 40  # of writer and aggregator
_BY_THE_MONTH = ("alarms", "metrics", "dashboard")


@dataclass(frozen=True)
class Ceiling:
    """The most that a trial costs, in US dollars: for its events; for the hours in which the
    pipeline runs; and for CloudWatch, a whole month of it, of which AWS charges the hours.
    """

    events: float
    hours: float
    watching: float

    @property
    def dollars(self) -> float:
        """All of it."""
        return self.events + self.hours + self.watching


def ceiling(load: Load, rounds: int, hours: float, writers: int, settings: Settings) -> Ceiling:
    """The most that rounds of a load cost, if the pipeline is there for so many hours."""
    month = idle_month(settings)
    watching = sum(month[name] for name in _BY_THE_MONTH)
    stored = prices.TABLE_GB_MONTH + prices.RECOVERY_GB_MONTH + prices.ARCHIVE_GB_MONTH + LOGS_GB
    units = load.messages * UNITS_MOST * prices.WRITE_UNIT
    requests = load.messages * DELIVERIES_MOST * 3 * prices.SQS_REQUEST
    running = hours * 3_600 * (writers + OTHERS_MOST) * FUNCTION_GB * prices.LAMBDA_GB_SECOND
    idle = hours * (sum(month.values()) - watching) / HOURS_A_MONTH
    return Ceiling(
        rounds * (units + requests) + GB_MOST * stored,
        idle + running,
        watching + METRICS_MOST * prices.METRIC_MONTH,
    )


@dataclass(frozen=True)
class Series:
    """A metric's datapoints over a trial, joined. What is not known is 0."""

    total: float = 0.0
    samples: float = 0.0
    highest: float = 0.0

    @property
    def mean(self) -> float:
        """The mean of the samples."""
        return self.total / self.samples if self.samples else 0.0


@dataclass
class Measured:
    """What the metrics say of a span of time.

    Attributes:
        functions: Duration (ms) of the invocations, by function.
        writer: Sums of the writer's own metrics.
        write_units, read_units: What DynamoDB consumed, by table.
        queue: Sums of the event queue's metrics.
        without_data: What alarms watch and nobody published: the alarm, and the metric.
    """

    functions: dict[str, Series] = field(default_factory=dict)
    writer: dict[str, float] = field(default_factory=dict)
    write_units: dict[str, float] = field(default_factory=dict)
    read_units: dict[str, float] = field(default_factory=dict)
    queue: dict[str, float] = field(default_factory=dict)
    without_data: list[str] = field(default_factory=list)

    @property
    def batch_size(self) -> float:
        """The mean number of messages that the writer was given at once."""
        [batches] = [
            one.samples for name, one in self.functions.items() if name.endswith("-writer")
        ]
        return self.writer["Messages"] / batches if batches else 0.0

    def bill(self, sent: int) -> dict[str, float]:
        """Dollars by what they are for, without CloudWatch and storage; `sent` messages were sent
        in batches of ten.
        """
        calls = sum(one.samples for one in self.functions.values())
        busy_s = sum(one.total for one in self.functions.values()) / 1000
        received = self.queue["NumberOfMessagesReceived"]
        requests = ceil(sent / QUEUE_BATCH_MAX) + 2 * ceil(received / QUEUE_BATCH_MAX)
        requests += int(self.queue["NumberOfEmptyReceives"])
        return {
            "write units": sum(self.write_units.values()) * prices.WRITE_UNIT,
            "read units": sum(self.read_units.values()) * prices.READ_UNIT,
            "Lambda requests": calls * prices.LAMBDA_REQUEST,
            "Lambda time": busy_s * FUNCTION_GB * prices.LAMBDA_GB_SECOND,
            "SQS requests": requests * prices.SQS_REQUEST,
        }

    def as_json(self) -> dict[str, Any]:
        """All of it, for a file."""
        return asdict(self)


_WRITER = (
    *("Messages", "EventsCounted", "Duplicates", "HandedBack", "Rejected", "Conflicts"),
    *("Throttles", "WriteUnitsSingle", "WriteUnitsPacked"),
)
_QUEUE = ("NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfEmptyReceives")


@dataclass(frozen=True)
class Metrics:
    """Reads the metrics of a pipeline."""

    cloudwatch: Any
    pipeline: str

    def measured(
        self, since: float, until: float, functions: Sequence[str], tables: Sequence[str]
    ) -> Measured:
        """What the metrics say of a span of time, s since the epoch."""

        def total(namespace: str, name: str, of: Mapping[str, str]) -> Series:
            return self._series(since, until, namespace, name, of)

        writer = {"pipeline": self.pipeline, "service": "writer"}
        queue = {"QueueName": f"{self.pipeline}-events"}
        dynamodb = "AWS/DynamoDB"
        return Measured(
            {one: total("AWS/Lambda", "Duration", {"FunctionName": one}) for one in functions},
            {name: total("Tallyroll", name, writer).total for name in _WRITER},
            {
                table: total(dynamodb, "ConsumedWriteCapacityUnits", {"TableName": table}).total
                for table in tables
            },
            {
                table: total(dynamodb, "ConsumedReadCapacityUnits", {"TableName": table}).total
                for table in tables
            },
            {name: total("AWS/SQS", name, queue).total for name in _QUEUE},
            [*self._without_data(since, until)],
        )

    def _without_data(self, since: float, until: float) -> Iterator[str]:
        for alarm, metric in watched(self.cloudwatch, self.pipeline):
            if not metric:
                yield f"{alarm}: there is no such alarm"
                continue
            namespace, name = metric["Namespace"], metric["MetricName"]
            of = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
            if not self._series(since, until, namespace, name, of).samples:
                yield f"{alarm}: {namespace} {name} of {', '.join(of.values())}"

    def _series(
        self, since: float, until: float, namespace: str, name: str, of: Mapping[str, str]
    ) -> Series:
        # One datapoint for all of it, or two: periods begin at multiples of their length.
        period = 60 * ceil((until - since) / 60 + 1)
        reply = self.cloudwatch.get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in of.items()],
            StartTime=datetime.fromtimestamp(since // 60 * 60, UTC),
            EndTime=datetime.fromtimestamp(until, UTC),
            Period=period,
            Statistics=["Sum", "SampleCount", "Maximum"],
        )
        points = reply["Datapoints"]
        return Series(
            sum(point["Sum"] for point in points),
            sum(point["SampleCount"] for point in points),
            max((point["Maximum"] for point in points), default=0.0),
        )
