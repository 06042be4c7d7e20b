"""Hot keys: writers note them cheaply, and later windows give them shards by their load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tallyroll.errors import StoreError
from tallyroll.limits import SHARDS_FEW
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec, sixtieth_seconds
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Metering
from tallyroll.settings import Settings

NOTED_REMEMBERED_MAX = 10_000
KEYS_PER_NOTE_MAX = 20  # of up to 512 bytes, so that a note is a small write
SHARE_MIN = 0.05
"""The minimum share of a batch's cost that a hot key has. In DynamoDB a table takes 40,000 units a
second (the default quota) and 16 shards take 8,000, so a key with a smaller share in all batches is
not hot.
"""
NOTES_EXPECTED = 16
"""How often a key that fills its shards for one sixtieth of a window is noted on average. Such a
key is missed in one of e^16 windows.
"""

HotKey = tuple[WindowId, str]


@dataclass(eq=False)
class HotKeyDetector:
    """Notes keys that may need more shards; one per writer, which notes a key once per
    window, and once more if it is throttled later.
    """

    settings: Settings
    catalog: Catalog
    metering_of: Callable[[str], Metering]
    effects: Effects
    _noted: dict[HotKey, bool] = field(default_factory=dict, init=False)  # whether as throttled

    def observe(self, written: Iterable[tuple[Spec, Record]], throttled: Iterable[HotKey]) -> None:
        """Note the throttled keys, and written keys at random, by their load.

        A note that cannot be written is ignored: the next batch may write it.
        """
        if not self.settings.adapts:
            return
        costs: Counter[HotKey] = Counter()
        records: Counter[HotKey] = Counter()
        specs: dict[WindowId, Spec] = {}
        for spec, record in written:
            costs[spec.window, record.key] += self.metering_of(spec.table).record_cost(record)
            records[spec.window, record.key] += 1
            specs[spec.window] = spec
        least = SHARE_MIN * costs.total()
        chosen = [
            (window, key)
            for (window, key), cost in costs.items()
            # A single record tells nothing of a key's share, unless it is the whole batch.
            if cost >= least and records[window, key] > (records.total() > 1)
            if self.effects.chance.random() < self._chance(specs[window], key, cost)
        ]
        refused = dict.fromkeys(throttled)
        fresh: dict[WindowId, list[str]] = {}
        for window, key in dict.fromkeys([*refused, *chosen]):
            if self._noted.get((window, key), -1) < ((window, key) in refused):
                fresh.setdefault(window, []).append(key)
        for window, keys in fresh.items():
            noted = {key: (window, key) in refused for key in keys[:KEYS_PER_NOTE_MAX]}
            with suppress(StoreError):
                self.catalog.note_hot(window, [*noted], [key for key in noted if noted[key]])
                self._noted |= {(window, key): told for key, told in noted.items()}
        while len(self._noted) > NOTED_REMEMBERED_MAX:
            self._noted.pop(next(iter(self._noted)))

    def _chance(self, spec: Spec, key: str, cost: float) -> float:
        return note_chance(spec, key, cost, self.metering_of(spec.table).shard_cost_max)


def note_chance(spec: Spec, key: str, cost: float, shard_cost_max: int) -> float:
    """The probability with which a writer that wrote records of a key at this cost notes the key.

    A key that loads all its shards, or 16 if it has no N of its own, with `shard_cost_max` a second
    is noted 16 times per sixtieth of a window on average, by all writers together. A key with
    little load is rarely noted; its note costs only a read when a later window is prepared.
    """
    shards = spec.hot.get(key, min(spec.shards, SHARDS_FEW))
    full = shard_cost_max * shards * sixtieth_seconds(spec)
    return min(1.0, NOTES_EXPECTED * cost / full)
