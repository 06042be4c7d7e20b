"""Window tables in DynamoDB: a commit is one transaction of a gate, records and tally stripes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.actions import (
    RecordPut,
    add,
    gate_check,
    put_if_absent,
    subtract,
)
from tallyroll.adapters.dynamodb.attributes import expressed
from tallyroll.adapters.dynamodb.catalog import creating_check, mark
from tallyroll.adapters.dynamodb.items import (
    CODEC,
    RECORD,
    RECORDS_END,
    TALLY,
    Item,
    Key,
    chunk_item,
    chunk_key,
    gate_item,
    gate_key,
    identity_item,
    identity_key,
    parse_identity,
    parse_item,
    record_in,
    record_key,
    stored_item,
    stripe_in,
    tally_key,
    tombstone_item,
    tombstone_key,
)
from tallyroll.adapters.dynamodb.outcomes import by_record, outcome_of
from tallyroll.adapters.dynamodb.requests import (
    CONFLICTS,
    REASON_CONDITION,
    Action,
    DynamoTable,
    batch_get,
    in_dynamodb,
    throttled_tables,
)
from tallyroll.adapters.dynamodb.tables import DynamoTables, used_before
from tallyroll.adapters.dynamodb.throughput import (
    METERING,
    Limit,
    costs_by_key,
    costs_by_stripe,
)
from tallyroll.errors import Refused, StateConflict, StoreError, Throttled
from tallyroll.limits import TRANSACTION_ACTIONS_MAX
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.formats.references import Mark
from tallyroll.model.ids import IdentityItem
from tallyroll.model.items import StoredItem
from tallyroll.model.records import Increment, Record, RecordName, RecordPage, blocks_of
from tallyroll.model.retractions import Tombstone, TombstoneName, decrements_of
from tallyroll.model.sharding import random_suffix
from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Stripe, Tally, gathered
from tallyroll.model.windows import WindowId
from tallyroll.ports.backoff import GATE
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec, Metering, Outcome, Verdict
from tallyroll.settings import Settings

Asked = Callable[..., dict[str, Any]]
_JUST_AFTER = "\0"  # no text sorts between an id and the id with this appended
GATES_AT_ONCE = 16
WIDTHS_KEPT = 10_000
SCAN_PAGE_ITEMS = 1_000  # 1 MB may hold thousands of small ones, of some 5 KB of memory each
GATES_PER_TRANSACTION = TRANSACTION_ACTIONS_MAX - 1  # the first action checks the state


class Widths:
    """How many stripes keys' tallies have, as far as this process knows: never more than there are,
    because they are only raised.
    """

    def __init__(self) -> None:
        self._raised: dict[tuple[str, str], int] = {}

    def of(self, spec: Spec, key: str) -> int:
        """The stripes of a key's tally."""
        return max(spec.stripes_of(key), self._raised.get((spec.table, key), 0))

    def note(self, spec: Spec, stripe: Tally) -> None:
        """Take note of what a stripe says."""
        if stripe.raised and stripe.raised > self.of(spec, stripe.key):
            self._raised[spec.table, stripe.key] = stripe.raised
            if len(self._raised) > WIDTHS_KEPT:
                self._raised.pop(next(iter(self._raised)), None)


