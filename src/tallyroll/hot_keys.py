"""Hot keys: writers note them cheaply, the next window's spec gives them shards by their load."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

from tallyroll.errors import Missing, StoreError
from tallyroll.ports import Catalog, Effects, Store
from tallyroll.records import Record
from tallyroll.resharding import next_shards, note_chance, peak_units
from tallyroll.settings import Settings
from tallyroll.specs import Spec
from tallyroll.states import Calendar, Window
from tallyroll.windows import WindowId

NOTED_REMEMBERED_MAX = 10_000
KEYS_PER_NOTE_MAX = 20  # of 512 bytes: a note stays a small write
SHARE_MIN = 0.05
"""The least share of a batch's units that a hot key has: a table takes 40,000 units a second (the
default quota), 16 shards are full at 8,000; what has less in all its batches is not hot.
"""

_log = logging.getLogger(__name__)
HotKey = tuple[WindowId, str]


class Scout:
    """Notes keys that may need more shards; one per writer, which notes a key once a window."""

    def __init__(self, settings: Settings, catalog: Catalog, effects: Effects) -> None:
        self._settings = settings
        self._catalog = catalog
        self._effects = effects
        self._noted: dict[HotKey, None] = {}

    def look(self, written: Iterable[tuple[Spec, Record]], throttled: Iterable[HotKey]) -> None:
        """Note the keys that were throttled, and of those written some, by chance and load.

        A note that cannot be written is left out: the next batch may write it.
        """
        if not adapts(self._settings):
            return
        units: Counter[HotKey] = Counter()
        records: Counter[HotKey] = Counter()
        specs: dict[WindowId, Spec] = {}
        for spec, record in written:
            units[spec.window, record.key] += record.units
            records[spec.window, record.key] += 1
            specs[spec.window] = spec
        least = SHARE_MIN * units.total()
        chosen = [
            (window, key)
            for (window, key), spent in units.items()
            # One of a few is no share; but a batch may be of one message.
            if spent >= least and records[window, key] > (records.total() > 1)
            if self._effects.chance.random() < note_chance(specs[window], key, spent)
        ]
        fresh: dict[WindowId, list[str]] = {}
        for window, key in dict.fromkeys([*throttled, *chosen]):
            if (window, key) not in self._noted:
                fresh.setdefault(window, []).append(key)
        for window, keys in fresh.items():
            with suppress(StoreError):
                self._catalog.note_hot(window, keys[:KEYS_PER_NOTE_MAX])
                self._remember((window, key) for key in keys[:KEYS_PER_NOTE_MAX])

    def _remember(self, noted: Iterable[HotKey]) -> None:
        self._noted.update(dict.fromkeys(noted))
        while len(self._noted) > NOTED_REMEMBERED_MAX:
            self._noted.pop(next(iter(self._noted)))


def adapts(settings: Settings) -> bool:
    """Whether keys get shards by their traffic."""
    return settings.shards_max > settings.shards


def hot_shards(
    window: Window,
    calendar: Calendar,
    catalog: Catalog,
    store: Store,
    settings: Settings,
    now: int,
) -> dict[str, int]:
    """The keys that get an N of their own in a window, from the tallies of the current window and
    the one before it (the current one may have just begun).

    If these cannot be read the keys keep their shards: preparing a window must not wait for it.
    """
    if not adapts(settings):
        return dict(settings.hot_shards)
    current = calendar.grid.at(now)
    past = calendar.grid.at(max(0, current.start - 1))
    latest = calendar.grid.at(max(0, window.start - 1))
    specs = catalog.specs(list(dict.fromkeys([past.id, current.id, latest.id])))
    before: Mapping[str, int] = {}
    for span in (past, current, latest):
        before = specs[span.id].hot if span.id in specs else before
    try:
        loads = _loads(
            [specs[span.id] for span in (past, current) if span.id in specs], catalog, store
        )
    except StoreError as error:
        _log.warning("window %s: keys keep their shards: %s", window.id, error)
        return {**before, **settings.hot_shards}
    least, most = settings.shards, settings.shards_max
    return next_shards(loads, before, settings.hot_shards, least, most)


def _loads(specs: Iterable[Spec], catalog: Catalog, store: Store) -> dict[str, float]:
    """The peak write units a second of the keys that are or were noted as hot."""
    loads: dict[str, float] = {}
    for spec in specs:
        keys = list(dict.fromkeys([*spec.hot, *catalog.hot(spec.window)]))
        with suppress(Missing):  # dropped meanwhile
            for key, tally in store.tallies(spec, keys).items():
                loads[key] = max(loads.get(key, 0.0), peak_units(tally, spec))
    return loads
