"""The two kinds of suffixes: calculated ones for records, random ones for tally stripes.

A record's shard follows from its id, so a redelivery lands on the same item, and one GetItem reads
a record. The stripes of a tally are only ever summed, so any of them will do.

Next on the reading path: `ingest/transactions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from math import prod
from typing import Protocol


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
