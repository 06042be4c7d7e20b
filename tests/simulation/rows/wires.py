"""What lies between a store on single rows and its database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from tallyroll.adapters.memory.rows import MemoryRows
from tallyroll.adapters.rows.statements import each_inserted
from tallyroll.errors import StoreError, Throttled, Unknown
from tallyroll.model.records import Record
from tests.simulation.weather import CALM
from tests.simulation.wires import POISON, WRITES, Wire
from tests.simulation.world import SimEffects, World

T = TypeVar("T")

SPELL_EVERY_MS, TIMEOUT_MS = 240_000, 10_000
LATE_MS_MAX = 60_000  # so that many rows come while a window is being closed
ROW_WRITES = WRITES | {"put_chunks", "put_seal", "put_list", "put_stripes", "put_folded"}


class RowsWire(Wire):
    """The statements. Inserts of one partition contend: such a one may be carried out or not."""

    writes: ClassVar = ROW_WRITES
    _port: MemoryRows

    def __init__(self, world: World, port: Any, spell_ms: int = 0) -> None:
        super().__init__(world, port)
        self._spell_ms = spell_ms

    def _call(self, verb: str, perform: Callable[[], T]) -> T:
        self._in_spell(verb, perform, late=verb in self.writes)
        return super()._call(verb, perform)

    def _in_spell(self, what: str, perform: Callable[[], object], *, late: bool) -> None:
        """Raise Unknown while the database answers nothing in time, for `spell_ms` of every four
        minutes. A write is lost, or carried out up to a minute later.
        """
        world = self._world
        if world.weather is CALM or world.now % SPELL_EVERY_MS >= self._spell_ms:
            return
        world.pause(TIMEOUT_MS)
        world.note(f"{what} timed out on a slow node")
        if late and world.random.random() < 0.5:
            self._tardy(what, perform, LATE_MS_MAX)
        raise Unknown(f"{what}: no answer in time", "SimulatedTimeout")

    def segment(self, key: str, shard: int) -> int:
        """No statement."""
        return self._port.segment(key, shard)

    def insert_all(self, table: str, rows: Sequence[Record]) -> list[bytes | StoreError | None]:
        """Each fails for itself."""
        return each_inserted(self, table, rows, SimEffects(self._world))

    def insert(self, table: str, row: Record) -> bytes | None:
        """An insert that may be refused, contended, lost, unanswered, or carried out much later."""
        world, weather = self._world, self._world.weather
        what = f"insert {row.id[-6:]}"

        def perform() -> bytes | None:
            there = self._port.insert(table, row)
            world.note(f"{what} {'new' if there is None else 'there'}")
            return there

        self._in_spell(what, perform, late=True)
        world.step("commit")
        if row.id.startswith(POISON):
            world.crash()
        if world.roll(weather.refused):
            world.note(f"{what} throttled")
            raise Throttled(f"{what}: refused for load", "SimulatedThrottle")
        if world.roll(weather.belated):
            return self._tardy(what, perform, LATE_MS_MAX)
        if world.roll(weather.unanswered):
            world.note(f"{what} lost")
            raise Unknown(f"{what}: never arrived", "SimulatedTimeout")
        if world.roll(weather.contended):
            if world.random.random() < 0.5:
                perform()
            world.note(f"{what} contended")
            raise Unknown(f"{what}: no quorum in time", "SimulatedContention")
        there = perform()
        world.step("commit")
        if world.roll(weather.unanswered):
            world.note(f"{what} unanswered")
            raise Unknown(f"{what}: done, but the reply was lost", "SimulatedTimeout")
        return there
