"""The store port in memory, with the items, conditions and limits of the DynamoDB adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tallyroll.adapters.dynamodb.items import (
    CODEC,
    RECORD,
    SLOT_NAMES,
    TALLY,
    Item,
    Key,
    chunk_item,
    chunk_key,
    gate_item,
    gate_key,
    identity_item,
    parse_identity,
    parse_item,
    record_item,
    record_key,
    stored_item,
    tally_key,
    tombstone_item,
    tombstone_key,
    window_of,
)
from tallyroll.adapters.dynamodb.throughput import METERING, costs_by_key, costs_by_stripe
from tallyroll.adapters.memory.catalog import MemoryCatalog
from tallyroll.adapters.memory.tables import Items, MemoryTables, PrimaryKey
from tallyroll.errors import Missing, Refused, StateConflict
from tallyroll.limits import ITEM_BYTES_MAX, TRANSACTION_ACTIONS_MAX, TRANSACTION_BYTES_MAX
from tallyroll.model.amounts import format_amount, read_amount
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.formats.references import Mark
from tallyroll.model.ids import IdentityItem
from tallyroll.model.items import StoredItem, sized
from tallyroll.model.records import Increment, Record, RecordName, RecordPage, blocks_of
from tallyroll.model.retractions import Decrement, Tombstone, TombstoneName, decrements_of
from tallyroll.model.sharding import random_suffix, stable_hash
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.tallies import Stripe, Tally, gathered
from tallyroll.model.windows import WindowId
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Answer, Element, ItemCodec, Metering, Outcome, Verdict

AMOUNT_BOUND = 10**38  # 38 significant digits; amounts are whole millionths
PAGE_ITEMS = 200

FINE = Element(Answer.FINE)


class MemoryStore(MemoryTables):
    """Window tables by name, which take `creating_ms` to create and `deleting_ms` to delete.

    `catalog` has the windows' states. A transaction over 100 actions or 4 MB raises AssertionError.
    """

    codec: ItemCodec = CODEC
    transactional = True

    def __init__(
        self,
        effects: Effects,
        catalog: MemoryCatalog,
        *,
        creating_ms: float = 0,
        deleting_ms: float = 0,
        new_items: Callable[[], Items] = dict,
    ) -> None:
        super().__init__(effects, creating_ms, deleting_ms, new_items)
        self._catalog = catalog
        self.identity_items: dict[str, Item] = {}

    @staticmethod
    def metering_of(table: str) -> Metering:  # noqa: ARG004 - the port's
        return METERING

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        try:
            items = self.items(spec.table)
        except Missing as missing:
            return Outcome(Verdict.GATE_MISSING, detail=str(missing))
        puts = [record_item(record) for record in records]
        if invalid := _check_request(records, increments):
            return Outcome(Verdict.INVALID, detail=invalid)
        if shut := self._shut(spec, items):
            return Outcome(shut)
        stored = [items.get(_primary(put)) for put in puts]
        answers = list(map(self._answer, records, stored))
        if answers.count(FINE) < len(answers):
            elements = tuple(answers)
            return Outcome(Verdict.CANCELLED, elements, (FINE,) * len(increments))
        costs, stripes = costs_by_key(records), self._stripes(spec, increments)
        blocks = self._blocks(spec, records)
        added = [
            _added(spec, items, each, costs[each.key], stripes[each.key], blocks.get(each.key))
            for each in increments
        ]
        if any(abs(read_amount(tally["v"]["N"])) >= AMOUNT_BOUND for tally in added):
            return Outcome(Verdict.INVALID, detail="a number would need more than 38 digits")
        attachments = [each for record in records for each in record.attachments]
        chunks = [chunk_item(each) for each in attachments if isinstance(each, Chunk)]
        puts = [record_item(replace(record, stripe=stripes.get(record.key))) for record in records]
        self._catalog.marks.update(each.key for each in attachments if isinstance(each, Mark))
        for item in (*puts, *chunks, *added):
            items[_primary(item)] = item
        taken = [each for record in records for each in record.identities]
        self.identity_items |= {each.name: identity_item(each) for each in taken}
        return Outcome(Verdict.COMMITTED)

    def _shut(self, spec: Spec, items: Items) -> Verdict | None:
        """What a random gate makes of a transaction; None if it is open."""
        gate = items.get(_primary(gate_key(random_suffix(spec.gates, self._effects.chance))))
        if gate is None:
            return Verdict.GATE_MISSING
        return None if gate["open"]["BOOL"] else Verdict.GATE_SHUT

    def retract(self, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        try:
            items = self.items(spec.table)
        except Missing as missing:
            return Outcome(Verdict.GATE_MISSING, detail=str(missing))
        costs, decrements = costs_by_stripe(tombstones), decrements_of(tombstones)
        if 1 + len(tombstones) + len(decrements) > TRANSACTION_ACTIONS_MAX:
            raise AssertionError(f"a transaction of {len(tombstones)} tombstones")
        puts = {_primary(item): item for item in map(tombstone_item, tombstones)}
        if len(puts) < len(tombstones):
            return Outcome(Verdict.INVALID, detail="a transaction names an item twice")
        if shut := self._shut(spec, items):
            return Outcome(shut)
        stored = [items.get(name) for name in puts]
        if any(stored):
            answers = (Element(Answer.DUPLICATE, old["h"]["B"]) if old else FINE for old in stored)
            return Outcome(Verdict.CANCELLED, tuple(answers), (FINE,) * len(decrements))
        taken = [_taken(spec, items, each, costs[each.key, each.stripe]) for each in decrements]
        for item in (*puts.values(), *taken):
            items[_primary(item)] = item
        return Outcome(Verdict.COMMITTED)

    def tombstones(
        self, spec: Spec, names: Sequence[TombstoneName]
    ) -> Mapping[TombstoneName, Tombstone]:
        items, found = self.items(spec.table), {}
        for key, record_id, index in names:
            place = tombstone_key(key, spec.shard(key, record_id), record_id, index)
            if item := items.get(_primary(place)):
                found[key, record_id, index] = parse_item(item)
        return {name: each for name, each in found.items() if isinstance(each, Tombstone)}

    def _answer(self, record: Record, item: Item | None) -> Element:
        """The answer for a record and its identities."""
        stored = [self.identity_items.get(each.name) for each in record.identities]
        for found in (item, *stored):
            if found:
                return Element(Answer.DUPLICATE, found["h"]["B"], window=window_of(found))
        return FINE

    def identities(self, names: Sequence[str]) -> Mapping[str, IdentityItem]:
        items = self.identity_items
        return {name: parse_identity(items[name]) for name in names if name in items}

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        primary = _primary(record_key(key, spec.shard(key, record_id), record_id))
        item = self.items(spec.table).get(primary)
        if item is None:
            return None
        found = parse_item(item)
        assert isinstance(found, Record)
        return found

    def lookup(self, spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        found = {name: self.record(spec, *name) for name in names}
        return {name: record for name, record in found.items() if record}

    def lookup_across(
        self, specs: Sequence[Spec], names: Sequence[RecordName]
    ) -> Mapping[WindowId, Mapping[RecordName, Record]]:
        found = {spec.window: self.lookup(spec, names) for spec in specs}
        return {window: some for window, some in found.items() if some}

    def chunks(self, spec: Spec, key: str, record_id: str, count: int) -> Sequence[Chunk]:
        items = self.items(spec.table)
        names = (_primary(chunk_key(spec, key, record_id, number)) for number in range(count))
        found = [parse_item(items[name]) for name in names if name in items]
        return [chunk for chunk in found if isinstance(chunk, Chunk)]

    def records(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        items = self.items(spec.table)
        place, position = f"{key}.{shard}", RECORD + after
        found = sorted(
            sk for pk, sk in items if pk == place and sk.startswith(RECORD) and sk > position
        )
        found = [sk for sk in found if not before or sk < RECORD + before]
        page = [parse_item(items[place, sk]) for sk in found[:limit]]
        records = tuple(record for record in page if isinstance(record, Record))
        return RecordPage(records, more=len(found) > limit)

    def records_eventually(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        return self.records(spec, key, shard, after, limit, before)

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        items = self.items(spec.table)
        tallies = {}
        for key in keys:
            names = (
                _primary(tally_key(spec, key, stripe))
                for stripe in range(1, self._width(spec, key, items) + 1)
            )
            stripes = [parse_item(items[name]) for name in names if name in items]
            tallies[key] = gathered(key, [each for each in stripes if isinstance(each, Tally)])
        return tallies

    def widen(self, spec: Spec, key: str) -> None:
        items, place = self.items(spec.table), _primary(tally_key(spec, key, 1))
        wide = min(2 * self._width(spec, key, items), spec.stripes_most(key))
        if place in items and wide > self._width(spec, key, items):
            items[place] = {**items[place], "w": {"N": str(wide)}}

    @staticmethod
    def _width(spec: Spec, key: str, items: Items) -> int:
        """How many stripes the key's tally has now."""
        first = items.get(_primary(tally_key(spec, key, 1)), {})
        return max(spec.stripes_of(key), _number(first, "w"))

    def stripes(self, spec: Spec, number: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        bucket, position = f"~t.{number}", f"{TALLY}{after}"
        while True:
            items = self.items(spec.table)
            listed = sorted(sk for pk, sk in items if pk == bucket and sk > position)[:limit]
            page = [(sk.removeprefix(TALLY), parse_item(items[bucket, sk])) for sk in listed]
            yield [Stripe(place, tally) for place, tally in page if isinstance(tally, Tally)]
            if len(listed) < limit:
                return
            position = listed[-1]

    def open_gates(self, spec: Spec) -> None:
        for number in range(1, spec.gates + 1):
            self.open_gate(spec, number)

    def open_gate(self, spec: Spec, number: int) -> None:
        """Put one gate if absent, open. Raises StateConflict unless the window is `creating`."""
        state = self._catalog.window(spec.window)
        if state is None or state.status is not Status.CREATING:
            raise StateConflict(f"window {spec.window} is not being created any more")
        item = gate_item(number)
        items = self.items(spec.table)
        stored = items.setdefault(_primary(item), item)
        if not stored["open"]["BOOL"]:
            raise Refused(f"table {spec.table} is there, with gates", "UsedBefore")

    def shut_gates(self, spec: Spec) -> None:
        for number in range(1, spec.gates + 1):
            self.shut_gate(spec, number)

    def shut_gate(self, spec: Spec, number: int) -> None:
        """Shut one gate."""
        shut: Item = {**gate_key(number), "open": {"BOOL": False}}
        self.items(spec.table)[_primary(shut)] = shut

    def fold(self, spec: Spec, progress: str) -> Iterator[str]:  # noqa: ARG002 - the port's
        """Commits have done so."""
        return iter(())

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[StoredItem]]:
        names = sorted(
            primary
            for primary in self.items(table)
            if stable_hash(primary[0]) % segments == segment
        )
        for first in range(0, len(names), PAGE_ITEMS):
            items = self.items(table)
            page = names[first : first + PAGE_ITEMS]
            yield [stored_item(items[name]) for name in page if name in items]

    def _blocks(self, spec: Spec, records: Sequence[Record]) -> Mapping[str, Collection[int]]:
        """The blocks that a commit's tallies name, by their key."""
        return blocks_of(spec, records)

    def _stripes(self, spec: Spec, increments: Sequence[Increment]) -> dict[str, int]:
        """A random stripe for each key."""
        items = self.items(spec.table)
        widths = {each.key: self._width(spec, each.key, items) for each in increments}
        return {key: random_suffix(wide, self._effects.chance) for key, wide in widths.items()}


