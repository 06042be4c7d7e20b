"""Where a key's events lie: in which window, table and shards, or in which archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallyroll.model.states import Status, Window
from tallyroll.model.windows import WindowId, window_start
from tallyroll.ports.catalog import Catalog
from tallyroll.reads.found import FoundEvent
from tallyroll.reads.jsonable import found_json


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
