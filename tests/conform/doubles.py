"""Endpoints that break one rule each on purpose: clients in front of DynamoDB Local."""

from __future__ import annotations

import threading
from copy import deepcopy
from decimal import Context, Decimal
from typing import Any

from botocore.exceptions import ClientError

WAIT_S = 60
CONDITION = ("ConditionExpression", "ReturnValuesOnConditionCheckFailure")
EXPRESSED = ("ExpressionAttributeNames", "ExpressionAttributeValues")
Params = dict[str, Any]


class Double:
    """A client that hands everything on. All clients of one run share `shared` and `lock`."""

    def __init__(self, client: Any, shared: dict[Any, Any], lock: threading.Lock) -> None:
        self.client, self.shared, self.lock = client, shared, lock

    def __getattr__(self, method: str) -> Any:
        return getattr(self.client, method)


def without(params: Params, *names: str) -> Params:
    """The parameters without some."""
    return {name: value for name, value in params.items() if name not in names}


def puts(params: Params) -> list[Params]:
    """The items that a transaction puts."""
    return [action["Put"]["Item"] for action in params["TransactItems"] if "Put" in action]


def changeable(params: Params) -> Params:
    """The parameters of a transaction with actions of their own."""
    return {**params, "TransactItems": [dict(action) for action in params["TransactItems"]]}


def puts_for(params: Params, key: str) -> bool:
    """Whether a transaction puts records of this key."""
    return any(item["pk"]["S"].startswith(f"{key}.") for item in puts(params))


class UnconditionalPuts(Double):
    """Single puts ignore their conditions."""

    def put_item(self, **params: Any) -> Any:
        return self.client.put_item(**without(params, *CONDITION, *EXPRESSED))


class UnconditionalUpdates(Double):
    """Single updates ignore their conditions."""

    def update_item(self, **params: Any) -> Any:
        return self.client.update_item(**without(params, *CONDITION))


class UnconditionalTransactedPuts(Double):
    """Puts in transactions ignore their conditions."""

    def transact_write_items(self, **params: Any) -> Any:
        actions = [
            {"Put": without(action["Put"], *CONDITION)} if "Put" in action else action
            for action in params["TransactItems"]
        ]
        return self.client.transact_write_items(**{**params, "TransactItems": actions})


class LeavesParts(Double):
    """A cancelled transaction leaves the puts that were not to blame."""

    def transact_write_items(self, **params: Any) -> Any:
        try:
            return self.client.transact_write_items(**params)
        except ClientError as error:
            reasons: Any = error.response.get("CancellationReasons", [])
            codes = [reason["Code"] for reason in reasons]
            if codes and codes[0] == "None":
                for action, code in zip(params["TransactItems"], codes, strict=True):
                    if "Put" in action and code == "None":
                        self.client.transact_write_items(TransactItems=[action])
            raise


class LosesUpdates(Double):
    """A transaction reads a tally, and writes its sum after another one has added to it."""

    def transact_write_items(self, **params: Any) -> Any:
        if not puts_for(params, "hot"):
            return self.client.transact_write_items(**params)
        actions, names = deepcopy(params["TransactItems"]), {put["sk"]["S"] for put in puts(params)}
        updates = [action["Update"] for action in actions if "Update" in action]
        (update,) = (each for each in updates if each["Key"]["sk"]["S"].startswith("t#hot."))
        with self.lock:
            slow = "names" not in self.shared
            if slow:
                self.shared |= {"names": names, "stripe": update["Key"]}
                self.shared |= {name: threading.Event() for name in ("read", "passed", "done")}
        if slow:
            reply = self._read_then_write(actions, update)
            self.shared["done"].set()
            return reply
        if names & self.shared["names"]:
            assert self.shared["done"].wait(WAIT_S)
        assert self.shared["read"].wait(WAIT_S)
        update["Key"] = self.shared["stripe"]
        reply = self.client.transact_write_items(TransactItems=actions)
        self.shared["passed"].set()
        return reply

    def _read_then_write(self, actions: list[Params], update: Params) -> Any:
        place = {"TableName": update["TableName"], "Key": update["Key"]}
        read = self.client.get_item(**place, ConsistentRead=True).get("Item", {})
        self.shared["read"].set()
        assert self.shared["passed"].wait(WAIT_S)
        values = update["ExpressionAttributeValues"]
        for name, value in values.items():
            if "N" not in value:
                continue  # the blocks of the records' shards
            before = Decimal(read.get(name[1:], {"N": "0"})["N"])
            value["N"] = str(before + Decimal(value["N"]))
        names = ", ".join(f"{name[1:]} = {name}" for name in values)
        update["UpdateExpression"] = f"SET {names}"
        return self.client.transact_write_items(TransactItems=actions)


