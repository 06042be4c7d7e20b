"""A pipeline whose runs can stop before any call of a port, for the catalog's state machine.

A run is a greenlet. Before each call it pauses, and is then told to go on, to crash before or after
the call, to be refused, or to lose the reply. Nothing else stops it, so time may pass meanwhile as
it likes, and others may run.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from greenlet import getcurrent, greenlet

from tallyroll.adapters.dynamodb.items import parse_item
from tallyroll.adapters.memory import (
    MemoryBucket,
    MemoryCatalog,
    MemoryQueue,
    MemoryStore,
    MemoryTotals,
)
from tallyroll.errors import StoreError, Unknown
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.messages import Message
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Moment, Status, Window
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import Span, WindowId
from tallyroll.operations.backfill import open_past
from tallyroll.pipeline import Pipeline
from tallyroll.ports.store import Outcome, Verdict
from tallyroll.ports.table_listing import TableStatus
from tallyroll.resources import TAG_PROVEN
from tallyroll.settings import Settings
from tests.harness.pipeline import MINUTE, NOW, SECOND, StillEffects

TIME_LEFT = 60_000
ORDER = list(Status)
WITH_TABLE = ORDER[ORDER.index(Status.OPEN) : ORDER.index(Status.PROVEN) + 1]
SETTINGS = Settings(
    window_seconds=600,
    shards=2,
    stripes_min=8,
    buckets=2,
    gates=2,
    accept_for_ms=5 * MINUTE,
    skew_ms=MINUTE,
    retention_ms=10 * MINUTE,
    visibility_ms=30 * SECOND,
    drain_margin_ms=10 * SECOND,
    settle_ms=30 * SECOND,
    export_lease_ms=5 * MINUTE,
    export_segments=1,
)


class Crashed(BaseException):
    """Thrown into a run; not an Exception: no code survives it."""


class Order(StrEnum):
    """What a paused run is told."""

    GO_ON = "go on"
    CRASH = "crash"
    CRASH_AFTER = "crash after the call"
    REFUSE = "refuse"
    LOSE = "lose the reply"


class Port:
    """A port whose calls are switch points of the run that makes them, if one does."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found
        if name == "scan":
            return lambda *given: _pages(found(*given))
        return lambda *given, **named: _called(lambda: found(*given, **named))


def _called(perform: Callable[[], Any]) -> Any:
    hub = getcurrent().parent
    if hub is None:
        return perform()
    order = hub.switch()
    if order is Order.CRASH:
        raise Crashed
    if order is Order.REFUSE:
        raise Unknown("refused")
    answer = perform()
    if order is Order.CRASH_AFTER:
        raise Crashed
    if order is Order.LOSE:
        raise Unknown("no answer")
    return answer


def _pages(pages: Iterator[Any]) -> Iterator[Any]:
    while page := _called(lambda: next(pages, None)):
        yield page


@dataclass(eq=False)
class Run:
    """One invocation that is under way."""

    body: greenlet


