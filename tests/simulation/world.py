"""A world of one thread: virtual time, seeded chance, tasks as greenlets.

A task runs until it pauses; the world then goes on with whichever is due next. Tasks of one group
(an invocation and its jobs) crash together. The same seed gives the same trace in every process
and Python version: nothing here or in what runs here may depend on the order of a set, on
`hash()`, on real time, on `id()`, or on more of `random` than `random()` and `getrandbits()`.

Every task draws from a stream of its own, seeded by its place in the tree of tasks: by the task
that started it and its number among the tasks of that one. So a fault that is left out changes what
follows from it, and little else: above all, not what the producers send.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from random import Random
from typing import TypeVar

from greenlet import getcurrent, greenlet

from tallyroll.model.sharding import Chance
from tests.simulation.weather import CALM, LETTER, Risk

T = TypeVar("T")
RANDOM_BITS = 53  # of which `random()` makes a float
NAME_MASK = 0xFFFFFF
OUT_OF_BOUNDS = "nothing was found within bounds"


class Crashed(BaseException):
    """Thrown into the tasks of a group that crashes; not an Exception: no code survives it."""


class Violation(BaseException):
    """An invariant does not hold; raised in the task that found it, and by `World.run`."""


@dataclass(slots=True, eq=False)
class Group:
    """Tasks that live and crash together; faults strike only where `mortal`."""

    name: str
    mortal: bool = True
    tasks: list[Task] = field(default_factory=list)
    crashed: bool = False


@dataclass(slots=True, eq=False)
class Task:
    """One greenlet; `wake` numbers its wake-ups, so that outdated ones are passed over."""

    name: str
    group: Group
    root: int
    body: greenlet | None = None
    wake: int = 0
    done: bool = False
    error: Exception | None = None
    awaiting: int = 0
    waiter: Task | None = None
    stalled: bool = False
    spawned: int = 0
    random: Random = field(init=False)
    _aside: Random | None = None

    def __post_init__(self) -> None:
        self.random = Random(self.root)

    @property
    def aside(self) -> Random:
        """Another stream of its own, for what was added later: it shifts nothing in the first."""
        if self._aside is None:
            self._aside = Random(_root(self.root, -1))
        return self._aside


def _root(root: int, number: int) -> int:
    """The seed of one root's task of that number, by a step of Knuth's MMIX generator."""
    return ((root + number) * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64


@dataclass(frozen=True, slots=True)
class Fault:
    """What struck, by chance; its name is that of the random number which let it strike."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may happen in a run that shall shrink another: letters and faults of these names, or all
    if there are none; and until when, ms after the start.
    """

    letters: frozenset[str] | None = None
    faults: frozenset[str] | None = None
    until_ms: float = inf

    def allow(self, fault: Fault) -> bool:
        """Whether it may strike."""
        names = self.letters if fault.kind == LETTER.kind else self.faults
        return names is None or fault.name in names


UNBOUND = Bounds()


class Streams:
    """The chance of whichever task runs."""

    def __init__(self, world: World) -> None:
        self._world = world

    def random(self) -> float:
        """A float in [0, 1)."""
        return self._world.random.random()

    def getrandbits(self, k: int, /) -> int:
        """An integer of k random bits."""
        return self._world.random.getrandbits(k)


class World:
    """The scheduler; `weather` may be changed at any time. `under_way` are the writes that go on
    though they were given up.
    """

    def __init__(self, seed: int, start_ms: int, bounds: Bounds = UNBOUND) -> None:
        self.seed = seed
        self.now = start_ms
        self.start = start_ms
        self.weather = CALM
        self.faults: list[Fault] = []
        self.violation: Violation | None = None
        self.steps = 0
        self.under_way: list[Task] = []
        self._bounds = bounds
        self._notes: list[tuple[int, str, str]] = []
        self._due: list[tuple[int, int, int, Task]] = []
        self._numbers = 0
        self._doomed: list[Group] = []
        self._tasks: list[Task] = []
        self._random = Random(seed)
        self._spawned = 0
        self._current: Task | None = None
        self._hub = getcurrent()

    @property
    def current(self) -> Task:
        """The task that runs."""
        assert self._current is not None, "only a task may ask"
        return self._current

    @property
    def random(self) -> Random:
        """The stream of chance of the task that runs, or of the world itself."""
        return self._current.random if self._current else self._random

    @property
    def trace(self) -> list[str]:
        """What happened, a line each: seconds, task, what."""
        return [f"{(at - self.start) / 1000:9.3f} {who}: {text}" for at, who, text in self._notes]

    @property
    def trace_hash(self) -> str:
        """A digest of the whole trace so far."""
        return blake2b("\n".join(self.trace).encode(), digest_size=8).hexdigest()

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self._notes.append((self.now, self._current.name if self._current else "world", text))

    def fail(self, finding: str) -> None:
        """End the simulation: an invariant does not hold."""
        self.note(f"VIOLATION {finding}")
        self.violation = self.violation or Violation(finding)
        raise self.violation

    def roll(self, chance: float, drawn: float | None = None) -> bool:
        """Whether something of this chance happens now; a risk that strikes is named and noted.

        Draws whatever the chance is, so that another one does not shift what is drawn later; give
        a number in [0, 1) that was `drawn` already for a fault that lasts.
        """
        if drawn is None:
            drawn = self.random.random()
        if drawn >= chance:
            return False
        return not isinstance(chance, Risk) or self._strikes(chance.kind, drawn)

    def _strikes(self, kind: str, drawn: float) -> bool:
        fault = Fault(f"{int(drawn * 2**RANDOM_BITS) & NAME_MASK:06x}", kind)
        if not self._bounds.allow(fault):
            return False
        self.faults.append(fault)
        self.note(f"{kind} #{fault.name}")
        return True

    def spawn(self, name: str, body: Callable[[], object], group: Group) -> Task:
        """Start a task of a group at the present moment, after whoever runs has paused."""
        parent = self._current
        if parent:
            parent.spawned += 1
            number, root = parent.spawned, parent.root
        else:
            self._spawned += 1
            number, root = self._spawned, self.seed
        task = Task(name, group, _root(root, number))
        task.body = greenlet(lambda: self._live(task, body), self._hub)
        group.tasks.append(task)
        self._tasks.append(task)
        self._schedule(task, 0)
        return task

    def pause(self, ms: float) -> None:
        """Let others run for `ms` of virtual time."""
        task = self.current
        if task.group.crashed:
            raise Crashed
        self._schedule(task, ms)
        self._hub.switch()

    def step(self, verb: str = "") -> None:
        """A switch point, of a port's verb: some latency, and perhaps a stall or a crash."""
        task, weather = self.current, self.weather
        draw = task.random.random
        self.steps += 1
        slow_ms = weather.slow_ms if verb and verb == weather.slow_verb else 0
        delay = 1 + int(draw() * (weather.latency_ms + slow_ms))
        if task.group.mortal:
            if self.roll(weather.crash, draw()):
                self.crash()
            if self.roll(weather.stall, draw()):
                delay += int(draw() ** 2 * weather.stall_ms_max)
                self.note(f"stalls for {delay / 1000:.0f} s")
                task.stalled = True
        self.pause(delay)
        task.stalled = False

    def crash(self) -> None:
        """Crash the group of the running task."""
        self.note("crashes")
        self._doomed.append(self.current.group)
        self._schedule(self.current, 0)
        self._hub.switch()

    def kill(self, group: Group) -> None:
        """Crash another group, as soon as the running task pauses."""
        self._doomed.append(group)

    def join(self, tasks: Sequence[Task], timeout_ms: float | None = None) -> bool:
        """Wait for tasks; whether all of them ended in time."""
        waiter = self.current
        alive = [task for task in tasks if not task.done]
        if not alive:
            return True
        for task in alive:
            task.waiter = waiter
        waiter.awaiting = len(alive)
        waiter.wake += 1
        if timeout_ms is not None:
            self._schedule(waiter, timeout_ms)
        self._hub.switch()
        for task in alive:
            task.waiter = None
        return all(task.done for task in tasks)

    def rouse(self) -> None:
        """Wake every stalled task within a second."""
        for task in self._tasks:
            if task.stalled and not task.done:
                self._schedule(task, self.random.random() * 1000)

    def run(self, until_ms: int | None = None) -> None:
        """Go on until `until_ms`, or until nothing is due. Raises Violation."""
        assert getcurrent() is self._hub
        while self._due and (until_ms is None or self._due[0][0] <= until_ms):
            at, _, wake, task = heapq.heappop(self._due)
            if task.done or wake != task.wake:
                continue
            self.now = max(self.now, at)
            if self.now - self.start > self._bounds.until_ms:
                raise Violation(OUT_OF_BOUNDS)
            self._resume(task)
            while self._doomed:
                self._bury(self._doomed.pop(0))
            if self.violation:
                raise self.violation
        if until_ms is not None:
            self.now = max(self.now, until_ms)
        self._tasks = [task for task in self._tasks if not task.done]

    def end(self) -> None:
        """Crash whatever is left, so that no greenlet outlives its world."""
        for task in self._tasks:
            if not task.done:
                self._bury(task.group)
        self._tasks.clear()
        self._due.clear()

    def _schedule(self, task: Task, ms: float) -> None:
        task.wake += 1
        self._numbers += 1
        heapq.heappush(self._due, (self.now + int(ms), self._numbers, task.wake, task))

    def _resume(self, task: Task) -> None:
        assert task.body is not None
        self._current = task
        task.body.switch()
        self._current = None

    def _live(self, task: Task, body: Callable[[], object]) -> None:
        try:
            body()
        except (Crashed, Violation):
            pass
        except Exception as error:  # noqa: BLE001 (whoever joins the task judges it)
            task.error = error
            if not task.waiter and not task.group.mortal:
                finding = f"{task.name} raised {error!r}"
                self.note(f"VIOLATION {finding}")
                self.violation = self.violation or Violation(finding)
        self._ended(task)

    def _ended(self, task: Task) -> None:
        task.done = True
        task.body = None
        waiter, task.waiter = task.waiter, None
        if waiter and not waiter.done:
            waiter.awaiting -= 1
            if not waiter.awaiting:
                self._schedule(waiter, 0)

    def _bury(self, group: Group) -> None:
        group.crashed = True
        for task in group.tasks:
            if task.done or task.body is None:
                continue
            if task.body:  # it has started
                self._current = task
                task.body.throw(Crashed)
                self._current = None
            if not task.done:
                self._ended(task)