class DynamoStore(DynamoTables):
    """The store port on DynamoDB."""

    codec: ItemCodec = CODEC
    transactional = True

    def __init__(self, caller: Caller, effects: Effects, settings: Settings) -> None:
        super().__init__(caller, effects, settings)
        self._widths = Widths()

    @staticmethod
    def metering_of(table: str) -> Metering:  # noqa: ARG004 - the port's
        return METERING

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        chance = self._effects.chance
        costs, blocks = costs_by_key(records), blocks_of(spec, records)
        # Each once: records may refer to one object, and no two actions may be on one item.
        attachments = dict.fromkeys(each for record in records for each in record.attachments)
        identities = [each for record in records for each in record.identities]
        beside = [*attachments, *identities]
        gate = gate_check(spec, chance)
        stripes = {
            each.key: random_suffix(self._widths.of(spec, each.key), chance) for each in increments
        }
        actions = [
            gate,
            *(RecordPut(spec.table, record, stripes.get(record.key)) for record in records),
            # Without a condition: they are written only with their record, which is absent.
            *(self._put_attachment(spec, each) for each in attachments),
            *(put_if_absent(self._identities, identity_item(each)) for each in identities),
            *(
                add(spec, each, costs[each.key], stripes[each.key], blocks.get(each.key, ()))
                for each in increments
            ),
        ]
        try:
            in_dynamodb(spec.table)
            self._caller.call("TransactWriteItems", TransactItems=actions)
        except StoreError as error:
            outcome = outcome_of(error, len(records) + len(beside), len(increments))
            if identities and self._identities in throttled_tables(error):
                outcome = replace(outcome, limit=Limit.IDENTITIES)
            return by_record(outcome, records, beside) if beside else outcome
        return Outcome(Verdict.COMMITTED)

    def retract(self, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        costs, decrements = costs_by_stripe(tombstones), decrements_of(tombstones)
        actions = [
            gate_check(spec, self._effects.chance),
            *(put_if_absent(spec.table, tombstone_item(each)) for each in tombstones),
            *(subtract(spec, each, costs[each.key, each.stripe]) for each in decrements),
        ]
        try:
            in_dynamodb(spec.table)
            self._caller.call("TransactWriteItems", TransactItems=actions)
        except StoreError as error:
            return outcome_of(error, len(tombstones), len(decrements))
        return Outcome(Verdict.COMMITTED)

    def tombstones(
        self, spec: Spec, names: Sequence[TombstoneName]
    ) -> Mapping[TombstoneName, Tombstone]:
        keys = [
            tombstone_key(key, spec.shard(key, record_id), record_id, index)
            for key, record_id, index in dict.fromkeys(names)
        ]
        found = map(parse_item, self._table(spec.table).get_all(keys))
        return {each.name: each for each in found if isinstance(each, Tombstone)}

    def _put_attachment(self, spec: Spec, each: Chunk | Mark) -> Action:
        if isinstance(each, Mark):
            return mark(self._catalog, each.key)
        return {"Put": {"TableName": spec.table, "Item": chunk_item(each)}}

    def identities(self, names: Sequence[str]) -> Mapping[str, IdentityItem]:
        table = DynamoTable(self._caller, self._effects, self._identities)
        found = table.get_all([identity_key(name) for name in dict.fromkeys(names)])
        return {each.name: each for each in map(parse_identity, found)}

    def chunks(self, spec: Spec, key: str, record_id: str, count: int) -> Sequence[Chunk]:
        keys = [chunk_key(spec, key, record_id, number) for number in range(count)]
        found = map(parse_item, self._table(spec.table).get_all(keys))
        return [chunk for chunk in found if isinstance(chunk, Chunk)]

    def record(self, spec: Spec, key: str, record_id: str) -> Record | None:
        place = record_key(key, spec.shard(key, record_id), record_id)
        item = self._table(spec.table).get(place)
        found = parse_item(item) if item else None
        return found if isinstance(found, Record) else None

    def lookup(self, spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        keys = [record_key(key, spec.shard(key, name), name) for key, name in dict.fromkeys(names)]
        found = map(record_in, self._table(spec.table).get_all(keys))
        return {(record.key, record.id): record for record in found}

    def lookup_across(
        self, specs: Sequence[Spec], names: Sequence[RecordName]
    ) -> Mapping[WindowId, Mapping[RecordName, Record]]:
        windows = {in_dynamodb(spec.table): spec.window for spec in specs}
        places = [
            (spec.table, record_key(key, spec.shard(key, name), name))
            for spec in specs
            for key, name in dict.fromkeys(names)
        ]
        found: dict[WindowId, dict[RecordName, Record]] = {}
        for table, item in batch_get(self._caller, self._effects, places):
            record = record_in(item)
            found.setdefault(windows[table], {})[record.key, record.id] = record
        return found

    def records(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        """A page also ends at 1 MB (DynamoDB Developer Guide, "Paginating table query results").

        Sort keys are ordered by their UTF-8 bytes, like Python's texts.
        """
        return self._page(self._query, spec, f"{key}.{shard}", after, limit, before)

    def records_eventually(
        self, spec: Spec, key: str, shard: int, after: str, limit: int, before: str = ""
    ) -> RecordPage:
        return self._page(self._query_eventually, spec, f"{key}.{shard}", after, limit, before)

    def _query(self, **asked: Any) -> dict[str, Any]:
        return self._caller.read("Query", ConsistentRead=True, **asked)

    def _query_eventually(self, **asked: Any) -> dict[str, Any]:
        return self._caller.read("Query", ConsistentRead=False, **asked)

    @staticmethod
    def _page(
        query: Asked, spec: Spec, place: str, after: str, limit: int, before: str
    ) -> RecordPage:
        values = {
            ":pk": {"S": place},
            ":from": {"S": RECORD + (after + _JUST_AFTER if after else "")},
            ":to": {"S": RECORD + before if before else RECORDS_END},
        }
        more: dict[str, Any] = {}
        while True:
            reply = query(
                TableName=in_dynamodb(spec.table),
                KeyConditionExpression="pk = :pk AND sk BETWEEN :from AND :to",
                ExpressionAttributeValues=values,
                Limit=limit,
                **more,
            )
            records = tuple(map(record_in, reply["Items"]))
            last = reply.get("LastEvaluatedKey")
            if records or not last:
                return RecordPage(records, more=bool(last))
            more["ExclusiveStartKey"] = last

    def widen(self, spec: Spec, key: str) -> None:
        table, first = self._table(spec.table), tally_key(spec, key, 1)
        wide = min(2 * self._widths.of(spec, key), spec.stripes_most(key))
        if wide == self._widths.of(spec, key):
            return
        # Of an item that is there: one without events would be a key of the window.
        fewer = "attribute_exists(#pk) AND (attribute_not_exists(#w) OR #w < :w)"
        table.update_if({"Key": first, **expressed("SET #w = :w", fewer, w=wide)})
        if item := table.get(first):
            self._widths.note(spec, stripe_in(item))

    def tallies(self, spec: Spec, keys: Sequence[str]) -> dict[str, Tally]:
        """The stripes that are known, and with them how many there are; then the rest. So every
        stripe is read that a commit had used before the call.
        """
        read = dict.fromkeys(keys, 0)
        stripes: dict[str, list[Tally]] = {key: [] for key in read}
        while True:
            widths = {key: self._widths.of(spec, key) for key in read}
            places = [
                tally_key(spec, key, number)
                for key, done in read.items()
                for number in range(done + 1, widths[key] + 1)
            ]
            if not places:
                return {key: gathered(key, found) for key, found in stripes.items()}
            for item in self._table(spec.table).get_all(places):
                stripe = stripe_in(item)
                stripes[stripe.key].append(stripe)
                self._widths.note(spec, stripe)
            read = widths

    def stripe_keys(self, spec: Spec, keys: Sequence[str]) -> list[Key]:
        """The places of the keys' stripes, as many as are known of. Raises Refused for a window in
        Keyspaces.
        """
        in_dynamodb(spec.table)
        return [
            tally_key(spec, key, number)
            for key in keys
            for number in range(1, self._widths.of(spec, key) + 1)
        ]

    def tallies_from(
        self, spec: Spec, keys: Sequence[str], items: Sequence[Item]
    ) -> dict[str, Tally]:
        """The keys' tallies from what was read of `stripe_keys`. One that says that there are more
        stripes is read again.
        """
        before = {key: self._widths.of(spec, key) for key in keys}
        stripes: dict[str, list[Tally]] = {key: [] for key in keys}
        for stripe in map(stripe_in, items):
            stripes[stripe.key].append(stripe)
            self._widths.note(spec, stripe)
        found = {key: gathered(key, some) for key, some in stripes.items()}
        wider = [key for key in keys if self._widths.of(spec, key) > before[key]]
        return found | self.tallies(spec, wider) if wider else found

    def stripes(self, spec: Spec, number: int, after: str, limit: int) -> Iterator[list[Stripe]]:
        values = {":pk": {"S": f"~t.{number}"}, ":after": {"S": TALLY + after}}
        condition = "pk = :pk AND sk > :after"
        for page in self._table(spec.table).query(condition, values, Limit=limit):
            yield [Stripe(item["sk"]["S"].removeprefix(TALLY), stripe_in(item)) for item in page]

    def open_gates(self, spec: Spec) -> None:
        """Transactions of 99 gates each, which also check the window's state."""
        numbers = range(1, spec.gates + 1)
        jobs = [
            partial(self._open_gates, spec, numbers[at : at + GATES_PER_TRANSACTION])
            for at in range(0, spec.gates, GATES_PER_TRANSACTION)
        ]
        self._effects.together(jobs, GATES_AT_ONCE)

    def _open_gates(self, spec: Spec, numbers: Sequence[int]) -> None:
        check = creating_check(self._catalog, spec.window)
        while numbers:
            # Only if absent: a roller that was stalled must not reopen gates that were shut since.
            puts = [put_if_absent(spec.table, gate_item(number)) for number in numbers]
            reasons = self._table(spec.table).transact([check, *puts])
            if reasons is None:
                return
            failed = [reason.get("Code") == REASON_CONDITION for reason in reasons]
            if failed[0]:
                raise StateConflict(f"window {spec.window} is not being created any more")
            if any(reason.get("Item", {}).get("open") == {"BOOL": False} for reason in reasons):
                raise used_before(spec.table)
            numbers = [
                number for number, is_there in zip(numbers, failed[1:], strict=True) if not is_there
            ]

    def shut_gates(self, spec: Spec) -> None:
        table = in_dynamodb(spec.table)
        jobs = [partial(self._shut_gate, table, number) for number in range(1, spec.gates + 1)]
        self._effects.together(jobs, GATES_AT_ONCE)
        self._note_throttled_keys(table, "DISABLE")  # rules are paid for, and have a quota

    def fold(self, spec: Spec, progress: str) -> Iterator[str]:  # noqa: ARG002 - the port's
        """Commits have done so."""
        return iter(())

    def _shut_gate(self, table: str, number: int) -> None:
        last = ""
        for _ in GATE.attempts(self._effects):
            try:
                self._caller.read(
                    "UpdateItem",
                    TableName=table,
                    Key=gate_key(number),
                    **expressed("SET #open = :shut", shut=False),
                )
            except Refused as error:
                if error.code not in CONFLICTS:
                    raise
                last = error.code
            else:
                return
        raise Throttled(f"gate {number} of {table} stays in conflict", last)

    def scan(self, table: str, segment: int, segments: int) -> Iterator[list[StoredItem]]:
        """By consistent Scans."""
        more: dict[str, Any] = {}
        while True:
            reply = self._caller.read(
                "Scan",
                TableName=in_dynamodb(table),
                ConsistentRead=True,
                Segment=segment,
                TotalSegments=segments,
                Limit=SCAN_PAGE_ITEMS,
                **more,
            )
            if items := reply.pop("Items"):
                page = [stored_item(item) for item in items]
                del items  # free them while the page is processed
                yield page
            if not reply.get("LastEvaluatedKey"):
                return
            more["ExclusiveStartKey"] = reply["LastEvaluatedKey"]
