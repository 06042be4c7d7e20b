"""Operators who take events back by the use case of `tallyroll retract`: it finds the event, notes
in the catalog that writers may retract it, sends a message, and waits for what becomes of it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tallyroll.errors import Absent, Rejected, StoreError
from tallyroll.model.retractions import Retraction, RetractionNote
from tallyroll.operations.retraction.desk import Retractable, RetractionDesk
from tallyroll.operations.retraction.effect import RetractionEffect
from tallyroll.pipeline import Pipeline
from tests.simulation.bucket_wires import BucketWire
from tests.simulation.sent import Asked
from tests.simulation.wires import LettersWire, QueueWire, TotalsWire, Wire, judged
from tests.simulation.world import Group, SimEffects, Streams, Task

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

EVERY_MS_MAX = 8_000
OPERATORS = 2
WAITS = 0.3
LASTS_MS_MAX = 60_000  # then the operator begins another one beside it
WAIT_MS = 40_000


@dataclass(frozen=True)
class RetractPorts:
    """What one call of the command works with, over wires that may fail."""

    desk: RetractionDesk
    effect: RetractionEffect
    catalog: Any
    sender: Wire


class RetractCommands:
    """Calls the command as long as anybody retracts, by processes that may be killed or sleep."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._world = system.world
        self._chance = Streams(system.world).random
        self._processes: list[Task] = []

    @property
    def is_at_work(self) -> bool:
        """Whether a process may still send."""
        return not all(task.done for task in self._processes)

    def live(self) -> None:
        """Retract what producers would."""
        world, system = self._world, self._system
        world.pause(self._chance() * 60_000)
        while system.is_asking:
            if (asked := system.retractors.some()) and asked.key:
                process = Group(f"retract{len(self._processes) + 1}")
                task = world.spawn(process.name, partial(self._called, asked), process)
                self._processes.append(task)
                world.join([task], LASTS_MS_MAX)
            world.pause(self._chance() * EVERY_MS_MAX)

    def _called(self, asked: Asked) -> None:
        """One call, by a clock that is off."""
        clock_ms = round((2 * self._chance() - 1) * self._system.weather.clock_ms)
        waits = self._chance() < WAITS
        with suppress(StoreError), judged(self._world):
            self._retract(self._ports(clock_ms), asked, waits=waits)

    def _retract(self, ports: RetractPorts, asked: Asked, *, waits: bool) -> None:
        world, book, began = self._world, self._system.oracle.retractions, self._world.now
        more: dict[str, Any] = {"window": asked.window} if asked.window else {"ts": asked.ts}
        more |= {"index": asked.index, "by": asked.by, "why": asked.why}
        try:
            found = ports.desk.find(Retraction.of(asked.key, asked.id, **more))
        except (Rejected, Absent) as refused:
            world.note(f"retract {asked.id}: {refused}")
            return
        world.note(f"retract {asked.id}: found {found.found}, proven {found.proven}")
        named = self._named(found)
        book.check_found(named, found, began)
        if found.note or found.hopeless:
            return
        ports.desk.authorize(found)
        ports.sender.send(found.retraction.body, named)
        if waits:
            outcome = ports.effect.wait(found, WAIT_MS, lambda: None)
            if isinstance(outcome, RetractionNote) and not book.effect_of(named):
                world.fail(f"7: {named} is said to have its effect: {outcome}")

    def _named(self, found: Retractable) -> Asked:
        """The message that the command sends."""
        given = found.retraction
        return Asked(
            key=given.key,
            record_id=given.id,
            index=given.index,
            window=given.window or "",
            by=given.by,
            why=given.why,
        )

    def _ports(self, clock_ms: int) -> RetractPorts:
        system, world = self._system, self._world
        effects = SimEffects(world, clock_ms)
        store, catalog = system.wired_store(system.store), cast("Any", Wire(world, system.catalog))
        totals, queue = TotalsWire(world, system.totals), QueueWire(world, system.queue)
        bucket, letters = BucketWire(world, system.bucket), LettersWire(world, system.letters)
        desk = RetractionDesk(
            system.settings,
            store,
            catalog,
            cast("Any", totals),
            lambda: cast("Any", bucket),
            Pipeline(system.settings, effects).codec,
            effects,
        )
        effect = RetractionEffect(desk, cast("Any", queue), cast("Any", letters), effects)
        return RetractPorts(desk, effect, catalog, Wire(world, _Sender(system)))


@dataclass(frozen=True)
class _Sender:
    """Sends a message, which the oracle knows."""

    system: System

    def send(self, body: str, told: Asked) -> None:
        self.system.send_message(body, told)
