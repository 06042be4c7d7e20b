"""When each alarm fires, as plain data: `observability` makes alarms of it, and tests evaluate it.

This module does not import the CDK.

Metrics arrive late, and a period may have none. So:

- An alarm that needs several periods needs `times` of the last `within`: one that is late or
  missing does not hide a fault.
- No expression has FILL. In the newest period, which is not published yet, it would give its own
  value, and hold an alarm in the state that this value means. SUM adds up what is published.

Source: Amazon CloudWatch User Guide, "Alarm evaluation", "Configuring how CloudWatch alarms treat
missing data", and "Using math expressions with CloudWatch metrics", at FILL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tallyroll.cdk.alarms import FUNCTIONS
from tallyroll.cdk.options.rules import WRITER_TIMEOUT_SECONDS
from tallyroll.limits import IN_FLIGHT_MAX
from tallyroll.resources import DEAD_LETTERS_RETENTION_SECONDS
from tallyroll.settings import Settings

BEHIND_SECONDS = (
    2_400  # over twice the visibility timeout, after which a crashed writer's messages return
)
SEAL_MINUTES = 30  # a slice of a sealing takes less than one run of the roller
# A message received before the window's end may hold it open for two visibility timeouts. Half an
# hour remains for the queue to drain.
HELD_MINUTES = 60
EXPORT_MINUTES = 120  # a few attempts, each of which ends with its lease
# Share of the quota of tables per account and Region. Source: DynamoDB Developer Guide, "Quotas".
TABLES_SHARE = 0.8
MINUTE, FIVE_MINUTES, QUARTER, HOUR = 60, 300, 900, 3_600
HANDED_BACK_SECONDS = 1_800
SILENT_SECONDS = 900
IN_FLIGHT_SHARE = 0.8
REJECTIONS_MAX = 10  # in five minutes
REJECTED_SHARE = 0.5  # of the messages that writers finish
FAILURES_FLOOR = 2  # in five minutes; so few call nobody, whatever share they are
FAILURES_SHARE = 0.05
READS_SLOW_MS = 5_000  # a read over hours takes some tens of milliseconds
WRITER_SLOW_SHARE = 0.7  # of its timeout; from three quarters on it hands back what is left


class MetricNamespace(StrEnum):
    """The namespace of a metric: who publishes it."""

    PIPELINE = "Tallyroll"  # our functions; dimensions: the pipeline and the function
    QUEUE = "AWS/SQS"  # dimension: the queue
    FUNCTION = "AWS/Lambda"  # dimension: the function
    API = "AWS/ApiGateway"  # dimension: the API
    USAGE = "AWS/Usage"  # dimensions: what DynamoDB counts of the account and Region


EVENTS, DEAD_LETTERS, API, TABLES = "events", "dead-letters", "api", "TableCount"


@dataclass(frozen=True, slots=True)
class Watched:
    """One metric as an alarm reads it: a statistic per `period` (seconds).

    `of` is the metric's function (writer, aggregator, roller, cleanup, dropper), its queue (events,
    dead-letters), the API (api), or what is counted of the account (TableCount).
    """

    source: MetricNamespace
    of: str
    name: str
    statistic: str = "Sum"
    period: int = MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """An alarm fires when its number is over `above` in `times` periods in a row or, if `within` is
    set, in `times` of the last `within` periods.

    The number is the only metric, or an `expression` that names the `metrics`. A period without
    data counts as over if `silence_is_bad`, else as below.
    """

    metrics: Mapping[str, Watched]
    expression: str = ""
    label: str = ""
    above: float = 0
    times: int = 1
    within: int = 0
    silence_is_bad: bool = False

    def __post_init__(self) -> None:
        if self.within and (self.within < self.times or self.silence_is_bad):
            raise ValueError(f"{self}: `within` is at least `times`, and silence is then good")

    @property
    def sources(self) -> frozenset[MetricNamespace]:
        """Who publishes its metrics."""
        return frozenset(metric.source for metric in self.metrics.values())

    @property
    def evaluated(self) -> int:
        """The number of periods that are evaluated."""
        return max(self.times, self.within)

    @property
    def period(self) -> int:
        """The length of a period in seconds, the same for all metrics."""
        [period] = {metric.period for metric in self.metrics.values()}
        return period


def rules_for(settings: Settings, retention_seconds: int) -> dict[str, AlarmRule]:
    """The rule of each alarm, by its id, in no order; `retention_seconds` is the event queue's."""
    return {
        **_queue_rules(retention_seconds),
        **_writing_rules(retention_seconds),
        **_read_rules(),
        **_window_rules(settings, retention_seconds),
        **_function_rules(FUNCTIONS),
    }


