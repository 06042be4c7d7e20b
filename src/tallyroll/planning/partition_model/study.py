"""Questions to the simulation: the fewest shards that keep a delay, and strategies side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tallyroll.limits import SHARDS_MAX
from tallyroll.planning.load import PACKET_EVENTS_MAX, PeakLoad
from tallyroll.planning.partition_model.flow import flowed
from tallyroll.planning.partition_model.loads import LoadShape
from tallyroll.planning.partition_model.result import TimeSeries
from tallyroll.planning.partition_model.world import CALCULATED, PRODUCT, RANDOM, UNSHARDED, World
from tallyroll.planning.writers import message_ms
from tallyroll.planning.writes import batch_writes

PACKED = "calculated, packed"


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy and its course. `redelivered` says what a message that comes twice does."""

    name: str
    course: TimeSeries
    events_each: float
    redelivered: str


def world_of(load: PeakLoad, world: World) -> World:
    """The world with the write units and sizes of a load."""
    messages = max(1, min(world.batch_size, round(load.messages_per_second)))
    batch = batch_writes(load, messages=messages)
    return replace(
        world,
        writes=batch.per_event,
        events_each=load.events_each,
        item_bytes=load.item_bytes,
        message_ms=message_ms(load.events_each),
        records_each=batch.records / batch.transactions,
    )


def fewest_shards(
    shape: LoadShape, world: World, *, seconds: float, delay_seconds: float, seed: int = 1
) -> int | None:
    """The fewest shards with which no message waits longer than the target; None: no N does it.

    More shards are taken never to be slower, so the number is found by halving.
    """

    def kept(shards: int) -> bool:
        course = flowed(shape, world.with_shards(shards), seconds=seconds, seed=seed)
        return course.delay_max <= delay_seconds

    most = 1
    while not kept(most):
        if most >= SHARDS_MAX:
            return None
        most = min(SHARDS_MAX, most * 2)
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if kept(middle) else (middle, most)
    return most


def strategies(
    shape: LoadShape, load: PeakLoad, world: World, *, seconds: float, seed: int = 1
) -> Iterator[Strategy]:
    """The same load by each strategy."""
    for suffix, redelivered in (
        (UNSHARDED, "counts once"),
        (PRODUCT, "counts once"),
        (RANDOM, "counts twice, if it lands on another shard"),
        (CALCULATED, "counts once"),
    ):
        course = flowed(shape, replace(world, suffix=suffix), seconds=seconds, seed=seed)
        yield Strategy(suffix, course, world.events_each, redelivered)
    if world.events_each == 1:
        room = max(1, min(PACKET_EVENTS_MAX, int(250_000 / max(1, load.event_bytes))))
        packed = replace(load, packed=room)
        course = flowed(shape, world_of(packed, world), seconds=seconds, seed=seed)
        yield Strategy(PACKED, course, packed.events_each, "counts once")
