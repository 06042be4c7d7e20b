"""Window tables in memory: makes, checks, changes and drops them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tallyroll.adapters.dynamodb.items import Item, gate_key
from tallyroll.errors import Missing, Refused, Throttled
from tallyroll.limits import WARM_WRITE_UNITS_MIN
from tallyroll.ports.effects import Effects
from tallyroll.ports.table_listing import TableFacts, TableStatus

PrimaryKey = tuple[str, str]
Items = dict[PrimaryKey, Item]
FIRST_GATE = gate_key(1)


@dataclass(slots=True)
class MemoryTable:
    """One table; `foreign` says how its schema differs from ours."""

    items: Items
    ready_at: float
    tags: dict[str, str] = field(default_factory=dict)
    peak: int = 0
    cooled: bool = False
    protected: bool = True
    recoverable: bool = False
    warm: int = WARM_WRITE_UNITS_MIN
    warm_at: float = 0.0
    foreign: str = ""
    gone_at: float | None = None


class MemoryTables:
    """Tables by name, which take `creating_ms` to create and `deleting_ms` to delete."""

    def __init__(
        self,
        effects: Effects,
        creating_ms: float,
        deleting_ms: float,
        new_items: Callable[[], Items],
    ) -> None:
        self._effects = effects
        self._creating_ms = creating_ms
        self._deleting_ms = deleting_ms
        self._new_items = new_items
        self._tables: dict[str, MemoryTable] = {}

    def tables(self) -> list[str]:
        """The names of the existing tables, in the order of their creation."""
        return [name for name in list(self._tables) if self._there(name)]

    def items(self, table: str) -> Items:
        """All items of a table by (pk, sk), binaries as bytes. Raises Missing."""
        return self._usable(table).items

    def make_table(self, table: str, tags: Mapping[str, str] | None = None, peak: int = 0) -> None:
        if not self._there(table):
            ready_at = self._effects.now() + self._creating_ms
            self._tables[table] = MemoryTable(self._new_items(), ready_at, dict(tags or {}), peak)

    def describe_table(self, table: str) -> TableFacts | None:
        found = self._there(table)
        if found is None:
            return None
        warming = self._effects.now() < found.warm_at
        return TableFacts(self._status(found), found.protected, found.warm, warming)

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        found = self._known(table)
        differs = found.foreign or next(
            (
                f"its tag {key} is not {value}"
                for key, value in tags.items()
                if found.tags.get(key) != value
            ),
            "",
        )
        if differs:
            raise Refused(
                f"table {table} is no window table of this pipeline: {differs}", "NotOurs"
            )
        if (FIRST_GATE["pk"]["S"], FIRST_GATE["sk"]["S"]) in found.items:
            raise Refused(f"table {table} is there, with gates", "UsedBefore")
        found.protected = True

    def recover_table(self, table: str) -> None:
        self._known(table).recoverable = True

    def reduce_capacity(self, table: str) -> None:
        self._known(table).cooled = True

    def warm_table(self, table: str, units: int) -> None:
        found = self._known(table)
        if units < found.warm:
            raise Refused(f"{units} units are fewer than {found.warm}", "ValidationException")
        found.warm, found.warm_at = units, self._effects.now() + self._creating_ms

    def table(self, table: str) -> MemoryTable:
        """A table. Raises Missing."""
        return self._known(table)

    def tags(self, table: str) -> dict[str, str]:
        """A table's tags. Raises Missing."""
        return dict(self._known(table).tags)

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        self._known(table).tags.update(tags)

    def drop_table(self, table: str) -> None:
        found = self._there(table)
        if found is None or found.gone_at is not None:
            return
        if self._status(found) is TableStatus.CREATING:
            raise Throttled(f"table {table} is being made", "ResourceInUseException")
        found.protected = False
        found.gone_at = self._effects.now() + self._deleting_ms
        self._there(table)

    def _there(self, name: str) -> MemoryTable | None:
        table = self._tables.get(name)
        if table and table.gone_at is not None and self._effects.now() >= table.gone_at:
            del self._tables[name]
            return None
        return table

    def _known(self, name: str) -> MemoryTable:
        table = self._there(name)
        if table is None:
            raise Missing(f"there is no table {name}", "ResourceNotFoundException")
        return table

    def _status(self, table: MemoryTable) -> TableStatus:
        if table.gone_at is not None:
            return TableStatus.DELETING
        made = self._effects.now() >= table.ready_at
        return TableStatus.ACTIVE if made else TableStatus.CREATING

    def _usable(self, name: str) -> MemoryTable:
        """A table that takes reads and writes, as one being deleted does on AWS."""
        table = self._known(name)
        if self._status(table) is TableStatus.CREATING:
            raise Missing(f"there is no table {name}", "ResourceNotFoundException")
        return table
