"""The list of alarms, as plain data: what each says, and when it fires.

`observability` makes alarms of it, and tests evaluate it. This module does not import the CDK.
A new alarm is an entry of `ALARMS` and a rule below, with its bound in `lifecycle/health.py`;
CONTRIBUTING.md, "A new alarm", has the rest.

Metrics arrive late, and a period may have none. So:

- An alarm that needs several periods needs `times` of the last `within`: one that is late or
  missing does not hide a fault.
- No expression has FILL. In the newest period, which is not published yet, it would give its own
  value, and hold an alarm in the state that this value means. SUM adds up what is published.

Source: Amazon CloudWatch User Guide, "Alarm evaluation", "Configuring how CloudWatch alarms treat
missing data", and "Using math expressions with CloudWatch metrics", at FILL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tallyroll.adapters.dynamodb.throughput import OF_KEY, OF_TABLE, Limit
from tallyroll.cdk.alarm_values import MINUTE, AlarmRule, MetricNamespace, Watched
from tallyroll.lifecycle import health
from tallyroll.limits import IN_FLIGHT_MAX, VISIBILITY_MS
from tallyroll.resources import DEAD_LETTERS_RETENTION_SECONDS
from tallyroll.settings import Settings
from tallyroll.settings.options.rules import WRITER_TIMEOUT_SECONDS

FIVE_MINUTES, QUARTER, HOUR = 300, 900, 3_600
FUNCTIONS = ("writer", "aggregator", "roller", "cleanup", "dropper")
ALARMS: Mapping[str, str] = MappingProxyType(
    {
        "dead-letters": "messages stand in the dead-letter queue, which no count has",
        "dead-letters-expire": "dead letters are at half of their retention",
        "rejections": "writers reject more than ten messages in five minutes",
        "mostly-rejected": "writers reject more than half of the messages that they finish",
        "mapping-disabled": "nobody polls the event queue: is the event source mapping disabled?",
        "falling-behind": "events wait in the queue for more than forty minutes",
        "events-expire": "events wait in the queue for half of its retention",
        "handed-back": "messages that are over half an hour old come back to the queue",
        "handed-back-expire": "messages come back that are at half of the queue's retention",
        "writer-silent": "the queue holds messages, and writers finish none",
        "writer-silent-expire": "writers have finished nothing for half of the queue's retention",
        "writer-slow": "writers need nearly all of their time for a batch",
        "notes-failing": "writers cannot note in the catalog what keeps windows open",
        "in-flight": "nearly as many messages are in flight as the queue allows",
        "next-window-missing": "the current window is not open, or the roller says nothing",
        "events-await-window": "events wait for a window that is not there",
        "close-stuck": "more windows are open than should be: one that is over does not close",
        "seal-stuck": "a window that is closing does not get on, and is not sealed",
        "export-stuck": "a window past retention is not archived, proven and dropped",
        "cleanup-silent": "cleanup does not run, or says nothing",
        "proof-mismatch": "an archive or a total does not agree with its window",
        "steps-failing": "steps of roller, cleanup or dropper fail, again and again",
        "store-throttles": "DynamoDB throttles writes for most of a quarter of an hour",
        "key-throttles": "DynamoDB throttles writes of hot keys for most of a quarter of an hour",
        "table-throttles": "DynamoDB throttles writes at a limit of the whole table",
        "rate-outrun": "more messages arrive than the write rate lets through",
        "function-throttles": "Lambda throttles functions of the pipeline",
        "reads-failing": "one read in twenty, or more, is answered with an error of ours",
        "reads-incomplete": "reads are answered without some of the windows that were asked for",
        "reads-slow": "one read in a hundred takes more than five seconds",
        "api-errors": "the API answers one request in twenty, or more, with status 5xx",
        "window-tables": "tables near the quota of tables of an account and Region",
        **{f"{each}-errors": f"the {each} fails as a whole" for each in FUNCTIONS},
    }
)


COMPACTING = {
    "parquet-stuck": "dropped windows wait for their Parquet, or the compactor says nothing",
}
"""Those of a pipeline whose archives are made as Parquet."""

EVENTS, DEAD_LETTERS, API, TABLES = "events", "dead-letters", "api", "TableCount"


def rules_for(settings: Settings, retention_seconds: int) -> dict[str, AlarmRule]:
    """The rule of each alarm, by its id, in no order; `retention_seconds` is the event queue's."""
    return {
        **_queue_rules(retention_seconds),
        **_writing_rules(retention_seconds),
        **_read_rules(),
        **_window_rules(settings, retention_seconds),
        **_function_rules(),
    }