class WatchedCatalog(MemoryCatalog):
    """A catalog that notices a window that goes backwards, and a spec or calendar rewritten."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def found(self, calendar: Calendar) -> Calendar:
        before = self.calendar()
        stands = super().found(calendar)
        self._world.hold(before in (None, stands), "the calendar was founded anew")
        return stands

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        before = self.calendar()
        done = super().extend(read, extended, live)
        if done and before:
            made = max(window.end for window in self.windows(0, 10**15))
            appended = extended.grid.lengths[:-1] == before.grid.lengths
            self._world.hold(appended and extended.genesis == before.genesis, "calendar rewritten")
            later = extended.grid.lengths[-1][0] >= made
            self._world.hold(later, "a new length begins before the end of windows that are made")
        return done

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        before = self.window(window.id)
        created = super().create(window, calendar)
        self._world.hold(created == (before is None), f"{window.id} was created again")
        return created

    def put_spec(self, spec: Spec, wishes: int | None = None) -> Spec:
        before = self.specs([spec.window]).get(spec.window)
        stands = super().put_spec(spec, wishes)
        self._world.hold(stands == (before or spec), f"the spec of {spec.window} has changed")
        return stands

    def advance(self, window: Window) -> Window:
        before = self.window(window.id)
        changed = super().advance(window)
        assert before
        steps = ORDER.index(changed.status) - ORDER.index(before.status)
        self._world.hold(
            steps in (0, 1) and before.status is not Status.DROPPED,
            f"{window.id} went from {before.status} to {changed.status}",
        )
        self._world.hold(changed.version == before.version + 1, f"{window.id}: version")
        reached = {time for time in before.times if time in {*ORDER, Moment.SHUT}}
        self._world.hold(changed.times.keys() >= reached, f"{window.id} lost a time")
        if steps:
            self._world.on_state(changed)
        return changed


class WatchedStore(MemoryStore):
    """A store that knows every event that it took, and notices a table that goes before its
    proof.
    """

    world: World

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        outcome = super().commit(spec, records, increments)
        if outcome.verdict is Verdict.COMMITTED:
            state = self.world.catalog.window(spec.window)
            shut = state is None or Moment.SHUT in state.times
            self.world.hold(not shut, f"{spec.window} took an event after its gates were shut")
            new = {(record.key, record.id): record.n for record in records}
            for taken in self.world.taken.values():
                self.world.hold(not new.keys() & taken.keys(), "an event was taken twice")
            self.world.taken.setdefault(spec.window, Counter()).update(new)
        return outcome

    def drop_table(self, table: str) -> None:
        state = self.world.catalog.window(table.rpartition("-")[2])
        assert state
        proof = f"{state.attempt.archive}/proof.json"
        proven = Status.PROVEN in state.times and proof in self.world.bucket.list(proof)
        # A run that was overtaken between its look at the state and the call finds it dropped.
        due = state.status in (Status.DROPPING, Status.DROPPED)
        self.world.hold(due and proven, f"{table} dropped while {state.status}")
        if self.describe_table(table):
            self.world.hold(TAG_PROVEN in self.tags(table), f"{table} dropped without its tag")
        super().drop_table(table)


class World:
    """The pipeline, its runs, and what must hold at every moment."""

    def __init__(self, creating_ms: int, deleting_ms: int) -> None:
        self.settings = SETTINGS
        self.effects = StillEffects(NOW)
        self.catalog = WatchedCatalog(self)
        self.store = WatchedStore(
            self.effects, self.catalog, creating_ms=creating_ms, deleting_ms=deleting_ms
        )
        self.store.world = self
        self.totals = MemoryTotals()
        self.queue = MemoryQueue(self.effects)
        self.bucket = MemoryBucket()
        self.taken: dict[WindowId, Counter[tuple[str, str]]] = {}
        self.sent: list[Message] = []
        self.runs: list[Run] = []
        self.violations: list[str] = []
        self._server = self._made().roller

    # --- runs

    def roll(self) -> None:
        """One undisturbed run of the roller that is always the same process."""
        self._judge(self._server.run(TIME_LEFT))

    def clean(self) -> None:
        """One undisturbed run of cleanup, and one of the dropper."""
        self._judge(self._made().cleanup.run(TIME_LEFT))
        self._judge(self._made().dropper.run(TIME_LEFT))

    def begin(self, kind: str) -> Run:
        """Begin a run that pauses before its first call."""
        made = getattr(self._made(), kind)
        return self._begin(lambda: self._judge(made.run(TIME_LEFT)))

    def _judge(self, rolled: Rolled) -> None:
        """A run goes on with other windows after a bug's error, so it must be looked for."""
        for problem in rolled.problems:
            self.hold("unexpected: " not in problem, problem)

    def begin_write(self, message: Message) -> Run:
        """Begin a writer's run."""
        return self._begin(lambda: self._made().writer.write([message], TIME_LEFT))

    def _begin(self, work: Callable[[], object]) -> Run:
        def live() -> None:
            with suppress(Crashed, StoreError):
                work()

        run = Run(greenlet(live))
        run.body.switch()
        if not run.body.dead:
            self.runs.append(run)
        return run

    def tell(self, run: Run, order: Order) -> None:
        """Let a run make the call before which it waits, as ordered."""
        run.body.switch(order)
        if run.body.dead:
            self.runs.remove(run)

    def end(self) -> None:
        """Crash what is under way, so that no greenlet outlives its world."""
        for run in list(self.runs):
            while run in self.runs:
                self.tell(run, Order.CRASH)

    def write(self, message: Message) -> int:
        """The events that an undisturbed writer counts of a message."""
        return self._made().writer.write([message], TIME_LEFT).events

    def message(self, key: str, back_ms: int) -> Message:
        """A new event that happened so long ago."""
        number = len(self.sent)
        now = self.effects.now()
        body = json.dumps({"key": key, "id": f"e{number}", "ts": now - back_ms})
        self.sent.append(Message(f"m{number}", body, now, 1, f"r{number}"))
        return self.sent[-1]

    def open_past(self, back: int) -> None:
        """Open the window that lies so many before the first one, if there is a first one."""
        calendar = self.catalog.calendar()
        if calendar:
            span = calendar.grid.at(calendar.genesis)
            for _ in range(back):
                span = calendar.grid.at(span.start - 1)
            now = self.effects.now()
            name = self.settings.name
            open_past(self.catalog, calendar, name, span.start, span.end, now, 30 * MINUTE)

    def deploy(self, window_seconds: int, *, everywhere: bool = False) -> None:
        """Let runs that begin later wish this length of windows; the roller that is always the same
        process does so only if `everywhere`.
        """
        self.settings = replace(self.settings, window_seconds=window_seconds)
        if everywhere:
            self._server = self._made().roller

    def _made(self) -> Pipeline:
        """The use cases of a process that begins now."""
        names = ("store", "catalog", "totals", "queue", "bucket")
        ports = {name: Port(getattr(self, name)) for name in names}
        return Pipeline(self.settings, self.effects, ports={**ports, "exports": None})

    # --- what must hold

    def hold(self, holds: bool, otherwise: str) -> None:
        """Note a violation inside a run, which may go on for all that, until the next check."""
        if not holds:
            self.violations.append(otherwise)

    def on_state(self, window: Window) -> None:
        """A window has reached a new state."""
        taken = self.taken.get(window.id, Counter[tuple[str, str]]())
        if window.status is Status.SEALED:
            by_key: Counter[str] = Counter()
            for (key, _), events in taken.items():
                by_key[key] += events
            totals = self.totals.of_window(window.id, list(by_key))
            sealed = {key: total.n for key, total in totals.items()}
            exact = window.events == taken.total() and sealed == by_key
            self.hold(exact, f"{window.id} was sealed with other numbers than it took")
        if window.status is Status.PROVEN:
            keys = [
                k for k in self.bucket.list(window.attempt.archive or "-") if k.endswith(".json.gz")
            ]
            lines = [
                line for key in keys for line in gzip.decompress(self.bucket.get(key)).splitlines()
            ]
            items = [parse_item(json.loads(line)["Item"]) for line in lines]
            records = {(i.key, i.id): i.n for i in items if isinstance(i, Record)}
            tallies = sum(i.n for i in items if isinstance(i, Tally))
            whole = records == taken and tallies == taken.total()
            self.hold(whole, f"the archive of {window.id} is not what the window took")

    def check(self) -> None:
        """What holds between any two calls."""
        assert not self.violations, self.violations
        windows = self.catalog.windows(0, 10**15)
        calendar, live = self.catalog.calendar(), self.catalog.live()
        if windows:
            assert calendar
            assert live
            self._check_order(windows, calendar)
            alive = [window.start for window in windows if window.status is not Status.DROPPED]
            assert all(map(live.covers, alive)), "live pointer beyond a window"
            assert live.since <= windows[-1].start
        for window in windows:
            self._check_table(window)

    def _check_order(self, windows: list[Window], calendar: Calendar) -> None:
        for window in windows:
            assert calendar.grid.at(window.start) == Span(window.start, window.end)
        regular = [window for window in windows if window.start >= calendar.genesis]
        expected = calendar.genesis
        for window in regular:
            assert window.start == expected, f"a gap before {window.id}"
            expected = window.end

    def _check_table(self, window: Window) -> None:
        facts = self.store.describe_table(window.table)
        if window.status in WITH_TABLE:
            assert facts, f"{window.id} is {window.status} and has no table"
            assert facts.status is TableStatus.ACTIVE
            assert self.catalog.specs([window.id])
        if facts and facts.status is not TableStatus.CREATING and Moment.SHUT in window.times:
            items = self.store.items(window.table)
            gates = [items.get((f"~g.{number}", "g#")) for number in (1, SETTINGS.gates)]
            opened = [gate for gate in gates if gate and gate["open"]["BOOL"]]
            assert not opened, f"{window.id} has an open gate"
