"""moto's DynamoDB, fit for a pipeline's tables: a write costs the same however large a table is.

moto 5.2 copies a table once for each item of a transaction, to put it back if the transaction
fails: 100 items take 0.1 s on an empty table and 4 s on one with 2,500 items. And it looks through
a table in every Query. Here, for the tables of one pipeline only:

- a transaction checks all conditions before it writes, and keeps the items that it changes;
- a Query looks through the items of its partition key.

All other tables keep moto's ways. Tables with a stream or with indexes do, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from unittest.mock import patch

from moto.dynamodb import models
from moto.dynamodb.comparisons import get_comparison_func, get_filter_expression
from moto.dynamodb.exceptions import (
    ConditionalCheckFailed,
    MockValidationException,
    MultipleTransactionsException,
    TransactionCanceledException,
)
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table

from tallyroll.limits import TRANSACTION_ACTIONS_MAX

Reason = tuple[str, str, Any] | tuple[None, None, None]
Saved = tuple["LeanTable", DynamoType, DynamoType | None, Item | None]
_FINE: Reason = (None, None, None)
_CONDITIONS = {"hash_key_conditions", "range_key_conditions"}
_MOTOS_TRANSACTION = models.DynamoDBBackend.transact_write_items


class LeanTable(Table):
    """A table of moto with one or two string keys, that reads one partition in a Query and copies
    nothing.

    Its pages end by their limit only, not by their size.
    """

    def query(
        self,
        hash_key: DynamoType | None,
        range_comparison: str | None,
        range_objs: list[DynamoType],
        limit: int,
        exclusive_start_key: dict[str, Any],
        scan_index_forward: bool,  # noqa: FBT001  (moto's)
        projection_expressions: list[list[str]] | None,
        index_name: str | None = None,
        consistent_read: bool = False,  # noqa: FBT001, FBT002
        filter_expression: Any = None,
        *conditions: Any,
        **more: Any,
    ) -> tuple[list[Item], int, dict[str, Any] | None]:
        """The items of a partition, their number, and the key after which the next page begins."""
        plain = self.range_key_attr is None or projection_expressions or index_name
        if plain or (more.keys() - _CONDITIONS):
            return super().query(
                hash_key,
                range_comparison,
                range_objs,
                limit,
                exclusive_start_key,
                scan_index_forward,
                projection_expressions,
                index_name,
                consistent_read,
                filter_expression,
                *conditions,
                **more,
            )
        names = sorted(key.value for key in self.items.get(hash_key, {}))
        if not scan_index_forward:
            names.reverse()
        if range_comparison:
            compared, values = get_comparison_func(range_comparison), [o.value for o in range_objs]
            names = [name for name in names if compared(name, *values)]
        if exclusive_start_key:
            last = exclusive_start_key[str(self.range_key_attr)]["S"]
            names = [name for name in names if (name > last if scan_index_forward else name < last)]
        page = names[:limit]
        items = [self.items[hash_key][DynamoType({"S": name})] for name in page]
        last_key = None
        if len(page) < len(names):
            end = items[-1]
            last_key = {name: end.attrs[name].to_json() for name in self.table_key_attrs}
        if filter_expression is not None:
            items = [item for item in items if filter_expression.expr(item)]
        return items, len(page), last_key


@contextmanager
def lean_tables(prefix: str) -> Iterator[None]:
    """Let moto make lean tables of the names that begin with `prefix`."""

    backend = models.DynamoDBBackend

    def create_table(self: models.DynamoDBBackend, name: str, *args: Any, **declared: Any) -> Table:
        table = motos_create(self, name, *args, **declared)
        indexed = table.stream_shard or table.indexes or table.global_indexes
        texts = table.hash_key_type == "S" and table.range_key_type in ("S", None)
        if name.startswith(prefix) and texts and not indexed:
            table.__class__ = LeanTable  # type: ignore[type-abstract]
        return table

    motos_create = backend.create_table
    with (
        patch.object(backend, "create_table", create_table),
        patch.object(backend, "transact_write_items", _transact),
    ):
        yield


def _transact(backend: models.DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
    """`DynamoDBBackend.transact_write_items` of moto, without copies of tables."""
    actions = [next(iter(item.items())) for item in transact_items]
    tables = {action["TableName"] for _, action in actions}
    lean = all(type(backend.tables.get(name)) is LeanTable for name in tables)
    if not lean or len(actions) > TRANSACTION_ACTIONS_MAX:
        _MOTOS_TRANSACTION(backend, transact_items)
        return
    _check_each_once(backend, actions)
    reasons = [_reason(backend, action) for _, action in actions]
    if any(code for code, _, _ in reasons):
        raise TransactionCanceledException(reasons)
    saved: list[Saved] = []
    for number, (kind, action) in enumerate(actions):
        try:
            saved.append(_saved(backend, kind, action))
            _write(backend, kind, action)
        except Exception as error:
            _put_back(saved)
            if isinstance(error, MockValidationException):
                raise
            reasons[number] = (type(error).__name__, str(error), None)
            raise TransactionCanceledException(reasons) from error


def _check_each_once(
    backend: models.DynamoDBBackend, actions: Sequence[tuple[str, dict[str, Any]]]
) -> None:
    places = {(action["TableName"], str(_key(backend, kind, action))) for kind, action in actions}
    if len(places) < len(actions):
        raise MultipleTransactionsException


def _key(backend: models.DynamoDBBackend, kind: str, action: dict[str, Any]) -> dict[str, Any]:
    """The primary key of the item of an action."""
    table = backend.get_table(action["TableName"])
    given = action["Item"] if kind == "Put" else action["Key"]
    return {name: given[name] for name in table.table_key_attrs}


def _reason(backend: models.DynamoDBBackend, action: dict[str, Any]) -> Reason:
    """Why an action cancels its transaction, as moto says it."""
    if not (condition := action.get("ConditionExpression")):
        return _FINE
    kind = "Put" if "Item" in action else ""
    current = backend.get_item(action["TableName"], _key(backend, kind, action))
    holds = get_filter_expression(
        condition, action.get("ExpressionAttributeNames"), action.get("ExpressionAttributeValues")
    )
    if holds.expr(current):
        return _FINE
    returned = action.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and current
    item = current.to_json()["Attributes"] if returned and current else None
    return "ConditionalCheckFailed", str(ConditionalCheckFailed().message), item


def _saved(backend: models.DynamoDBBackend, kind: str, action: dict[str, Any]) -> Saved:
    """The item of an action as it is before it is written."""
    table = backend.get_table(action["TableName"])
    assert isinstance(table, LeanTable)
    hash_key, range_key = backend.get_keys_value(table, _key(backend, kind, action))
    item = table.get_item(hash_key, range_key)
    # Only an update changes the item itself.
    return table, hash_key, range_key, deepcopy(item) if kind == "Update" else item


def _put_back(saved: Sequence[Saved]) -> None:
    for table, hash_key, range_key, item in saved:
        items: Any = table.items
        if item is None:
            table.delete_item(hash_key, range_key)
        elif range_key is None:
            items[hash_key] = item
        else:
            items[hash_key][range_key] = item


def _write(backend: models.DynamoDBBackend, kind: str, action: dict[str, Any]) -> None:
    """Carry an action out whose condition holds."""
    names: Any = action.get("ExpressionAttributeNames")
    values: Any = action.get("ExpressionAttributeValues")
    match kind:
        case "Put":
            backend.put_item(action["TableName"], action["Item"])
        case "Update":
            expression = action["UpdateExpression"]
            backend.update_item(action["TableName"], action["Key"], expression, names, values)
        case "Delete":
            backend.delete_item(action["TableName"], action["Key"])
        case _:
            assert kind == "ConditionCheck", kind
