"""What lies between a function and its bucket where Parquet is made: writes that come late."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from tallyroll.archive.layout import is_parquet
from tallyroll.ports.bucket import TICKETS_PREFIX
from tests.simulation.bucket_wires import BucketWire
from tests.simulation.columns.book import archive_of
from tests.simulation.retraction_book import CORRECTIONS
from tests.simulation.wires import LAGGARD_MS_MAX

T = TypeVar("T")
LATE = 6  # times the chance that an export sleeps
DYING = 4  # times the chance that another function crashes


class ColumnWire(BucketWire):
    """The bucket; what the compactor writes may be carried out long after it was given up, and a
    copy of corrections may come when its archive is made into Parquet already.
    """

    writes: ClassVar = frozenset({"let_pass", "delete"})

    def _call(self, verb: str, perform: Callable[[], T]) -> T:
        world = self._world
        by_compactor = world.current.group.name.startswith("compactor")
        if by_compactor and world.roll(DYING * world.weather.crash):
            world.crash()
        return super()._call(verb, perform)

    def put(self, key: str, body: bytes) -> None:
        """Write an object: a ticket, or one of an archive as Parquet, perhaps much later."""
        world, verb = self._world, f"put {key.rpartition('/')[2]}"
        by_compactor = key.startswith(TICKETS_PREFIX) or is_parquet(archive_of(key))
        if by_compactor and world.roll(world.weather.tardy, world.current.aside.random()):
            self._tardy(verb, lambda: self._port.put(key, body))
        self._call(verb, lambda: self._port.put(key, body))

    def put_once(self, key: str, body: bytes) -> bytes:
        """Write an object unless one stands: corrections perhaps minutes later."""
        world = self._world
        if CORRECTIONS in key and world.roll(LATE * world.weather.laggard):
            world.current.stalled = True
            world.pause(world.random.random() * LAGGARD_MS_MAX / 2)
            world.current.stalled = False
        return super().put_once(key, body)
