"""What DynamoDB's writes cost, and the throughput that tables are given."""

from __future__ import annotations

import pytest

from tallyroll.adapters.dynamodb.throughput import METERING, cold_throughput, new_throughput
from tallyroll.limits import PARTITION_WRITE_UNITS, write_units
from tallyroll.settings import Settings
from tests.harness.pipeline import record_with


@pytest.mark.parametrize(("size", "units"), [(0, 1), (1, 1), (1024, 1), (1025, 2), (409_600, 400)])
def test_write_units_are_kilobytes_begun(size: int, units: int) -> None:
    assert write_units(size) == units


@pytest.mark.parametrize(("size", "cost"), [(1, 2), (1024, 2), (1025, 4), (3_073, 8)])
def test_a_record_costs_two_units_a_kilobyte_begun(size: int, cost: int) -> None:
    assert METERING.record_cost(record_with(size=size)) == cost


def test_a_shard_is_not_planned_to_fill_its_partition() -> None:
    assert METERING.shard_cost_max < PARTITION_WRITE_UNITS


@pytest.mark.parametrize(
    ("settings", "peak", "units"),
    [
        ({}, 8_000, None),
        ({"warm_units_max": 30_000}, 2_666, None),
        ({"warm_units_max": 30_000}, 2_668, 4_002),
        ({"warm_units_max": 30_000}, 8_000, 12_000),
        ({"warm_units_max": 30_000}, 30_000, 30_000),
        ({"warm_units": 20_000}, 0, 20_000),
        ({"warm_units": 20_000, "warm_units_max": 30_000}, 8_000, 20_000),
    ],
)
def test_warm_throughput_follows_the_peak(
    settings: dict[str, int], peak: int, units: int | None
) -> None:
    warm = {"WriteUnitsPerSecond": units, "ReadUnitsPerSecond": 12_000}
    wanted = {"WarmThroughput": warm} if units else {}
    assert new_throughput(Settings(**settings), peak) == wanted  # type: ignore[arg-type]


def test_provisioned_tables_have_two_throughputs() -> None:
    units = {"write": 900, "read": 300, "cold_write": 1, "cold_read": 50}
    settings = Settings(provisioned=units, warm_units_max=30_000)
    hot = {"WriteCapacityUnits": 900, "ReadCapacityUnits": 300}
    wanted = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": hot}
    assert new_throughput(settings, 8_000) == wanted
    assert cold_throughput(settings) == {"WriteCapacityUnits": 1, "ReadCapacityUnits": 50}
