"""Freezing a window's spec by the operators' wishes, of which none is lost.

The roller reads the wishes, and puts the spec only if they are unchanged. So of a wish and a spec
that are put at the same time, the later one knows of the other (`tallyroll.ports.catalog`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tallyroll.errors import StateConflict
from tallyroll.lifecycle.resharding import hot_shards, throttled_lately, why_hot
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.ports.catalog import Catalog, WishBook
from tallyroll.ports.store import Store
from tallyroll.settings import Settings

FREEZES_TRIED = 8  # a change of the wishes takes a command; the next run tries again


def put_spec(
    window: Window, calendar: Calendar, catalog: Catalog, store: Store, settings: Settings, now: int
) -> Spec:
    """Freeze the spec of a window, and return the one that stands. Raises StateConflict if the
    wishes change again and again.
    """
    tried = 0
    while True:
        wishes = catalog.wishes()
        wished = wishes.during(window.start, window.end)
        hot = hot_shards(window, calendar, catalog, store, settings, now, wished)
        spec = freeze(window, settings, hot, calendar.genesis)
        throttled = throttled_lately(catalog, calendar, now) if settings.adapts else ()
        why = why_hot(hot, wished, settings.hot_shards, throttled)
        try:
            return catalog.put_spec(replace(spec, why=why), wishes.version)
        except StateConflict:
            tried += 1
            if tried == FREEZES_TRIED:
                raise


def forget_ended(catalog: WishBook, alive: Iterable[Window], now: int) -> None:
    """Remove the wishes whose last window is past. `alive` are all windows that are not dropped: a
    wish stays while one that it may be for is not frozen. Raises StateConflict if the wishes change
    meanwhile.
    """
    waiting = (window.start for window in alive if window.status is Status.CREATING)
    wishes = catalog.wishes()
    left = wishes.without_ended(min([now, *waiting]))
    if len(left) < len(wishes.of):
        catalog.put_wishes(wishes, left)