def _primary(item: Item | Key) -> PrimaryKey:
    return item["pk"]["S"], item["sk"]["S"]


def _added(
    spec: Spec,
    items: Items,
    increment: Increment,
    cost: int,
    stripe: int,
    blocks: Collection[int] | None = None,
) -> Item:
    """The stripe of the key's tally, with the increment, its records' cost and blocks added."""
    counts = {"n": increment.n, "u": cost}
    counts |= {SLOT_NAMES[slot]: events for slot, events in increment.series}
    if blocks:
        counts["hn"] = increment.n
    key = tally_key(spec, increment.key, stripe)
    tally = _changed(items, key, counts, {"v": increment.amount})
    if blocks:
        named = {str(block) for block in blocks} | set(tally.get("b", {}).get("NS", ()))
        tally["b"] = {"NS": sorted(named, key=int)}
    return tally


def _taken(spec: Spec, items: Items, decrement: Decrement, cost: int) -> Item:
    """The stripe of the key's tally without what was retracted, which it names."""
    counts = {"n": -decrement.n, "u": cost, "rn": decrement.n}
    counts |= {SLOT_NAMES[slot]: -events for slot, events in decrement.series}
    amounts = {"v": -decrement.amount, "rv": decrement.amount}
    key = tally_key(spec, decrement.key, decrement.stripe)
    return _changed(items, key, counts, amounts)


