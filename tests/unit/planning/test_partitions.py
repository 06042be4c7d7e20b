"""The partition arithmetic: every worked example of the guide, and its edges."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tallyroll.errors import UsageError
from tallyroll.planning import (
    PartitionUnits,
    adaptive_capacity,
    bulk_load_write_units,
    burst_lasts_seconds,
    burst_units,
    initial_partitions,
    isolated_items,
    partitions_after_increase,
    rounded_units,
    split_partition,
    storage_partitions,
    table_steps,
    units_per_partition,
)

GB = 10**9


@pytest.mark.parametrize(
    ("read_units", "write_units", "partitions"),
    [
        (1_000, 500, 1),
        (1_000, 1_000, 2),
        (5_000, 2_000, 4),
        (0, 0, 1),
        (3_000, 0, 1),
        (3_001, 0, 2),
    ],
)
def test_initial_partitions(read_units: int, write_units: int, partitions: int) -> None:
    assert initial_partitions(read_units=read_units, write_units=write_units) == partitions


def test_an_increase_doubles_the_partitions() -> None:
    first = initial_partitions(read_units=5_000, write_units=2_000)
    assert units_per_partition(partitions=first, read_units=5_000, write_units=2_000) == (
        1_250,
        500,
    )
    then = partitions_after_increase(partitions=first, read_units=8_000, write_units=2_000)
    assert then == 8
    assert units_per_partition(partitions=then, read_units=8_000, write_units=2_000) == (1_000, 250)


def test_an_increase_that_fits_splits_nothing() -> None:
    assert partitions_after_increase(partitions=4, read_units=6_000, write_units=2_000) == 4
    assert partitions_after_increase(partitions=8, read_units=1_000, write_units=100) == 8
    assert partitions_after_increase(partitions=1, read_units=0, write_units=4_500) == 8


def test_eight_full_partitions_and_one_byte_more_are_nine() -> None:
    assert storage_partitions(stored_bytes=80 * GB) == 8
    assert storage_partitions(stored_bytes=80 * GB + 1) == 9
    shares = [PartitionUnits(1_000, 250)] * 8
    assert len(split_partition(shares=shares, full=7)) == 9
    assert storage_partitions(stored_bytes=0) == 1


def test_a_full_partition_halves_its_own_share_only() -> None:
    shares = [units_per_partition(partitions=4, read_units=5_000, write_units=2_000)] * 4
    split = split_partition(shares=shares, full=3)
    assert split == [(1_250, 500)] * 3 + [(625, 250)] * 2
    assert sum(share.write for share in split) == 2_000


def test_a_bulk_load_leaves_partitions_that_starve_afterwards() -> None:
    needed = bulk_load_write_units(items=20_000_000, item_bytes=1_024, seconds=30 * 60)
    assert int(needed) == 11_111
    assert rounded_units(units=needed) == 11_000
    partitions = initial_partitions(write_units=rounded_units(units=needed))
    assert partitions == 11
    after = partitions_after_increase(partitions=partitions, write_units=200)
    assert units_per_partition(partitions=after, write_units=200).write == pytest.approx(20, abs=2)


def test_a_slower_bulk_load_leaves_two_partitions() -> None:
    needed = bulk_load_write_units(items=20_000_000, item_bytes=1_024, seconds=3 * 60 * 60)
    assert rounded_units(units=needed) == 1_900
    assert initial_partitions(write_units=1_900) == 2


def test_items_take_whole_units() -> None:
    assert bulk_load_write_units(items=10, item_bytes=1_025, seconds=1) == 20
    assert [rounded_units(units=units) for units in (7, 15, 104, 106)] == [7, 15, 100, 110]


def test_five_minutes_of_unused_capacity_last_a_quarter_of_an_hour() -> None:
    saved = burst_units(unused_units=150, idle_seconds=5 * 60)
    assert saved == 45_000
    assert burst_lasts_seconds(saved_units=saved, demanded_units=200, provisioned_units=150) == 900


def test_no_more_than_five_minutes_are_kept() -> None:
    assert burst_units(unused_units=150, idle_seconds=3_600) == 45_000
    lasts = burst_lasts_seconds(saved_units=1, demanded_units=150, provisioned_units=150)
    assert lasts == math.inf


def test_a_frequently_accessed_item_gets_a_partition_of_its_own() -> None:
    loads = {"hot": 1_000.0, "warm": 400.0, "cold": 100.0, "cool": 300.0}
    found = isolated_items(write_units=loads)
    assert found.partitions == [["hot"], ["warm", "cool", "cold"]]
    assert found.throttled == []


def test_no_isolation_helps_an_item_over_the_limit_of_a_partition() -> None:
    found = isolated_items(write_units={"hot": 1_001.0, "cold": 1.0})
    assert found.partitions == [["hot"], ["cold"]]
    assert found.throttled == ["hot"]


def test_adaptive_capacity_serves_an_uneven_load_within_the_total() -> None:
    demand = [50, 50, 50, 150]
    share = units_per_partition(partitions=4, write_units=400).write
    assert max(demand) > share == 100
    granted = adaptive_capacity(demanded_write_units=demand, provisioned_write_units=400)
    assert granted == demand


def test_adaptive_capacity_exceeds_neither_the_table_nor_a_partition() -> None:
    granted = adaptive_capacity(demanded_write_units=[300, 300], provisioned_write_units=400)
    assert granted == pytest.approx([200, 200])
    granted = adaptive_capacity(demanded_write_units=[1_500, 10], provisioned_write_units=4_000)
    assert granted == [1_000, 10]
    assert adaptive_capacity(demanded_write_units=[0], provisioned_write_units=0) == [0]


def test_nonsense_is_named() -> None:
    with pytest.raises(UsageError, match="read_units -1: must be 0 or more"):
        initial_partitions(read_units=-1)
    with pytest.raises(UsageError, match="write_units nan"):
        initial_partitions(write_units=math.nan)
    with pytest.raises(UsageError, match="seconds 0: must be more than 0"):
        bulk_load_write_units(items=1, item_bytes=1, seconds=0)
    with pytest.raises(UsageError, match="partitions 0"):
        units_per_partition(partitions=0)
    with pytest.raises(UsageError, match="there are partitions 0 to 0"):
        split_partition(shares=[PartitionUnits(1, 1)], full=1)


def test_a_table_step_by_step_is_the_guides() -> None:
    made, full = table_steps(units=PartitionUnits(5_000, 2_000), stored_bytes=45 * GB)
    assert made.shares == {(1_250, 500): 4}
    assert full.shares == {(1_250, 500): 3, (625, 250): 2}
    raised, held, cut = [
        *table_steps(
            units=PartitionUnits(5_000, 2_000),
            raised=PartitionUnits(8_000, 2_000),
            stored_bytes=80 * GB + 1,
            cut=PartitionUnits(8_000, 200),
        )
    ][1:]
    assert (raised.shares, held.partitions) == ({(1_000, 250): 8}, 9)
    assert cut.shares == {(1_000, 25): 7, (500, 12.5): 2}
    _, cut = table_steps(units=PartitionUnits(0, 11_000), cut=PartitionUnits(0, 200))
    assert (cut.partitions, [round(each.write, 1) for each in cut.shares]) == (11, [18.2])


@pytest.mark.parametrize(("stored", "shares"), [(40, {100: 4}), (50, {100: 3, 50: 2})])
def test_partitions_split_by_size_one_by_one(stored: int, shares: dict[int, int]) -> None:
    *_, full = table_steps(units=PartitionUnits(10_000, 400), stored_bytes=stored * GB)
    assert {each.write: n for each, n in full.shares.items()} == shares
    *_, large = table_steps(units=PartitionUnits(10_000, 400), stored_bytes=100 * GB)
    assert sorted((each.write, n) for each, n in large.shares.items()) == [(25, 4), (50, 6)]
    assert sum(each.write * n for each, n in large.shares.items()) == 400


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"raised": PartitionUnits(9, 4)}, "raised 9/4: must be 8/5 or more"),
        ({"cut": PartitionUnits(9, 4)}, "cut 9/4: must be 8/5 or less"),
    ],
)
def test_a_raise_lowers_nothing_and_a_cut_raises_nothing(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        [*table_steps(units=PartitionUnits(8, 5), **wrong)]
