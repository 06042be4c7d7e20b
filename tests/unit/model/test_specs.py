from __future__ import annotations

from tallyroll.model.sharding import calculated, product
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
