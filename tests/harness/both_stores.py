"""A pipeline on in-memory ports whose windows may be in DynamoDB or in Keyspaces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tallyroll.adapters.memory import MemoryStore
from tallyroll.adapters.memory.rows import MemoryRows
from tallyroll.adapters.routed import RoutedStore
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.model.windows import DYNAMODB, KEYSPACES
from tallyroll.settings import Settings
from tests.harness.pipeline import HOUR, SMALL, Pipeline

KEPT = replace(SMALL, keyspace="votes", retention_ms=HOUR)


@dataclass
class BothStores(Pipeline):
    """New windows are in the store of `settings.store`; `opened` counts connections to the
    keyspace.
    """

    settings: Settings = KEPT
    opened: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dynamodb: MemoryStore = self.store
        self.rows = MemoryRows(self.effects)
        self.store: Any = RoutedStore(self.dynamodb, self._open, self.effects)

    def _open(self) -> RowStore:
        self.opened += 1
        return RowStore(self.rows, self.catalog, self.effects)

    def change_store(self, store: str) -> None:
        """Deploy with another store for new windows."""
        assert store in (DYNAMODB, KEYSPACES)
        self.settings = replace(self.settings, store=store)
