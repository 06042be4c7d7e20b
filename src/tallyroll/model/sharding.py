"""The two kinds of suffixes: calculated ones for records, random ones for tally stripes.

A record's shard follows from its id, so a redelivery lands on the same item, and one GetItem reads
a record. The stripes of a tally are only ever summed, so any of them will do.

Next on the reading path: `ingest/transactions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2b
from itertools import combinations
from math import prod
from typing import Protocol

from tallyroll.errors import UsageError


class Chance(Protocol):
    """The part of `random.Random` that the core uses."""

    def random(self) -> float:
        """A float in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """An integer of k random bits."""
        ...


def stable_hash(text: str) -> int:
    """64 bits of BLAKE2b of the UTF-8 text, big-endian: equal on all machines and versions."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def calculated(record_id: str, shards: int) -> int:
    """The shard, 1..shards, of a record id. For 100,000 ids over 200 shards, the fullest shard has
    less than 1.2 times the mean.
    """
    return stable_hash(record_id) % shards + 1


def product(record_id: str, shards: int) -> int:
    """The shard by the example formula of the DynamoDB Developer Guide, "Using write sharding": the
    product of the code points modulo the shard count, plus 1.

    For compatibility only: if `shards` divides the product, the shard is 1. With 200 shards this is
    the case for every UUID.
    """
    return prod(map(ord, record_id)) % shards + 1


def random_suffix(count: int, chance: Chance) -> int:
    """A random suffix, 1..count; for tally stripes and gates only, never for records."""
    return int(chance.random() * count) + 1


STRATEGIES: dict[str, Callable[[str, int], int]] = {"calculated": calculated, "product": product}

STRIPES_RULE = "s1"
"""In the name of a suffix: tallies have a width of their own, whatever the number of shards, and
say which shards they cover. Releases that do not know the name of a suffix place nothing, so their
writers hand such a window's messages back.
"""
IDENTITIES_RULE = "id1"
"""In the name of a suffix: ids are also put into the table of identities."""
RULES = (STRIPES_RULE, IDENTITIES_RULE)


def suffix_name(strategy_name: str, rules: Collection[str]) -> str:
    """The name of a suffix: its strategy, and its rules in their order."""
    return "+".join([strategy_name, *(rule for rule in RULES if rule in rules)])


_BY_NAME = {
    suffix_name(strategy_name, rules): place
    for strategy_name, place in STRATEGIES.items()
    for number in range(len(RULES) + 1)
    for rules in combinations(RULES, number)
}


def strategy(name: str) -> Callable[[str, int], int]:
    """The record suffix strategy of that name, which may list rules too. Raises UsageError for any
    other name, also for `random`, with which a redelivery would land on another shard.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        known = ", ".join(STRATEGIES)
        raise UsageError(f"suffix strategy {name!r}: records take one of {known}") from None
