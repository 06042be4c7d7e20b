"""The cost by AWS's rule, as README and docs state it."""

from __future__ import annotations

import json

import pytest

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.client.packing import pack
from tallyroll.ingest.cost import SIZES_KEPT, ItemSizes, WriteCost, commit_cost
from tallyroll.ingest.writer import BatchReport
from tallyroll.model.events import Event
from tallyroll.model.records import increments_of
from tests.harness.payloads import noise
from tests.harness.pipeline import NOW, TIME_LEFT, Pipeline, opened, record_with


def written(pipeline: Pipeline, bodies: list[str]) -> BatchReport:
    return pipeline.writer().write([pipeline.message(body) for body in bodies], TIME_LEFT)


def test_a_hot_key_in_full_batches() -> None:
    bodies = [json.dumps({"key": "hot", "id": f"e{n}", "ts": NOW + n}) for n in range(1_000)]
    report = written(opened(), bodies)
    assert report.single_events == 1_000
    assert report.cost.total / 1_000 <= 2.1
    assert report.cost.requests / 1_000 <= 0.012
    assert (report.cost.packed, report.cost.requests_packed) == (0, 0)


def test_a_lone_event_of_a_cold_key() -> None:
    report = written(opened(), [json.dumps({"key": "cold", "id": "e1", "ts": NOW})])
    assert (report.cost.total, report.cost.requests) == (6, 1)


def test_a_packed_event_pays_a_small_part() -> None:
    events = (Event("hot", None, NOW + n, 10**6, None) for n in range(1_000))
    report = written(opened(), list(pack(events, lambda: "packet-1")))
    assert report.packed_events == 1_000
    assert report.cost.packed / 1_000 <= 2.1 / 100
    assert report.cost.single == 0


def test_a_failed_attempt_is_budgeted() -> None:
    pipeline = opened()
    body = json.dumps({"key": "k", "id": "e1", "ts": NOW})
    first = written(pipeline, [body])
    again = written(pipeline, [body])
    assert (again.duplicates, again.cost.total) == (1, first.cost.total)


@pytest.mark.parametrize(("size", "units"), [(100, 6), (1_000, 8), (10_000, 24)])
def test_records_pay_by_the_kilobyte_begun(size: int, units: int) -> None:
    records = (record_with(data=b"x" * size, format="json"),)
    assert commit_cost(records, increments_of(records), METERING).total == units


def test_what_records_share_is_split_by_their_number() -> None:
    packet = record_with("p", n=100, format="packet1+zlib", data=b"x")
    records = (record_with("a"), record_with("b"), record_with("c"), packet)
    cost = commit_cost(records, increments_of(records), METERING)
    assert cost == WriteCost(6 + 3, 2 + 1, 0.75, 0.25)
    assert (cost.total, cost.requests) == (12, 1)


def test_costs_add_up() -> None:
    cost = WriteCost(1, 2, 3, 4)
    cost += WriteCost(10, 20, 30, 40)
    assert cost == WriteCost(11, 22, 33, 44)


def test_the_sizes_of_stored_items_are_reported() -> None:
    pipeline = opened()
    small = [json.dumps({"key": "k", "id": f"e{n}", "ts": NOW}) for n in range(200)]
    large = json.dumps({"key": "k", "id": "large", "ts": NOW, "payload": noise(120_000)})
    sizes = written(pipeline, [*small, small[0], large]).sizes
    assert 50 <= len(sizes.some) <= SIZES_KEPT
    assert 40 < min(sizes.some) < 100
    assert max(sizes.some) > 12_288
    again = written(pipeline, small).sizes
    assert again.some == []


def test_the_sizes_that_are_kept_are_bounded() -> None:
    sizes = ItemSizes()
    for count in (1, 0, 100, 50):
        sizes.add([record_with(f"e{n}", size=n + 1) for n in range(count)])
    assert sizes.some[0] == 1
    assert 50 <= len(sizes.some) <= SIZES_KEPT