def _single(
    metric: Watched,
    *,
    above: float = 0,
    times: int = 1,
    within: int = 0,
    silence_is_bad: bool = False,
) -> AlarmRule:
    metrics = {"m0": metric}
    return AlarmRule(
        metrics=metrics, above=above, times=times, within=within, silence_is_bad=silence_is_bad
    )


def _rate(part: Watched, whole: Watched, *, floor: float, share: float, label: str) -> AlarmRule:
    """Two periods of three in which `part` is over `floor`, and over that share of `whole`."""
    return AlarmRule(
        metrics={"part": part, "whole": whole},
        expression=f"IF(part > {floor:g}, part / whole, 0)",
        label=label,
        above=share,
        times=2,
        within=3,
    )


def _failures(part: Watched, whole: Watched, label: str) -> AlarmRule:
    """Single failures call nobody: Lambda, SQS and callers try again."""
    return _rate(part, whole, floor=FAILURES_FLOOR, share=FAILURES_SHARE, label=label)


def _queue(of: str, name: str, period: int = MINUTE, statistic: str = "Maximum") -> Watched:
    return Watched(MetricNamespace.QUEUE, of, name, statistic, period)


def _polls() -> AlarmRule:
    """Nobody asks the event queue for messages, which an enabled event source does all the time.

    No metric says that a mapping is disabled. Lambda keeps asking an empty queue with long polls,
    each of which is an empty receive. A queue without any call has no metrics after six hours.
    Source: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS"; Amazon SQS Developer Guide,
    "Available CloudWatch metrics for Amazon SQS".
    """
    return AlarmRule(
        metrics={
            "empty": _queue(EVENTS, "NumberOfEmptyReceives", FIVE_MINUTES, "Sum"),
            "messages": _queue(EVENTS, "NumberOfMessagesReceived", FIVE_MINUTES, "Sum"),
        },
        expression="0 - SUM([empty, messages])",
        label="polls of the event queue, negative",
        above=-1,
        times=3,
        silence_is_bad=True,
    )


def _queue_rules(retention_seconds: int) -> Mapping[str, AlarmRule]:
    waiting = _queue(EVENTS, "ApproximateAgeOfOldestMessage")
    return {
        "dead-letters": _single(_queue(DEAD_LETTERS, "ApproximateNumberOfMessagesVisible")),
        "dead-letters-expire": _single(
            _queue(DEAD_LETTERS, "ApproximateAgeOfOldestMessage", FIVE_MINUTES),
            above=DEAD_LETTERS_RETENTION_SECONDS / 2,
        ),
        # So that letters which nobody has looked at do not hide a flood of new ones.
        "rejections": _single(
            _ours("writer", "Rejected", period=FIVE_MINUTES), above=REJECTIONS_MAX
        ),
        "mostly-rejected": _rate(
            _ours("writer", "Rejected", period=QUARTER),
            _ours("writer", "Finished", period=QUARTER),
            floor=REJECTIONS_MAX,
            share=REJECTED_SHARE,
            label="share of messages that writers reject",
        ),
        "mapping-disabled": _polls(),
        "falling-behind": _single(waiting, above=BEHIND_SECONDS, times=5, within=7),
        "events-expire": _single(waiting, above=retention_seconds / 2),
        "in-flight": _single(
            _queue(EVENTS, "ApproximateNumberOfMessagesNotVisible"),
            above=IN_FLIGHT_SHARE * IN_FLIGHT_MAX,
            times=5,
            within=7,
        ),
    }


