"""Where a key's events lie: in which window, table and shards, or in which archive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyroll.model.windows import WindowId, window_start
from tallyroll.ports.catalog import Catalog
from tallyroll.reads.counts import Count
from tallyroll.reads.ranges.spans import dropped

PLACES_MAX = 50


def key_places(catalog: Catalog, count: Count) -> list[dict[str, Any]]:
    """What holds the events of a key that were counted by window, in at most 50 of the newest."""
    windows = {one.window: one.events for one in count.windows if one.events}
    held = {name: {"key": count.key, "events": number} for name, number in windows.items()}
    return _places(catalog, count.key, held)


def event_places(catalog: Catalog, key: str, event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What holds an event, which is JSON with those of later windows under `also`; of each also its
    record and shard.
    """
    events = [{name: event[name] for name in event if name != "also"}, *event.get("also", ())]
    records = [one | {"record": one.get("packet") or one.get("id")} for one in events]
    return _places(catalog, key, {one["window"]: one for one in records})


def _places(
    catalog: Catalog, key: str, found: Mapping[WindowId, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What was found in windows, with the table, as long as it is there, the key's shards in it,
    and the archive, once there is one.
    """
    ids, places = sorted(found)[-PLACES_MAX:], list[dict[str, Any]]()
    specs = catalog.specs(ids)
    since, until = (window_start(ids[0]), window_start(ids[-1]) + 1) if ids else (0, 0)
    for window in catalog.windows(since, until):
        if what := found.get(window.id):
            spec, record = specs.get(window.id), what.get("record")
            place = {
                "window": window.id,
                "state": window.status,
                "table": None if dropped(window) else window.table,
                "shards": spec.shards_of(key) if spec else window.shards,
                "shard": spec.shard(key, record) if spec and record else None,
                "archive": window.attempt.archive or None,
            }
            places.append({**place, **what})
    return places
