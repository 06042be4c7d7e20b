"""The whole pipeline in a simulated world: producers, a queue, the real handlers, memory."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from functions.cleanup import handler as cleanup_function
from functions.roller import handler as roller_function
from functions.writer import handler as writer_function
from tallyroll import limits
from tallyroll.cleanup import Cleanup
from tallyroll.memory import MemoryBucket
from tallyroll.ports import (
    Bucket,
    Catalog,
    Queue,
    Store,
    Totals,
)
from tallyroll.records import Message
from tallyroll.roller import Roller
from tallyroll.settings import Settings
from tallyroll.writer import Writer
from tests.simulation.oracle import Oracle, made_again
from tests.simulation.producers import Producer
from tests.simulation.watched import SimCatalog, SimQueue, SimStore, SimTotals
from tests.simulation.weather import CALM, forecast
from tests.simulation.wires import BucketWire, QueueWire, StoreWire, TotalsWire, Wire, is_expected
from tests.simulation.world import Group, SimEffects, Violation, World

START_MS = 1_795_161_600_000  # 2026-11-20T08:00:00Z
WINDOW_MS = 60_000
SKEW_MS = 5_000
FAULTS_MS = 480_000
DRAIN_MS_MAX = 3_600_000
WRITERS = 3
TIMEOUT_MS = {"writer": 15_000, "roller": 30_000, "cleanup": 60_000}
SETTINGS = Settings(
    name="simulated",
    window_seconds=WINDOW_MS // 1000,
    shards=3,
    stripes_min=8,
    buckets=2,
    gates=2,
    accept_for_ms=60_000,
    skew_ms=SKEW_MS,
    roller_period_ms=10_000,
    retention_ms=20_000,
    visibility_ms=20_000,
    drain_period_ms=10_000,
    drain_margin_ms=5_000,
    settle_ms=4_000,
    export_lease_ms=90_000,
    export_segments=2,
    transactions_at_once=3,
    cache_calendar_ms=20_000,
)
FUNCTIONS: dict[str, Any] = {
    "writer": writer_function,
    "roller": roller_function,
    "cleanup": cleanup_function,
}


@dataclass(slots=True, eq=False)
class Sandbox:
    """One execution environment of a function: its use case keeps its caches."""

    use_case: Any
    busy: bool = False


@dataclass(slots=True, eq=False)
class Invocation:
    """One run of a handler."""

    group: Group
    answer: dict[str, Any] | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The part of a Lambda context that handlers use."""

    world: World
    deadline: int

    def get_remaining_time_in_millis(self) -> int:
        """How long the invocation may still take, ms."""
        return max(0, self.deadline - self.world.now)


