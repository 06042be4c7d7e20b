"""The spec of a window: the immutable facts by which its items are placed and found.

It is written once, before the window starts, and cached for ever. Code that places or finds items
uses the spec, never the settings, so a deployment with other settings affects later windows only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

from tallyroll.errors import UsageError
from tallyroll.limits import (
    BLOCKS_MAX,
    LOG_ENTRY_BYTES_MAX,
    LOG_GROUP_SLOTS,
    LOG_PREFIX,
    LOG_SLOT_EVENTS,
    SERIES_SLOTS,
)
from tallyroll.model.sharding import STRATEGIES, WHY_NOT_RANDOM, stable_hash
from tallyroll.model.windows import Span, WindowId

STRIPES_RULE = "s1"
"""In the name of a suffix: tallies have a width of their own, whatever the number of shards, and
say which shards they cover. Releases that do not know the name of a suffix place nothing, so their
writers hand such a window's messages back.
"""
IDENTITIES_RULE = "id1"
"""In the name of a suffix: ids are also put into the table of identities."""
LOGS_RULE = "log2"
"""In the name of a suffix: plain events of some keys are in logs."""
RULES = (STRIPES_RULE, IDENTITIES_RULE, LOGS_RULE)
_GROUP_LETTERS = len(LOG_PREFIX) + 13


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
        raise UsageError(
            f"suffix strategy {name!r}: records take one of {known}; {WHY_NOT_RANDOM}"
        ) from None


class IdentityScope(StrEnum):
    """Within what an id that the producer gave counts once."""

    WINDOW = "window"  # once for its key in each window
    KEY = "key"  # once for its key
    PIPELINE = "pipeline"  # once at all


class LogRule(NamedTuple):
    """How a key's plain events are logged: a slot takes what was sent within `slot_ms`, a group has
    so many slots, and an event of over `entry_bytes` gets a record of its own.
    """

    slot_ms: int
    slots: int
    entry_bytes: int


def log_rule(rate: int) -> LogRule:
    """The rule of a key of so many events a second."""
    slot_ms = max(1, LOG_SLOT_EVENTS * 1_000 // rate)
    return LogRule(slot_ms, LOG_GROUP_SLOTS, LOG_ENTRY_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Spec:
    """The frozen facts of one window; times in ms since the epoch.

    `hot` has the keys with their own N, and `why` says for what reason each of them has it.
    `identity_days` is how long an id stays taken at least, and `genesis` the pipeline's first
    window; both are 0 where the scope of ids is the window. `logs` has the keys whose plain
    events are logged.
    """

    window: WindowId
    table: str
    start: int
    end: int
    shards: int
    stripes_min: int
    buckets: int
    gates: int
    suffix: str
    accept_from: int
    accept_until: int
    skew: int
    require_ts: bool = False
    hot: Mapping[str, int] = field(default_factory=dict)
    identity: IdentityScope = IdentityScope.WINDOW
    identity_days: int = 0
    genesis: int = 0
    why: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[str, LogRule] = field(default_factory=dict)

    @property
    def span(self) -> Span:
        """The window's span of time."""
        return Span(self.start, self.end)

    def shards_of(self, key: str) -> int:
        """N of a key: its records are on the shards 1..N."""
        return self.hot.get(key, self.shards)

    def shard(self, key: str, record_id: str) -> int:
        """The shard, 1..N, of a record of `key`; all leaves of a group of a log have one."""
        if self.logs and key in self.logs and record_id.startswith(LOG_PREFIX):
            record_id = record_id[:_GROUP_LETTERS]
        return strategy(self.suffix)(record_id, self.shards_of(key))

    def chunk_shard(self, key: str, record_id: str, number: int) -> int:
        """The shard, 1..N, of chunk `number` of a record: those after the record's own, in turn."""
        return (self.shard(key, record_id) + number) % self.shards_of(key) + 1

    @property
    def own_stripes(self) -> bool:
        """Whether tallies have a width of their own, and say which shards they cover."""
        return STRIPES_RULE in self.suffix.split("+")

    def stripes_of(self, key: str) -> int:
        """S, the stripes with which the key's tally begins: `stripes_min`, or the N of a key that
        has its own, if that is more. By the rule of earlier releases it is N of every key.
        """
        if self.own_stripes:
            return max(self.hot.get(key, 0), self.stripes_min)
        return self.stripes_most(key)

    def stripes_most(self, key: str) -> int:
        """The most stripes that the key's tally may ever have: releases that do not know S read so
        many.
        """
        return max(self.shards_of(key), self.stripes_min)

    def block(self, key: str, shard: int) -> int:
        """The block, 0..63, of a shard, 1..N: a tally names blocks, as few as N."""
        shards = self.shards_of(key)
        return (shard - 1) * min(BLOCKS_MAX, shards) // shards

    def shards_in(self, key: str, blocks: Collection[int]) -> list[int]:
        """The shards, ascending, of these blocks."""
        return [n for n in range(1, self.shards_of(key) + 1) if self.block(key, n) in blocks]

    def bucket(self, key: str, stripe: int) -> int:
        """The bucket, 1..buckets, under which a stripe of a key's tally is listed."""
        return stable_hash(f"{key}.{stripe}") % self.buckets + 1

    def slot(self, ts: int) -> int:
        """The sixtieth of the window, 0..59, that contains `ts`."""
        return (ts - self.start) * 60 // (self.end - self.start)


def sixtieth_seconds(spec: Spec) -> float:
    """The length of a window's sixtieth, in seconds."""
    return (spec.end - spec.start) / 1000 / SERIES_SLOTS
