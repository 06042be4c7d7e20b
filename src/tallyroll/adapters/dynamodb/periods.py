"""The states of days and months in the catalog's table.

period    pk ~periods  sk day#20261120 or month#202611  epoch, version, rolled, windows, digest ...
unrolled  pk ~catalog  sk unrolled                      the names still to be settled
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.requests import Action, query, transact
from tallyroll.errors import StateConflict
from tallyroll.model.periods import PeriodName, PeriodState, periods_at
from tallyroll.ports.effects import Effects

_PERIODS = "~periods"
_UNROLLED: Key = {"pk": {"S": "~catalog"}, "sk": {"S": "unrolled"}}


def opened_again(table: str, start: int) -> list[Action]:
    """Actions for the transaction that creates a window that starts at `start` (ms): they begin a
    new epoch of its day and month, so their sums are no longer valid.
    """
    names = [period.name for period in periods_at(start)]
    grown = {
        "UpdateExpression": "ADD #epoch :one",
        "ExpressionAttributeNames": {"#epoch": "epoch"},
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    pending = _pending("ADD", names)
    return [
        *({"Update": {"TableName": table, "Key": _key(name), **grown}} for name in names),
        {"Update": {"TableName": table, **pending}},
    ]


def read_periods(
    caller: Caller, table: str, first: PeriodName, last: PeriodName
) -> list[PeriodState]:
    """The states from `first` to `last`, ascending."""
    values = {":pk": {"S": _PERIODS}, ":first": {"S": first}, ":last": {"S": last}}
    pages = query(caller, table, "pk = :pk AND sk BETWEEN :first AND :last", values)
    return [_parse(item) for page in pages for item in page]


def read_unrolled(caller: Caller, table: str) -> list[PeriodName]:
    """The names still to be settled, ascending."""
    reply = caller.read("GetItem", TableName=table, Key=_UNROLLED, ConsistentRead=True)
    return sorted(reply.get("Item", {}).get("periods", {}).get("SS", ()))


def advanced(
    caller: Caller, effects: Effects, table: str, state: PeriodState, *, settled: bool
) -> PeriodState:
    """Write the state with its next version. Raises StateConflict if the stored one has changed."""
    wanted = replace(state, version=state.version + 1)
    read = {":epoch": {"N": str(state.epoch)}, ":version": {"N": str(state.version)}}
    # A period has no version until it is first written here.
    is_first = " OR attribute_not_exists(#version)" if not state.version else ""
    put: Action = {
        "Put": {
            "TableName": table,
            "Item": _item(wanted),
            "ConditionExpression": f"#epoch = :epoch AND (#version = :version{is_first})",
            "ExpressionAttributeNames": {"#epoch": "epoch", "#version": "version"},
            "ExpressionAttributeValues": read,
        }
    }
    actions = [put]
    if settled:
        actions.append({"Update": {"TableName": table, **_pending("DELETE", [state.name])}})
    if transact(caller, effects, actions) is not None:
        stored = read_periods(caller, table, state.name, state.name)
        if stored != [wanted]:  # else an attempt whose reply was lost has written it
            raise StateConflict(f"{state.name} is not at version {state.version} any more")
    return wanted


def _key(name: PeriodName) -> Key:
    return {"pk": {"S": _PERIODS}, "sk": {"S": name}}


def _pending(verb: str, names: Sequence[PeriodName]) -> dict[str, Any]:
    return {
        "Key": _UNROLLED,
        "UpdateExpression": f"{verb} #periods :names",
        "ExpressionAttributeNames": {"#periods": "periods"},
        "ExpressionAttributeValues": {":names": {"SS": list(names)}},
    }


def _item(state: PeriodState) -> Item:
    item: Item = {
        **_key(state.name),
        "epoch": {"N": str(state.epoch)},
        "version": {"N": str(state.version)},
        "windows": {"N": str(state.windows)},
        "digest": {"S": state.digest},
    }
    if state.rolled is not None:
        item["rolled"] = {"N": str(state.rolled)}
    if state.progress is not None:
        item["progress"] = {"S": state.progress}
    return item


def _parse(item: Item) -> PeriodState:
    return PeriodState(
        name=item["sk"]["S"],
        epoch=int(item["epoch"]["N"]),
        version=int(item.get("version", {"N": "0"})["N"]),
        rolled=int(item["rolled"]["N"]) if "rolled" in item else None,
        windows=int(item.get("windows", {"N": "0"})["N"]),
        digest=item.get("digest", {"S": ""})["S"],
        progress=item["progress"]["S"] if "progress" in item else None,
    )
