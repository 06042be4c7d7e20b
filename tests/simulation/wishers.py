"""Operators who wish shards for keys and withdraw their wishes, while rollers freeze specs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from tallyroll.errors import Absent, StateConflict, StoreError, UsageError
from tallyroll.operations.heat.wishes import WishDesk
from tallyroll.ports.catalog import Catalog
from tests.simulation.heat_rules import WISHED_LEAST, WISHED_MOST
from tests.simulation.producers import KEYS
from tests.simulation.wires import Wire, judged
from tests.simulation.world import Group, SimEffects, Streams

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

EVERY_MS_MAX = 25_000
COMMAND_MS_MAX = 60_000  # then the operator begins another one beside it
AHEAD = 4  # windows


class Wishers:
    """Each calls a command now and then, in a process that may be killed or sleep."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._world = system.world
        self._chance = Streams(system.world).random
        self._commands = 0

    def live(self) -> None:
        """Wish as long as producers send."""
        world = self._world
        while self._system.producing:
            world.pause(self._chance() * EVERY_MS_MAX)
            key = KEYS[int(self._chance() * len(KEYS))]
            self._commands += 1
            process = Group(f"wish{self._commands}")
            task = world.spawn(process.name, partial(self._command, key), process)
            world.join([task], COMMAND_MS_MAX)

    def _command(self, key: str) -> None:
        """One call of `tallyroll keys split` or `keys merge`, by a clock that is off."""
        system, world = self._system, self._world
        clock_ms = round((2 * self._chance() - 1) * system.weather.clock_ms)
        catalog = cast("Catalog", Wire(world, system.catalog))
        with judged(world):
            try:
                calendar = catalog.calendar()
                if calendar is None:
                    return
                desk = WishDesk(catalog, calendar, SimEffects(world, clock_ms))
                if self._chance() < 0.2:
                    desk.merge(key)
                    world.note(f"withdraws the wish for {key}")
                else:
                    self._split(desk, key, world.now + clock_ms)
            except StateConflict as conflict:
                world.note(f"wish refused: {conflict}")
            except (Absent, StoreError):
                return

    def _split(self, desk: WishDesk, key: str, now: int) -> None:
        chance, world, book = self._chance, self._world, self._system.oracle.wishes
        grid = desk.calendar.grid
        first = grid.at(now)
        for _ in range(int(chance() * AHEAD)):
            first = grid.after(first)
        since = None if chance() < 0.4 else max(first.start, now)
        until = first.end + int(chance() * 200_000) if chance() < 0.5 else None
        catalog = self._system.catalog
        shards = WISHED_LEAST + int(chance() * (WISHED_MOST - WISHED_LEAST))
        try:
            split = desk.split(key, shards, since, until)
        except UsageError as refused:
            world.note(f"is refused: {refused}")
            book.on_refused(key, catalog.standing)
            return
        world.note(f"wishes {split.wish.shards} for {key} from {split.window[9:15]}")
        ended = world.now + self._system.weather.clock_ms
        book.on_split(key, split, catalog.standing, catalog.frozen, ended)
