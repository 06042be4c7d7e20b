"""Where a key's events lie: in which window, table and shards, or in which archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallyroll.model.periods import period_of
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import WindowId, parse_instant, window_start
from tallyroll.ports.catalog import Catalog
from tallyroll.reads.counts import counter_json
from tallyroll.reads.found import FoundEvent
from tallyroll.reads.http import required_id
from tallyroll.reads.jsonable import found_json
from tallyroll.reads.ranges.dated import EventMatches
from tallyroll.reads.ranges.spans import calendar_of, date_ms
from tallyroll.reads.reader import PortReader

PLACES_MAX = 50
TIME_LEFT_MS = 10_000


def found_key(reader: PortReader, catalog: Catalog, key: str) -> dict[str, Any]:
    """A key's count over all time, and what holds its events in its newest windows, at most 50.
    Those of rolled-up days and months are counted one by one, from the newest back until there may
    be 50.
    """
    count, grid = reader.count(key, time_left_ms=TIME_LEFT_MS), calendar_of(catalog).grid
    events = {one.window: one.events for one in count.windows}
    rolled = sorted((period_of(one.period), one) for one in count.periods if one.events)
    since, left = 0, PLACES_MAX
    while rolled and left > 0:
        period, one = rolled.pop()
        since, left = grid.at(period.start).start, left - min(one.windows, one.events)
    if left < PLACES_MAX:
        apart = reader.count(key, since, None, TIME_LEFT_MS, by_window=True)
        events = {one.window: one.events for one in apart.windows} | events
    ids = sorted(name for name, number in events.items() if number)[-PLACES_MAX:]
    places = places_json(catalog, key, ids)
    held = [place | {"events": events[place["window"]]} for place in places]
    return {"count": counter_json(count), "places": held}


def found_event(
    reader: PortReader,
    catalog: Catalog,
    key: str,
    event_id: str,
    date: str = "",
    ts: str = "",
    window: WindowId = "",
) -> dict[str, Any]:
    """The events with an id, as `tallyroll event` finds them, and what holds them; and the windows
    that were dropped, where others may be. Raises UsageError, Absent, Archived and StoreError.
    """
    event_id = required_id(event_id)
    if date:
        found = reader.event_on(key, event_id, date_ms(date))
    else:
        at = parse_instant(ts) if ts else None
        found = EventMatches((reader.event(key, event_id, window or None, at),))
    matches = [event_json(catalog, one) for one in found.found]
    return {"matches": matches, "archives": [*found.archives]}


def windows_of(catalog: Catalog, ids: Sequence[WindowId]) -> dict[WindowId, Window]:
    """The states of those of the windows that exist, read by one listing of their span."""
    if not ids:
        return {}
    starts = sorted(map(window_start, ids))
    found = {window.id: window for window in catalog.windows(starts[0], starts[-1] + 1)}
    return {name: found[name] for name in ids if name in found}


def places_json(catalog: Catalog, key: str, ids: Sequence[WindowId]) -> list[dict[str, Any]]:
    """What holds a key's events of these windows: the table, as long as it is there, and the key's
    shards in it; the archive, once there is one.
    """
    windows, specs = windows_of(catalog, ids), catalog.specs(ids)
    return [
        {
            "window": window.id,
            "state": window.status,
            "table": None if window.status is Status.DROPPED else window.table,
            "shards": specs[window.id].shards_of(key) if window.id in specs else window.shards,
            "archive": window.attempt.archive or None,
        }
        for window in windows.values()
    ]


def event_json(catalog: Catalog, found: FoundEvent) -> dict[str, Any]:
    """An event as JSON, with the record that holds it, and that record's shard and table."""
    what = found.what
    record = getattr(what, "packet", None) or what.id
    [place] = places_json(catalog, found.key, [found.window]) or [{}]
    spec = catalog.specs([found.window]).get(found.window)
    shard = spec.shard(found.key, record) if spec else None
    return found_json(found) | place | {"record": record, "shard": shard}
