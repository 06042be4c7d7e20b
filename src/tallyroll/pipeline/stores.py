"""The stores of window tables. Functions import it only if their pipeline has a keyspace."""

from __future__ import annotations

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.adapters.routed import RoutedStore
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.errors import Refused
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Metering, Store
from tallyroll.settings import Settings


def metering() -> Metering:
    """What writes cost in DynamoDB."""
    return METERING


def routed(settings: Settings, dynamodb: Store, catalog: Catalog, effects: Effects) -> RoutedStore:
    """A store that sends each verb to its table's. It connects to the keyspace at the first verb of
    a table in it.
    """

    def opened() -> Store:
        try:
            from tallyroll.adapters.cassandra.opened import open_rows  # the driver, 100 ms
        except ImportError as error:
            raise Refused(
                f"windows in Keyspaces need the package {error.name}, which is not installed: pip"
                " install 'tallyroll[keyspaces]'; in Lambda, deploy with tallyroll:keyspace",
                "NoDriver",
            ) from error
        return RowStore(open_rows(settings, effects), catalog, effects)

    return RoutedStore(dynamodb, opened, effects)
