"""What the functions publish: reports of the core as CloudWatch metrics (EMF), each with its unit,
and, by a setting, traces.

The metrics' dimensions are the pipeline and the function. None names a key or a window: their
number has no bound, and each would be billed as a metric.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, wraps
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, TypeVar

from aws_lambda_powertools import Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit

from tallyroll.errors import SettingsError
from tallyroll.model.states import Status
from tallyroll.settings import Settings
from tallyroll.settings.texts import PREFIX

if TYPE_CHECKING:  # each function loads its own at a cold start, and no other's
    from tallyroll.ingest.writer import BatchReport
    from tallyroll.lifecycle.runner import Rolled
    from tallyroll.reads.counting.shared import SharedUse
    from tallyroll.reads.counts import Count, Gathering

NAMESPACE = "Tallyroll"

T = TypeVar("T")
Handler = Callable[[dict[str, Any], Any], T]


def metrics_of(function: str) -> Metrics:
    """The metrics of one function."""
    return Metrics(namespace=NAMESPACE, service=function)


def add_report(metrics: Metrics, report: BatchReport, elapsed_ms: float) -> None:
    """The metrics of one batch."""
    _name_pipeline(metrics)
    counts = {
        "Messages": report.messages,
        "EventsCounted": report.events,
        "SingleEventsCounted": report.single_events,
        "PackedEventsCounted": report.packed_events,
        "Duplicates": report.duplicates,
        "Finished": report.finished,
        "HandedBack": len(report.failures),
        "AwaitingWindow": report.waiting,
        "NotesFailed": report.notes_failed > 0,
        "UndatedEvents": report.undated,
        "Conflicts": report.contended,
        "Throttles": report.throttled.total(),
        "UnknownOutcomes": report.unknown,
        "WriteUnitsSingle": report.cost.single,
        "WriteUnitsPacked": report.cost.packed,
        "StoreRequestsSingle": report.cost.requests_single,
        "StoreRequestsPacked": report.cost.requests_packed,
        "Rejected": report.rejected.total(),
    }
    for name, value in counts.items():
        metrics.add_metric(name, MetricUnit.Count, value)
    for reason, number in report.rejected.items():
        metrics.add_metric(f"Rejected-{reason}", MetricUnit.Count, number)
    for limit, number in report.throttled.items():
        metrics.add_metric(f"Throttles-{limit}", MetricUnit.Count, number)
    for size in report.sizes.some:
        metrics.add_metric("ItemSize", MetricUnit.Bytes, size)
    if report.logs.slots:  # only where a key is logged
        logs, of = report.logs, fields(report.logs)
        of_logs = {f"Log{each.name.title()}": getattr(logs, each.name) for each in of}
        of_logs["LoggedEventsCounted"] = report.logged_events
        of_logs["WriteUnitsLogged"] = report.cost.logged
        of_logs["StoreRequestsLogged"] = report.cost.requests_logged
        for name, value in of_logs.items():
            metrics.add_metric(name, MetricUnit.Count, value)
    if report.paced:  # only where there is a write rate
        metrics.add_metric("HeldByRate", MetricUnit.Count, report.paced)
    if report.retracted:  # only where events may be taken back
        metrics.add_metric("EventsRetracted", MetricUnit.Count, report.retracted)
    if report.failures:
        metrics.add_metric("OldestHandedBack", MetricUnit.Seconds, report.oldest_back_ms / 1000)
    metrics.add_metric("BatchLatency", MetricUnit.Milliseconds, elapsed_ms)


def add_read(metrics: Metrics, elapsed_ms: float, *, failed: bool) -> None:
    """The metrics of one read."""
    _name_pipeline(metrics)
    metrics.add_metric("Reads", MetricUnit.Count, 1)
    metrics.add_metric("ReadsFailed", MetricUnit.Count, failed)
    metrics.add_metric("ReadLatency", MetricUnit.Milliseconds, elapsed_ms)


def add_answer(metrics: Metrics, *, complete: bool) -> None:
    """The metrics of one answer: whether it holds all that was asked for."""
    metrics.add_metric("ReadsIncomplete", MetricUnit.Count, not complete)


def add_kept(metrics: Metrics, counts: Sequence[Count], *, confirmed: bool) -> None:
    """The metrics of what is kept: whether the caller's answer was `confirmed` (304); how many
    counts used what the function keeps, and how many were read as a whole.
    """
    metrics.add_metric("NotModified", MetricUnit.Count, confirmed)
    if counts:
        whole = sum(count.source == "read" for count in counts)
        metrics.add_metric("CountsKept", MetricUnit.Count, len(counts) - whole)
        metrics.add_metric("CountsRead", MetricUnit.Count, whole)


def add_shared(metrics: Metrics, use: SharedUse) -> None:
    """The metrics of the shared cache, where there is one: counts that it gave and did not give,
    and calls of it that failed.
    """
    metrics.add_metric("SharedHits", MetricUnit.Count, use.hits)
    metrics.add_metric("SharedMisses", MetricUnit.Count, use.misses)
    metrics.add_metric("SharedErrors", MetricUnit.Count, use.errors)


def add_gathering(metrics: Metrics, gathering: Gathering) -> None:
    """The metrics of one gathering of a key's stripes."""
    metrics.add_metric("GatherLatency", MetricUnit.Milliseconds, gathering.took_ms)
    metrics.add_metric("GatherWidth", MetricUnit.Count, gathering.stripes)