def _ours(of: str, name: str, statistic: str = "Sum", period: int = MINUTE) -> Watched:
    return Watched(MetricNamespace.PIPELINE, of, name, statistic, period)


def _outrun() -> AlarmRule:
    """The write rate holds messages back, and more arrive than writers finish.

    After a burst fewer arrive, and the alarm ends while the queue still drains. Writers publish
    `HeldByRate` only while they hold messages back.
    """
    return AlarmRule(
        metrics={
            "held": _ours("writer", "HeldByRate", period=FIVE_MINUTES),
            "sent": _queue(EVENTS, "NumberOfMessagesSent", FIVE_MINUTES, "Sum"),
            "finished": _ours("writer", "Finished", period=FIVE_MINUTES),
        },
        expression="IF(held > 0, sent - finished, 0)",
        label="messages by which the queue grows at the write rate",
        times=3,
        within=4,
    )


def _writing_rules(retention_seconds: int) -> Mapping[str, AlarmRule]:
    back = {"m0": _ours("writer", "OldestHandedBack", "Maximum", QUARTER)}
    return {
        # The age of the oldest message leaves out messages received three times or more. Those may
        # wait up to about 45 minutes between two receives.
        "handed-back": AlarmRule(metrics=back, above=HANDED_BACK_SECONDS, within=4),
        "handed-back-expire": AlarmRule(metrics=back, above=retention_seconds / 2, within=4),
        "notes-failing": _single(
            _ours("writer", "NotesFailed", period=FIVE_MINUTES), times=3, within=4
        ),
        "events-await-window": _single(_ours("writer", "AwaitingWindow"), times=5, within=7),
        "store-throttles": _single(_ours("writer", "Throttles"), times=12, within=15),
        "rate-outrun": _outrun(),
        "writer-slow": _single(
            Watched(MetricNamespace.FUNCTION, "writer", "Duration", "p99", FIVE_MINUTES),
            above=WRITER_SLOW_SHARE * WRITER_TIMEOUT_SECONDS * 1000,
            times=3,
            within=4,
        ),
    }


def _read_rules() -> Mapping[str, AlarmRule]:
    return {
        "reads-failing": _failures(
            _ours("aggregator", "ReadsFailed", period=FIVE_MINUTES),
            _ours("aggregator", "Reads", period=FIVE_MINUTES),
            "share of reads that fail",
        ),
        # An occasional answer may lack windows, if its range was too long for its time.
        "reads-incomplete": _single(
            _ours("aggregator", "ReadsIncomplete", period=FIVE_MINUTES), times=3, within=4
        ),
        "reads-slow": _single(
            _ours("aggregator", "ReadLatency", "p99", FIVE_MINUTES),
            above=READS_SLOW_MS,
            times=3,
            within=4,
        ),
        # Also those that no function saw, because it was throttled or timed out.
        "api-errors": _failures(
            Watched(MetricNamespace.API, API, "5xx", period=FIVE_MINUTES),
            Watched(MetricNamespace.API, API, "Count", period=FIVE_MINUTES),
            "share of requests with status 5xx",
        ),
    }


def _all(name: str, times: int, within: int) -> AlarmRule:
    """A rule on the sum of a metric that roller, cleanup and dropper publish."""
    parts = {
        f"m{number}": _ours(function, name, period=FIVE_MINUTES)
        for number, function in enumerate(("roller", "cleanup", "dropper"))
    }
    return AlarmRule(
        metrics=parts, expression="SUM([m0, m1, m2])", label=name, times=times, within=within
    )


def _stuck(function: str, minutes: int) -> AlarmRule:
    """Two runs of three found a window without progress for so many minutes."""
    stuck = _ours(function, "StuckFor", "Maximum", FIVE_MINUTES)
    return _single(stuck, above=minutes * 60, times=2, within=3)


