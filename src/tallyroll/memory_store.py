"""Window tables in memory: items, conditions and limits as the DynamoDB adapter has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tallyroll.amounts import format_amount, read_amount
from tallyroll.errors import Missing, StateConflict, Throttled
from tallyroll.items import (
    Key,
    gate_item,
    gate_key,
    item_bytes,
    jsonable,
    parse_item,
    record_item,
    record_key,
    slot_name,
    tally_key,
)
from tallyroll.limits import ITEM_BYTES_MAX, TRANSACTION_ACTIONS_MAX, TRANSACTION_BYTES_MAX
from tallyroll.memory_catalog import MemoryCatalog
from tallyroll.ports import (
    Answer,
    Effects,
    Element,
    Item,
    Outcome,
    Status,
    TableFacts,
    TableStatus,
    Tally,
    Verdict,
)
from tallyroll.records import Increment, Record
from tallyroll.specs import Spec
from tallyroll.suffixes import random_suffix, stable_hash

AMOUNT_BOUND = 10**38  # 38 significant digits; amounts are whole millionths
PAGE_ITEMS = 200

PrimaryKey = tuple[str, str]
Items = dict[PrimaryKey, Item]
FINE = Element(Answer.FINE)


@dataclass(slots=True)
class _Table:
    items: Items
    ready_at: float
    tags: dict[str, str] = field(default_factory=dict)
    protected: bool = True
    gone_at: float | None = None


class MemoryStore:
    """Window tables by name, which take `creating_ms` to come and `deleting_ms` to go.

    `catalog` knows the windows' states.

    A transaction over 100 actions or 4 MB is the caller's fault and raises AssertionError.
    """

    def __init__(
        self,
        effects: Effects,
        catalog: MemoryCatalog,
        *,
        creating_ms: float = 0,
        deleting_ms: float = 0,
        new_items: Callable[[], Items] = dict,
    ) -> None:
        self._effects = effects
        self._catalog = catalog
        self._creating_ms = creating_ms
        self._deleting_ms = deleting_ms
        self._new_items = new_items
        self._tables: dict[str, _Table] = {}

    def tables(self) -> list[str]:
        """The names of the tables that are there, in the order in which they were made."""
        return [name for name in list(self._tables) if self._there(name)]

    def items(self, table: str) -> Items:
        """All items of a table by (pk, sk), binaries as bytes. Raises Missing."""
        return self._usable(table).items

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """Put the records and add the increments, each to a random stripe, all or nothing.

        Nothing is done unless a gate of the window stands open and no record is there yet.
        Never raises StoreError: the outcome says it.
        """
        try:
            items = self.items(spec.table)
        except Missing as missing:
            return Outcome(Verdict.GATE_MISSING, detail=str(missing))
        puts = [record_item(record) for record in records]
        if invalid := _check_request(puts, increments):
            return Outcome(Verdict.INVALID, detail=invalid)
        gate = items.get(_primary(gate_key(random_suffix(spec.gates, self._effects.chance))))
        if gate is None:
            return Outcome(Verdict.GATE_MISSING)
        if not gate["open"]["BOOL"]:
            return Outcome(Verdict.GATE_SHUT)
        stored = [items.get(_primary(put)) for put in puts]
        if any(stored):
            elements = tuple(
                Element(Answer.DUPLICATE, found["h"]["B"]) if found else FINE for found in stored
            )
            return Outcome(Verdict.CANCELLED, elements, (FINE,) * len(increments))
        added = [self._added(spec, items, increment) for increment in increments]
        if any(abs(read_amount(tally["v"]["N"])) >= AMOUNT_BOUND for tally in added):
            return Outcome(Verdict.INVALID, detail="a number would need more than 38 digits")
        for item in (*puts, *added):
            items[_primary(item)] = item
        return Outcome(Verdict.COMMITTED)

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        """The stored record, strongly consistent. Raises Missing if the table is gone."""
        primary = _primary(record_key(key, spec.shard(key, record_id), record_id))
        item = self.items(spec.table).get(primary)
        if item is None:
            return None
        found = parse_item(item)
        assert isinstance(found, Record)
        return found

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        """The tallies of these keys, stripes gathered; zero for a key without events."""
        items = self.items(spec.table)
        gathered = {}
        for key in keys:
            names = (
                _primary(tally_key(spec, key, stripe))
                for stripe in range(1, spec.stripes_of(key) + 1)
            )
            gathered[key] = _gather(key, [items[name] for name in names if name in items])
        return gathered

    def bucket(self, spec: Spec, number: int) -> list[Tally]:
        """All stripes listed under one bucket, 1..spec.buckets, strongly consistent."""
        items = self.items(spec.table)
        listed = sorted(primary for primary in items if primary[0] == f"~t.{number}")
        stripes = [parse_item(items[primary]) for primary in listed]
        return [stripe for stripe in stripes if isinstance(stripe, Tally)]

    def open_gates(self, spec: Spec) -> None:
        """Put the window's gates, open, where they are absent; one that is shut stays shut."""
        for number in range(1, spec.gates + 1):
            self.open_gate(spec, number)

    def open_gate(self, spec: Spec, number: int) -> None:
        """Put one gate, open, if it is absent. Raises StateConflict unless `creating`."""
        state = self._catalog.window(spec.window)
        if state is None or state.status is not Status.CREATING:
            raise StateConflict(f"window {spec.window} is not being created any more")
        item = gate_item(number)
        items = self.items(spec.table)
        if _primary(item) not in items:
            items[_primary(item)] = item

    def shut_gates(self, spec: Spec) -> None:
        """Shut every gate, also an absent one; on return no commit of this window can succeed."""
        for number in range(1, spec.gates + 1):
            self.shut_gate(spec, number)

    def shut_gate(self, spec: Spec, number: int) -> None:
        """Shut one gate."""
        shut: Item = {**gate_key(number), "open": {"BOOL": False}}
        self.items(spec.table)[_primary(shut)] = shut

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[Item]]:
        """All items of one segment (0..segments-1) of a table, in pages, strongly consistent."""
        names = sorted(
            primary
            for primary in self.items(table)
            if stable_hash(primary[0]) % segments == segment
        )
        for first in range(0, len(names), PAGE_ITEMS):
            items = self.items(table)
            page = names[first : first + PAGE_ITEMS]
            yield [jsonable(items[primary]) for primary in page if primary in items]

    def make_table(self, table: str, tags: Mapping[str, str] | None = None) -> None:
        """Begin to make a window table, with deletion protection; fine if it is there already."""
        if not self._there(table):
            ready_at = self._effects.now() + self._creating_ms
            self._tables[table] = _Table(self._new_items(), ready_at, dict(tags or {}))

    def describe_table(self, table: str) -> TableFacts | None:
        """What the store knows about a table, or None if there is none."""
        found = self._there(table)
        if found is None:
            return None
        return TableFacts(self._status(found), found.protected)

    def tags(self, table: str) -> dict[str, str]:
        """A table's tags. Raises KeyError if there is none."""
        return dict(self._tables[table].tags)

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Add tags to a table. Raises Missing if there is none."""
        found = self._there(table)
        if found is None:
            raise Missing(f"there is no table {table}", "ResourceNotFoundException")
        found.tags.update(tags)

    def drop_table(self, table: str) -> None:
        """Lift the deletion protection and begin to delete the table; fine if it is gone."""
        found = self._there(table)
        if found is None or found.gone_at is not None:
            return
        if self._status(found) is TableStatus.CREATING:
            raise Throttled(f"table {table} is being made", "ResourceInUseException")
        found.protected = False
        found.gone_at = self._effects.now() + self._deleting_ms
        self._there(table)

    def _there(self, name: str) -> _Table | None:
        table = self._tables.get(name)
        if table and table.gone_at is not None and self._effects.now() >= table.gone_at:
            del self._tables[name]
            return None
        return table

    def _status(self, table: _Table) -> TableStatus:
        if table.gone_at is not None:
            return TableStatus.DELETING
        made = self._effects.now() >= table.ready_at
        return TableStatus.ACTIVE if made else TableStatus.CREATING

    def _usable(self, name: str) -> _Table:
        """A table that takes reads and writes; one that is being deleted still does, as on AWS."""
        table = self._there(name)
        if table is None or self._status(table) is TableStatus.CREATING:
            raise Missing(f"there is no table {name}", "ResourceNotFoundException")
        return table

    def _added(self, spec: Spec, items: Items, increment: Increment) -> Item:
        """A random stripe of the key's tally as it is after the increment."""
        stripe = random_suffix(spec.stripes_of(increment.key), self._effects.chance)
        key = tally_key(spec, increment.key, stripe)
        before = items.get(_primary(key), {})
        after: Item = {**before, **key}
        after["n"] = {"N": str(_number(before, "n") + increment.n)}
        amount = read_amount(before["v"]["N"]) if before else 0
        after["v"] = {"N": format_amount(amount + increment.amount)}
        for slot, events in increment.series:
            name = slot_name(slot)
            after[name] = {"N": str(_number(before, name) + events)}
        return after