class Reasons(Double):
    """Changes the reasons of cancelled transactions."""

    def changed(self, reasons: list[Params]) -> list[Params]:
        raise NotImplementedError

    def transact_write_items(self, **params: Any) -> Any:
        try:
            return self.client.transact_write_items(**params)
        except ClientError as error:
            response: Any = error.response
            if reasons := response.get("CancellationReasons"):
                response["CancellationReasons"] = self.changed(reasons)
            raise


class ReversedReasons(Reasons):
    """Reasons stand in another order than the actions."""

    def changed(self, reasons: list[Params]) -> list[Params]:
        return reasons[::-1]


class ReasonsWithoutItems(Reasons):
    """Reasons do not have the stored items."""

    def changed(self, reasons: list[Params]) -> list[Params]:
        return [without(reason, "Item") for reason in reasons]


class NoReasons(Reasons):
    """A cancelled transaction says nothing of its actions."""

    def changed(self, reasons: list[Params]) -> list[Params]:
        return []


class OnlyFirstReason(Reasons):
    """Only the first failed condition is named."""

    def changed(self, reasons: list[Params]) -> list[Params]:
        failed = [at for at, reason in enumerate(reasons) if reason["Code"] != "None"]
        return [
            reason if at <= failed[0] else {"Code": "None"} for at, reason in enumerate(reasons)
        ]


class Stale(Double):
    """What a transaction put is not in the first read that should have it."""

    def transact_write_items(self, **params: Any) -> Any:
        reply = self.client.transact_write_items(**params)
        with self.lock:
            self.shared.setdefault("fresh", set()).update(map(primary, puts(params)))
        return reply

    def late(self, items: list[Params]) -> list[Params]:
        with self.lock:
            fresh = self.shared.setdefault("fresh", set())
            hidden = fresh & set(map(primary, items))
            fresh -= hidden
        return [item for item in items if primary(item) not in hidden]


def primary(item: Params) -> tuple[str, str]:
    """The primary key of an item."""
    return item["pk"]["S"], item["sk"]["S"]


class StaleGets(Stale):
    """GetItem lags."""

    def get_item(self, **params: Any) -> Any:
        reply = self.client.get_item(**params)
        return reply if "Item" in reply and self.late([reply["Item"]]) else {}


class StaleQueries(Stale):
    """Query lags."""

    def query(self, **params: Any) -> Any:
        reply = self.client.query(**params)
        return {**reply, "Items": self.late(reply["Items"])}


class StaleScans(Stale):
    """Scan lags."""

    def scan(self, **params: Any) -> Any:
        reply = self.client.scan(**params)
        return {**reply, "Items": self.late(reply["Items"])}


class LacksKeys(Double):
    """A large BatchGetItem silently leaves a key out."""

    def batch_get_item(self, **params: Any) -> Any:
        reply = self.client.batch_get_item(**params)
        for items in reply["Responses"].values():
            if len(items) > 20:
                items.pop()
        return reply


class StaleBatches(Double):
    """A BatchGetItem does not have what was written last."""

    def batch_get_item(self, **params: Any) -> Any:
        reply = self.client.batch_get_item(**params)
        for table, items in reply["Responses"].items():
            late = [item for item in items if item["sk"]["S"].startswith("e#late-")]
            newest = max((item["sk"]["S"] for item in late), default="")
            reply["Responses"][table] = [
                item for item in items if item["sk"]["S"] != newest or not newest
            ]
        return reply


class LosesPages(Double):
    """A Query with a small limit does not say that there is more."""

    def query(self, **params: Any) -> Any:
        reply = self.client.query(**params)
        return without(reply, "LastEvaluatedKey") if params.get("Limit", 100) < 10 else reply


class Utf16Order(Double):
    """A Query sorts as UTF-16 does."""

    def query(self, **params: Any) -> Any:
        reply = self.client.query(**params)
        reply["Items"].sort(key=lambda item: item["sk"]["S"].encode("utf-16-be"))
        return reply


