"""What the guide's formula does with ids of digits, against the formula itself."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.suffixes import IDS, digits
from tallyroll.model.sharding import product
from tallyroll.planning.suffixes import product_shares, product_warning
from tallyroll.settings import Settings


@pytest.mark.parametrize("shards", [1, 16, 200, 256])
def test_the_shares_are_those_of_all_ids(shards: int) -> None:
    counted = Counter(product(f"{number:03d}", shards) for number in range(1_000))
    assert product_shares(shards, 3) == {
        suffix: count / 1_000 for suffix, count in sorted(counted.items())
    }


def test_drawn_ids_are_spread_as_computed() -> None:
    drawn, shares = Counter(product(each, 200) for each in digits()), product_shares(200)
    assert {*drawn} <= {*shares}
    assert drawn[1] / IDS == pytest.approx(shares[1], abs=0.005)
    assert (round(shares[1], 3), len(shares)) == (0.636, 175)


def test_the_warning_has_the_numbers_of_the_shards_deployed() -> None:
    told = product_warning(Settings(suffix="product", shards=200))
    assert "64% of random 8-digit ids to suffix 1, and 100,000 of them leave 55 of 200" in told
    assert "92% of random" in product_warning(Settings(suffix="product", shards=16))
    assert product_warning(Settings()) == ""
