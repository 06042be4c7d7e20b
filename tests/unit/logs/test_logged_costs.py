"""What logged events cost, apart from single and packed events; and what pipelines without logs do
not notice.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tallyroll import limits
from tallyroll.ingest.cost import LogCounts
from tallyroll.ingest.writer import BatchReport
from tallyroll.telemetry import add_report, metrics_of
from tests.harness.pipeline import NOW, SMALL, TIME_LEFT, Pipeline, opened

LOGGED = replace(SMALL, logs={"k": 1_000})
PACKET = {"key": "k", "id": "p", "t0": NOW, "events": [[0, 1], [1, 1], [2, 1]]}


def written(pipeline: Pipeline, *bodies: dict[str, Any]) -> BatchReport:
    messages = [
        replace(pipeline.message(body), id=str(UUID(int=number, version=4)), sent=NOW - 5)
        for number, body in enumerate(bodies)
    ]
    return pipeline.writer().write(messages, TIME_LEFT)


def published(report: BatchReport) -> dict[str, float]:
    """The metrics of a batch that are not 0."""
    metrics = metrics_of("writer")
    add_report(metrics, report, 1)
    found: dict[str, Any] = {**metrics.serialize_metric_set()}
    metrics.clear_metrics()
    named = found["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    return {each["Name"]: sum(found[each["Name"]]) for each in named if any(found[each["Name"]])}


def test_each_kind_of_events_has_its_own_counts_and_costs() -> None:
    own = [{"key": "k", "id": f"e{number}"} for number in range(5)]
    alone = written(opened(LOGGED), *own, PACKET)
    plain = [{"key": "k"}] * 20
    report = written(opened(LOGGED), *own, PACKET, *plain)
    assert (report.single_events, report.packed_events, report.logged_events) == (5, 3, 20)
    assert report.events == 28
    cost = report.cost
    assert (cost.single, cost.packed) == (alone.cost.single, alone.cost.packed)
    # One leaf of less than a KB, one tally, one gate.
    assert (cost.logged, cost.requests_logged) == (6, 1)
    assert (cost.total, cost.requests) == (alone.cost.total + 6, alone.cost.requests + 1)
    assert report.sizes.some == alone.sizes.some
    found = published(report)
    assert found["EventsCounted"] == 28
    assert found["LoggedEventsCounted"] == 20
    assert (found["WriteUnitsLogged"], found["StoreRequestsLogged"]) == (6, 1)
    of_logs = {"LogLeaves": 1, "LogEntries": 20, "LogSlots": 1}
    assert {name: found.get(name) for name in of_logs} == of_logs
    assert (found["WriteUnitsSingle"], found["SingleEventsCounted"]) == (cost.single, 5)


def test_what_a_full_slot_leaves_to_records_is_single(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_POSITIONS", 1)
    monkeypatch.setattr(limits, "LOG_ENTRIES_MAX", 2)
    report = written(opened(LOGGED), *[{"key": "k"}] * 7)
    assert (report.single_events, report.logged_events) == (5, 2)
    assert report.cost.single > report.cost.logged > 0
    assert published(report)["LogFull"] == 1


def test_without_logs_nothing_is_read_counted_or_published_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened(SMALL)
    spec = pipeline.spec()
    assert (spec.logs, spec.suffix) == ({}, "calculated+s1")
    monkeypatch.setattr(pipeline.store, "records", None)  # nobody reads a slot
    report = written(pipeline, *[{"key": "k"}] * 20, PACKET)
    assert (report.single_events, report.packed_events, report.logged_events) == (20, 3, 0)
    assert (report.cost.logged, report.cost.requests_logged) == (0, 0)
    assert report.logs == LogCounts()
    assert not [name for name in published(report) if "Log" in name]
    assert "~log." not in json.dumps([*pipeline.store.items(spec.table)])
