"""Looks at catalog, totals and window tables by BatchGetItem, 100 items a request."""

from __future__ import annotations

from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.adapters.dynamodb.catalog_items import (
    CALENDAR,
    LIVE,
    key_of,
    parse_calendar,
    parse_pointer,
    parse_spec,
    parse_window,
)
from tallyroll.adapters.dynamodb.corrections import revision_key
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.requests import batch_get
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.dynamodb.totals_table import DynamoTotals
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.counting.glances import Glance, Seen
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals


class DynamoGlances:
    """The port of glances, for pipelines whose windows are all in DynamoDB."""

    has_eventual = True

    def __init__(self, store: DynamoStore, catalog: DynamoCatalog, totals: DynamoTotals) -> None:
        self._store = store
        self._catalog = catalog.own_table
        self._totals = totals.table

    def look(self, at: Glance) -> Seen:
        catalog, totals = self._catalog.name, self._totals.name
        places: list[tuple[str, Key]] = [(catalog, LIVE), (catalog, CALENDAR)]
        places += [(catalog, key_of(window, "state")) for window in at.windows]
        places += [(catalog, key_of(window, "spec")) for window in at.unbegun]
        places += [(totals, revision_key(month)) for month in at.months]
        for spec in at.begun:
            places += [(spec.table, key) for key in self._store.stripe_keys(spec, at.keys)]
        found: dict[str, list[Item]] = {}
        caller, effects = self._catalog.caller, self._catalog.effects
        for table, item in batch_get(caller, effects, places, eventual=at.eventual):
            found.setdefault(table, []).append(item)
        kinds = {
            (item["pk"]["S"], item["sk"]["S"].partition("#")[2] or item["sk"]["S"]): item
            for item in found.get(catalog, ())
        }
        pointer = kinds.get((LIVE["pk"]["S"], LIVE["sk"]["S"]))
        calendar = kinds.get((CALENDAR["pk"]["S"], CALENDAR["sk"]["S"]))
        windowed = [item for item in found.get(catalog, ()) if "#" in item["sk"]["S"]]
        windows = [parse_window(item) for item in windowed if "status" in item]
        specs = [parse_spec(item) for item in windowed if "status" not in item]
        revisions = {item["sk"]["S"]: int(item["n"]["N"]) for item in found.get(totals, ())}
        return Seen(
            pointer=parse_pointer(pointer) if pointer else None,
            calendar=parse_calendar(calendar) if calendar else None,
            revisions={month: revisions.get(month, 0) for month in at.months},
            windows={window.id: window for window in windows},
            specs={spec.window: spec for spec in specs},
            tallies={
                spec.window: self._store.tallies_from(spec, at.keys, found.get(spec.table, ()))
                for spec in at.begun
            },
        )


def glances_on(store: Store, catalog: Catalog, totals: Totals) -> DynamoGlances | None:
    """Looks at the tables of these ports; None if they are not all in DynamoDB."""
    if not (isinstance(store, DynamoStore) and isinstance(totals, DynamoTotals)):
        return None
    return DynamoGlances(store, catalog, totals) if isinstance(catalog, DynamoCatalog) else None
