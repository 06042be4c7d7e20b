"""The aggregate: messages as a flow, a second at a time.

In each step messages come, the writers take what they have room for, and each partition grants what
it has. What was refused stays with the writers, who try again; so a full partition fills the
writers, and then holds up every key and shard, as it does with the real ones. A test compares the
aggregate with the writer's own transactions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from tallyroll.planning.partition_model.loads import LoadShape
from tallyroll.planning.partition_model.other_loads import CountReads
from tallyroll.planning.partition_model.result import HEAT_COLUMNS, TimeSeries, heat_of
from tallyroll.planning.partition_model.table import Floats, TableModel
from tallyroll.planning.partition_model.world import World, made_table, weights_of

STEP_SECONDS = 1.0
TABLES_HELD = 3  # windows whose messages still wait


@dataclass
class Lane:
    """One window: its table, the messages for it that wait in the queue, and those that writers
    hold, by partition.
    """

    table: TableModel
    queued: float
    held: Floats
    mix: Floats
    reads: CountReads


def flowed(
    shape: LoadShape, world: World, *, seconds: float, seed: int = 1, step: float = STEP_SECONDS
) -> TimeSeries:
    """Simulate a load on a pipeline for so long. A new table begins with each window."""
    chance = np.random.default_rng(seed)
    course = TimeSeries(step)
    lanes: deque[Lane] = deque()
    steps = round(seconds / step)
    every = max(1, steps // HEAT_COLUMNS)
    for number in range(steps):
        now = number * step
        mix = shape.mix(now)
        if not lanes or now // world.window_seconds != (now - step) // world.window_seconds:
            _open(lanes, world, mix, chance)
        lane = lanes[-1]
        if lane.mix is not mix:
            lane.mix = mix
            lane.table.weigh(weights_of(world, mix))
        came = float(chance.poisson(shape.rate(now) * step / world.events_each))
        lane.queued += came
        room = _room(lanes, world, step)
        counted = refused = units = 0.0
        for each in lanes:
            each.table.pass_by(step)
            _aligned(each)
            room -= _taken(each, room, chance)
            served, taken = _served(each, world, step)
            counted += served
            units += float(taken.sum())
            refused += float(each.held.sum())
            if each is lane and number % every == 0:
                course.heat.append(heat_of(each.table, taken, step))
            if each.table.split_hot():
                _aligned(each)
        course.reads_refused.append(lane.reads.refused(lane.table, step))
        course.came.append(came)
        course.counted.append(counted)
        course.queued.append(sum(each.queued for each in lanes))
        course.refused.append(refused)
        course.units.append(units)
        course.partitions.append(lane.table.partitions)
        while len(lanes) > 1 and not lanes[0].queued and lanes[0].held.sum() < 1:
            lanes.popleft()
    return course


def _open(lanes: deque[Lane], world: World, mix: Floats, chance: np.random.Generator) -> None:
    """Begin a window. What waits for a window before the last two is counted there."""
    if lanes:
        world = replace(world, rules=world.rules.emptied())
    table = made_table(world, mix, chance)
    reads = CountReads(table, world.buckets, world.reads_per_second)
    lanes.append(Lane(table, 0.0, np.zeros(table.partitions), mix, reads))
    while len(lanes) > TABLES_HELD:
        oldest = lanes.popleft()
        lanes[0].queued += oldest.queued + float(oldest.held.sum())


def _room(lanes: deque[Lane], world: World, step: float) -> float:
    """How many messages the writers can take in this step: those of them that hold no refused
    messages work on.
    """
    held = sum(float(lane.held.sum()) for lane in lanes)
    free = max(0.0, 1 - held / world.held_max)
    return world.messages_per_second * step * free


def _taken(lane: Lane, room: float, chance: np.random.Generator) -> float:
    """Hand messages of a window to the writers; say how many."""
    messages = int(min(lane.queued, room))
    if messages <= 0:
        return 0.0
    lane.queued -= messages
    shares = np.clip(lane.table.shares, 0.0, 1.0)
    lane.held += chance.multinomial(messages, shares / shares.sum())
    return float(messages)


def _served(lane: Lane, world: World, step: float) -> tuple[float, Floats]:
    """Write what the partitions grant of what is held; give the messages and the units."""
    table, held = lane.table, lane.held
    total = float(held.sum())
    if not total:
        table.note_hot(np.zeros(table.partitions, dtype=bool), step)
        return 0.0, np.zeros(table.partitions)
    shared = total * world.shared_units * table.spread_shares
    wanted = held * world.record_units + shared
    granted = table.serve(wanted, step)
    served = held * np.divide(granted, wanted, out=np.ones_like(wanted), where=wanted > 0)
    # Only what is counted takes its share of gates and tallies.
    shared *= float(served.sum()) / total
    taken = served * world.record_units + shared
    table.take(taken - granted)
    lane.held = held - served
    lane.held[lane.held < 1e-6] = 0.0
    table.store(served * world.item_bytes)
    _aligned(lane)
    return float(served.sum()), np.resize(taken, table.partitions)


def _aligned(lane: Lane) -> None:
    """Place held messages anew, if partitions were split."""
    if len(lane.held) != lane.table.partitions:
        total = float(lane.held.sum())
        lane.held = total * lane.table.shares / max(1e-12, float(lane.table.shares.sum()))
