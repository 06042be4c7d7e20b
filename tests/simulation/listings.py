"""Who lists the events of a key, and holds the list to what was stored: none may be passed over."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from tallyroll.errors import Absent, Archived, StoreError
from tallyroll.model.stored import StoredEvent, StoredPacket
from tallyroll.model.windows import window_start
from tests.simulation.producers import KEYS
from tests.simulation.sandboxes import Context
from tests.simulation.world import Streams

if TYPE_CHECKING:
    from tests.simulation.pipeline import System

EVERY_MS_MAX = 50_000
WINDOWS_BACK = 3
LIMIT = 40


class Lister:
    """Lists all events of a key in a window, page by page."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._chance = Streams(system.world).random

    def live(self) -> None:
        """List as long as producers send."""
        system, world = self._system, self._system.world
        while system.producing:
            world.pause(self._chance() * EVERY_MS_MAX)
            key = KEYS[int(self._chance() * len(KEYS))]
            calendar = system.catalog.calendar()
            if not calendar:
                continue
            span = calendar.grid.at(world.now)
            for _ in range(int(self._chance() * WINDOWS_BACK)):
                span = calendar.grid.at(span.start - 1)
            self._list(key, span.id)

    def _list(self, key: str, window: str) -> None:
        """One list, all of whose pages must be answered; each begins after those before it."""
        system, world = self._system, self._system.world
        start, began = window_start(window), world.now
        shown = system.historian.shown_at
        there = [name for name in self._stored(key, window) if shown(start, key, name) <= began]

        def listed(context: Context) -> list[str] | None:
            found: list[str] = []
            cursor = None
            while True:
                left_ms = context.get_remaining_time_in_millis()
                try:
                    page = system.platform.use_case().events(
                        key, window, left_ms, limit=LIMIT, cursor=cursor, packed=True
                    )
                except (Absent, Archived, StoreError):
                    return None
                found += chain.from_iterable(map(_names, page.found))
                cursor = page.cursor
                if not cursor or not page.complete:
                    return found if page.complete else None

        answer = system.platform.invoke("aggregator", listed).answer
        if answer is None:
            return
        world.note(f"list {key} in {window[9:15]}: {len(answer)}")
        if len({*answer}) < len(answer):
            world.fail(f"read: a list of {key} in {window} has events twice: {answer}")
        if missing := [name for name in there if name not in answer]:
            world.fail(f"read: a list of {key} in {window} lacks {missing}")
        stored = self._stored(key, window)
        if unknown := [name for name in answer if name not in stored]:
            world.fail(f"read: a list of {key} in {window} has {unknown}, which never counted")

    def _stored(self, key: str, window: str) -> list[str]:
        """The ids of the records that are stored."""
        stored = self._system.oracle.stored
        return [name for of, key_of, name in stored if (of, key_of) == (window, key)]


def _names(found: StoredEvent | StoredPacket) -> list[str]:
    """The id of an event or packet; of a leaf of a log, those of its messages."""
    if isinstance(found, StoredPacket) and found.events[0].message:
        return [each.message or "" for each in found.events]
    return [found.id]