def _primary(item: Item | Key) -> PrimaryKey:
    return item["pk"]["S"], item["sk"]["S"]


def _number(item: Item, name: str) -> int:
    return int(item[name]["N"]) if name in item else 0


def _gather(key: str, stripes: Sequence[Item]) -> Tally:
    n = amount = 0
    series: dict[int, int] = {}
    for item in stripes:
        stripe = parse_item(item)
        assert isinstance(stripe, Tally)
        n += stripe.n
        amount += stripe.amount
        for slot, events in stripe.series:
            series[slot] = series.get(slot, 0) + events
    return Tally(key, n, amount, tuple(sorted(series.items())))


def _check_request(puts: Sequence[Item], increments: Sequence[Increment]) -> str:
    """Why AWS would refuse the whole request, or an empty text.

    Raises AssertionError for a plan over the limits.
    """
    sizes = [item_bytes(put) for put in puts]
    actions = 1 + len(puts) + len(increments)
    if actions > TRANSACTION_ACTIONS_MAX:
        raise AssertionError(f"a transaction of {actions} actions")
    if max(sizes, default=0) > ITEM_BYTES_MAX:
        return f"an item of {max(sizes)} bytes, over {ITEM_BYTES_MAX}"
    if sum(sizes) > TRANSACTION_BYTES_MAX:
        raise AssertionError(f"a transaction of {sum(sizes)} bytes")
    if len({_primary(put) for put in puts}) < len(puts):
        return "a transaction names an item twice"
    if len({increment.key for increment in increments}) < len(increments):
        return "a transaction adds to a tally twice"
    return ""
