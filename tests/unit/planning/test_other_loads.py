"""What else loads partitions: a table that is not new, reads of counts, totals at sealing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tallyroll.adapters.dynamodb.totals_table import PUTS_AT_ONCE, ROWS_PER_TRANSACTION
from tallyroll.planning.partition_model.flow import flowed
from tallyroll.planning.partition_model.loads import fixed, flat, one_key
from tallyroll.planning.partition_model.other_loads import TOTALS_PER_SECOND, burst_of_totals
from tallyroll.planning.partition_model.result import TimeSeries
from tallyroll.planning.partition_model.table import TableRules
from tallyroll.planning.partition_model.world import World
from tallyroll.planning.shards import KeyWrites
from tallyroll.planning.writers import TRANSACTION_MS

GB = 10**9
WORLD = World(shards=256, writes=KeyWrites(2.0, 0.0444))


def course(world: World, rate: float = 50, seconds: float = 60) -> TimeSeries:
    return flowed(fixed("flat", flat(rate), one_key()), world, seconds=seconds)


def test_a_table_starts_with_given_partitions_and_the_next_window_with_its_own() -> None:
    given = replace(WORLD, rules=TableRules(partitions=11), window_seconds=30)
    assert course(given).partitions[::30] == [11, 4]
    assert TableRules(stored_bytes=80 * GB).start_partitions == 8
    assert TableRules(stored_bytes=80 * GB + 1).start_partitions == 9


def test_a_table_that_is_nearly_full_is_split_by_size() -> None:
    nearly = replace(WORLD, rules=TableRules(stored_bytes=40 * GB - 200_000))
    found = course(nearly).partitions
    assert (found[0], found[-1] > 4) == (4, True)
    assert course(WORLD).partitions[-1] == 4


def test_reads_are_refused_by_the_fullest_partition_once_its_burst_is_used_up() -> None:
    none = course(replace(WORLD, reads_per_second=40))
    assert sum(none.reads_refused) == 0
    # 64 buckets on four partitions: the fullest has at least 16, so 300 counts take 4,800 units.
    many = course(replace(WORLD, reads_per_second=300), seconds=600).reads_refused
    assert many[-1] > 0
    assert np.mean(many[:60]) <= np.mean(many[-60:])
    more = course(
        replace(WORLD, reads_per_second=300, rules=TableRules(partitions=64)), seconds=600
    )
    assert more.reads_refused[-1] < many[-1]


def test_the_totals_of_many_keys_are_throttled_and_those_of_few_are_not() -> None:
    few, many = burst_of_totals(500), burst_of_totals(100_000)
    assert (few.write_units, few.throttled_seconds) == (2_000, 0)
    assert many.write_units == 400_000
    assert many.throttled_seconds > 0
    assert many.seconds >= 400_000 / 8_000  # a new table takes 4,000, its partitions 1,000 each
    assert burst_of_totals(1).seconds == 1


def test_totals_are_put_as_fast_as_the_roller_puts_them() -> None:
    expected = ROWS_PER_TRANSACTION * PUTS_AT_ONCE * 1_000 / TRANSACTION_MS
    assert pytest.approx(expected) == TOTALS_PER_SECOND
