"""The table of totals in DynamoDB.

total         pk {key}                sk 20261120T080000Z  n, v        put once, never changed
its listing   pk ~w.{window}.{bucket} sk {key}             n, v        put with the total
period        pk {key}                sk day#20261120, month#202611    n, v, e, w, d
its listing   pk ~w.{day}.{bucket}    sk {key}             n, v, e     of days only

`e` is the period's epoch, `w` its number of windows, `d` the digest of their ids. Corrections are
items of their own: see `corrections.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import starmap
from typing import TypeVar

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb.attributes import ABSENT
from tallyroll.adapters.dynamodb.corrections import (
    DynamoCorrections,
    behind,
    sums_of,
    with_corrections,
)
from tallyroll.adapters.dynamodb.items import Item
from tallyroll.adapters.dynamodb.requests import Action, DynamoTable
from tallyroll.errors import ProofMismatch, StateConflict
from tallyroll.limits import LISTING_BUCKETS, TRANSACTION_ACTIONS_MAX
from tallyroll.model.amounts import format_amount, read_amount
from tallyroll.model.periods import PeriodName, period_of
from tallyroll.model.sharding import calculated
from tallyroll.model.totals import NO_CORRECTIONS, Corrections, Listed, PeriodTotal, Total
from tallyroll.model.windows import WindowId
from tallyroll.ports.effects import Effects

PUTS_AT_ONCE = 8
ROWS_PER_TRANSACTION = TRANSACTION_ACTIONS_MAX // 2  # each total has two items

R = TypeVar("R")


def listing_of(name: WindowId | PeriodName, bucket: int) -> str:
    """The partition key of one bucket of a window's or day's listing."""
    return f"~w.{name}.{bucket}"


class DynamoTotals(DynamoCorrections):
    """The totals port on one DynamoDB table."""

    def __init__(self, caller: Caller, effects: Effects, table: str) -> None:
        self._table = DynamoTable(caller, effects, table)

    def put(self, totals: Sequence[Total]) -> None:
        """Tries all, then names every total that is stored with another value."""
        findings = self._put_all(totals, self._actions)
        if findings:
            raise ProofMismatch([_finding(total, stored) for total, stored in findings])

    def roll(self, totals: Sequence[PeriodTotal]) -> None:
        findings = self._put_all(totals, self._period_actions)
        for total, stored in findings:
            if not stored or int(stored["e"]["N"]) > total.epoch:
                raise StateConflict(f"{total} comes after {stored}")
        if findings:
            raise ProofMismatch(
                [f"{total}: another value is stored: {stored}" for total, stored in findings]
            )

    def _put_all(
        self, rows: Sequence[R], actions_of: Callable[[R], list[Action]]
    ) -> list[tuple[R, Item]]:
        """Put rows in concurrent transactions. Returns conflicting ones with the stored item."""
        jobs = [
            partial(self._table.decide, rows[at : at + ROWS_PER_TRANSACTION], actions_of)
            for at in range(0, len(rows), ROWS_PER_TRANSACTION)
        ]
        together = self._table.effects.together(jobs, PUTS_AT_ONCE)
        return [finding for findings in together for finding in findings]

    def _actions(self, total: Total) -> list[Action]:
        """The puts of a total and of its listing."""
        n, amount = {"N": str(total.n)}, {"N": format_amount(total.amount)}
        listed = listing_of(total.window, calculated(total.key, LISTING_BUCKETS))
        return [
            self._if_absent_or(
                "n = :n AND v = :v", {"pk": {"S": pk}, "sk": {"S": sk}, "n": n, "v": amount}
            )
            for pk, sk in ((total.key, total.window), (listed, total.key))
        ]

    def _period_actions(self, total: PeriodTotal) -> list[Action]:
        facts: Item = {
            "n": {"N": str(total.n)},
            "v": {"N": format_amount(total.amount)},
            "e": {"N": str(total.epoch)},
        }
        named = {"w": {"N": str(total.windows)}, "d": {"S": total.digest}}
        items = [{"pk": {"S": total.key}, "sk": {"S": total.period}, **facts, **named}]
        if period_of(total.period).is_day:
            listed = listing_of(total.period, calculated(total.key, LISTING_BUCKETS))
            items.append({"pk": {"S": listed}, "sk": {"S": total.key}, **facts})
        condition = "e < :e OR (e = :e AND n = :n AND v = :v)"
        return [self._if_absent_or(condition, item) for item in items]

    def _if_absent_or(self, condition: str, item: Item) -> Action:
        compared = [name for name in ("n", "v", "e") if name in item]
        return {
            "Put": {
                "TableName": self._table.name,
                "Item": item,
                "ConditionExpression": f"{ABSENT} OR ({condition})",
                "ExpressionAttributeValues": {f":{name}": item[name] for name in compared},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def listing(
        self, name: WindowId | PeriodName, bucket: int, after: str, limit: int
    ) -> Iterator[list[Listed]]:
        for page in self._table.after(listing_of(name, bucket), after, limit):
            yield [_listed(item) for item in page]

    def periods_of_key(self, key: str, first: PeriodName, last: PeriodName) -> list[PeriodTotal]:
        items = self._table.between(key, first, behind(last))
        return [_period_total(item, made) for item, made in with_corrections(items)]

    def of_key(self, key: str, since: WindowId, until: WindowId) -> list[Total]:
        if since >= until:
            return []
        items = self._table.between(key, since, until)
        totals = [_total(item, made) for item, made in with_corrections(items)]
        return [total for total in totals if total.window < until]

    def of_window(
        self, window: WindowId, keys: Sequence[str], *, corrected: bool = False
    ) -> dict[str, Total]:
        rows = (window, sums_of(window)) if corrected else (window,)
        places = [
            {"pk": {"S": key}, "sk": {"S": row}} for key in dict.fromkeys(keys) for row in rows
        ]
        found = self._table.get_all(places)
        by_key = sorted(found, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))
        totals = starmap(_total, with_corrections(by_key))
        return {total.key: total for total in totals}


def _total(item: Item, corrections: Corrections = NO_CORRECTIONS) -> Total:
    return Total(
        key=item["pk"]["S"],
        window=item["sk"]["S"],
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        corrections=corrections,
    )


def _period_total(item: Item, corrections: Corrections) -> PeriodTotal:
    return PeriodTotal(
        key=item["pk"]["S"],
        period=item["sk"]["S"],
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        epoch=int(item["e"]["N"]),
        windows=int(item["w"]["N"]),
        digest=item["d"]["S"],
        corrections=corrections,
    )


def _listed(item: Item) -> Listed:
    return Listed(
        key=item["sk"]["S"],
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
        epoch=int(item["e"]["N"]) if "e" in item else 0,
    )


def _finding(total: Total, stored: Item) -> str:
    value = f"n {stored['n']['N']}, v {stored['v']['N']}" if stored else "another value"
    return (
        f"key {total.key!r} window {total.window}: {value} is stored, "
        f"not n {total.n}, v {format_amount(total.amount)}"
    )
