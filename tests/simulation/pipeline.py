"""The whole pipeline in a simulated world: producers, a queue, the real handlers, memory."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, ClassVar, cast

import pytest

from tallyroll import limits
from tallyroll.errors import Absent, Archived
from tallyroll.lifecycle import later_corrections
from tallyroll.ports.store import Store
from tallyroll.settings import Settings
from tests.simulation.abstraction import Abstraction
from tests.simulation.before import settings_of_before
from tests.simulation.deaths import deaths, overlapping
from tests.simulation.echoes import Echoes
from tests.simulation.gauges import Gauges
from tests.simulation.handlers import FUNCTIONS, handlers_of
from tests.simulation.heat_rules import heated
from tests.simulation.historians import Historian
from tests.simulation.holdings import made_again
from tests.simulation.lasting_faults import LastingFault, LastingFaults
from tests.simulation.liveness import Liveness, forever
from tests.simulation.marking_windows import watch_store
from tests.simulation.marks import Marks
from tests.simulation.operators import Operator
from tests.simulation.oracle import Oracle
from tests.simulation.paced import Leases
from tests.simulation.plans import (
    FAULTS_MS,
    SERVICES,
    SETTINGS,
    START_MS,
    WINDOW_MS,
    gentled,
    has_large_payloads,
    oversleep_ms,
    plan_of,
)
from tests.simulation.producers import KEYS, Producer
from tests.simulation.raised import RaisedWire
from tests.simulation.range_readers import RangeReader
from tests.simulation.readers import Reader
from tests.simulation.retract_command import OPERATORS, RetractCommands
from tests.simulation.retraction_rules import ASKING_MS, slowed
from tests.simulation.retractors import Retractors
from tests.simulation.sandboxes import Invocation, Platform, sqs_record
from tests.simulation.sent import Sent
from tests.simulation.short_months import first_length
from tests.simulation.sqs_rules import Rules, rules
from tests.simulation.warming import heat_up
from tests.simulation.watched import SimCatalog, SimDeadLetters, SimQueue, SimStore
from tests.simulation.watched_archives import SimBucket, SimExports, SimTotals
from tests.simulation.weather import CALM, LETTER, forecast
from tests.simulation.wires import StoreWire
from tests.simulation.world import UNBOUND, Bounds, Fault, Group, Violation, World

DRAIN_MS_MAX = 1_800_000
WRITERS = 3
SEEN_MS = 180_000  # after that cleanup has seen what was corrected, in calm weather
UNEXPECTED = "unexpected: "  # what roller and cleanup say of a bug that they survived


class System:
    """Everything that runs in one simulation; `base` are the settings of the first deployment."""

    start: ClassVar[int] = START_MS
    base: ClassVar[Settings] = SETTINGS
    modelled: ClassVar[bool] = True  # the model says what its functions may do
    unlisted: ClassVar[tuple[type[Exception], ...]] = (Absent, Archived)  # raised for largest keys

    def __init__(self, seed: int, bounds: Bounds = UNBOUND) -> None:
        self.world = World(seed, self.start, bounds)
        self.plan = plan_of(seed)
        if deaths(Random(f"{seed} death")):
            self.plan = overlapping(self.plan)
        self.weather = forecast(Random(f"{seed} weather"))
        if self.plan.gentle:
            self.weather = gentled(self.weather)
        elif self.plan.retractions.retracts:
            self.weather = slowed(self.weather, Random(f"{seed} slow retractions"))
        if self.plan.heat.heats and not self.plan.gentle:
            self.weather = heated(self.weather, Random(f"{seed} heated"))
        self.oversleep_ms = oversleep_ms(Random(f"{seed} sleep"))
        window_ms, rule = self.base.window_seconds * 1000, self.plan.identities
        self.day_seconds = max(rule.day_seconds, self.weather.clock_ms // 1000 + 1)
        self.oracle = Oracle(self.world, window_ms, self.day_seconds, with_fuse=self.plan.with_fuse)
        self.lasting_faults, self.gauges, self.marks = LastingFaults(self.world), Gauges(), Marks()
        self.lasting_faults.all += self.ill(seed)
        self.leases = Leases(self.world, self.plan.write_rate)
        self.liveness = Liveness(self)
        self.catalog = SimCatalog(self)
        ruled = {"exporter": self.plan.exporter, "write_rate": self.plan.write_rate, **rule.first()}
        ruled |= {**self.plan.retractions.first(), **self.plan.heat.first()}
        ruled |= first_length(self.plan, Random(f"{seed} first months"))
        self.settings = replace(self.base, **ruled)
        self.echoes, self.retractors = Echoes(self), Retractors(self)
        self.retract_commands = RetractCommands(self)
        self.store = SimStore(self)
        self.metered: Any = self.store  # what has the store's metering
        self.totals = SimTotals(self)
        self.bucket = SimBucket(self)
        self.exports = SimExports(self)
        self.queue = SimQueue(self, limits.RECEIVES_FUSE)
        self.oracle.overdue = self.queue.overdue
        self.letters = SimDeadLetters(self)
        self.truth = Abstraction(self)
        self.operator = Operator(self)
        self.historian = Historian(self)
        self.platform = Platform(self)
        self.away_until = dict.fromkeys(SERVICES, 0)
        self.producing = self.open = True
        self.deployed(self.settings)

    def ill(self, seed: int) -> Sequence[LastingFault]:
        """What fails under a seed: writers, for a while, or something for ever."""
        return deaths(Random(f"{seed} death")) or forever(Random(f"{seed} forever"))

    def wired_store(self, port: Any) -> Store:
        """The store as a function has it, over a port that may ail."""
        if self.plan.heat.heats:
            return cast("Store", RaisedWire(self.world, port, self.store))
        return cast("Store", StoreWire(self.world, port))

    def watch_store(self, patch: pytest.MonkeyPatch) -> None:
        """Count the store's marks until the patch is undone."""
        watch_store(self, patch)
        patch.setattr(later_corrections, "EVERY_MS", 0)

    def queue_rules(self) -> Rules:
        """How strict the queue is."""
        return rules(Random(f"{self.world.seed} queue"))

    def deployed(self, settings: Settings) -> None:
        """Deploy: whatever starts from now on has these settings."""
        self.settings = settings
        self.oracle.deployed.append(settings)
        if self.plan.heat.has_before:
            self.oracle.deployed.append(settings_of_before(settings))
        self.queue.take_settings(settings)

    def run(self) -> None:
        """Run with faults, then let everything drain in calm weather, and check the whole."""
        world, plan = self.world, self.plan
        self.oracle.gentle = plan.gentle and self.weather == gentled(self.weather)
        life = Group("life", mortal=False)
        operator, reader = self.operator, Reader(self)
        for number in range(3):
            world.spawn(f"producer{number}", self._produce, life)
        for number in range(WRITERS):
            world.spawn(f"source{number}", self._poll, life)
        for number in range(plan.readers):
            world.spawn(f"reader{number}", reader.live, life)
        world.spawn("roll", lambda: self._schedule("roller", 10_000), life)
        world.spawn("clean", lambda: self._schedule("cleanup", 20_000), life)
        for taking_part, name, body in (
            (plan.deploys, "deploy", operator.deploy),
            (plan.outages, "outage", operator.hold_back),
            (plan.blackout, "blackout", partial(operator.black_out, plan.blackout)),
            (plan.history, "history", operator.load_history),
            (plan.redrives, "redrive", operator.redrive),
        ):
            if taking_part:
                world.spawn(name, body, life)
        world.spawn("historian", self.historian.live, life)
        self._spawn_others(life)
        world.weather = self.weather
        world.run(START_MS + FAULTS_MS)
        world.note("calm from here on")
        world.weather, self.producing = CALM, False
        last = world.now
        world.run(world.now + self.oversleep_ms)
        world.rouse()
        until, liveness = world.now + DRAIN_MS_MAX, self.liveness
        while world.now < until and not self._drained(last):
            world.run(world.now + 10_000)
        world.run(max(world.now, liveness.told_by()))
        self.open = False
        world.run(world.now + 120_000)
        if not self._drained(last):
            world.fail(f"2: not drained after half an hour of calm: {liveness.left(last)}")
        waiting = liveness.waiting()
        self.oracle.final(self.store, self.catalog, self.totals, self.bucket, waiting)
        seen_until = 0 if liveness.fails("cleanup") else world.now - SEEN_MS
        self.oracle.retractions.check_later_copies(self.catalog, self.bucket, seen_until)
        liveness.check_alarms()
        if not liveness.fails("aggregator"):
            world.spawn("last reader", partial(self._read_all, reader), life)
            world.run()
        self.historian.judge()

    def _spawn_others(self, life: Group) -> None:
        """Those who came later: after all others, whose chance they must not shift."""
        world, plan = self.world, self.plan
        if plan.identities.remembers:
            world.spawn("echoes", self.echoes.live, life)
        if plan.retractions.retracts:
            world.spawn("retractors", self.retractors.live, life)
            for _ in range(OPERATORS):
                world.spawn("retract", self.retract_commands.live, life)
        if plan.heat.heats:
            heat_up(self, life)
        if plan.ranges:
            world.spawn("ranges", RangeReader(self).live, life)

    def _read_all(self, reader: Reader) -> None:
        """In calm weather every read is whole."""
        for key in dict.fromkeys(KEYS):
            answer = reader.read(key, None, None, consistent=True)
            if answer is None or not self.is_whole(answer):
                self.world.fail(f"read: {key} is not whole, though nothing fails: {answer}")

    def is_whole(self, answer: Mapping[str, Any]) -> bool:
        """Whether a count lacks nothing that it could have."""
        return bool(answer["complete"])

    def is_away(self, service: str) -> bool:
        """Whether a service does nothing now."""
        held_back = self.producing and self.world.now < self.away_until.get(service, 0)
        return held_back or self.lasting_faults.has("away", service)

    @property
    def is_asking(self) -> bool:
        """Whether somebody may take events back now: for some time after the last one was sent."""
        retracts = self.plan.retractions.retracts
        return retracts and self.world.now < START_MS + FAULTS_MS + ASKING_MS

    def _drained(self, last: int) -> bool:
        """Whether the queue is empty, and every window that was over at `last` came to its end, as
        far as nothing fails for ever; and nobody sends any more.
        """
        sending = self.operator.is_redriving or self.retract_commands.is_at_work
        sending |= self.is_asking
        sending |= not all(task.done for task in self.world.under_way)
        return self.liveness.left(last) == ([], []) and not sending

    def _produce(self) -> None:
        world, plan = self.world, self.plan
        producer = Producer(
            world.current.name,
            world.random,
            WINDOW_MS,
            SETTINGS.skew_ms,
            plan.lateness,
            poison=plan.poison,
            history=[START_MS - number * WINDOW_MS for number in plan.history],
            large=has_large_payloads(self.world.seed),
        )
        life = world.current.group
        while self._goes_on(world.random.random() * 16_000 / plan.busyness):
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
        delay_ms = chance() * 90_000 if chance() < self.plan.delayed else 0
        if not self.world.roll(LETTER):  # left out to shrink a trace
            self.world.random.getrandbits(128)  # the id, so that the producer's next letters stay
            return
        self.echoes.on_send(letter)
        self.send_message(letter.body, letter.sent, delay_ms)

    def send_message(self, body: str, told: Sent, delay_ms: float = 0) -> None:
        """Send a message by its body, and tell the oracle what it is."""
        message_id = self.queue.send(body, delay_ms)
        sent = replace(told, message_id=message_id, sent=self.world.now)
        self.oracle.on_send(sent)
        self.retractors.on_sent(sent, body)

    def _poll(self) -> None:
        """An SQS event source: a batch at a time, partial failures respected."""
        world = self.world
        while self.open:
            if self.is_away("source"):
                world.pause(5_000)
                continue
            batch = self.queue.receive(1 + int(world.random.random() * 25))
            if not batch:
                world.pause(500 + world.random.random() * 2_000)
                continue
            world.note("batch " + ",".join(f"{m.id[:6]}*{m.receives}" for m in batch))
            event = {"Records": [sqs_record(message) for message in batch]}
            invocation = self._invoke("writer", event)
            died = invocation.answer is None
            unnoted = invocation.group.name in self.gauges.unnoted
            self.queue.invoked(failed=died or unnoted)  # as `QueueMetrics.invocations` counts them
            known = [message.id for message in batch]
            if died or (unnoted and not self.oracle.gentle):  # its note may stay, as of a death
                self.oracle.on_died(known)
            if invocation.answer is None:
                continue
            failed = [each["itemIdentifier"] for each in invocation.answer["batchItemFailures"]]
            if any(message_id not in known for message_id in failed):
                world.fail(f"2: the writer reports {failed}, which were not in its batch")
            for message in batch:
                if message.id not in failed:
                    self.oracle.on_acknowledged(message.id)
                    self.historian.on_acknowledged(message.id)
                    if not world.roll(world.weather.duplicate):
                        self.queue.delete(message.receipt)

    def _schedule(self, name: str, period_ms: int) -> None:
        """Run a function every period; now and then one more at the same time, or none."""
        world, life = self.world, self.world.current.group
        while self.open:
            for due in (name, *self.catalog.overlapping(name)):
                runs = 1 + world.roll(0.1) - world.roll(world.weather.crash * 10)
                for _ in range(0 if self.is_away(due) else runs):
                    world.spawn(f"{due}-timer", partial(self._invoke, due, {}), life)
            world.pause(period_ms)

    def _invoke(self, name: str, event: Mapping[str, Any]) -> Invocation:
        handler: Callable[..., dict[str, Any]] = inspect.unwrap(FUNCTIONS[name].handler)
        invocation = self.platform.invoke(name, lambda context: handler(event, context))
        for problem in (invocation.answer or {}).get("problems", ()):
            self.world.note(f"problem: {problem}")
            if UNEXPECTED in problem:
                self.world.fail(f"{invocation.group.name} raised and went on: {problem}")
        return invocation


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
    faults: list[Fault] = field(repr=False)
    lasted_ms: int
    marks: Counter[str] = field(repr=False)


def simulate(seed: int, bounds: Bounds = UNBOUND, /, **tweaks: Any) -> Result:
    """Run one seed, its weather tweaked, to its end or to the first violation.

    With bounds, only the letters and faults happen that they allow.
    """
    system = System(seed, bounds)
    system.weather = replace(system.weather, **tweaks)
    violation = None
    with handlers_of(system):
        try:
            system.run()
        except Violation as found:
            violation = str(found)
        except Exception as error:  # noqa: BLE001 (of many seeds, the others are to go on)
            violation = f"the simulation raised {error!r}"
        finally:
            system.world.end()
    world = system.world
    return Result(
        *(seed, world.trace_hash, world.trace, violation, world.steps),
        sum(not sent.target for sent in system.oracle.sent.values()),
        system.oracle.commits,
        system.oracle.archives.dropped,
        len(made_again(system.catalog, system.store)),
        world.faults,
        world.now - world.start,
        system.marks.met,
    )
