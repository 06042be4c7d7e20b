"""Optimistic locking for the items of a service's own tables: read, change, put if unchanged.

Apart from the pipeline: the table is the user's, and a resource of boto3. See docs/locking.md.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from random import Random
from typing import Any

from tallyroll.errors import Contended, Unknown, UsageError

REMEMBERED = 16
"""So many of the last updates leave their tokens in the item: 16 bytes each."""

DELAY_S, DELAY_S_MAX = 0.02, 1.0
_AGAIN = {
    "ConditionalCheckFailedException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "TransactionConflictException",
}
# The SDK's bases of errors of the network, by name: this package does not import it.
_NETWORK = {"HTTPClientError", "ConnectionError"}

Item = dict[str, Any]


class VersionedTable:
    """Updates items of a DynamoDB table (a boto3 `Table` resource), and loses no update.

    The attribute `version` of an item counts its updates; `{version}_tokens` names the last of
    them. Only writers that keep to the version are held apart: all should use this class. A deleted
    item begins at version 1 again, so mark items as deleted while updates may be under way.
    """

    def __init__(
        self,
        table: Any,
        *,
        version: str = "version",
        tries: int = 20,
        sleep: Callable[[float], object] = time.sleep,
        chance: Random | None = None,
    ) -> None:
        if tries < 1:
            raise UsageError(f"tries {tries}: give 1 or more")
        self._table, self._tries = table, tries
        self._version, self._tokens = version, f"{version}_tokens"
        self._sleep, self._chance = sleep, chance or Random()  # noqa: S311 - spreads waits, no secret

    def update(self, key: Mapping[str, Any], fn: Callable[[Item], Item]) -> Item:
        """Put what `fn` makes of the item of this `key`, and return it, as it is in the table.

        `fn` gets the item, or the key alone if there is none, and returns the new one; if it
        returns an equal one, nothing is written. It runs once for each try, so it must do nothing
        else. Of its results, one at most is put, also where an answer of DynamoDB is lost.

        Raises Contended after `tries` puts, if others were ahead of each: nothing was written.
        Raises Unknown if a put had no answer and the item cannot tell whether it was carried out:
        it was, once, or not at all. Other errors of `fn` and of the table are passed on.
        """
        token = secrets.token_urlsafe(11)
        doubted: int | None = None  # the version that a put without an answer would have made
        try:
            for tried in range(self._tries + 1):
                found = self._table.get_item(Key={**key}, ConsistentRead=True).get("Item")
                item = dict(found or key)
                version, tokens = int(item.get(self._version, 0)), self._tokens_of(item)
                if token in tokens:
                    return item
                if doubted is not None and version >= doubted:
                    if version - doubted >= REMEMBERED:
                        break
                    doubted = None  # another was put in its place: it can never be
                if tried == self._tries:
                    break
                made = _made(key, fn(deepcopy(item)))
                if made == item and doubted is None:
                    return item
                made[self._version] = version + 1
                made[self._tokens] = " ".join([*tokens[1 - REMEMBERED :], token])
                done = self._put(made, item, tried)
                if done:
                    return made
                doubted = version + 1 if done is None else doubted
            raise Contended(f"item {dict(key)!r}: others were ahead of all {self._tries} tries")
        except Exception as error:
            if doubted is None:
                raise
            told = f"item {dict(key)!r}: no answer, so it was updated once or not at all"
            raise Unknown(told) from error

    def _tokens_of(self, item: Item) -> list[str]:
        return str(item.get(self._tokens, "")).split()

    def _put(self, made: Item, item: Item, tried: int) -> bool | None:
        """Put what was made of an item: whether that was done, or None if nobody can say."""
        request: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(#v)"}
        if self._version in item:
            values = {":v": item[self._version]}
            request = {"ConditionExpression": "#v = :v", "ExpressionAttributeValues": values}
        names = {"#v": self._version}
        try:
            self._table.put_item(Item=made, ExpressionAttributeNames=names, **request)
        except Exception as error:
            if _doubtful(error):
                return None
            if _code(error) not in _AGAIN:
                raise
            most_s = min(DELAY_S_MAX, DELAY_S * 2 ** min(tried, 10))
            self._sleep(self._chance.random() * most_s)
            return False
        return True


def _made(key: Mapping[str, Any], made: object) -> Item:
    if isinstance(made, Mapping) and all(made.get(name) == key[name] for name in key):
        return dict(made)
    raise UsageError(f"fn gave {made!r}: return the new item, with its key {dict(key)!r}")


def _response(error: Exception) -> Item:
    return getattr(error, "response", None) or {}  # errors of the network have none, or None


def _code(error: Exception) -> str:
    return str(_response(error).get("Error", {}).get("Code", ""))


def _doubtful(error: Exception) -> bool:
    """Whether a put that ended so may have been carried out: without an answer, or if the SDK sent
    it more than once, and only the last answer is known.
    """
    told = _response(error).get("ResponseMetadata", {})
    again = told.get("RetryAttempts", 0) > 0 or told.get("HTTPStatusCode", 0) >= 500
    return again or any(base.__name__ in _NETWORK for base in type(error).__mro__)