class System:
    """Everything that runs in one simulation."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, START_MS)
        chance = Random(f"{seed} weather")
        self.weather = forecast(chance)
        self.settings = SETTINGS
        self.with_fuse = chance.random() < 0.25
        self.poison = self.with_fuse and chance.random() < 0.5
        self.busyness = 0.5 + 2 * chance.random()
        self.lateness = 0.8 * chance.random()
        self.delayed = 0.6 * chance.random() ** 2
        self.outages = chance.random() < 0.5
        self.outage_until = 0
        self.oracle = Oracle(self.world, WINDOW_MS, SKEW_MS, with_fuse=self.with_fuse)
        self.catalog = SimCatalog(self)
        self.store = SimStore(self)
        self.totals = SimTotals(self)
        self.bucket = MemoryBucket("simulated-archive")
        self.queue = SimQueue(self, limits.RECEIVES_FUSE)
        self.sandboxes: dict[str, list[Sandbox]] = {name: [] for name in FUNCTIONS}
        self.running: dict[str, Sandbox] = {}
        self.producing = True
        self.open = True
        self.invocations = 0

    def use_case(self) -> Any:
        """The use case of the sandbox in which the current task runs, for the handlers."""
        return self.running[self.world.current.group.name].use_case

    def run(self) -> None:
        """Run with faults, then let everything drain in calm weather, and check the whole."""
        world = self.world
        life = Group("life", mortal=False)
        for number in range(3):
            world.spawn(f"producer{number}", self._produce, life)
        for number in range(WRITERS):
            world.spawn(f"source{number}", self._poll, life)
        world.spawn("roll", lambda: self._schedule("roller", 10_000), life)
        world.spawn("clean", lambda: self._schedule("cleanup", 20_000), life)
        world.spawn("deploy", self._deploy, life)
        if self.outages:
            world.spawn("outage", self._break, life)
        world.weather = self.weather
        world.run(START_MS + FAULTS_MS)
        world.note("calm from here on")
        world.weather, self.producing = CALM, False
        world.rouse()
        until = world.now + DRAIN_MS_MAX
        last = world.now
        while world.now < until and not self._drained(last):
            world.run(world.now + 10_000)
        self.open = False
        world.run(world.now + 120_000)
        if not self._drained(last):
            left = [message.id for message in self.queue.held()]
            states = [(window.id, str(window.status)) for window in self.catalog.windows(0, last)]
            world.fail(f"2: not drained after an hour of calm: {left}, {states}")
        self.oracle.final(self.store, self.catalog, self.totals, self.bucket)

    def _drained(self, last: int) -> bool:
        over = self.catalog.windows(0, last - WINDOW_MS)
        return not len(self.queue) and all(window.status.sealed for window in over)

    def _produce(self) -> None:
        world = self.world
        producer = Producer(
            world.current.name, world.random, WINDOW_MS, SKEW_MS, self.lateness, poison=self.poison
        )
        life = world.current.group
        while self._goes_on(world.random.random() * 16_000 / self.busyness):
            for _ in range(1 + int(world.random.random() * 4)):
                letter = producer.letter(world.now)
                self._send(letter)
                again = letter
                if world.random.random() < 0.1:
                    again = producer.rival(letter) or letter
                if again is not letter or world.random.random() < 0.2:
                    world.spawn("resend", partial(self._resend, again), life)

    def _resend(self, letter: Any) -> None:
        if self._goes_on(self.world.random.random() ** 3 * 300_000):
            self._send(letter)

    def _goes_on(self, pause_ms: float) -> bool:
        """Wait; whether producers are still at work then."""
        self.world.pause(pause_ms)
        return self.producing

    def _send(self, letter: Any) -> None:
        chance = self.world.random.random
        delay_ms = chance() * 90_000 if chance() < self.delayed else 0
        message_id = self.queue.send(letter.body, delay_ms)
        self.oracle.on_send(replace(letter.sent, message_id=message_id, sent=self.world.now))

    def _deploy(self) -> None:
        """Other settings for every sandbox that starts from now on, once or twice."""
        world = self.world
        while self.producing:
            world.pause(60_000 + world.random.random() * 400_000)
            self.settings = replace(
                SETTINGS,
                shards=1 + int(world.random.random() * 7),
                stripes_min=8 + int(world.random.random() * 5),
                buckets=1 + int(world.random.random() * 4),
                gates=1 + int(world.random.random() * 4),
                hot_shards={"hot": 1 + int(world.random.random() * 20)},
                accept_for_ms=int(world.random.random() * 90_000),
            )
            world.note(f"deploys shards={self.settings.shards} gates={self.settings.gates}")
            for boxes in self.sandboxes.values():
                boxes.clear()

    def _break(self) -> None:
        """Hold the event source back now and then, so that a backlog grows."""
        world = self.world
        while self.producing:
            world.pause(30_000 + world.random.random() * 150_000)
            self.outage_until = world.now + int(world.random.random() * 100_000)
            world.note("event source held back")

    def _poll(self) -> None:
        """An SQS event source: a batch at a time, partial failures respected."""
        world = self.world
        while self.open:
            if world.now < self.outage_until and self.producing:
                world.pause(5_000)
                continue
            batch = self.queue.receive(1 + int(world.random.random() * 25))
            if not batch:
                world.pause(500 + world.random.random() * 2_000)
                continue
            world.note("batch " + ",".join(f"{m.id[:6]}*{m.receives}" for m in batch))
            event = {"Records": [_sqs_record(message) for message in batch]}
            invocation = self._invoke("writer", event)
            if invocation.answer is None:
                continue
            failed = [
                failure["itemIdentifier"] for failure in invocation.answer["batchItemFailures"]
            ]
            known = [message.id for message in batch]
            if any(message_id not in known for message_id in failed):
                world.fail(f"2: the writer reports {failed}, which were not in its batch")
            for message in batch:
                if message.id not in failed:
                    self.oracle.on_acknowledged(message.id)
                    if not world.roll(world.weather.duplicate):
                        self.queue.delete(message.receipt)

    def _schedule(self, name: str, period_ms: int) -> None:
        """Run a function every period; now and then one more at the same time, or none."""
        world, life = self.world, self.world.current.group
        while self.open:
            for _ in range(1 + world.roll(0.1) - world.roll(world.weather.crash * 10)):
                world.spawn(f"{name}-timer", lambda: self._invoke(name, {}), life)
            world.pause(period_ms)

    def _invoke(self, name: str, event: Mapping[str, Any]) -> Invocation:
        """Invoke a function and wait until it ends or its time is over.

        What is then still under way is killed, or goes on unseen: a sandbox that thaws later.
        """
        world = self.world
        sandbox = self._sandbox(name)
        self.invocations += 1
        group = Group(f"{name}{self.invocations}")
        self.running[group.name] = sandbox
        sandbox.busy = True
        invocation = Invocation(group)
        context = Context(world, world.now + TIMEOUT_MS[name])
        handler: Callable[..., dict[str, Any]] = inspect.unwrap(FUNCTIONS[name].handler)

        def body() -> None:
            invocation.answer = handler(event, context)

        task = world.spawn(group.name, body, group)
        in_time = world.join([task], TIMEOUT_MS[name])
        if in_time and not group.crashed:
            sandbox.busy = False
            if not is_expected(task.error):
                world.fail(f"{group.name} raised {task.error!r}")
            return invocation
        if not in_time:
            world.note(f"{group.name} timed out")
            if not world.roll(world.weather.zombie):
                world.kill(group)
        if sandbox in self.sandboxes[name]:
            self.sandboxes[name].remove(sandbox)
        return Invocation(group)

    def _sandbox(self, name: str) -> Sandbox:
        boxes = self.sandboxes[name]
        for sandbox in boxes:
            if not sandbox.busy:
                return sandbox
        sandbox = Sandbox(self._built(name))
        boxes.append(sandbox)
        return sandbox

    def _built(self, name: str) -> Any:
        world = self.world
        effects = SimEffects(world, int((world.random.random() - 0.5) * 400))
        store = cast("Store", StoreWire(world, self.store))
        catalog = cast("Catalog", Wire(world, self.catalog))
        totals = cast("Totals", TotalsWire(world, self.totals))
        queue = cast("Queue", QueueWire(world, self.queue))
        bucket = cast("Bucket", BucketWire(world, self.bucket))
        match name:
            case "writer":
                return Writer(self.settings, store, catalog, queue, effects)
            case "roller":
                return Roller(self.settings, store, catalog, totals, queue, effects)
            case _:
                return Cleanup(self.settings, store, catalog, totals, bucket, effects)


def _sqs_record(message: Message) -> dict[str, Any]:
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": {
            "SentTimestamp": str(message.sent),
            "ApproximateReceiveCount": str(message.receives),
        },
        "eventSource": "aws:sqs",
    }


class NoMetrics:
    """Takes the handlers' metrics: powertools would mix those of invocations that run at once."""

    def add_metric(self, name: str, unit: object, value: float) -> None:
        """Take one."""


