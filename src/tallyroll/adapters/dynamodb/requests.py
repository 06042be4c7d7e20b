"""What DynamoDB's three adapters share: batches, pages, and transactions tried until decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tallyroll.adapters.aws.client import Caller, response_of
from tallyroll.errors import Refused, StoreError, Throttled, Unknown
from tallyroll.limits import BATCH_GET_KEYS_MAX
from tallyroll.model.items import Item, Key
from tallyroll.ports.effects import Effects, attempts
from tallyroll.ports.store import Limit

CANCELLED = "TransactionCanceledException"
CONDITION_FAILED = "ConditionalCheckFailedException"
CONFLICTS = frozenset({"TransactionConflictException", "TransactionInProgressException"})
REASON_NONE = "None"
REASON_CONDITION = "ConditionalCheckFailed"
REASON_CONFLICT = "TransactionConflict"
REASONS_INVALID = frozenset({"ValidationError", "ItemCollectionSizeLimitExceeded"})
# By a part of what DynamoDB calls them; a cancelled transaction tells but two apart, of tables on
# demand and provisioned. Sources: DynamoDB API Reference, ThrottlingReason and TransactWriteItems.
_LIMITS = {
    "KeyRangeThroughputExceeded": Limit.KEY_RANGE,
    "MaxOnDemandThroughputExceeded": Limit.ON_DEMAND_MAX,
    "ProvisionedThroughputExceeded": Limit.PROVISIONED,
    "AccountLimitExceeded": Limit.ACCOUNT,
    "ThrottlingError": Limit.TABLE,
}
BATCH_TRIES = 8
TRANSACTION_TRIES = 10
TRIPS_AT_ONCE = 16

Action = dict[str, dict[str, Any]]
"""One action of TransactWriteItems: {"Put": {...}}."""


def batch_get(caller: Caller, effects: Effects, table: str, keys: Sequence[Key]) -> list[Item]:
    """The items under distinct keys that exist, in no order, strongly consistent.

    100 a trip, trips side by side. Raises Throttled if keys stay unprocessed for 8 tries.
    """
    trips = [
        partial(_batch_get, caller, effects, table, keys[at : at + BATCH_GET_KEYS_MAX])
        for at in range(0, len(keys), BATCH_GET_KEYS_MAX)
    ]
    return [item for trip in effects.together(trips, TRIPS_AT_ONCE) for item in trip]


def _batch_get(caller: Caller, effects: Effects, table: str, keys: Sequence[Key]) -> list[Item]:
    found: list[Item] = []
    request: Mapping[str, Any] = {table: {"Keys": list(keys), "ConsistentRead": True}}
    for _ in attempts(effects, BATCH_TRIES):
        reply = caller.read("BatchGetItem", RequestItems=request)
        found += reply["Responses"].get(table, [])
        request = reply.get("UnprocessedKeys") or {}
        if not request:
            return found
    left = len(request[table]["Keys"])
    raise Throttled(
        f"BatchGetItem: {left} keys of {table} stay unprocessed after {BATCH_TRIES} tries",
        "UnprocessedKeys",
    )


def query(
    caller: Caller, table: str, condition: str, values: Mapping[str, Any], **more: Any
) -> Iterator[list[Item]]:
    """The items that a key condition names, in pages, strongly consistent.

    `more` are further parameters of Query.
    """
    while True:
        reply = caller.read(
            "Query",
            TableName=table,
            ConsistentRead=True,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=values,
            **more,
        )
        yield reply["Items"]
        if not reply.get("LastEvaluatedKey"):
            return
        more["ExclusiveStartKey"] = reply["LastEvaluatedKey"]


def transact(
    caller: Caller, effects: Effects, actions: Sequence[Action]
) -> list[Mapping[str, Any]] | None:
    """Carry out a transaction whose repetition does no harm; up to 10 tries until it is decided.

    Gives None when it was carried out, else the reasons, one per action, of which at least one is
    a failed condition. Raises Throttled or Unknown if conflicts, throttles or lost replies go on,
    and Refused.
    """
    last: StoreError | None = None
    for _ in attempts(effects, TRANSACTION_TRIES):
        try:
            caller.call("TransactWriteItems", TransactItems=list(actions))
        except (Throttled, Unknown) as error:
            last = error
        except Refused as error:
            reasons = cancellation_reasons(error)
            if any(reason.get("Code") == REASON_CONDITION for reason in reasons):
                return reasons
            if not passing(error):
                raise
            last = Throttled(str(error), error.code)
        else:
            return None
    raise last or Throttled("TransactWriteItems: never tried")


def cancellation_reasons(error: StoreError) -> list[Mapping[str, Any]]:
    """Why a transaction was cancelled: {Code, Message, Item} per action, in request order.

    Empty if it was not cancelled.
    """
    return list(response_of(error).get("CancellationReasons") or ())


def limit_of(error: StoreError) -> Limit:
    """What a throttled request was too much for."""
    response = response_of(error)
    # DynamoDB's model spells it both ways, by the exception.
    reasons = response.get("ThrottlingReasons") or response.get("throttlingReasons") or ()
    said = [reason.get("reason", "") for reason in reasons]
    return limit_named(said[0] if said else error.code or "")


def limit_named(reason: str) -> Limit:
    """The limit in a throttling reason, an error's code or that of a cancellation."""
    return next((limit for name, limit in _LIMITS.items() if name in reason), Limit.OTHER)


def passing(error: Refused) -> bool:
    """Whether a refusal is another call's or the load's doing: the same call may succeed later."""
    if error.code == CANCELLED:
        codes = {reason.get("Code") for reason in cancellation_reasons(error)}
        return not codes & REASONS_INVALID
    return error.code in CONFLICTS
