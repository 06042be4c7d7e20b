"""What the DynamoDB adapters share: reads and transactions of a table, and errors by code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, pairwise
from math import ceil
from typing import Any, TypeVar

from tallyroll.adapters.aws.client import Caller, response_of, retried
from tallyroll.adapters.dynamodb.attributes import expressed
from tallyroll.adapters.dynamodb.items import Item, Key
from tallyroll.adapters.dynamodb.throughput import Limit
from tallyroll.errors import Refused, StoreError, Throttled
from tallyroll.limits import BATCH_GET_KEYS_MAX
from tallyroll.model.windows import DYNAMODB, store_of
from tallyroll.ports.backoff import BATCH_GET, TRANSACTION
from tallyroll.ports.effects import Effects

CANCELLED = "TransactionCanceledException"
CONDITION_FAILED = "ConditionalCheckFailedException"
CONFLICTS = frozenset({"TransactionConflictException", "TransactionInProgressException"})
IN_USE = "ResourceInUseException"
UNKNOWN_OPERATION = "UnknownOperationException"  # DynamoDB Local has no tags and no backups
RECOVERY_ON = "ENABLED"
REASON_NONE = "None"
REASON_CONDITION = "ConditionalCheckFailed"
REASON_CONFLICT = "TransactionConflict"
REASONS_INVALID = frozenset({"ValidationError", "ItemCollectionSizeLimitExceeded"})
# By the end of DynamoDB's name for the reason. Source: DynamoDB API Reference, ThrottlingReason.
_LIMITS = {
    "KeyRangeThroughputExceeded": Limit.KEY_RANGE,
    "MaxOnDemandThroughputExceeded": Limit.ON_DEMAND_MAX,
    "ProvisionedThroughputExceeded": Limit.PROVISIONED,
    "AccountLimitExceeded": Limit.ACCOUNT,
}
# Without a reason: codes of a cancelled transaction's actions, for provisioned and on-demand
# tables, and the code of the account's quota. A request's ProvisionedThroughputExceededException
# alone tells nothing: a hot partition of an on-demand table has it, too. Source: DynamoDB API
# Reference, TransactWriteItems, "Errors"; DynamoDB Developer Guide, "Diagnosing throttling".
_LIMITS_BY_CODE = {
    "ProvisionedThroughputExceeded": Limit.PROVISIONED,
    "RequestLimitExceeded": Limit.ACCOUNT,
    "ThrottlingError": Limit.SCALING,
}
TRIPS_AT_ONCE = 16

R = TypeVar("R")

Action = dict[str, dict[str, Any]]
"""One action of TransactWriteItems: {"Put": {...}}."""


def in_dynamodb(table: str) -> str:
    """The name of a window table in DynamoDB. Raises Refused for one in Keyspaces: DynamoDB would
    call its name invalid, and the writer would reject its records.
    """
    if store_of(table) != DYNAMODB:
        raise Refused(
            f"{table} is in Amazon Keyspaces, and this pipeline has no keyspace: set"
            " TALLYROLL_KEYSPACE to that of its windows (tallyroll:keyspace in the CDK's context),"
            " until none of them is left",
            "NoKeyspace",
        )
    return table


@dataclass(frozen=True)
class DynamoTable:
    """One table. All reads are strongly consistent."""

    caller: Caller
    effects: Effects
    name: str

    def get(self, key: Key) -> Item | None:
        """The item under a key."""
        reply = self.caller.read("GetItem", TableName=self.name, Key=key, ConsistentRead=True)
        item: Item | None = reply.get("Item")
        return item

    def get_all(self, keys: Sequence[Key]) -> list[Item]:
        """The existing items of distinct keys, in no order.

        Requests 100 keys at a time, concurrently. Raises Throttled if keys stay unprocessed for 8
        tries.
        """
        places = [(self.name, key) for key in keys]
        return [item for _, item in batch_get(self.caller, self.effects, places)]

    def query(self, condition: str, values: Mapping[str, Any], **more: Any) -> Iterator[list[Item]]:
        """The items that match a key condition, in pages; `more` are parameters of Query."""
        while True:
            reply = self.caller.read(
                "Query",
                TableName=self.name,
                ConsistentRead=True,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                **more,
            )
            yield reply["Items"]
            if not reply.get("LastEvaluatedKey"):
                return
            more["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def between(self, pk: str, first: str, last: str, **more: Any) -> Iterator[Item]:
        """The items of one partition whose sort keys are from `first` to `last`, ascending."""
        values = {":pk": {"S": pk}, ":first": {"S": first}, ":last": {"S": last}}
        for page in self.query("pk = :pk AND sk BETWEEN :first AND :last", values, **more):
            yield from page

    def after(self, pk: str, after: str, limit: int) -> Iterator[list[Item]]:
        """The items of one partition behind a sort key ("": all), in pages of at most `limit`."""
        condition, values = "pk = :pk", {":pk": {"S": pk}}
        if after:
            condition, values = f"{condition} AND sk > :after", values | {":after": {"S": after}}
        yield from self.query(condition, values, Limit=limit)

    def update_if(self, change: Mapping[str, Any]) -> None:
        """An update whose condition may fail, and which may be repeated."""
        with throttled_if(*CONFLICTS), ignoring(CONDITION_FAILED):
            self.caller.read("UpdateItem", TableName=self.name, **change)

    def keep_latest(self, key: Key, at: int) -> None:
        """Store `at` (ms), unless a later one is stored."""
        later = "attribute_not_exists(#at) OR #at < :at"
        self.update_if({"Key": key, **expressed("SET #at = :at", later, at=at)})

    def transact(self, actions: Sequence[Action]) -> list[Mapping[str, Any]] | None:
        """Carry out a transaction that may be repeated; up to 10 tries until it is decided.

        Returns None if it was carried out, else the reasons, one per action, of which at least one
        is a failed condition. Raises Throttled or Unknown if it stays undecided, and Refused.
        """

        def once() -> list[Mapping[str, Any]] | None:
            try:
                self.caller.call("TransactWriteItems", TransactItems=list(actions))
            except Refused as error:
                reasons = cancellation_reasons(error)
                if any(reason.get("Code") == REASON_CONDITION for reason in reasons):
                    return reasons
                raise
            return None

        return retried(self.effects, TRANSACTION, once, passing)

    def decide(
        self,
        rows: Sequence[R],
        actions_of: Callable[[R], list[Action]],
        beside: Callable[[Sequence[R]], list[Action]] = lambda _: [],
    ) -> list[tuple[R, Item]]:
        """Carry out the actions of all rows whose conditions hold, in one transaction, with those
        `beside` these rows. Returns the other rows, each with an item that did not fit.
        """
        findings: list[tuple[R, Item]] = []
        while rows:
            parts = [actions_of(row) for row in rows]
            reasons = self.transact([*chain.from_iterable(parts), *beside(rows)])
            if reasons is None:
                break
            remaining, left = iter(reasons), []
            for row, part in zip(rows, parts, strict=True):
                failed = [
                    reason
                    for reason in islice(remaining, len(part))
                    if reason.get("Code") == REASON_CONDITION
                ]
                if failed:
                    findings.append((row, failed[0].get("Item") or {}))
                else:
                    left.append(row)
            rows = left
        return findings


def batch_get(
    caller: Caller,
    effects: Effects,
    places: Sequence[tuple[str, Key]],
    *,
    eventual: bool = False,
) -> list[tuple[str, Item]]:
    """The existing items of distinct (table, key), in no order, each with its table; `eventual`,
    as they were a moment ago, for half the read units.

    Requests at most 100 keys at a time, of several tables at once, concurrently, and about as many
    in each request. Raises Throttled if keys stay unprocessed for 8 tries, and Missing if one of
    the tables does not exist.
    """
    get = _get_batch_eventually if eventual else _get_batch
    requests = ceil(len(places) / BATCH_GET_KEYS_MAX)
    bounds = [len(places) * number // max(1, requests) for number in range(requests + 1)]
    trips = [partial(get, caller, effects, places[at:end]) for at, end in pairwise(bounds)]
    return [found for trip in effects.together(trips, TRIPS_AT_ONCE) for found in trip]


def _get_batch(
    caller: Caller, effects: Effects, places: Sequence[tuple[str, Key]]
) -> list[tuple[str, Item]]:
    found: list[tuple[str, Item]] = []
    request: dict[str, Any] = {}
    for table, key in places:
        request.setdefault(table, {"Keys": [], "ConsistentRead": True})["Keys"].append(key)
    for _ in BATCH_GET.attempts(effects):
        request = _add(found, caller.read("BatchGetItem", RequestItems=request))
        if not request:
            return found
    raise _unprocessed(request)


def _get_batch_eventually(
    caller: Caller, effects: Effects, places: Sequence[tuple[str, Key]]
) -> list[tuple[str, Item]]:
    """A function of its own: the check that all other reads are consistent names it."""
    found: list[tuple[str, Item]] = []
    request: dict[str, Any] = {}
    for table, key in places:
        request.setdefault(table, {"Keys": [], "ConsistentRead": False})["Keys"].append(key)
    for _ in BATCH_GET.attempts(effects):
        request = _add(found, caller.read("BatchGetItem", RequestItems=request))
        if not request:
            return found
    raise _unprocessed(request)


def _add(found: list[tuple[str, Item]], reply: Mapping[str, Any]) -> dict[str, Any]:
    """Take what a batch has found; give what it has not processed."""
    for table, items in reply["Responses"].items():
        found += [(table, item) for item in items]
    left: dict[str, Any] = reply.get("UnprocessedKeys") or {}
    return left


def _unprocessed(request: Mapping[str, Any]) -> Throttled:
    left = sum(len(asked["Keys"]) for asked in request.values())
    return Throttled(
        f"BatchGetItem: {left} keys of {', '.join(request)} stay unprocessed after"
        f" {BATCH_GET.tries} tries",
        "UnprocessedKeys",
    )


@contextmanager
def throttled_if(*codes: str) -> Iterator[None]:
    """Raise a refusal with one of these codes as Throttled, since a later call may succeed."""
    try:
        yield
    except Refused as error:
        if error.code in codes:
            raise Throttled(str(error), error.code) from error
        raise


@contextmanager
def ignoring(code: str) -> Iterator[None]:
    """Ignore a refusal with this code."""
    try:
        yield
    except Refused as error:
        if error.code != code:
            raise


def tags_of(caller: Caller, arn: str) -> dict[str, str] | None:
    """A table's tags; None if the engine has no tags."""
    tags: dict[str, str] = {}
    more: dict[str, str] = {}
    while True:
        try:
            reply = caller.read("ListTagsOfResource", ResourceArn=arn, **more)
        except Refused as error:
            if error.code == UNKNOWN_OPERATION:
                return None
            raise
        tags |= {tag["Key"]: tag["Value"] for tag in reply.get("Tags", ())}
        if not reply.get("NextToken"):
            return tags
        more = {"NextToken": reply["NextToken"]}


