"""What DynamoDB does today, beside the classic arithmetic."""

from __future__ import annotations

import pytest

from tallyroll.errors import UsageError
from tallyroll.planning import (
    grown_write_units,
    initial_partitions,
    new_on_demand_units,
    split_for_heat,
    warm_partitions,
)
from tallyroll.planning.on_demand import disagreements


def test_a_new_table_takes_4000_writes_and_12000_reads() -> None:
    start = new_on_demand_units()
    assert (start.read, start.write) == (12_000, 4_000)
    assert warm_partitions() == 4
    assert initial_partitions(read_units=start.read, write_units=start.write) == 8


def test_warm_throughput_makes_as_many_partitions_as_one_kind_of_units_needs() -> None:
    assert warm_partitions(write_units=40_000) == 40
    assert warm_partitions(read_units=30_000, write_units=5_000) == 10
    assert warm_partitions(read_units=0, write_units=0) == 4
    with pytest.raises(UsageError, match="must be 0 or more"):
        warm_partitions(write_units=-1)


def test_a_table_doubles_in_half_an_hour() -> None:
    def after(seconds: float) -> float:
        return grown_write_units(start_units=4_000, peak_units=30_000, seconds=seconds)

    assert [after(s) for s in (0, 1_799, 1_800, 3_600, 5_400, 86_400)] == [
        *(4_000, 4_000, 8_000, 16_000, 32_000, 32_000)
    ]


def test_a_split_for_heat_divides_the_load() -> None:
    assert split_for_heat(write_units=[500, 500]) == 1
    assert split_for_heat(write_units=[100, 100, 100, 900]) == 3
    assert split_for_heat(write_units=[900, 100, 100, 100]) == 1
    assert split_for_heat(write_units=[300, 200, 200, 300]) == 2
    assert split_for_heat(write_units=[]) is None


def test_one_collection_is_divided_by_its_sort_keys_unless_they_ascend_or_have_an_index() -> None:
    assert split_for_heat(write_units=[1_500]) == 0
    assert split_for_heat(write_units=[1_500], monotonic_sort_keys=True) is None
    assert split_for_heat(write_units=[1_500], local_indexes=True) is None
    assert split_for_heat(write_units=[800, 700], monotonic_sort_keys=True) == 1


def test_the_disagreements_are_computed() -> None:
    heading, partitions, increase, *_ = disagreements()
    assert heading == ("question", "classic, provisioned", "today")
    assert partitions[1].startswith("8:")
    assert partitions[2].startswith("4:")
    assert increase[1].startswith("8:")
    assert increase[2].startswith("5:")
