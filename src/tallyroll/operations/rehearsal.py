"""The writer's transactions without a store: how it cuts batches, and what it does when partitions
are full. The model of partitions (`planning.partition_model`) plays them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.transactions import Commit, after, plan
from tallyroll.model.records import Record
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Answer, Element, Metering, Outcome, Verdict

_FINE, _THROTTLED = Element(Answer.FINE), Element(Answer.THROTTLED)


class Rehearsal:
    """The writer's functions `plan` and `after`, for events with ids of their own in one window."""

    def __init__(self, spec: Spec, metering: Metering, chance: Chance, item_bytes: int) -> None:
        self._spec = spec
        self._metering = metering
        self._chance = chance
        self._item_bytes = item_bytes

    def cut(self, messages: Sequence[tuple[str, str]]) -> list[Commit]:
        """Divide a batch, pairs of key and id, into transactions."""
        return plan(self._spec, (self._record(*message) for message in messages), self._metering)

    def _record(self, key: str, record_id: str) -> Record:
        shard, start = self._spec.shard(key, record_id), self._spec.start
        size = self._item_bytes
        return Record(key, record_id, shard, start, 1, 1_000_000, b"", ((0, 1),), size=size)

    def records(self, commit: Commit) -> list[tuple[str, str, int]]:
        """The key, the id and the shard of each record."""
        return [(record.key, record.id, record.shard) for record in commit.records]

    def due(self, commit: Commit) -> int:
        """Before when (ms) a transaction is not tried."""
        return commit.not_before

    def refused(
        self, commit: Commit, slow: Sequence[bool], now: int, deadline: int
    ) -> tuple[list[tuple[str, str]], list[Commit]]:
        """What follows from a transaction of which some records' partitions were full: messages
        handed back, and transactions to try later.
        """
        outcome = Outcome(
            Verdict.CANCELLED,
            tuple(_THROTTLED if full else _FINE for full in slow),
            (_FINE,) * len(commit.increments),
        )
        step = after(commit, outcome, now, deadline, self._chance)
        handed = [
            (record.key, record.id)
            for record, fate in step.settled
            if fate.kind is Disposition.HANDED_BACK
        ]
        return handed, list(step.commits)
