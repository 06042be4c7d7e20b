"""The states of days and months in the catalog's table.

period    pk ~periods  sk day#20261120 or month#202611  epoch, version, rolled, windows, digest ...
unrolled  pk ~catalog  sk unrolled                      the names still to be settled
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from tallyroll.adapters.dynamodb.attributes import attributes_of, expressed, facts_of, known_fields
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.requests import Action, DynamoTable
from tallyroll.errors import StateConflict
from tallyroll.model.periods import PeriodName, PeriodState, periods_at

_PERIODS = "~periods"
_UNROLLED: Key = {"pk": {"S": "~catalog"}, "sk": {"S": "unrolled"}}


class DynamoPeriods:
    """The port of periods."""

    _table: DynamoTable

    def periods(self, first: PeriodName, last: PeriodName) -> list[PeriodState]:
        return [_parse(item) for item in self._table.between(_PERIODS, first, last)]

    def unrolled(self) -> list[PeriodName]:
        item = self._table.get(_UNROLLED) or {}
        return sorted(item.get("periods", {}).get("SS", ()))

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        table = self._table.name
        wanted = replace(state, version=state.version + 1)
        # A period has no version until it is first written here.
        is_first = " OR attribute_not_exists(#version)" if not state.version else ""
        unchanged = expressed(
            condition=f"#epoch = :epoch AND (#version = :version{is_first})",
            epoch=state.epoch,
            version=state.version,
        )
        facts = asdict(wanted)
        item = _key(facts.pop("name")) | attributes_of(facts)
        actions: list[Action] = [{"Put": {"TableName": table, "Item": item, **unchanged}}]
        if settled:
            actions.append({"Update": {"TableName": table, **_pending("DELETE", [state.name])}})
        if self._table.transact(actions) is not None:
            stored = self.periods(state.name, state.name)
            if stored != [wanted]:  # else an attempt whose reply was lost has written it
                raise StateConflict(f"{state.name} is not at version {state.version} any more")
        return wanted


def opened_again(table: str, start: int) -> list[Action]:
    """Actions for the transaction that creates a window that starts at `start` (ms): they begin a
    new epoch of its day and month, so their sums are no longer valid.
    """
    names = [period.name for period in periods_at(start)]
    grown = expressed("ADD #epoch :one", one=1)
    return [
        *({"Update": {"TableName": table, "Key": _key(name), **grown}} for name in names),
        {"Update": {"TableName": table, **_pending("ADD", names)}},
    ]


def _key(name: PeriodName) -> Key:
    return {"pk": {"S": _PERIODS}, "sk": {"S": name}}


def _pending(verb: str, names: Sequence[PeriodName]) -> dict[str, Any]:
    return {
        "Key": _UNROLLED,
        **expressed(f"{verb} #periods :names", names=dict.fromkeys(names).keys()),
    }


def _parse(item: Item) -> PeriodState:
    facts = facts_of(item)
    return PeriodState(**known_fields(PeriodState, facts | {"name": facts["sk"]}))
