"""The bucket of archives, with the rule that deletes what has the tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyroll.adapters.memory import MemoryBucket
from tests.simulation.columns.book import ColumnBook, archive_of
from tests.simulation.retraction_book import CORRECTIONS
from tests.simulation.watched_archives import SimBucket

if TYPE_CHECKING:
    from tests.simulation.pipeline import System


class Objects(MemoryBucket):
    """A bucket whose objects can be looked at together."""

    def under(self, prefix: str) -> dict[str, bytes]:
        """The objects under a prefix."""
        return {key: self._objects[key] for key in self.list(prefix)}


class ColumnBucket(SimBucket, Objects):
    """The bucket, watched by the book; `expired` are the objects that its rule has deleted."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self.expired: dict[str, bytes] = {}
        self.book = ColumnBook(system, self)

    def whole(self) -> Objects:
        """The bucket with all that it ever had."""
        whole = Objects(self.name)
        whole._objects = {**self.expired, **self._objects}
        return whole

    def put(self, key: str, body: bytes) -> None:
        before, marks = self._objects.get(key), self._system.marks
        if self.expired.get(key) == body:  # by a run that slept: nobody finds it
            self._objects[key] = body
            return
        self.book.on_put(key, body, before)
        if CORRECTIONS in key and archive_of(key) in self.book.proven.values():
            marks.hit("column-late-copy")
        super().put(key, body)

    def let_pass(self, key: str) -> None:
        if key in self._objects:
            self.book.on_let_pass(key)
            self._system.marks.hit("column-let-pass")
        super().let_pass(key)

    def delete(self, key: str) -> None:
        if archive_of(key):
            self._system.world.fail(f"parquet: {key} is deleted")
        super().delete(key)

    def expire(self, key: str) -> None:
        """Delete an object by the rule."""
        self.expired[key] = self._objects.pop(key)
        self.passing.discard(key)
        self._system.world.note(f"{key.rpartition('/')[2]} has expired")
        self._system.marks.hit("column-expired")