class LosesScanned(Double):
    """A parallel Scan leaves out the last item of a segment."""

    def scan(self, **params: Any) -> Any:
        reply = self.client.scan(**params)
        if params["TotalSegments"] > 1:
            reply["Items"] = [item for item in reply["Items"] if item["sk"]["S"] != "e#bb"]
        return reply


class FoldsCase(Double):
    """Keys are compared without their case."""

    def transact_write_items(self, **params: Any) -> Any:
        params = changeable(params)
        for item in puts(params):
            item["pk"]["S"] = item["pk"]["S"].lower()
        return self.client.transact_write_items(**params)


class Rounds(Double):
    """A sum has 28 digits, like Python's decimals."""

    def transact_write_items(self, **params: Any) -> Any:
        params = deepcopy(params)
        if puts_for(params, "numbers"):
            for action in params["TransactItems"]:
                if "Update" in action:
                    self._round(action["Update"])
        return self.client.transact_write_items(**params)

    def _round(self, update: Params) -> None:
        place = {"TableName": update["TableName"], "Key": update["Key"]}
        item = self.client.get_item(**place, ConsistentRead=True).get("Item", {})
        before = Decimal(item.get("v", {"N": "0"})["N"])
        value = update["ExpressionAttributeValues"][":v"]
        exact = Context(prec=60)
        rounded = Context(prec=28).add(before, Decimal(value["N"]))
        value["N"] = f"{exact.subtract(rounded, before):f}"


class IgnoresGates(Double):
    """ConditionChecks find every gate open."""

    def transact_write_items(self, **params: Any) -> Any:
        params = deepcopy(params)
        for action in params["TransactItems"]:
            if "ConditionCheck" in action and puts_for(params, "gates"):
                check = without(action["ConditionCheck"], *CONDITION, *EXPRESSED)
                action["ConditionCheck"] = {**check, "ConditionExpression": "attribute_exists(pk)"}
        return self.client.transact_write_items(**params)


class ChecksGatesEarly(Double):
    """A ConditionCheck is evaluated before the transaction is carried out, not with it: one that
    found its gate open is carried out after all gates have been shut, and the tallies read.
    """

    GATES, BUCKETS = 8, 4

    def transact_write_items(self, **params: Any) -> Any:
        first, *others = params["TransactItems"]
        if puts_for(params, "gates"):
            with self.lock:
                sealed = self.shared.setdefault("sealed", threading.Event())
                chosen = self.shared.setdefault("sent", 0) == 1
                self.shared["sent"] += 1
            if chosen:
                check = first["ConditionCheck"]
                place = {"TableName": check["TableName"], "Key": check["Key"]}
                gate = self.client.get_item(**place, ConsistentRead=True)["Item"]
                assert gate["open"]["BOOL"]
                assert sealed.wait(WAIT_S)
                return self.client.transact_write_items(TransactItems=others)
        return self.client.transact_write_items(**params)

    def update_item(self, **params: Any) -> Any:
        reply = self.client.update_item(**params)
        with self.lock:
            shut = self.shared.setdefault("gates", 0) + params["Key"]["pk"]["S"].startswith("~g.")
            self.shared["gates"] = shut
        return reply

    def query(self, **params: Any) -> Any:
        reply = self.client.query(**params)
        with self.lock:
            if self.shared.get("gates") == self.GATES:
                self.shared["read"] = self.shared.get("read", 0) + 1
                if self.shared["read"] == self.BUCKETS:
                    self.shared["sealed"].set()
        return reply


class IgnoresTokens(Double):
    """ClientRequestToken is ignored."""

    def transact_write_items(self, **params: Any) -> Any:
        return self.client.transact_write_items(**without(params, "ClientRequestToken"))


class SplitsLarge(Double):
    """A transaction over the limit is carried out in parts."""

    def transact_write_items(self, **params: Any) -> Any:
        actions = params["TransactItems"]
        half = len(actions) // 2
        parts = (actions[:half], actions[half:]) if len(actions) > 100 else (actions,)
        for part in parts:
            self.client.transact_write_items(**{**params, "TransactItems": part})
        return {}


class CutsItems(Double):
    """Items over the limit are cut, and stored."""

    def transact_write_items(self, **params: Any) -> Any:
        params = changeable(params)
        for item in puts(params):
            if len(item.get("data", {}).get("B", b"")) > 400_000:
                item["data"]["B"] = item["data"]["B"][:400_000]
        return self.client.transact_write_items(**params)