def compacting_rules() -> dict[str, AlarmRule]:
    """The rules of `COMPACTING`. A run that is killed publishes nothing, so one rule sees both."""
    stuck = _ours("compactor", "StuckFor", "Maximum", HOUR)
    bound = health.PARQUET_LATE_MS // 1000
    return {"parquet-stuck": _single(stuck, above=bound, times=3, silence_is_bad=True)}


def _single(metric: Watched, **limits: Any) -> AlarmRule:
    return AlarmRule(metrics={"m0": metric}, **limits)


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
    floor, share = health.FAILURES_FLOOR, health.FAILURES_SHARE
    return _rate(part, whole, floor=floor, share=share, label=label)


def _queue(of: str, name: str, period: int = MINUTE, statistic: str = "Maximum") -> Watched:
    return Watched(MetricNamespace.QUEUE, of, name, statistic, period)


def _polls() -> AlarmRule:
    """Nobody asks the event queue for messages, which an enabled event source does all the time.

    No metric says that a mapping is disabled. Each of Lambda's long polls of an empty queue is an
    empty receive. A queue without any call has no metrics after six hours. Source: AWS Lambda
    Developer Guide, "Using Lambda with Amazon SQS"; Amazon SQS Developer Guide, "Available
    CloudWatch metrics for Amazon SQS".
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
            above=health.EXPIRING_SHARE * DEAD_LETTERS_RETENTION_SECONDS,
        ),
        # So that letters which nobody has looked at do not hide a flood of new ones.
        "rejections": _single(
            _ours("writer", "Rejected", period=FIVE_MINUTES), above=health.REJECTIONS_MAX
        ),
        "mostly-rejected": _rate(
            _ours("writer", "Rejected", period=QUARTER),
            _ours("writer", "Finished", period=QUARTER),
            floor=health.REJECTIONS_MAX,
            share=health.REJECTED_SHARE,
            label="share of messages that writers reject",
        ),
        "mapping-disabled": _polls(),
        "falling-behind": _single(waiting, above=health.BEHIND_MS // 1000, times=5, within=7),
        "events-expire": _single(waiting, above=health.EXPIRING_SHARE * retention_seconds),
        "in-flight": _single(
            _queue(EVENTS, "ApproximateNumberOfMessagesNotVisible"),
            above=health.IN_FLIGHT_SHARE * IN_FLIGHT_MAX,
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
    back = _ours("writer", "OldestHandedBack", "Maximum", QUARTER)
    expiring = health.EXPIRING_SHARE * retention_seconds
    return {
        # The age of the oldest message leaves out messages received three times or more. Those may
        # wait up to about 45 minutes between two receives.
        "handed-back": _single(back, above=health.HANDED_BACK_MS // 1000, within=4),
        "handed-back-expire": _single(back, above=expiring, within=4),
        "notes-failing": _single(
            _ours("writer", "NotesFailed", period=FIVE_MINUTES), times=3, within=4
        ),
        "events-await-window": _single(_ours("writer", "AwaitingWindow"), times=5, within=7),
        "store-throttles": _single(_ours("writer", "Throttles"), times=12, within=15),
        "key-throttles": _throttles(OF_KEY),
        "table-throttles": _throttles(OF_TABLE),
        "rate-outrun": _outrun(),
        "writer-slow": _single(
            Watched(MetricNamespace.FUNCTION, "writer", "Duration", "p99", FIVE_MINUTES),
            above=health.WRITER_SLOW_SHARE * WRITER_TIMEOUT_SECONDS * 1000,
            times=3,
            within=4,
        ),
    }


def _throttles(limits: Iterable[Limit]) -> AlarmRule:
    parts = (_ours("writer", f"Throttles-{limit}") for limit in limits)
    return _sum(parts, "throttles", times=12, within=15)


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
            above=health.READS_SLOW_MS,
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


def _sum(parts: Iterable[Watched], label: str, times: int, within: int) -> AlarmRule:
    metrics = {f"m{number}": part for number, part in enumerate(parts)}
    expression = f"SUM([{', '.join(metrics)}])"
    return AlarmRule(
        metrics=metrics, expression=expression, label=label, times=times, within=within
    )


def _all(name: str, times: int, within: int) -> AlarmRule:
    parts = (_ours(each, name, period=FIVE_MINUTES) for each in ("roller", "cleanup", "dropper"))
    return _sum(parts, name, times, within)


def _stuck(function: str, for_ms: int) -> AlarmRule:
    """Two runs of three found a window without progress for so long."""
    stuck = _ours(function, "StuckFor", "Maximum", FIVE_MINUTES)
    return _single(stuck, above=for_ms // 1000, times=2, within=3)


def _silence_rules(retention_seconds: int) -> Mapping[str, AlarmRule]:
    """Writers finish nothing, also such as die on every batch, which no age of a message tells.

    A new sandbox of the roller, one every few hours, counts the silence anew. So `writer-silent`
    stays on until it sees it again, and half of the retention is counted in hours of silence.
    Source: AWS Lambda Developer Guide, "Understanding the Lambda execution environment lifecycle".
    """
    silent, expiring = health.SILENT_MS // 1000, health.EXPIRING_SHARE * retention_seconds
    hours = max(1, int(expiring) // HOUR)  # an alarm evaluates seven days at most
    by_minute = _ours("roller", "WritersSilentFor", "Maximum")
    by_hour, again = replace(by_minute, period=HOUR), silent // MINUTE + 4
    return {
        "writer-silent": _single(by_minute, above=silent, times=2, within=again),
        "writer-silent-expire": _single(
            by_hour, above=silent, times=max(1, hours - 2), within=hours
        ),
    }


def _table_rule(settings: Settings) -> AlarmRule:
    """The pipeline's tables, or all of the account's, whichever number is larger.

    DynamoDB publishes how many tables an account has in a Region (Developer Guide, "DynamoDB
    Metrics and dimensions", at TableCount). Of Amazon Keyspaces no such metric is documented.
    """
    own = _ours("roller", "WindowTables", "Maximum", FIVE_MINUTES)
    above = health.TABLES_SHARE * settings.quota
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
    length_ms = settings.lasting.shortest
    opened_ms = settings.freeze_lead_ms + length_ms + settings.accept_for_ms
    open_at_once = -(-opened_ms // length_ms)
    held_s = (2 * VISIBILITY_MS + health.OPEN_LATE_MS) // 1000
    return {
        "next-window-missing": _single(
            _ours("roller", "NextWindowMissing", "Maximum"), times=5, silence_is_bad=True
        ),
        # The minimum of five minutes, so that windows which open and close meanwhile do not count.
        "close-stuck": _single(
            _ours("roller", "Windows-open", "Minimum", FIVE_MINUTES),
            above=open_at_once + held_s * 1000 // length_ms,
            times=held_s // FIVE_MINUTES,
            within=held_s // FIVE_MINUTES + 2,
        ),
        **_silence_rules(retention_seconds),
        "seal-stuck": _stuck("roller", health.CLOSING_LATE_MS),
        "export-stuck": _stuck("cleanup", health.EXPORT_LATE_MS),
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


def _function_rules() -> Mapping[str, AlarmRule]:
    throttles = (
        Watched(MetricNamespace.FUNCTION, each, "Throttles", period=FIVE_MINUTES)
        for each in FUNCTIONS
    )
    return {
        "function-throttles": _sum(throttles, "throttles", times=3, within=4),
        **{f"{function}-errors": _errors(function) for function in FUNCTIONS},
    }


def _errors(function: str) -> AlarmRule:
    """Cleanup and dropper run once in a period, so two errors are two runs of three."""
    errors = Watched(MetricNamespace.FUNCTION, function, "Errors", period=FIVE_MINUTES)
    if function in ("cleanup", "dropper"):
        return _single(errors, times=2, within=3)
    invocations = Watched(MetricNamespace.FUNCTION, function, "Invocations", period=FIVE_MINUTES)
    return _failures(errors, invocations, "share of invocations that fail")