def recovery_of(caller: Caller, table: str) -> Mapping[str, Any] | None:
    """A table's PointInTimeRecoveryDescription; None if the engine has no backups."""
    try:
        reply = caller.read("DescribeContinuousBackups", TableName=table)
    except Refused as error:
        if error.code == UNKNOWN_OPERATION:
            return None
        raise
    backups: Mapping[str, Mapping[str, Any]] = reply["ContinuousBackupsDescription"]
    return backups.get("PointInTimeRecoveryDescription", {})


def cancellation_reasons(error: StoreError) -> list[Mapping[str, Any]]:
    """Why a transaction was cancelled: {Code, Message, Item} per action, in request order; empty if
    it was not cancelled.
    """
    return list(response_of(error).get("CancellationReasons") or ())


def limit_of(error: StoreError) -> Limit:
    """The limit that a throttled request exceeded; OTHER if the engine gives no reason, as older
    ones, moto and DynamoDB Local.
    """
    names = [reason.get("reason", "") for reason in _throttling_reasons(error)]
    return _limit_named(names[0]) if names else limit_of_code(error.code)


def throttled_tables(error: StoreError) -> set[str]:
    """The tables whose limits a throttled request exceeded, as far as DynamoDB names them."""
    arns = (reason.get("resource", "") for reason in _throttling_reasons(error))
    return {arn.rpartition(":table/")[2] for arn in arns}


def _throttling_reasons(error: StoreError) -> list[Mapping[str, str]]:
    """Source: DynamoDB API Reference, ThrottlingReason."""
    response = response_of(error)
    # The spelling depends on the exception.
    return list(response.get("ThrottlingReasons") or response.get("throttlingReasons") or ())


def _limit_named(reason: str) -> Limit:
    return next((limit for name, limit in _LIMITS.items() if reason.endswith(name)), Limit.OTHER)


def limit_of_code(code: str) -> Limit:
    """The limit that the code of an error, or of a cancelled transaction's action, names."""
    return _LIMITS_BY_CODE.get(code, Limit.OTHER)


def passing(error: Refused) -> bool:
    """Whether a refusal comes from load or a concurrent call, so a later try may succeed."""
    if error.code == CANCELLED:
        codes = {reason.get("Code") for reason in cancellation_reasons(error)}
        return not codes & REASONS_INVALID
    return error.code in CONFLICTS
