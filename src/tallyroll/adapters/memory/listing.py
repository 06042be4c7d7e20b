"""The port of tables as an operator sees them, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tallyroll.adapters.dynamodb.items import CODEC, stored_item
from tallyroll.adapters.memory.store import MemoryStore
from tallyroll.model.windows import DYNAMODB, store_of
from tallyroll.ports.table_listing import TableCard
from tallyroll.resources import TableDeclaration

_HASH = ("pk S HASH",)
_KEYS = (*_HASH, "sk S RANGE")


class MemoryListing:
    """The tables of `store`, and the declared tables `beside`, which have no items."""

    def __init__(
        self, store: MemoryStore, declared_tables: tuple[TableDeclaration, ...] = ()
    ) -> None:
        self._store = store
        self.declared_tables = {table.name: table for table in declared_tables}

    def names(self) -> Iterator[str]:
        yield from sorted((*self._store.tables(), *self.declared_tables))

    def card(self, table: str) -> TableCard | None:
        if declared := self.declared_tables.get(table):
            keys = _KEYS if declared.sort_key else _HASH
            return TableCard(table, "ACTIVE", declared.deletion_protection, keys, 0, 0)
        facts = self._store.describe_table(table) if store_of(table) == DYNAMODB else None
        if facts is None:
            return None
        held = self._store.table(table)
        return TableCard(
            name=table,
            status=facts.status.upper(),
            protected=facts.protected,
            keys=(held.foreign,) if held.foreign else _KEYS,
            items=len(held.items),
            size=sum(len(CODEC.encode(stored_item(item))) for item in held.items.values()),
        )

    def tags(self, card: TableCard) -> Mapping[str, str] | None:
        if declared := self.declared_tables.get(card.name):
            return declared.tags
        return self._store.tags(card.name)

    def recovery(self, card: TableCard) -> bool | None:
        if declared := self.declared_tables.get(card.name):
            return declared.point_in_time_recovery
        return self._store.table(card.name).recoverable

    def expires_by(self, card: TableCard) -> str | None:
        declared = self.declared_tables.get(card.name)
        return declared.expires_by if declared else ""

    def protect(self, table: str) -> None:
        self._store.table(table).protected = True
