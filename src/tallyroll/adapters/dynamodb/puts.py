"""Puts in transactions, if the item is absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from tallyroll.adapters.aws.lean_model import Written, base64_text
from tallyroll.adapters.dynamodb.attributes import ABSENT
from tallyroll.adapters.dynamodb.items import RECORD, Item, record_item
from tallyroll.adapters.dynamodb.requests import Action
from tallyroll.model.amounts import format_amount
from tallyroll.model.records import Record


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
