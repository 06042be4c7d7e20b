from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from uuid import UUID

import pytest

from tallyroll.errors import UsageError
from tallyroll.model.sharding import (
    STRATEGIES,
    calculated,
    product,
    random_suffix,
    stable_hash,
)
from tallyroll.model.specs import strategy
from tests.harness.processes import ran

IDS = 100_000
SHARDS = 200
VECTORS = {  # (id, N): shard, by `b2sum -l 64`; if they changed, no stored record would be found
    ("", 16): 5,
    ("order-000001", 200): 18,
    ("018f3c1e-7b5a-7cc2-9a53-0d6e3f1b2a4c", 200): 34,
    ("Grüße 世界", 16): 9,
    ("42", 10_000): 1739,
}


def uuids() -> Iterable[str]:
    chance = Random(7)
    return (str(UUID(int=chance.getrandbits(128), version=4)) for _ in range(IDS))


def skew(ids: Iterable[str], suffix: Callable[[str, int], int]) -> float:
    """The fullest shard's load over the mean."""
    loads = Counter(suffix(record_id, SHARDS) for record_id in ids)
    assert min(loads) >= 1
    assert max(loads) <= SHARDS
    return max(loads.values()) * SHARDS / loads.total()


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(uuids(), id="uuids"),
        pytest.param((f"order-{n:06}" for n in range(IDS)), id="order-ids"),
        pytest.param(map(str, range(IDS)), id="integers"),
    ],
)
def test_the_default_balances(ids: Iterable[str]) -> None:
    assert skew(ids, calculated) < 1.2


def test_the_product_sends_every_uuid_to_suffix_one() -> None:
    assert Counter(product(uuid, SHARDS) for uuid in uuids()) == {1: IDS}


def test_the_product_is_the_guides_formula() -> None:
    assert product("ab", 200) == 97 * 98 % 200 + 1
    assert product("", 200) == 2


def test_known_vectors() -> None:
    assert {case: calculated(*case) for case in VECTORS} == VECTORS


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_another_process_finds_the_same_shards(seed: str) -> None:
    program = (
        "import sys\nfrom tallyroll.model.sharding import calculated\n"
        f"assert all(calculated(*case) == shard for case, shard in {VECTORS!r}.items())\n"
        "print(hash('tallyroll'))"
    )
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = ran([sys.executable, "-c", program], env=environment, check=True)
    assert int(done.stdout) != hash("tallyroll") or os.environ.get("PYTHONHASHSEED") == seed


def test_the_hash_has_64_bits() -> None:
    assert max(stable_hash(str(n)) for n in range(1_000)).bit_length() == 64


def test_random_suffixes_reach_every_stripe() -> None:
    chance = Random(1)
    assert {random_suffix(8, chance) for _ in range(200)} == set(range(1, 9))


def test_strategies_by_name() -> None:
    assert {name: strategy(name) for name in STRATEGIES} == STRATEGIES


def test_a_random_suffix_for_records_is_refused() -> None:
    with pytest.raises(UsageError, match="'random': records take one of calculated, product"):
        strategy("random")
