"""How many shards each hot key gets in the next window, from what its tallies show.

N never changes within a window; it follows the traffic from window to window, so re-sharding needs
no migration. What counts is the load at its peak, not the sum: a key that is quiet for 59 minutes
and hit by everyone in the sixtieth needs its shards in that one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tallyroll.limits import (
    HOT_KEYS_MAX,
    HOT_LIST_BYTES_MAX,
    PARTITION_WRITE_UNITS,
    SERIES_SLOTS,
)
from tallyroll.specs import Spec
from tallyroll.tallies import Tally

SHARD_UNITS_AIMED = PARTITION_WRITE_UNITS // 2
"""Write units a second that a shard is to take at its key's peak: half of what a partition can, for
a peak within the peak, for shards that share a partition, and for growth until the next window.
"""
NOTES_EXPECTED = 16
"""How often, on average, a key is noted that fills its shards for one sixtieth of a window: it is
overlooked once in e^16 windows.
"""


def peak_units(tally: Tally, spec: Spec) -> float:
    """The write units a second of a key's records in their busiest sixtieth of the window.

    The units of a record are taken as the average of the window's: a packet of many events costs
    little more than one event.
    """
    if not tally.n:
        return 0.0
    busiest = max((events for _, events in tally.series), default=0)
    return busiest * _units_each(tally) / sixtieth_seconds(spec)


def sixtieth_seconds(spec: Spec) -> float:
    """The length of the slots in which a tally counts its events."""
    return (spec.end - spec.start) / 1000 / SERIES_SLOTS


def next_shards(
    loads: Mapping[str, float],
    before: Mapping[str, int],
    wished: Mapping[str, int],
    least: int,
    most: int,
) -> dict[str, int]:
    """The shards of the keys that get more than `least`: at most 200 keys, the hottest first.

    `loads` are write units a second at the peak, by key; `before` the shards that keys have now
    (absent: `least`), `wished` what the operator asks for at the least. A key gets more shards at
    once, and fewer only when it needs less than half of them: then half, so that one quiet window
    does not undo what the next needs again.
    """
    keys = dict.fromkeys([*wished, *before, *loads])
    chosen = {
        key: max(
            wished.get(key, 0),
            min(most, max(least, _stepped(loads.get(key, 0.0), before.get(key, least)))),
        )
        for key in keys
    }
    hot = ((key, shards) for key, shards in chosen.items() if shards != least or key in wished)
    return _fitting(sorted(hot, key=lambda pair: (pair[0] not in wished, -pair[1], pair[0])))


def note_chance(spec: Spec, key: str, units: float) -> float:
    """With which chance a writer that has written `units` of a key's records notes it as hot.

    A key that fills all its shards as far as they are to be filled is noted 16 times a sixtieth of
    a window, whoever writes; one that writes little is noted seldom, and costs a look when the next
    window is prepared.
    """
    full = SHARD_UNITS_AIMED * spec.shards_of(key) * sixtieth_seconds(spec)
    return min(1.0, NOTES_EXPECTED * units / full)


def _units_each(tally: Tally) -> float:
    return tally.units / tally.n


def _stepped(load: float, before: int) -> int:
    wanted = math.ceil(load / SHARD_UNITS_AIMED)
    if wanted >= before:
        return wanted
    return max(wanted, before // 2) if wanted * 2 < before else before


def _fitting(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The first of these pairs that fit into a spec's item."""
    fitting: dict[str, int] = {}
    size = 0
    for key, shards in pairs:
        size += len(key.encode())
        if len(fitting) == HOT_KEYS_MAX or size > HOT_LIST_BYTES_MAX:
            break
        fitting[key] = shards
    return fitting
