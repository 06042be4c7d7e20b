"""How many shards each hot key gets in the next window, by its tallies.

N never changes within a window. It follows the traffic from window to window, so re-sharding needs
no migration. It depends on the peak load, not on the sum: a key that is quiet for 59 minutes of an
hour and hot in one needs its shards in that one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum

from tallyroll.errors import Missing, StoreError
from tallyroll.limits import HOT_KEYS_MAX, HOT_LIST_BYTES_MAX
from tallyroll.model.specs import Spec, sixtieth_seconds
from tallyroll.model.states import Calendar, Window
from tallyroll.model.tallies import Tally
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.store import Store
from tallyroll.settings import Settings

_log = logging.getLogger(__name__)


class Why(StrEnum):
    """Why a key has its own N; see `why_hot`."""

    WISH = "wish"
    OPTION = "option"
    THROTTLES = "throttles"
    RATE = "rate"


def hot_shards(
    window: Window,
    calendar: Calendar,
    catalog: Catalog,
    store: Store,
    settings: Settings,
    now: int,
    wished: Mapping[str, int],
) -> dict[str, int]:
    """The keys that get their own N in a window, by the operators' wishes for it, the options, and
    the tallies of the current window and the one before it, since the current one may have just
    begun.

    If the tallies cannot be read, keys keep their N, so that the window is not delayed.
    """
    least = asked_shards(wished, settings.hot_shards, settings.shards)
    if not settings.adapts:
        return least
    current = calendar.grid.at(now)
    past = calendar.grid.at(max(0, current.start - 1))
    latest = calendar.grid.at(max(0, window.start - 1))
    specs = catalog.specs(list(dict.fromkeys([past.id, current.id, latest.id])))
    before: Mapping[str, int] = {}
    for span in (past, current, latest):
        before = specs[span.id].hot if span.id in specs else before
    measured = [specs[span.id] for span in (past, current) if span.id in specs]
    try:
        loads = _loads(measured, catalog, store)
    except StoreError as error:
        _log.warning("window %s: keys keep their shards: %s", window.id, error)
        return {**before, **{key: max(n, before.get(key, 0)) for key, n in least.items()}}
    return next_shards(loads, before, least, settings.shards, settings.shards_max, wished)


def asked_shards(
    wished: Mapping[str, int], configured: Mapping[str, int], least: int
) -> dict[str, int]:
    """The minimum N of the keys that an operator wished shards for or that the option `hot_shards`
    names: the larger of both. A wish takes effect from more than `least` on, the N of other keys.
    """
    larger = {key: max(n, configured.get(key, least)) for key, n in wished.items()}
    return {**configured, **larger}


def why_hot(
    hot: Mapping[str, int],
    wished: Mapping[str, int],
    configured: Mapping[str, int],
    throttled: Collection[str],
) -> dict[str, Why]:
    """Why each of these keys has its N: the first of wish and option that asks for as much; else
    its load, which brought throttles or did not.
    """
    why = {}
    for key, shards in hot.items():
        if wished.get(key, 0) >= shards:
            why[key] = Why.WISH
        elif configured.get(key, 0) >= shards:
            why[key] = Why.OPTION
        else:
            why[key] = Why.THROTTLES if key in throttled else Why.RATE
    return why


def throttled_lately(catalog: Catalog, calendar: Calendar, now: int) -> set[str]:
    """The keys that writers noted as throttled in the current window and the one before it."""
    current = calendar.grid.at(now)
    past = calendar.grid.at(max(0, current.start - 1))
    with suppress(StoreError):  # it only says why
        return {key for span in (past, current) for key in catalog.throttled(span.id)}
    return set()


def next_shards(
    loads: Mapping[str, float],
    before: Mapping[str, int],
    configured: Mapping[str, int],
    least: int,
    most: int,
    wished: Collection[str] = (),
) -> dict[str, int]:
    """N of the keys that get another N than `least`: at most 200 keys, those `wished` first, then
    those `configured`, and the hottest first.

    `loads` are the numbers of shards that the keys fill at their peaks, `before` their N now (by
    default `least`), and `configured` the minimum N that was asked for, which `most` does not
    bound. N grows at once. It halves when a key needs less than half of it, so that one quiet
    window does not undo what the next needs.
    """
    keys = dict.fromkeys([*configured, *before, *loads])
    chosen = {
        key: max(
            configured.get(key, 0),
            min(most, max(least, _stepped(loads.get(key, 0.0), before.get(key, least)))),
        )
        for key in keys
    }
    hot = ((key, shards) for key, shards in chosen.items() if shards != least or key in configured)

    def urgency(pair: tuple[str, int]) -> tuple[bool, bool, int, str]:
        key, shards = pair
        return key not in wished, key not in configured, -shards, key

    return _fitting(sorted(hot, key=urgency))


def peak_cost(tally: Tally, spec: Spec) -> float:
    """What a key's records cost a second in their busiest sixtieth of the window.

    Each event counts with the average cost of the key's events in the window, since a packet of
    many events costs little more than one event. Retracted ones are events here: else a key whose
    events were taken back would seem to cost more for each that is left.
    """
    if tally.stored <= 0:
        return 0.0
    busiest = max((events for _, events in tally.series), default=0)
    return busiest * (tally.cost / tally.stored) / sixtieth_seconds(spec)


def _loads(specs: Iterable[Spec], catalog: Catalog, store: Store) -> dict[str, float]:
    """How many shards each key fills at its peak that is hot in these windows or noted there."""
    loads: dict[str, float] = {}
    for spec in specs:
        keys = list(dict.fromkeys([*spec.hot, *catalog.hot(spec.window)]))
        most = store.metering_of(spec.table).shard_cost_max
        with suppress(Missing):  # dropped meanwhile
            for key, tally in store.tallies(spec, keys).items():
                load = peak_cost(tally, spec) / most
                loads[key] = max(loads.get(key, 0.0), load)
    return loads


def _stepped(load: float, before: int) -> int:
    """N for a load, at least half of the N before."""
    wanted = math.ceil(load)
    if wanted >= before:
        return wanted
    return max(wanted, before // 2) if wanted * 2 < before else before


def _fitting(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The first of these (key, N) pairs, as many as fit into a spec's item."""
    fitting: dict[str, int] = {}
    size = 0
    for key, shards in pairs:
        size += len(key.encode())
        if len(fitting) == HOT_KEYS_MAX or size > HOT_LIST_BYTES_MAX:
            break
        fitting[key] = shards
    return fitting
