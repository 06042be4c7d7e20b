"""The totals in DynamoDB: pk is the key, sk the window id, put once and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tallyroll.amounts import format_amount, read_amount
from tallyroll.aws import Caller
from tallyroll.dynamodb import REASON_CONDITION, Action, batch_get, query, transact
from tallyroll.errors import ProofMismatch
from tallyroll.limits import TRANSACTION_ACTIONS_MAX
from tallyroll.ports import Effects, Item, Total
from tallyroll.windows import WindowId

PUTS_AT_ONCE = 8


class DynamoTotals:
    """The totals port on one DynamoDB table."""

    def __init__(self, caller: Caller, effects: Effects, table: str) -> None:
        self._caller = caller
        self._effects = effects
        self._table = table

    def put(self, totals: Sequence[Total]) -> None:
        """Put each total unless it stands already, in transactions of 100.

        Raises ProofMismatch, after all of them were tried, naming every total that stands with
        another value.
        """
        jobs = [
            partial(self._put, totals[at : at + TRANSACTION_ACTIONS_MAX])
            for at in range(0, len(totals), TRANSACTION_ACTIONS_MAX)
        ]
        findings = [
            finding for found in self._effects.together(jobs, PUTS_AT_ONCE) for finding in found
        ]
        if findings:
            raise ProofMismatch(findings)

    def _put(self, totals: Sequence[Total]) -> list[str]:
        findings: list[str] = []
        while totals:
            actions = [self._action(total) for total in totals]
            reasons = transact(self._caller, self._effects, actions)
            if reasons is None:
                break
            left = []
            for total, reason in zip(totals, reasons, strict=True):
                if reason.get("Code") == REASON_CONDITION:
                    findings.append(_finding(total, reason.get("Item") or {}))
                else:
                    left.append(total)
            totals = left
        return findings

    def _action(self, total: Total) -> Action:
        n, amount = {"N": str(total.n)}, {"N": format_amount(total.amount)}
        return {
            "Put": {
                "TableName": self._table,
                "Item": {"pk": {"S": total.key}, "sk": {"S": total.window}, "n": n, "v": amount},
                "ConditionExpression": "attribute_not_exists(pk) OR (n = :n AND v = :v)",
                "ExpressionAttributeValues": {":n": n, ":v": amount},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def of_key(self, key: str, since: WindowId, until: WindowId) -> list[Total]:
        """The totals of a key in the windows [since, until), ascending, by consistent Queries."""
        if since >= until:
            return []
        values = {":key": {"S": key}, ":since": {"S": since}, ":until": {"S": until}}
        condition = "pk = :key AND sk BETWEEN :since AND :until"
        pages = query(self._caller, self._table, condition, values)
        totals = [_total(item) for page in pages for item in page]
        return [total for total in totals if total.window < until]

    def of_window(self, window: WindowId, keys: Sequence[str]) -> dict[str, Total]:
        """The totals of these keys in one window that exist, by consistent BatchGetItems."""
        places = [{"pk": {"S": key}, "sk": {"S": window}} for key in dict.fromkeys(keys)]
        found = map(_total, batch_get(self._caller, self._effects, self._table, places))
        return {total.key: total for total in found}


def _total(item: Item) -> Total:
    return Total(
        key=item["pk"]["S"],
        window=item["sk"]["S"],
        n=int(item["n"]["N"]),
        amount=read_amount(item["v"]["N"]),
    )


def _finding(total: Total, stands: Item) -> str:
    stored = _total(stands) if stands else None
    known = f"n {stored.n}, v {format_amount(stored.amount)}" if stored else "another value"
    return (
        f"key {total.key!r} window {total.window}: {known} stands, "
        f"not n {total.n}, v {format_amount(total.amount)}"
    )