class SimEffects:
    """Time, chance and concurrency of one simulated machine, whose clock is `skew_ms` off."""

    def __init__(self, world: World, skew_ms: int = 0) -> None:
        self._world = world
        self._skew_ms = skew_ms
        self.chance: Chance = Streams(world)

    def now(self) -> int:
        """The machine's clock in ms."""
        return self._world.now + self._skew_ms

    def sleep(self, ms: float) -> None:
        """Wait; a switch point."""
        self._world.pause(ms)
        self._world.step()

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        """Run jobs as sibling greenlets; join all, then give results or raise the first error."""
        world, parent = self._world, self._world.current
        results: dict[int, T] = {}
        errors: dict[int, Exception] = {}
        waiting = list(enumerate(jobs))

        def work() -> None:
            while waiting:
                number, job = waiting.pop(0)
                try:
                    results[number] = job()
                except Exception as error:  # noqa: BLE001 (raised below, once all have ended)
                    errors[number] = error

        if len(jobs) <= 1 or at_once == 1:
            work()
        else:
            world.join(
                [
                    world.spawn(f"{parent.name}.{number}", work, parent.group)
                    for number in range(min(at_once, len(jobs)))
                ]
            )
        if errors:
            raise errors[min(errors)]
        return [results[number] for number in range(len(jobs))]
