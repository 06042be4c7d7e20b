"""The metrics of a simulated pipeline: those that the functions publish through
`src/tallyroll/telemetry.py`, and what SQS and Lambda would publish, by the minute of virtual time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallyroll.adapters.aws.cloudwatch import NOTES_FAILED
from tallyroll.adapters.memory.queue import AGE_RECEIVES_LEFT_OUT
from tallyroll.cdk.alarm_rules import DEAD_LETTERS, EVENTS
from tallyroll.cdk.alarm_values import MetricNamespace, Watched

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

MINUTE_MS = 60_000
STATISTICS = ("Sum", "Maximum", "Minimum", "SampleCount", "p99")


@dataclass(slots=True)
class Minute:
    """What was published of one metric within a minute."""

    total: float = 0.0
    most: float = 0.0
    least: float = 0.0
    number: int = 0

    def add(self, value: float) -> None:
        """Add one value."""
        self.most = max(self.most, value) if self.number else value
        self.least = min(self.least, value) if self.number else value
        self.total += value
        self.number += 1


@dataclass(slots=True)
class Gauges:
    """All metrics, by who published them, of what, their name, and the minute; and the names of the
    invocations whose notes were not all taken.
    """

    minutes: dict[tuple[MetricNamespace, str, str], dict[int, Minute]] = field(default_factory=dict)
    unnoted: set[str] = field(default_factory=set)

    def put(self, source: MetricNamespace, of: str, name: str, at: int, value: float) -> None:
        """Publish a value at a moment (ms)."""
        series = self.minutes.setdefault((source, of, name), {})
        series.setdefault(at // MINUTE_MS, Minute()).add(value)

    def last(self, watched: Watched) -> int:
        """When (ms) the last minute began in which the metric was published; 0 if it never was."""
        series = self.minutes.get((watched.source, watched.of, watched.name), {})
        return max(series, default=0) * MINUTE_MS

    def statistic(self, watched: Watched, start: int) -> float | None:
        """The statistic of the period that starts at `start` (ms); None if nothing was published.

        Raises ValueError for a statistic or a period that is not known here.
        """
        if watched.statistic not in STATISTICS or watched.period % 60:
            raise ValueError(f"no statistic is known for {watched}")
        series = self.minutes.get((watched.source, watched.of, watched.name), {})
        first, minutes = start // MINUTE_MS, watched.period // 60
        if minutes == 1:
            found = [series[first]] if first in series else []
        else:
            found = [series[at] for at in range(first, first + minutes) if at in series]
        if not found:
            return None
        match watched.statistic:
            case "Sum":
                return sum(minute.total for minute in found)
            case "Maximum" | "p99":  # of the few values here
                return max(minute.most for minute in found)
            case "Minimum":
                return min(minute.least for minute in found)
            case _:
                return float(sum(minute.number for minute in found))


class Publisher:
    """A function's metrics as `src/tallyroll/telemetry.py` adds them.

    Powertools' own would mix those of invocations that run at once. An invocation that raises or
    is killed has added nothing: handlers add their metrics last.
    """

    def __init__(self, system: System, function: str) -> None:
        self._system = system
        self._function = function

    def add_metric(self, name: str, unit: object, value: float) -> None:
        """Publish a metric."""
        del unit
        world = self._system.world
        self._system.gauges.put(
            MetricNamespace.PIPELINE, self._function, name, world.now, float(value)
        )
        if name == NOTES_FAILED and value:
            self._system.gauges.unnoted.add(world.current.group.name)

    def add_dimension(self, name: str, value: str) -> None:
        """Take a dimension: there is one pipeline."""


def gauge_invocation(system: System, function: str, *, failed: bool, held: bool) -> None:
    """What Lambda publishes of one invocation; one that is `held` back by a limit did not begin.

    Source: AWS Lambda Developer Guide, "Types of metrics for Lambda functions".
    """
    now = system.world.now
    system.gauges.put(MetricNamespace.FUNCTION, function, "Throttles", now, float(held))
    if not held:
        system.gauges.put(MetricNamespace.FUNCTION, function, "Invocations", now, 1.0)
        system.gauges.put(MetricNamespace.FUNCTION, function, "Errors", now, float(failed))


def gauge_queues(system: System) -> None:
    """What SQS publishes every minute of both queues.

    The age leaves out what was received three times or more; the dead letters' queue publishes
    nothing while it is empty and nobody asks it for anything. Source: Amazon SQS Developer Guide,
    "Available CloudWatch metrics for Amazon SQS".
    """
    now, held = system.world.now, system.queue.held()
    hidden = sum(each.visible_at > now and each.receives > 0 for each in held)
    visible = sum(each.visible_at <= now for each in held)
    aged = [now - each.sent for each in held if each.receives < AGE_RECEIVES_LEFT_OUT]
    for name, value in (
        ("ApproximateNumberOfMessagesVisible", visible),
        ("ApproximateNumberOfMessagesNotVisible", hidden),
        ("ApproximateNumberOfMessagesDelayed", len(held) - hidden - visible),
        ("ApproximateAgeOfOldestMessage", max(aged, default=0) / 1000),
        ("NumberOfEmptyReceives", 0 if system.is_away("source") else 1),
        ("NumberOfMessagesReceived", 0),
        ("NumberOfMessagesSent", sum(now - MINUTE_MS < each.sent for each in held)),
    ):
        system.gauges.put(MetricNamespace.QUEUE, EVENTS, name, now, value)
    letters = system.queue.dead_letters
    if letters:
        oldest = min(letter.at for letter in letters)
        for name, value in (
            ("ApproximateNumberOfMessagesVisible", len(letters)),
            ("ApproximateAgeOfOldestMessage", (now - oldest) / 1000),
        ):
            system.gauges.put(MetricNamespace.QUEUE, DEAD_LETTERS, name, now, value)