def _changed(items: Items, key: Key, counts: Mapping[str, int], amounts: Mapping[str, int]) -> Item:
    before = items.get(_primary(key), {})
    after: Item = {**before, **key}
    for name, added in counts.items():
        after[name] = {"N": str(_number(before, name) + added)}
    for name, added in amounts.items():
        stored = read_amount(before[name]["N"]) if name in before else 0
        after[name] = {"N": format_amount(stored + added)}
    return after


def _number(item: Item, name: str) -> int:
    return int(item[name]["N"]) if name in item else 0


def _check_request(records: Sequence[Record], increments: Sequence[Increment]) -> str:
    """Why AWS would refuse the whole request, or "". Raises AssertionError if it is over limits."""
    beside = {each for one in records for each in (*one.attachments, *one.identities)}
    sizes = [sized(record).size for record in records] + [each.size for each in beside]
    actions = 1 + len(sizes) + len(increments)
    if actions > TRANSACTION_ACTIONS_MAX:
        raise AssertionError(f"a transaction of {actions} actions")
    if max(sizes, default=0) > ITEM_BYTES_MAX:
        return f"an item of {max(sizes)} bytes, over {ITEM_BYTES_MAX}"
    if sum(sizes) > TRANSACTION_BYTES_MAX:
        raise AssertionError(f"a transaction of {sum(sizes)} bytes")
    names = {(record.key, record.shard, record.id) for record in records}
    if len(names) < len(records):
        return "a transaction names an item twice"
    taken = [each.name for record in records for each in record.identities]
    if len(set(taken)) < len(taken):
        return "a transaction names an identity twice"
    if len({increment.key for increment in increments}) < len(increments):
        return "a transaction adds to a tally twice"
    return ""