def add_steps(metrics: Metrics, rolled: Rolled) -> None:
    """The metrics of one run of the dropper. How long its windows are stuck, cleanup publishes,
    also while no dropper runs.
    """
    _name_pipeline(metrics)
    metrics.add_metric("Steps", MetricUnit.Count, rolled.steps.total())
    metrics.add_metric("Problems", MetricUnit.Count, len(rolled.problems))
    metrics.add_metric("ProofFailures", MetricUnit.Count, rolled.mismatches)


def add_rolled(metrics: Metrics, rolled: Rolled) -> None:
    """The metrics of one run of roller, cleanup or dropper."""
    add_steps(metrics, rolled)
    metrics.add_metric("StuckFor", MetricUnit.Seconds, rolled.stuck_ms / 1000)


def add_windows(metrics: Metrics, rolled: Rolled) -> None:
    """The metrics of the windows that the roller found.

    Every state has a number, also zero: an alarm is to see that it emptied.
    """
    metrics.add_metric("NextWindowMissing", MetricUnit.Count, rolled.next_missing)
    metrics.add_metric("WritersSilentFor", MetricUnit.Seconds, rolled.silent_ms / 1000)
    for status in Status:
        metrics.add_metric(f"Windows-{status}", MetricUnit.Count, rolled.states[status])
    tables = sum(rolled.states.values()) - rolled.states[Status.DROPPED]
    metrics.add_metric("WindowTables", MetricUnit.Count, tables)
    metrics.add_metric("HotKeys", MetricUnit.Count, rolled.hot_keys)
    if rolled.shards:
        metrics.add_metric("ShardsMost", MetricUnit.Count, rolled.shards)


def _name_pipeline(metrics: Metrics) -> None:
    """Add the pipeline's name, which nothing may ask the environment for before the first call."""
    name = os.environ.get(f"{PREFIX}NAME") or Settings().name
    metrics.add_dimension("pipeline", name)


def traced(function: str) -> Callable[[Handler[T]], Handler[T]]:
    """Powertools' Tracer captures a handler and its calls of AWS, if the setting `tracer` is on.

    The first invocation reads the setting, and imports the X-Ray SDK only if it is on. Raises
    SettingsError if the SDK is not there.
    """

    def decorate(handler: Handler[T]) -> Handler[T]:
        @cache
        def chosen() -> Handler[T]:
            text = os.environ.get(f"{PREFIX}TRACER") or "false"
            on = Settings.read("tracer", text)
            return _captured(function, handler) if on else handler

        @wraps(handler)
        def invoked(event: dict[str, Any], context: Any) -> T:
            return chosen()(event, context)

        return invoked

    return decorate


def _captured(function: str, handler: Handler[T]) -> Handler[T]:
    try:
        tracer = Tracer(service=function, patch_modules=["botocore"])
    except ModuleNotFoundError as missing:
        raise SettingsError(
            f"{PREFIX}TRACER true: {missing.name} is not installed: add the extra tallyroll[tracer]"
        ) from missing
    # Answers have keys and payloads, which may be personal data.
    captured: Handler[T] = tracer.capture_lambda_handler(handler, capture_response=False)
    return captured


def trace_error(error: Exception) -> None:
    """Add an error that the handler answers, and does not raise, to its trace, if there is one."""
    if core := sys.modules.get("aws_xray_sdk.core"):
        subsegment = core.xray_recorder.current_subsegment()
        if subsegment:
            subsegment.add_exception(error, extract_tb(error.__traceback__))
