"""What is simulated: the pipeline's parts by their numbers, the strategies of suffixes, and where
the partition keys of a window lie.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from math import ceil
from random import Random

import numpy as np

from tallyroll.errors import UsageError
from tallyroll.limits import IN_FLIGHT_MAX
from tallyroll.model.sharding import STRATEGIES
from tallyroll.planning.partition_model.table import Floats, TableModel, TableRules
from tallyroll.planning.shards import KeyWrites
from tallyroll.planning.writers import TRANSACTION_MS
from tallyroll.planning.writers import WRITER_MS_PER_MESSAGE as MESSAGE_MS
from tallyroll.planning.writes import BATCH_SIZE, BATCH_WINDOW_SECONDS

SAMPLED_IDS = 20_000  # from which the shares of the shards of `product` are drawn
UNSHARDED, PRODUCT, RANDOM, CALCULATED = "unsharded", "product", "random", "calculated"
SUFFIXES = (UNSHARDED, PRODUCT, RANDOM, CALCULATED)


@dataclass(frozen=True, kw_only=True)
class World:
    """A pipeline in numbers.

    `writes` are the write units of one event; a message holds `events_each` events, an item
    `item_bytes`. `suffix` is how a record gets its shard. `in_flight_max` messages are delivered
    and not yet deleted, at the most. `reads_per_second` are the counts that are read from tables.
    """

    shards: int
    writes: KeyWrites
    rules: TableRules = field(default_factory=TableRules)
    suffix: str = CALCULATED
    events_each: float = 1.0
    item_bytes: float = 144.0
    writers: int = 4
    transactions_at_once: int = 8
    batch_size: int = BATCH_SIZE
    batch_window_seconds: float = BATCH_WINDOW_SECONDS
    message_ms: float = MESSAGE_MS
    transaction_ms: float = TRANSACTION_MS
    records_each: float = 90.0
    gates: int = 256
    buckets: int = 64
    window_seconds: float = 3_600.0
    in_flight_max: int = IN_FLIGHT_MAX
    reads_per_second: float = 0.0

    def __post_init__(self) -> None:
        if self.suffix not in SUFFIXES:
            raise UsageError(f"suffix {self.suffix!r}: one of {', '.join(SUFFIXES)}")
        if self.shards < 1:
            raise UsageError(f"shards {self.shards}: at least 1")

    @property
    def shards_used(self) -> int:
        """The shards that a key has."""
        return 1 if self.suffix == UNSHARDED else self.shards

    @property
    def record_units(self) -> float:
        """The write units of one message's record."""
        return self.writes.record * self.events_each

    @property
    def shared_units(self) -> float:
        """The write units of one message in gates and tallies."""
        return self.writes.shared * self.events_each

    @property
    def held_max(self) -> float:
        """Messages that the writers hold at the most."""
        return float(min(self.in_flight_max, self.writers * self.batch_size))

    @property
    def batch_seconds(self) -> float:
        """How long a writer works on a full batch, if nothing is throttled."""
        transactions = ceil(self.batch_size / self.records_each)
        rounds = ceil(transactions / self.transactions_at_once)
        return (self.batch_size * self.message_ms + rounds * self.transaction_ms) / 1_000

    @property
    def messages_per_second(self) -> float:
        """Messages that all writers take a second, if nothing is throttled: each holds a batch, and
        no more are in flight than the queue allows.
        """
        return self.held_max / self.batch_seconds

    def with_shards(self, shards: int) -> World:
        """The same with another number of shards."""
        return replace(self, shards=shards)


def shard_shares(world: World) -> Floats:
    """The share of each shard of a key in its records."""
    count = world.shards_used
    if world.suffix != PRODUCT:
        return np.full(count, 1 / count)
    chance, place = Random(1), STRATEGIES[PRODUCT]
    ids = (str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(SAMPLED_IDS))
    found = np.bincount([place(each, count) - 1 for each in ids], minlength=count)
    return np.asarray(found / found.sum(), dtype=np.float64)


def made_table(world: World, mix: Floats, chance: np.random.Generator) -> TableModel:
    """A new window's table: all shards of all keys, the gates and the buckets of tallies, each at a
    random place, as hashes are.
    """
    own = shard_shares(world)
    records = np.concatenate([np.outer(mix, own).ravel(), np.zeros(world.gates + world.buckets)])
    spread = np.zeros(len(records))
    gates, buckets = (
        slice(-world.gates - world.buckets, -world.buckets),
        slice(-world.buckets, None),
    )
    spread[gates] = 0.5 / world.gates
    spread[buckets] = 0.5 / world.buckets
    return TableModel(world.rules, chance.random(len(records)), records, spread)


def weights_of(world: World, mix: Floats) -> Floats:
    """The shares of the partition keys, in the order of `made_table`."""
    own = shard_shares(world)
    return np.concatenate([np.outer(mix, own).ravel(), np.zeros(world.gates + world.buckets)])
