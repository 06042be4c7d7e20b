"""What happens to a pipeline in a minute, and the metrics that are published of it.

The functions' metrics are those that `src/tallyroll/telemetry.py` makes of a report; a function
that does not run, or dies, publishes none. Those of AWS follow its documents: Amazon SQS Developer
Guide, "Available CloudWatch metrics for Amazon SQS"; AWS Lambda Developer Guide, "Types of metrics
for Lambda functions"; Amazon DynamoDB Developer Guide, "DynamoDB Metrics and dimensions".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from tallyroll.cdk.alarm_rules import API, DEAD_LETTERS, EVENTS, TABLES, rules_for
from tallyroll.cdk.alarm_values import MetricNamespace
from tallyroll.ingest.writer import BatchReport
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.states import Status
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tallyroll.telemetry import add_answer, add_read, add_report, add_rolled, add_steps, add_windows
from tests.simulation import gauges

HOUR, DAY = 60, 1_440
EVERY = 5  # minutes between two runs of cleanup, and of dropper
Metric = tuple[MetricNamespace, str, str]
Published = Mapping[Metric, gauges.Minute]
WATCHED = {
    (metric.source, metric.of, metric.name)
    for rule in rules_for(Settings(), Settings().queue_retention_ms // 1000).values()
    for metric in rule.metrics.values()
}


@dataclass(frozen=True, slots=True)
class Writing:
    """What the writers report that end a batch, and how many invocations die. Without `batches`,
    nothing is reported.
    """

    batches: int = 6
    finished: int = 600
    rejected: int = 0
    back: int = 0
    waiting: int = 0
    oldest_back: int = 0
    """The age of the oldest message that is handed back, minutes."""
    throttles: int = 0
    takes_ms: int = 400
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class Rolling:
    """What the roller reports: windows that are open, tables, problems, minutes of silence."""

    open: int = 2
    tables: int = 78
    next_missing: bool = False
    silent: int = 0
    problems: int = 0


@dataclass(frozen=True, slots=True)
class Queued:
    """What SQS tells of both queues; ages in minutes. `polled`: somebody asks for messages. An
    empty queue has no `age`.
    """

    sent: int = 600
    in_flight: int = 40
    age: int | None = 0
    polled: bool = True
    letters: int = 0
    letters_age: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """Requests to the API in a minute; those that are `unseen` reach no function."""

    requests: int = 4
    failed: int = 0
    incomplete: int = 0
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class Minute:
    """What happens in a minute. A function that is None does not run; `cleanup` may fail as a
    whole. The defaults are a pipeline in health, with ten messages a second.
    """

    writer: Writing | None = Writing()
    roller: Rolling | None = Rolling()
    cleanup: bool | None = True
    dropper: bool | None = True
    queued: Queued = Queued()
    read: Read = Read()
    tables: int | None = 300
    """The account's, as DynamoDB counts them."""


def healthy(clock: int, settings: Settings) -> Minute:
    """A minute of a day in health, `clock` minutes after its beginning.

    A window accepts messages for an hour after its end, and a next one opens minutes ahead.
    """
    past, opens = clock % HOUR, HOUR - settings.freeze_lead_ms // 60_000
    open_ = 2 + (past < EVERY) + (past >= opens)
    tables = settings.ahead_windows + 2 + settings.retention_ms // (settings.window_seconds * 1000)
    rolling = Rolling(open=open_, tables=tables)
    return Minute(roller=rolling, tables=None if settings.store == "keyspaces" else 300)


def idle(clock: int, settings: Settings) -> Minute:
    """A minute of a day without an event and without a read. Lambda asks the empty queue, which has
    no oldest message, and starts no writer.
    """
    queued = Queued(sent=0, in_flight=0, age=None)
    return replace(healthy(clock, settings), writer=None, queued=queued, read=Read(requests=0))


def bursty(clock: int, settings: Settings) -> Minute:
    """A minute of a day that is idle but for ten minutes of each second hour, in which a thousand
    events a second come. Writers finish two thirds of them at once, and the rest five minutes
    later. The hour's new table throttles some of the writes at first.
    """
    past = clock % (2 * HOUR)
    if past >= 15:
        return idle(clock, settings)
    comes, throttled = past < 10, past < 8
    writing = Writing(
        batches=120,
        finished=40_000,
        back=1_200 if throttled else 0,
        oldest_back=min(past, 4) if throttled else 0,
        throttles=2_000 if throttled else 0,
        takes_ms=30_000 if throttled else 4_000,
    )
    waiting = min(20_000 * (past + 1), 40_000 * (14 - past))
    queued = Queued(
        sent=60_000 if comes else 0, in_flight=min(waiting, 40_000), age=waiting // 40_000
    )
    read = Read(requests=4_000, failed=2, incomplete=1 if past == 0 else 0)
    return replace(healthy(clock, settings), writer=writing, queued=queued, read=read)


