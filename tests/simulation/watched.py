"""The in-memory ports of a simulation, every change of which the oracle sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tallyroll.archive_ports import ExportState, ExportStatus
from tallyroll.dead_letters import ReceivedLetter
from tallyroll.memory import (
    MemoryBucket,
    MemoryCatalog,
    MemoryDeadLetters,
    MemoryQueue,
    MemoryStore,
    MemoryTotals,
)
from tallyroll.memory_exports import MemoryExports
from tallyroll.periods import PeriodState, period_of
from tallyroll.ports import Outcome, Rejection, Verdict
from tallyroll.records import Increment, Message, Record, Redrive
from tallyroll.settings import Settings
from tallyroll.specs import Spec
from tallyroll.states import Calendar, LivePointer, Status, Window
from tallyroll.totals import Total
from tests.simulation.holdings import WeighedItems
from tests.simulation.world import SimEffects

if TYPE_CHECKING:
    from tests.simulation.pipeline import System


class SimStore(MemoryStore):
    """The store, watched by the oracle."""

    def __init__(self, system: System) -> None:
        creating_ms = system.world.random.random() ** 2 * 40_000
        super().__init__(
            SimEffects(system.world),
            system.catalog,
            creating_ms=creating_ms,
            deleting_ms=5_000,
            new_items=WeighedItems,
        )
        self._system = system
        self.shut_at: dict[str, int] = {}

    def weighed(self, table: str) -> WeighedItems:
        """A table's items."""
        items = self.items(table)
        assert isinstance(items, WeighedItems)
        return items

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        outcome = super().commit(spec, records, increments)
        if outcome.verdict is not Verdict.GATE_MISSING:
            items = self.weighed(spec.table)
            self._system.oracle.on_commit(spec, list(records), outcome, items)
        return outcome

    def drop_table(self, table: str) -> None:
        facts = self.describe_table(table)
        if facts and facts.protected:
            window = self._system.catalog.window(table.rpartition("-")[2])
            items = self.weighed(table)
            self._system.oracle.on_drop(window, items, self.tags(table), self._system.bucket)
        super().drop_table(table)

    def shut_gate(self, spec: Spec, number: int) -> None:
        super().shut_gate(spec, number)
        self.shut_at[spec.table] = self._system.world.now

    def open_gate(self, spec: Spec, number: int) -> None:
        before = self.describe_table(spec.table) and dict(self.items(spec.table))
        super().open_gate(spec, number)
        if before:
            self._system.oracle.on_gate(spec, before, self.items(spec.table))


class SimCatalog(MemoryCatalog):
    """The catalog, watched by the oracle."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self._system = system

    def found(self, calendar: Calendar) -> Calendar:
        before = self.calendar()
        stands = super().found(calendar)
        if before is None:
            self._system.oracle.on_founded(stands.grid.lengths)
        return stands

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        changed = super().extend(read, extended, live)
        if changed:
            self._system.world.note(f"windows are {extended.grid.lengths}")
            self._system.oracle.on_length(*extended.grid.lengths[-1])
        return changed

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        created = super().create(window, calendar)
        if created:
            self._system.oracle.on_created(window)
        return created

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        changed = super().advance_period(state, settled=settled)
        self._system.world.note(f"{state.name} is at epoch {state.epoch} v{changed.version}")
        if changed.stands:
            period = period_of(state.name)
            windows = self.windows(period.start, period.end)
            self._system.oracle.on_rolled_up(changed, windows, self._system.totals.rolled())
        return changed

    def put_spec(self, spec: Spec) -> Spec:
        stands = super().put_spec(spec)
        self._system.world.note(f"{spec.window[9:15]} has shards {stands.shards} {stands.hot}")
        self._system.oracle.on_spec(stands)
        return stands

    def advance(self, window: Window) -> Window:
        before = self.window(window.id)
        changed = super().advance(window)
        order = list(Status)
        if before and order.index(before.status) > order.index(changed.status):
            self._system.world.fail(f"{window.id} went from {before.status} to {changed.status}")
        self._system.world.note(f"{window.id[9:15]} is {changed.status} v{changed.version}")
        if changed.status is Status.PROVEN and changed.archive:
            self._system.oracle.on_proven(changed.archive)
        if changed.status is Status.SEALED:
            items = self._system.store.weighed(window.table)
            self._system.oracle.on_sealed(changed, items)
        return changed


class SimTotals(MemoryTotals):
    """The totals, watched by the oracle."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self._system = system

    def put(self, totals: Sequence[Total]) -> None:
        super().put(totals)
        for total in self.listed():
            self._system.oracle.on_total(total)


