"""What the functions publish: reports of the core as CloudWatch metrics (EMF), each with its unit.

No dimension names a key or a window: their number has no bound, and each would be billed as a
metric.
"""

from __future__ import annotations

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit

from tallyroll.steps import Rolled
from tallyroll.writer import Report

NAMESPACE = "Tallyroll"


def metrics_of(function: str) -> Metrics:
    """The metrics of one function."""
    return Metrics(namespace=NAMESPACE, service=function)


def add_report(metrics: Metrics, report: Report, elapsed_ms: float) -> None:
    """The metrics of one batch."""
    counts = {
        "Messages": report.messages,
        "EventsCounted": report.events,
        "SingleEventsCounted": report.single_events,
        "PackedEventsCounted": report.packed_events,
        "Duplicates": report.duplicates,
        "HandedBack": len(report.failures),
        "AwaitingWindow": report.waiting,
        "UndatedEvents": report.undated,
        "Conflicts": report.contended,
        "Throttles": report.throttled,
        "UnknownOutcomes": report.unknown,
        "WriteUnitsSingle": report.cost.units_single,
        "WriteUnitsPacked": report.cost.units_packed,
        "StoreRequestsSingle": report.cost.requests_single,
        "StoreRequestsPacked": report.cost.requests_packed,
        "Rejected": report.rejected.total(),
    }
    for name, value in counts.items():
        metrics.add_metric(name, MetricUnit.Count, value)
    for reason, number in report.rejected.items():
        metrics.add_metric(f"Rejected-{reason}", MetricUnit.Count, number)
    metrics.add_metric("BatchLatency", MetricUnit.Milliseconds, elapsed_ms)


def add_read(metrics: Metrics, elapsed_ms: float, *, failed: bool) -> None:
    """The metrics of one read."""
    metrics.add_metric("Reads", MetricUnit.Count, 1)
    metrics.add_metric("ReadsFailed", MetricUnit.Count, failed)
    metrics.add_metric("ReadLatency", MetricUnit.Milliseconds, elapsed_ms)


def add_rolled(metrics: Metrics, rolled: Rolled) -> None:
    """The metrics of one run of the roller or of cleanup."""
    metrics.add_metric("Steps", MetricUnit.Count, rolled.steps.total())
    metrics.add_metric("Problems", MetricUnit.Count, len(rolled.problems))
    metrics.add_metric("ProofFailures", MetricUnit.Count, rolled.mismatches)
    metrics.add_metric("NextWindowMissing", MetricUnit.Count, rolled.next_missing)
    for status, number in rolled.states.items():
        metrics.add_metric(f"Windows-{status}", MetricUnit.Count, number)
