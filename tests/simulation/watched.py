"""The in-memory ports of a simulation, every change of which the oracle sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tallyroll.memory import MemoryCatalog, MemoryQueue, MemoryStore, MemoryTotals
from tallyroll.ports import Outcome, Rejection, Status, Total, Verdict, Window
from tallyroll.records import Increment, Message, Record
from tallyroll.specs import Spec
from tests.simulation.oracle import WeighedItems
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

    def advance(self, window: Window) -> Window:
        before = self.window(window.id)
        changed = super().advance(window)
        order = list(Status)
        if before and order.index(before.status) > order.index(changed.status):
            self._system.world.fail(f"{window.id} went from {before.status} to {changed.status}")
        self._system.world.note(f"{window.id[9:15]} is {changed.status} v{changed.version}")
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
