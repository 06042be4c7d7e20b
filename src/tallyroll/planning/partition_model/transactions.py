"""The same simulation with single events and the writer's own transactions.

How a batch is cut into transactions and what follows a refused one is passed in (`Writing`): the
command passes in the writer's own functions. For up to some 10,000 events a second; `flow` is for
more.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from tallyroll.limits import ACTION_UNITS, WAITING_VISIBILITY_SECONDS
from tallyroll.planning.partition_model.loads import LoadShape
from tallyroll.planning.partition_model.result import HEAT_COLUMNS, TimeSeries, heat_of
from tallyroll.planning.partition_model.table import Floats
from tallyroll.planning.partition_model.world import World, made_table

TICK_SECONDS = 0.1
ID = "event-"  # followed by the number of the message, so ids are in the order of arrival
WRITER_SECONDS = 55.0  # until a writer hands the rest of a batch back
C = TypeVar("C")
Message: TypeAlias = tuple[str, str]
"""A message by the key and the id of its event."""


class Writing(Protocol[C]):
    """How a writer writes; `C` is a transaction of its own."""

    def cut(self, messages: Sequence[Message]) -> list[C]:
        """Divide a batch into transactions."""

    def records(self, commit: C) -> Sequence[tuple[str, str, int]]:
        """The key, the id and the shard of each record in a transaction."""

    def due(self, commit: C) -> int:
        """Before when (ms) a transaction is not tried."""

    def refused(
        self, commit: C, slow: Sequence[bool], now: int, deadline: int
    ) -> tuple[Sequence[Message], list[C]]:
        """What follows from a transaction of which these records' partitions were full: messages
        handed back, and transactions to try later.
        """


@dataclass
class _Batch:
    """The transactions of a writer's batch that no lane has begun, and the number at work."""

    waiting: deque[object]
    deadline: int
    at_work: int = 0


@dataclass
class _Tally:
    """What happened within a step."""

    came: int = 0
    counted: int = 0
    refused: int = 0
    tried: int = 0
    units: float = 0.0
    age: float = 0.0


@dataclass
class _Play:
    """The state of a run."""

    shape: LoadShape
    world: World
    seed: int
    queue: deque[Message] = field(default_factory=deque)
    oldest: float = 0.0
    free: int = 0
    arrived: list[int] = field(default_factory=list)
    """How many messages had come by each tick."""

    def __post_init__(self) -> None:
        self.numbers = np.random.default_rng(self.seed)
        self.random = Random(self.seed)
        self.table = made_table(self.world, self.shape.mix(0.0), self.numbers)
        self.places = {key: number for number, key in enumerate(self.shape.keys)}
        self.used: Floats = np.zeros(self.table.partitions)
        self.full = np.zeros(self.table.partitions, dtype=bool)
        self.locate()

    def locate(self) -> None:
        """Note the partition of each partition key; for one that was divided, of its first half."""
        found = np.full(int(self.table.order.max()) + 1, -1)
        found[self.table.order[::-1]] = self.table.at[::-1]
        self.partition = found
        self.used = np.zeros(self.table.partitions)
        self.full = np.zeros(self.table.partitions, dtype=bool)

    def age(self, ids: Iterable[str]) -> float:
        """How long the oldest of these messages has waited, s; 0 for none."""
        oldest = min(ids, default="")
        came = bisect_right(self.arrived, int(oldest[len(ID) :])) if oldest else len(self.arrived)
        return (len(self.arrived) - came) * TICK_SECONDS

    def record_partition(self, key: str, shard: int) -> int:
        """The partition of a record."""
        return int(self.partition[self.places[key] * self.world.shards_used + shard - 1])

    def shared_partition(self, first: int, size: int) -> int:
        """The partition of one of the gates or buckets, at random."""
        return int(self.partition[first + int(self.random.random() * size)])


