"""Where the functions run: sandboxes that keep their caches, invocations that end, die or thaw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tallyroll.errors import Refused
from tallyroll.model import dead_letters
from tallyroll.model.messages import Message
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings
from tests.simulation.before import NOW, RELEASES, is_spell, of_other, release_of
from tests.simulation.bucket_wires import BucketWire
from tests.simulation.compared import steps_of
from tests.simulation.gauges import gauge_invocation
from tests.simulation.lasting_faults import Ailing
from tests.simulation.wires import QueueWire, TotalsWire, Wire, judged
from tests.simulation.world import Group, SimEffects, World

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

TIMEOUT_MS = {
    "writer": 15_000,
    "roller": 30_000,
    "cleanup": 60_000,
    "dropper": 30_000,
    "compactor": 60_000,
    "aggregator": 10_000,
}
USE_CASES = {"aggregator": "reader"}  # those of the other functions have their names


@dataclass(slots=True, eq=False)
class Sandbox:
    """One execution environment of a function; its clock is `clock_ms` ahead."""

    number: int
    use_case: Any
    settings: Settings
    clock_ms: int
    release: int = NOW


@dataclass(slots=True, eq=False)
class Invocation:
    """One run of a function; `answer` is None if it failed, crashed or took too long."""

    group: Group
    sandbox: Sandbox
    answer: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The part of a Lambda context that handlers use."""

    world: World
    deadline: int

    def get_remaining_time_in_millis(self) -> int:
        """How long the invocation may still take, ms."""
        return max(0, self.deadline - self.world.now)


class Platform:
    """Runs functions in sandboxes, one invocation at a time in each."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._world = system.world
        self._idle: dict[str, list[Sandbox]] = {name: [] for name in TIMEOUT_MS}
        self._running: dict[str, Sandbox] = {}
        self._invocations = self._built_ever = 0

    def use_case(self) -> Any:
        """The use case of the sandbox in which the current task runs, for the handlers."""
        return self._running[self._world.current.group.name].use_case

    def retire(self, share: float) -> None:
        """Let no invocation begin any more in this share of the idle sandboxes.

        Those that are busy live on, as Lambda lets them for a while.
        """
        for boxes in self._idle.values():
            boxes[:] = [box for box in boxes if self._world.random.random() >= share]

    def invoke(self, name: str, run: Callable[[Context], Any]) -> Invocation:
        """Run a function and wait until it ends or its time is over.

        What is then still under way is killed, or goes on unseen: a sandbox that thaws later.
        """
        world, lasting_faults = self._world, self._system.lasting_faults
        boxes = self._idle[name]
        sandbox = self._chosen(name)
        if lasting_faults.has("held", name):
            boxes.insert(0, sandbox)
            gauge_invocation(self._system, name, failed=False, held=True)
            return Invocation(Group(name), sandbox)
        self._invocations += 1
        group = Group(f"{name}{self._invocations}")
        self._running[group.name] = sandbox
        invocation = Invocation(group, sandbox)
        context = Context(world, world.now + TIMEOUT_MS[name])

        def body() -> None:
            with judged(world):
                if lasting_faults.has("dies", name, sandbox.number):
                    raise Refused("it dies at once", "Runtime.ImportModuleError")
                invocation.answer = run(context)

        task = world.spawn(group.name, body, group)
        ended = world.join([task], TIMEOUT_MS[name]) and not group.crashed
        failed = not ended or invocation.answer is None
        gauge_invocation(self._system, name, failed=failed, held=False)
        if ended:
            boxes.insert(0, sandbox)
            return invocation
        if not group.crashed:
            world.note(f"{group.name} timed out")
            if not world.roll(world.weather.zombie):
                world.kill(group)
        return Invocation(group, sandbox)

    def _chosen(self, name: str) -> Sandbox:
        """An idle sandbox, or a new one. One that is ill alone is passed over now and then: where
        few invocations run at once, all would go to it.
        """
        boxes = self._idle[name]
        if not is_spell(self._system):
            boxes[:] = [box for box in boxes if box.release == NOW]
        sandbox = boxes.pop(0) if boxes else self._built(name)
        passed = self._system.lasting_faults.is_alone(name, sandbox.number)
        if not passed or self._world.random.random() < 0.5:
            return sandbox
        other = boxes.pop(0) if boxes else self._built(name)
        boxes.append(sandbox)
        return other

    def _built(self, name: str) -> Sandbox:
        system, world = self._system, self._world
        settings = system.settings
        clock_ms = round((2 * world.random.random() - 1) * system.weather.clock_ms)
        effects = SimEffects(world, clock_ms)
        ill = partial(Ailing, system.lasting_faults, name)
        steps = steps_of(system, name)
        ports = {
            "store": system.wired_store(ill("store", steps.inside(system.store))),
            "catalog": Wire(world, ill("catalog", steps.inside(system.catalog))),
            "totals": TotalsWire(world, ill("totals", steps.inside(system.totals))),
            "queue": QueueWire(world, ill("queue", steps.inside(system.queue))),
            "bucket": BucketWire(world, ill("bucket", system.bucket)),
            "exports": Wire(world, ill("exports", system.exports)),
        }
        watched = ("store", "catalog", "queue", "totals")
        asked = {each: steps.outside(ports[each]) for each in watched}
        if release := release_of(system):
            world.note(f"a {name} of {RELEASES[release]}")
            settings = of_other(release, name, settings, ports, asked)
        made = Pipeline(settings, effects, ports={**ports, **asked})
        use_case = getattr(made, USE_CASES.get(name, name))
        steps.begin(use_case)
        self._built_ever += 1
        return Sandbox(self._built_ever, use_case, settings, clock_ms, release)


def sqs_record(message: Message) -> dict[str, Any]:
    """A message as the event source hands it to the writer."""
    told = dead_letters.attributes_of(message.redrive) if message.redrive else {}
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": {
            "SentTimestamp": str(message.sent),
            "ApproximateReceiveCount": str(message.receives),
        },
        "messageAttributes": {name: {"stringValue": text} for name, text in told.items()},
        "eventSource": "aws:sqs",
    }
