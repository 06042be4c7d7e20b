"""The oracle's book of archives: which are proven, and which tables are gone."""

from __future__ import annotations

from typing import Any

from tallyroll.model.states import Status, Window
from tests.simulation.holdings import WeighedItems, archive_items, is_whole, may_count
from tests.simulation.world import World


class ArchiveBook:
    """Checks that what is proven stays as it is, and that no table goes before that. `gone` are
    the windows whose tables went.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.proven_at: dict[str, int] = {}
        self.gone: set[str] = set()
        self.dropped = 0

    def on_proven(self, archive: str) -> None:
        """Take note that an archive is proven."""
        self.proven_at.setdefault(archive, self._world.now)

    def on_put(self, key: str, body: bytes, before: bytes | None) -> None:
        """Check that no archive is written over, and a proven one not even added to."""
        archive, inside, _ = key.partition("/AWSDynamoDB/")
        if inside and before is not None and before != body:
            self._world.fail(f"3: {key} was written over")
        if inside and archive in self.proven_at:
            self._world.fail(f"3: {key} was written into a proven archive")

    def on_drop(self, window: Window | None, items: WeighedItems, tags: Any, bucket: Any) -> None:
        """Check invariant 3 just before a table goes: proven, tagged, and its archive whole."""
        if window and window.id in self.gone and not may_count(items.values()):
            return  # made again by a roller that slept for long, and empty
        if window is None or window.status is not Status.DROPPING or not tags.get("proven"):
            self._world.fail(f"3: a table is dropped in state {window}, tags {tags}")
            return
        if f"{window.attempt.archive}/proof.json" not in bucket.list(f"{window.attempt.archive}/"):
            self._world.fail(f"3: {window.id} is dropped, but there is no proof")
        if not is_whole(archive_items(bucket, window), items.values()):
            self._world.fail(f"3: {window.id} is dropped, but its archive is not the table")
        self.gone.add(window.id)
        self.dropped += 1
