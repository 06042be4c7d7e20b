"""Actions of transactions on window tables: puts if absent, the gate's check, changed tallies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from tallyroll.adapters.aws.lean_model import Written, base64_text
from tallyroll.adapters.dynamodb.attributes import ABSENT, expressed
from tallyroll.adapters.dynamodb.items import (
    RECORD,
    SLOT_NAMES,
    Item,
    gate_key,
    record_item,
    tally_key,
)
from tallyroll.adapters.dynamodb.requests import Action
from tallyroll.model.amounts import format_amount
from tallyroll.model.records import Increment, Record
from tallyroll.model.retractions import Decrement
from tallyroll.model.sharding import Chance, random_suffix
from tallyroll.model.specs import Spec


def put_if_absent(table: str, item: Item) -> Action:
    """The put of an item; if there is one, the transaction's error has it."""
    return {
        "Put": {
            "TableName": table,
            "Item": item,
            "ConditionExpression": ABSENT,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    }


class RecordPut(Written):
    """The put of a record, which is added to this stripe. A batch has a thousand of them, so each
    writes itself without its item, which would take most of the time.
    """

    __slots__ = ("_record", "_stripe", "_table")

    def __init__(self, table: str, record: Record, stripe: int | None = None) -> None:
        self._table, self._record, self._stripe = table, record, stripe

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return self._action()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._action())

    def __len__(self) -> int:
        return len(self._action())

    def json(self) -> str:
        record = self._record
        data = f', "data": {{"B": {base64_text(record.data)}}}' if record.data is not None else ""
        form = f', "fmt": {{"S": {quoted(record.format)}}}' if record.format is not None else ""
        slot = f', "m": {{"N": "{record.slot}"}}' if record.slot is not None else ""
        slot += ', "l": {"BOOL": true}' if record.plain else ""
        stripe = f', "s": {{"N": "{self._stripe}"}}' if self._stripe is not None else ""
        group = f', "g": {_group(record.keys)}' if record.keys else ""
        return (
            f'{{"Put": {{"TableName": {quoted(self._table)}, "Item": {{'
            f'"pk": {{"S": {quoted(f"{record.key}.{record.shard}")}}}, '
            f'"sk": {{"S": {quoted(RECORD + record.id)}}}, '
            f'"ts": {{"N": "{record.ts}"}}, "n": {{"N": "{record.n}"}}, '
            f'"v": {{"N": "{format_amount(record.amount)}"}}, '
            f'"h": {{"B": {base64_text(record.digest)}}}{data}{form}{group}{slot}{stripe}}}, '
            f'"ConditionExpression": "{ABSENT}", '
            '"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}'
        )

    def _action(self) -> Action:
        return put_if_absent(self._table, record_item(replace(self._record, stripe=self._stripe)))


def _group(keys: tuple[str, ...]) -> str:
    if len(keys) == 1:
        return f'{{"S": {quoted(keys[0])}}}'
    return f'{{"SS": [{", ".join(map(quoted, keys))}]}}'


def gate_check(spec: Spec, chance: Chance) -> Action:
    """The check that a random gate of the window is open."""
    return {
        "ConditionCheck": {
            "TableName": spec.table,
            "Key": gate_key(random_suffix(spec.gates, chance)),
            **expressed(condition="#open = :true", true=True),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    }


def add(
    spec: Spec, increment: Increment, cost: int, stripe: int, blocks: Collection[int] = ()
) -> Action:
    """The addition of an increment and of its records' cost to a stripe of the key's tally, with
    the blocks of their shards, if the window's tallies name them.
    """
    added = {"n": str(increment.n), "v": format_amount(increment.amount), "u": str(cost)}
    added |= {SLOT_NAMES[slot]: str(count) for slot, count in increment.series}
    if blocks:
        added["hn"] = added["n"]
    return _change(spec, increment.key, stripe, added, sorted(blocks))


def subtract(spec: Spec, decrement: Decrement, cost: int) -> Action:
    """What tombstones of this cost take from a stripe: from its counts, and add to what it says of
    retracted events.
    """
    n, amount = decrement.n, decrement.amount
    added = {"n": str(-n), "v": format_amount(-amount), "u": str(cost)}
    added |= {"rn": str(n), "rv": format_amount(amount)}
    added |= {SLOT_NAMES[slot]: str(-count) for slot, count in decrement.series}
    return _change(spec, decrement.key, decrement.stripe, added)


def _change(
    spec: Spec, key: str, stripe: int, added: Mapping[str, str], blocks: Sequence[int] = ()
) -> Action:
    values: dict[str, Any] = {f":{name}": {"N": text} for name, text in added.items()}
    if blocks:
        values[":b"] = {"NS": [str(block) for block in blocks]}
    return {
        "Update": {
            "TableName": spec.table,
            "Key": tally_key(spec, key, stripe),
            "UpdateExpression": "ADD " + ", ".join(f"{name[1:]} {name}" for name in values),
            "ExpressionAttributeValues": values,
        }
    }