class SimBucket(MemoryBucket):
    """The bucket, watched by the oracle."""

    def __init__(self, system: System) -> None:
        super().__init__("simulated-archive")
        self._system = system

    def put(self, key: str, body: bytes) -> None:
        before = self._objects.get(key)
        self._system.oracle.on_put(key, body, before)
        super().put(key, body)


class SimExports(MemoryExports):
    """DynamoDB's own exports; they fail, or come out short, as the weather has it."""

    def __init__(self, system: System) -> None:
        super().__init__(
            SimEffects(system.world),
            system.store,
            system.bucket,
            taking_ms=int(system.world.random.random() * 60_000),
        )
        self._system = system

    def start(self, table: str, bucket: str, prefix: str, at: int, token: str) -> str:
        """Begin an export; of a moment before the gates were shut it shows them open."""
        known, world = token in self.exports, self._system.world
        arn = super().start(table, bucket, prefix, at, token)
        export = self.exports[token]
        if at < self._system.store.shut_at.get(table, 0):
            opened = {"open": {"BOOL": True}}
            export.items = [{**item, **opened} if "open" in item else item for item in export.items]
        if not known and world.roll(world.weather.mangled):
            if world.random.random() < 0.3:
                export.state = ExportState(ExportStatus.FAILED, "simulated")
            else:
                export.items = export.items[: int(world.random.random() * len(export.items))]
        return arn


class SimQueue(MemoryQueue):
    """The queue, which duplicates and reorders, watched by the oracle."""

    def __init__(self, system: System, max_receives: int) -> None:
        super().__init__(
            SimEffects(system.world),
            visibility_ms=system.settings.visibility_ms,
            max_receives=max_receives,
            age_period_ms=system.settings.drain_period_ms,
            age_lag_ms=int(system.world.random.random() * 20_000),
        )
        self._system = system

    def send(self, body: str, delay_ms: float = 0, redrive: Redrive | None = None) -> str:
        message_id = super().send(body, delay_ms, redrive)
        if redrive:
            self._system.oracle.on_redriven(message_id, redrive)
        return message_id

    def take_settings(self, settings: Settings) -> None:
        """Be deployed with other settings."""
        self._visibility_ms = settings.visibility_ms

    def receive(self, most: int = 10) -> list[Message]:
        """A random choice of what is visible, and now and then of what is not."""
        self._observed()
        world, received = self._system.world, []
        chance = world.random.random
        twice = world.roll(world.weather.duplicate)
        for held in self.held():
            if held.visible_at > world.now and not (twice and held.receives and chance() < 0.2):
                continue
            if chance() < 0.2:
                continue
            if message := self.deliver(held):
                received.append(message)
            if len(received) >= most:
                break
        if world.roll(0.5):
            received.reverse()
        return received

    def deliver(self, held: Any) -> Message | None:
        message = super().deliver(held)
        if message is None:
            self._system.oracle.on_dead(self.dead_letters[-1])
        return message

    def reject(self, rejections: Sequence[Rejection]) -> list[bool]:
        there = super().reject(rejections)
        for letter in self.dead_letters[-len(rejections) :]:
            self._system.oracle.on_dead(letter)
        return there


class SimDeadLetters(MemoryDeadLetters):
    """The dead letters as the operator sees them, watched by the oracle."""

    def __init__(self, system: System) -> None:
        super().__init__(system.queue, SimEffects(system.world))
        self._system = system

    def delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        gone = super().delete(letters)
        for letter, is_gone in zip(letters, gone, strict=True):
            if is_gone:
                self._system.oracle.on_letter_deleted(letter.first_id)
        return gone