@dataclass(slots=True)
class Result:
    """What a simulation came to."""

    seed: int
    trace_hash: str
    trace: list[str] = field(repr=False)
    violation: str | None
    steps: int
    messages: int
    commits: int
    dropped: int
    orphans: int


@contextmanager
def handlers_of(system: System) -> Iterator[None]:
    """The handlers' cached factories give the simulated use cases meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        for function in FUNCTIONS.values():
            patch.setattr(function, "use_case", system.use_case)
            patch.setattr(function, "metrics", NoMetrics())
        if system.with_fuse:
            patch.setattr(limits, "RECEIVES_ALONE", 6)
            patch.setattr(limits, "RECEIVES_GIVEN_UP", 9)
            system.queue._max_receives = 12
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(disabled)


def simulate(seed: int, **tweaks: Any) -> Result:
    """Run one seed, its weather tweaked, to its end or to the first violation."""
    system = System(seed)
    system.weather = replace(system.weather, **tweaks)
    violation = None
    with handlers_of(system):
        try:
            system.run()
        except Violation as found:
            violation = str(found)
        finally:
            system.world.end()
    world = system.world
    return Result(
        seed,
        world.trace_hash,
        world.trace,
        violation,
        world.steps,
        len(system.oracle.sent),
        system.oracle.commits,
        system.oracle.dropped,
        len(made_again(system.catalog, system.store)),
    )