def played(
    shape: LoadShape, world: World, writing: Writing[C], *, seconds: float, seed: int = 1
) -> TimeSeries:
    """Simulate a load on one window's table, event by event."""
    play, step = _Play(shape, world, seed), 1.0
    play.free = world.writers
    course, ids = TimeSeries(step), count()
    lanes: list[tuple[float, int, _Batch, list[C]]] = []
    back: list[tuple[float, int, Message]] = []
    order = count()
    ticks = round(step / TICK_SECONDS)
    for second in range(round(seconds)):
        tally = _Tally()
        for tick in range(ticks):
            now = second + tick * TICK_SECONDS
            _arrive(play, tally, ids, now)
            while back and back[0][0] <= now:
                play.queue.append(heapq.heappop(back)[2])
            play.table.pass_by(TICK_SECONDS)
            _begin(play, writing, lanes, order, now)
            _run(play, writing, lanes, back, order, now + TICK_SECONDS, tally)
        play.table.note_hot(play.full, step)
        play.table.peak = max(play.table.peak, tally.units)
        course.came.append(tally.came)
        course.counted.append(tally.counted)
        course.queued.append(len(play.queue) + len(back))
        course.refused.append(tally.refused)
        course.tried.append(tally.tried)
        course.ages.append(tally.age)
        course.units.append(tally.units)
        course.partitions.append(play.table.partitions)
        if second % max(1, round(seconds) // HEAT_COLUMNS) == 0:
            course.heat.append(heat_of(play.table, play.used, step))
        play.table.split_hot()
        play.locate()
    course.ages[-1] = max(course.ages[-1], play.age(_left(play, writing, lanes, back)))
    return course


def _left(
    play: _Play,
    writing: Writing[C],
    lanes: Sequence[tuple[float, int, _Batch, list[C]]],
    back: Sequence[tuple[float, int, Message]],
) -> list[str]:
    """The messages that are not counted."""
    ids = [each for _, each in play.queue] + [each for _, _, (_, each) in back]
    for _, _, batch, due in lanes:
        for commit in (*due, *batch.waiting):
            ids += [each for _, each, _ in writing.records(commit)]  # type: ignore[arg-type]
    return ids


def _arrive(play: _Play, tally: _Tally, ids: count[int], now: float) -> None:
    messages = play.shape.rate(now) * TICK_SECONDS / play.world.events_each
    number = int(play.numbers.poisson(messages))
    keys = play.numbers.choice(len(play.shape.keys), number, p=play.shape.mix(now))
    if number and not play.queue:
        play.oldest = now
    for key in keys:
        play.queue.append((play.shape.keys[key], f"{ID}{next(ids):012d}"))
    tally.came += number
    play.arrived.append((play.arrived[-1] if play.arrived else 0) + number)


def _begin(
    play: _Play,
    writing: Writing[C],
    lanes: list[tuple[float, int, _Batch, list[C]]],
    order: count[int],
    now: float,
) -> None:
    """Let free writers take batches: full ones, or what came within the batch window."""
    world = play.world
    while play.free and play.queue:
        waited = now - play.oldest >= world.batch_window_seconds
        if len(play.queue) < world.batch_size and not waited:
            return
        size = min(world.batch_size, len(play.queue))
        commits = writing.cut([play.queue.popleft() for _ in range(size)])
        play.oldest = now
        play.free -= 1
        begun = now + size * world.message_ms / 1_000
        batch = _Batch(deque(commits), int((begun + WRITER_SECONDS) * 1_000))
        for _ in range(min(world.transactions_at_once, len(commits))):
            _next_of(batch, lanes, order, begun, world.transaction_ms)


def _next_of(
    batch: _Batch,
    lanes: list[tuple[float, int, _Batch, list[C]]],
    order: count[int],
    now: float,
    transaction_ms: float,
) -> None:
    """Let a lane begin the next transaction of its batch."""
    commit: C = batch.waiting.popleft()  # type: ignore[assignment]
    batch.at_work += 1
    heapq.heappush(lanes, (now + transaction_ms / 1_000, next(order), batch, [commit]))


def _run(
    play: _Play,
    writing: Writing[C],
    lanes: list[tuple[float, int, _Batch, list[C]]],
    back: list[tuple[float, int, Message]],
    order: count[int],
    until: float,
    tally: _Tally,
) -> None:
    """Carry out the transactions that end before a time."""
    took = play.world.transaction_ms / 1_000
    while lanes and lanes[0][0] < until:
        now, _, batch, due = heapq.heappop(lanes)
        due.sort(key=writing.due, reverse=True)
        commit = due.pop()
        if writing.due(commit) > (now - took) * 1_000:
            due.append(commit)
            later = max(writing.due(commit) / 1_000, now) + took
            heapq.heappush(lanes, (later, next(order), batch, due))
            continue
        records = writing.records(commit)
        slow = _written(play, records, tally)
        tally.tried += 1
        if slow:
            handed, again = writing.refused(commit, slow, int(now * 1_000), batch.deadline)
            due += again
            tally.refused += 1
            for message in handed:
                heapq.heappush(back, (now + WAITING_VISIBILITY_SECONDS, next(order), message))
        if due:
            heapq.heappush(lanes, (now + took, next(order), batch, due))
            continue
        batch.at_work -= 1
        if batch.waiting:
            _next_of(batch, lanes, order, now, play.world.transaction_ms)
        elif not batch.at_work:
            play.free += 1


def _written(
    play: _Play, records: Sequence[tuple[str, str, int]], tally: _Tally
) -> list[bool] | None:
    """Write the records, with their gate and tallies, if all partitions have room; else say which
    records' partitions have none.
    """
    world, table = play.world, play.table
    partitions = [play.record_partition(key, shard) for key, _, shard in records]
    wanted: dict[int, float] = {}
    for at in partitions:
        wanted[at] = wanted.get(at, 0.0) + world.record_units
    gates = len(play.partition) - world.gates - world.buckets
    shared = [play.shared_partition(gates, world.gates)]
    shared += [
        play.shared_partition(gates + world.gates, world.buckets)
        for _ in dict.fromkeys(key for key, _, _ in records)
    ]
    for at in shared:
        wanted[at] = wanted.get(at, 0.0) + ACTION_UNITS
    total = sum(wanted.values())
    full = {at for at, units in wanted.items() if table.tokens[at] < units}
    if full or table.table_tokens < total:
        play.full[list(full)] = True
        slow = [at in full for at in partitions]
        return slow if any(slow) else [True] * len(partitions)
    for at, units in wanted.items():
        table.tokens[at] -= units
        play.used[at] += units
    table.table_tokens -= total
    tally.units += total
    tally.counted += len(records)
    tally.age = max(tally.age, play.age(each for _, each, _ in records))
    return None
