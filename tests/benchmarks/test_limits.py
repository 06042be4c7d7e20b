"""What one key and one table take: the computed placements against counted and drawn ones."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest

from benchmarks import limits
from benchmarks.limits import of_keys
from tallyroll.planning import shards as model
from tallyroll.planning.shards import Rates, fullest


def key_rate(shards: int, partitions: int, most: int) -> float:
    return model.key_rate(limits.writes(), shards=shards, partitions=partitions, most=most)


def key_rates(shards: int, partitions: int) -> Rates:
    return model.key_rates(limits.writes(), shards=shards, partitions=partitions)


def table_rate(partitions: int) -> float:
    return model.table_rate(limits.writes(), partitions=partitions)


@pytest.mark.parametrize(("shards", "partitions"), [(1, 4), (4, 4), (6, 4), (5, 3), (9, 2)])
def test_placements_are_those_that_counting_finds(shards: int, partitions: int) -> None:
    places = list(product(range(partitions), repeat=shards))
    found = Counter(max(Counter(place).values()) for place in places)
    assert dict(fullest(shards, partitions)) == pytest.approx(
        {most: times / len(places) for most, times in found.items()}
    )


@pytest.mark.parametrize(("shards", "partitions"), [(16, 4), (64, 4), (64, 40)])
def test_rates_agree_with_placements_that_are_drawn(shards: int, partitions: int) -> None:
    chance, times = random.Random(7), 4_000
    rates = []
    for _ in range(times):
        placed = Counter(chance.randrange(partitions) for _ in range(shards))
        rates.append(key_rate(shards, partitions, max(placed.values())))
    found = key_rates(shards, partitions)
    assert found.mean == pytest.approx(sum(rates) / times, rel=0.01)
    assert sum(rate < found.low for rate in rates) / times <= 0.06
    assert sum(rate <= found.low for rate in rates) / times >= 0.04
    assert sum(rate > found.high for rate in rates) / times <= 0.06


def test_a_key_takes_no_more_than_its_table() -> None:
    assert key_rate(16, 4, 4) == pytest.approx(table_rate(4))
    for shards in (1, 16, 200):
        found = key_rates(shards, 4)
        ascending = [found.low, found.mean + 1e-6, found.high + 2e-6, table_rate(4) + 1]
        assert ascending == sorted(ascending)
    assert key_rates(1, 4).mean == pytest.approx(497, abs=1)  # two units each, of 1,000


def test_the_table_of_the_documents() -> None:
    rows = of_keys()
    assert len({len(row) for row in rows}) == 1
    assert [row[0] for row in rows[1:]][::4] == ["one key, N = 16", "many keys, together"]