class _Collected:
    """Takes a function's metrics as Powertools' `Metrics` does; keeps those that alarms watch."""

    def __init__(self, function: str) -> None:
        self._function = function
        self.metrics: dict[Metric, gauges.Minute] = {}

    def of(
        self, add: Callable[..., None], *args: object, **named: object
    ) -> dict[Metric, gauges.Minute]:
        """What `add` of `telemetry` publishes, and what was published before."""
        add(self, *args, **named)
        return self.metrics

    def add_metric(self, name: str, unit: object, value: float) -> None:
        """Take a metric."""
        del unit
        metric = (MetricNamespace.PIPELINE, self._function, name)
        if metric in WATCHED:
            self.metrics.setdefault(metric, gauges.Minute()).add(float(value))

    def add_dimension(self, name: str, value: str) -> None:
        """There is one pipeline."""


def _of(source: MetricNamespace, of: str, **values: float) -> dict[Metric, gauges.Minute]:
    """One value of each metric that is named."""
    return {
        (source, of, name): gauges.Minute(value, value, value, 1) for name, value in values.items()
    }


def _invoked(
    function: str, times: int, errors: int = 0, takes_ms: int = 50
) -> dict[Metric, gauges.Minute]:
    return _of(
        MetricNamespace.FUNCTION,
        function,
        Invocations=times,
        Errors=errors,
        Throttles=0,
        Duration=takes_ms,
    )


@cache
def _of_writer(writing: Writing) -> Published:
    invocations = writing.batches + writing.deaths
    invoked = _invoked("writer", invocations, writing.deaths, writing.takes_ms)
    if not writing.batches:
        return invoked
    report = BatchReport(
        failures=[""] * writing.back,
        messages=writing.finished + writing.back,
        single_events=writing.finished - writing.rejected,
        rejected=Counter({Reason.BAD_KEY: writing.rejected} if writing.rejected else {}),
        waiting=writing.waiting,
        oldest_back_ms=writing.oldest_back * 60_000,
        throttled=Counter({"key-range": writing.throttles} if writing.throttles else {}),
    )
    return invoked | _Collected("writer").of(add_report, report, writing.takes_ms)


@cache
def _of_roller(rolling: Rolling) -> Published:
    rolled = Rolled(
        states=Counter(
            {str(Status.OPEN): rolling.open, str(Status.SEALED): rolling.tables - rolling.open}
        ),
        problems=[""] * rolling.problems,
        next_missing=rolling.next_missing,
        silent_ms=rolling.silent * 60_000,
    )
    collected = _Collected("roller")
    collected.of(add_rolled, rolled)
    return _invoked("roller", 1) | collected.of(add_windows, rolled)


@cache
def _of_cleaning(function: str, add: Callable[..., None], *, fails: bool) -> Published:
    """A run of cleanup or dropper: one that fails as a whole publishes nothing."""
    if fails:
        return _invoked(function, 1, errors=1)
    return _invoked(function, 1) | _Collected(function).of(add, Rolled())


@cache
def _of_reads(read: Read) -> Published:
    if not read.requests:
        return {}
    requests = _of(
        MetricNamespace.API, API, **{"Count": read.requests, "5xx": read.unseen + read.failed}
    )
    seen = read.requests - read.unseen
    if not seen:
        return requests
    collected = _Collected("aggregator")
    for number in range(seen):
        collected.of(add_read, 30.0, failed=number < read.failed)
        collected.of(add_answer, complete=number >= read.incomplete)
    return requests | _invoked("aggregator", seen) | collected.metrics


def _of_queues(queued: Queued) -> Published:
    events = _of(
        MetricNamespace.QUEUE,
        EVENTS,
        ApproximateNumberOfMessagesNotVisible=queued.in_flight,
        NumberOfMessagesSent=queued.sent,
        NumberOfEmptyReceives=60 * queued.polled,
        NumberOfMessagesReceived=queued.sent * queued.polled,
    )
    if queued.age is not None:
        events |= _of(MetricNamespace.QUEUE, EVENTS, ApproximateAgeOfOldestMessage=queued.age * 60)
    if not queued.letters:  # an empty queue that nobody asks publishes nothing
        return events
    return events | _of(
        MetricNamespace.QUEUE,
        DEAD_LETTERS,
        ApproximateNumberOfMessagesVisible=queued.letters,
        ApproximateAgeOfOldestMessage=queued.letters_age * 60,
    )


def published(minute: Minute, clock: int) -> Iterator[Published]:
    """The metrics of a minute, `clock` minutes after a day's beginning, by who publishes them."""
    yield _of_queues(minute.queued)
    yield _of_reads(minute.read)
    if minute.writer:
        yield _of_writer(minute.writer)
    if minute.roller:
        yield _of_roller(minute.roller)
    if clock % EVERY == 0:
        if minute.cleanup is not None:
            yield _of_cleaning("cleanup", add_rolled, fails=not minute.cleanup)
        if minute.dropper is not None:
            yield _of_cleaning("dropper", add_steps, fails=not minute.dropper)
        if minute.tables is not None:
            yield _of(MetricNamespace.USAGE, TABLES, ResourceCount=minute.tables)
