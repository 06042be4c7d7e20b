from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tallyroll.errors import UsageError
from tallyroll.model.sharding import calculated, product
from tallyroll.model.specs import strategy, suffix_name
from tests.harness.pipeline import HOUR, START, spec_of


def test_hot_keys_have_shards_and_stripes_of_their_own() -> None:
    spec = spec_of(hot={"hot": 200})
    assert (spec.shards_of("hot"), spec.shards_of("cold")) == (200, 4)
    assert (spec.stripes_of("hot"), spec.stripes_of("cold")) == (200, 8)


def test_the_spec_alone_says_where_a_record_lies() -> None:
    assert spec_of(hot={"hot": 200}).shard("hot", "e1") == calculated("e1", 200)
    assert spec_of(suffix="product").shard("k", "e1") == product("e1", 4)


def test_stripes_spread_over_the_buckets() -> None:
    spec = spec_of(buckets=4)
    assert {spec.bucket("k", stripe) for stripe in range(1, 101)} == {1, 2, 3, 4}


def test_slots_are_sixtieths() -> None:
    spec = spec_of()
    assert [spec.slot(START + ms) for ms in (0, 59_999, 60_000, HOUR - 1)] == [0, 0, 1, 59]
    second = spec_of(end=START + 1_000)
    assert (second.slot(START + 16), second.slot(START + 999)) == (0, 59)


def test_tallies_have_a_width_of_their_own() -> None:
    """It follows the writers, and N only of keys that have their own."""
    spec = spec_of(shards=256, hot={"hot": 1_024, "cool": 4}, suffix="calculated+s1")
    assert [spec.stripes_of(key) for key in ("hot", "cool", "k")] == [1_024, 8, 8]
    assert [spec.stripes_most(key) for key in ("hot", "cool", "k")] == [1_024, 8, 256]
    before = replace(spec, suffix="calculated")
    for key in ("hot", "cool", "k"):
        assert before.stripes_of(key) == before.stripes_most(key) == spec.stripes_most(key)


@pytest.mark.parametrize("shards", [1, 3, 63, 64, 65, 100, 256, 1_024, 10_000])
def test_blocks_divide_the_shards(shards: int) -> None:
    spec = spec_of(shards=shards)
    blocks = [spec.block("k", shard) for shard in range(1, shards + 1)]
    assert sorted(blocks) == blocks
    assert set(blocks) == set(range(min(64, shards)))
    sizes = Counter(blocks).values()
    assert max(sizes) - min(sizes) <= 1
    assert spec.shards_in("k", set(blocks)) == list(range(1, shards + 1))
    assert spec.shards_in("k", {0}) == [n for n in range(1, shards + 1) if blocks[n - 1] == 0]


def test_a_suffix_names_its_strategy_and_rules_in_one_order() -> None:
    assert suffix_name("product", {"id1", "s1"}) == "product+s1+id1"
    assert strategy("product+s1+id1") is strategy("product+s1") is product
    for odd in ("calculated+id1+s1", "calculated+s2", "s1", "calculated+"):
        with pytest.raises(UsageError):
            strategy(odd)