def _silence_rules(retention_seconds: int) -> Mapping[str, AlarmRule]:
    """Writers finish nothing, also such as die on every batch, which no age of a message tells.

    A new sandbox of the roller, one every few hours, counts the silence anew. So `writer-silent`
    stays on until it sees it again, and half of the retention is counted in hours of silence.
    Source: AWS Lambda Developer Guide, "Understanding the Lambda execution environment lifecycle".
    """
    hours = max(1, retention_seconds // 2 // HOUR)  # an alarm evaluates seven days at most
    by_minute = _ours("roller", "WritersSilentFor", "Maximum")
    by_hour, again = replace(by_minute, period=HOUR), SILENT_SECONDS // MINUTE + 4
    return {
        "writer-silent": _single(by_minute, above=SILENT_SECONDS, times=2, within=again),
        "writer-silent-expire": _single(
            by_hour, above=SILENT_SECONDS, times=max(1, hours - 2), within=hours
        ),
    }


def _table_rule(settings: Settings) -> AlarmRule:
    """The pipeline's tables, or all of the account's, whichever number is larger.

    DynamoDB publishes how many tables an account has in a Region (Developer Guide, "DynamoDB
    Metrics and dimensions", at TableCount). Of Amazon Keyspaces no such metric is documented.
    """
    own = _ours("roller", "WindowTables", "Maximum", FIVE_MINUTES)
    above = TABLES_SHARE * settings.quota
    if settings.store == "keyspaces":
        return _single(own, above=above)
    return AlarmRule(
        metrics={
            "own": own,
            "all": Watched(MetricNamespace.USAGE, TABLES, "ResourceCount", "Maximum", FIVE_MINUTES),
        },
        expression="MAX([own, all])",
        label="tables of the account and Region",
        above=above,
    )


def _window_rules(settings: Settings, retention_seconds: int) -> Mapping[str, AlarmRule]:
    length_ms = settings.window_seconds * 1000
    opened_ms = settings.freeze_lead_ms + length_ms + settings.accept_for_ms
    open_at_once = -(-opened_ms // length_ms)
    return {
        "next-window-missing": _single(
            _ours("roller", "NextWindowMissing", "Maximum"), times=5, silence_is_bad=True
        ),
        # The minimum of five minutes, so that windows which open and close meanwhile do not count.
        "close-stuck": _single(
            _ours("roller", "Windows-open", "Minimum", FIVE_MINUTES),
            above=open_at_once + HELD_MINUTES * 60 // settings.window_seconds,
            times=HELD_MINUTES // 5,
            within=HELD_MINUTES // 5 + 2,
        ),
        **_silence_rules(retention_seconds),
        "seal-stuck": _stuck("roller", SEAL_MINUTES),
        "export-stuck": _stuck("cleanup", EXPORT_MINUTES),
        "cleanup-silent": AlarmRule(
            metrics={"runs": _ours("cleanup", "Steps", "SampleCount", FIVE_MINUTES)},
            expression="0 - runs",
            label="runs of cleanup, negative",
            above=-1,
            times=6,
            silence_is_bad=True,
        ),
        "proof-mismatch": _all("ProofFailures", times=1, within=3),
        "steps-failing": _all("Problems", times=3, within=4),
        "window-tables": _table_rule(settings),
    }


def _function_rules(functions: Sequence[str]) -> Mapping[str, AlarmRule]:
    throttles = {
        f"m{number}": Watched(MetricNamespace.FUNCTION, function, "Throttles", period=FIVE_MINUTES)
        for number, function in enumerate(functions)
    }
    return {
        "function-throttles": AlarmRule(
            metrics=throttles,
            expression=f"SUM([{', '.join(throttles)}])",
            label="throttles",
            times=3,
            within=4,
        ),
        **{f"{function}-errors": _errors(function) for function in functions},
    }


def _errors(function: str) -> AlarmRule:
    """Cleanup and dropper run once in a period, so two errors are two runs of three."""
    errors = Watched(MetricNamespace.FUNCTION, function, "Errors", period=FIVE_MINUTES)
    if function in ("cleanup", "dropper"):
        return _single(errors, times=2, within=3)
    invocations = Watched(MetricNamespace.FUNCTION, function, "Invocations", period=FIVE_MINUTES)
    return _failures(errors, invocations, "share of invocations that fail")
