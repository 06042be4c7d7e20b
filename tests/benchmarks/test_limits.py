"""What one key and one table take: the computed placements against counted and drawn ones."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from xml.etree import ElementTree as ET

import pytest

from benchmarks import limits
from benchmarks.limits import of_keys
from benchmarks.limits_chart import FILE, drawn
from tallyroll.planning import shards as model
from tallyroll.planning.shards import KeyWrites, Rates, fullest


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


def test_a_rate_by_hand() -> None:
    # 4 of 16 shards on the fullest of 4 partitions: a quarter of the records, 2 units each, and a
    # quarter of the 0.04 units that are spread.
    writes = KeyWrites(record=2, shared=0.04)
    by_hand = 1_000 / (2 * 4 / 16 + 0.04 / 4)
    assert model.key_rate(writes, shards=16, partitions=4, most=4) == pytest.approx(by_hand)
    # Two shards on two partitions: half the placements put both on one, which takes 500 then.
    both = model.key_rates(KeyWrites(record=2, shared=0), shards=2, partitions=2)
    assert both.mean == pytest.approx((500 + 1_000) / 2)
    assert (both.low, both.high) == (500, 1_000)


@pytest.mark.parametrize(("unlucky", "rate"), [(False, "mean"), (True, "low")])
def test_the_tables_have_the_rates_of_the_model(unlucky: bool, rate: str) -> None:
    heading, *rows = of_keys(unlucky=unlucky)
    assert [int(row[0]) for row in rows] == list(limits.PARTITIONS)
    for row in rows:
        rates = [float(text.replace(",", "")) for text in row[1:]]
        assert rates == sorted(rates), "more shards take no less, and a table most"
        for shards, found in zip(limits.SHARDS, rates[:-1], strict=True):
            assert found == round(getattr(key_rates(shards, int(row[0])), rate))
    assert len(heading) == len(limits.SHARDS) + 2


def test_more_shards_gain_more_from_more_partitions() -> None:
    def gain(shards: int) -> float:
        return key_rates(shards, 80).mean / key_rates(shards, 4).mean

    gains = [gain(shards) for shards in limits.SHARDS]
    assert gains == sorted(gains)
    assert gains[0] < 4
    assert gains[2] > 8


def test_the_picture_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == drawn(), "run python -m benchmarks.limits --write"


def test_the_picture_has_a_line_for_each_number_of_shards_and_each_table() -> None:
    lines = [each for each in ET.fromstring(drawn()).iter() if each.tag.endswith("polyline")]
    assert [each.attrib["class"] for each in lines] == ["all", "n16", "all", "n64", "n256", "n1024"]
    whole = lines[0].attrib["points"].split()
    ends = [float(each.attrib["points"].split()[-1].split(",")[1]) for each in lines[2:]]
    assert ends[1:] == sorted(ends[1:], reverse=True), "more shards end higher"
    assert float(whole[-1].split(",")[1]) == ends[0]
