"""`VersionedTable` on DynamoDB Local: no update is lost, none is made twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from botocore.httpsession import URLLib3Session

from tallyroll import VersionedTable, locking
from tallyroll.errors import Contended, Unknown, UsageError

pytestmark = pytest.mark.engine

KEY = {"pk": "item"}
WRITERS = 50
Item = dict[str, Any]
Fault = Callable[[Any], None]


def table_at(endpoint: str, *, attempts: int = 1) -> Any:
    """A new table, as a resource whose SDK sends a request so often at most."""
    config = Config(max_pool_connections=WRITERS, retries={"total_max_attempts": attempts})
    resource = boto3.resource("dynamodb", endpoint_url=endpoint, config=config)
    return resource.create_table(
        TableName=f"t{uuid4().hex[:12]}",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


@pytest.fixture
def table(dynamodb_endpoint: str) -> Any:
    return table_at(dynamodb_endpoint)


def strike(table: Any, fault: Callable[[Any], None]) -> None:
    """Have `fault` do what it likes with each put on its way."""
    table.meta.client.meta.events.register(
        "before-send.dynamodb.PutItem", lambda request, **_: fault(request)
    )


def carried_out(request: Any) -> None:
    with_answer = URLLib3Session().send(request)
    assert with_answer.status_code in (200, 400)


def lost_answer(request: Any) -> None:
    carried_out(request)
    raise ReadTimeoutError(endpoint_url="the table")


def lost_request(_: Any) -> None:
    raise ConnectTimeoutError(endpoint_url="the table")


def once(*faults: Fault) -> Fault:
    """These faults, one a put; later puts meet none."""
    left = [*faults]

    def fault(request: Any) -> None:
        if left:
            left.pop(0)(request)

    return fault


def one_more(item: Item) -> Item:
    return {**item, "number": item.get("number", Decimal(0)) + 1}


def marked(mark: str, item: Item) -> Item:
    return {**item, "marks": [*item.get("marks", ()), mark]}


def stored(table: Any) -> Item:
    found: Item = table.get_item(Key=KEY, ConsistentRead=True)["Item"]
    return found


def by_all(update: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(update, range(WRITERS)))


class Unconditional:
    """A table whose puts ask nothing."""

    def __init__(self, table: Any) -> None:
        self._table, self.get_item = table, table.get_item

    def put_item(self, *, Item: Item, **_: Any) -> Any:  # noqa: N803
        return self._table.put_item(Item=Item)


# --- many writers


def test_fifty_writers_of_one_item_lose_nothing(table: Any) -> None:
    def mark(writer: int) -> None:
        accounts = VersionedTable(table, tries=10_000)
        accounts.update(KEY, lambda item: {**one_more(item), f"by-{writer}": True})

    by_all(mark)

    item = stored(table)
    assert (item["number"], item["version"]) == (WRITERS, WRITERS)
    assert {f"by-{writer}" for writer in range(WRITERS)} <= item.keys()
    assert len(item["version_tokens"].split()) == locking.REMEMBERED


def test_without_the_condition_updates_are_lost(table: Any) -> None:
    all_have_read = threading.Barrier(WRITERS)

    def mark(item: Item) -> Item:
        all_have_read.wait()
        return one_more(item)

    by_all(lambda _: VersionedTable(Unconditional(table)).update(KEY, mark))
    assert stored(table)["number"] == 1


def under_faults(table: Any, seed: int) -> tuple[list[str], set[str], set[str]]:
    """Marks that five writers make in one item while requests and answers are lost: those that are
    in it, those that must be, and those that must not.
    """
    chance = Random(seed)

    def fault(request: Any) -> None:
        drawn = chance.random()
        if drawn < 0.4:
            (lost_answer if drawn < 0.3 else lost_request)(request)

    strike(table, fault)
    must, must_not = set[str](), set[str]()

    def write(writer: int) -> None:
        own = VersionedTable(table, tries=8, chance=Random(writer), sleep=lambda _: None)
        for mark in (f"{writer}-{at}" for at in range(6)):
            try:
                own.update(KEY, partial(marked, mark))
                must.add(mark)
            except Contended:
                must_not.add(mark)
            except Unknown:
                pass

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(write, range(5)))
    return stored(table)["marks"], must, must_not


@pytest.mark.parametrize("attempts", [1, 3])
def test_lost_answers_make_no_update_twice(dynamodb_endpoint: str, attempts: int) -> None:
    marks, must, must_not = under_faults(table_at(dynamodb_endpoint, attempts=attempts), 7)
    assert len(marks) == len({*marks})
    assert must <= {*marks}
    assert len(must) >= 10
    assert not must_not & {*marks}


@pytest.mark.parametrize("attempts", [1, 3])
def test_without_the_token_they_do(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    monkeypatch.setattr(VersionedTable, "_tokens_of", lambda *_: [])
    marks, _, _ = under_faults(table_at(dynamodb_endpoint, attempts=attempts), 7)
    assert len(marks) > len({*marks})


# --- one writer, one fault


@pytest.mark.parametrize("fault", [lost_answer, lost_request])
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_lost_put_is_made_once(dynamodb_endpoint: str, fault: Fault, attempts: int) -> None:
    table = table_at(dynamodb_endpoint, attempts=attempts)
    strike(table, once(fault))
    made = VersionedTable(table).update(KEY, one_more)
    assert made == stored(table)
    assert (made["number"], made["version"]) == (1, 1)


def test_a_put_that_arrives_late_finds_another_in_its_place(table: Any) -> None:
    late: list[Any] = []

    def delayed(request: Any) -> None:
        late.append(request)
        raise ReadTimeoutError(endpoint_url="the table")

    strike(table, once(delayed))
    VersionedTable(table).update(KEY, one_more)
    carried_out(late.pop())
    assert stored(table)["number"] == 1


@pytest.mark.parametrize(("others", "told"), [(15, True), (16, False)])
def test_what_others_wrote_since_tells_or_it_is_unknown(
    table: Any, others: int, told: bool
) -> None:
    def overtaken(request: Any) -> None:
        carried_out(request)
        for _ in range(others):
            VersionedTable(table).update(KEY, one_more)
        lost_request(request)

    strike(table, once(overtaken))
    if told:
        assert VersionedTable(table).update(KEY, one_more)["number"] == others + 1
    else:
        with pytest.raises(Unknown, match="updated once or not at all"):
            VersionedTable(table).update(KEY, one_more)
    assert stored(table)["number"] == others + 1


def test_without_a_network_the_outcome_is_unknown(table: Any) -> None:
    strike(table, lost_request)
    with pytest.raises(Unknown) as raised:
        VersionedTable(table, tries=3).update(KEY, one_more)
    assert isinstance(raised.value.__cause__, Contended)
    assert "Item" not in table.get_item(Key=KEY)


# --- conflicts, and what is told


def test_a_writer_that_is_always_behind_gives_up_and_says_so(table: Any) -> None:
    slept: list[float] = []

    def behind(item: Item) -> Item:
        VersionedTable(table).update(KEY, one_more)
        return {**item, "mine": True}

    chance = Random(5)
    with pytest.raises(Contended, match=r"\{'pk': 'item'\}: others were ahead of all 8 tries"):
        VersionedTable(table, tries=8, sleep=slept.append, chance=Random(5)).update(KEY, behind)
    assert slept == [chance.random() * min(1.0, 0.02 * 2**tried) for tried in range(8)]
    assert "mine" not in stored(table)
    assert stored(table)["number"] == 8


def test_an_equal_item_is_not_written(table: Any) -> None:
    made = VersionedTable(table).update(KEY, one_more)
    strike(table, lost_request)
    assert VersionedTable(table).update(KEY, lambda item: item) == made


def test_an_item_changed_in_place_is_written(table: Any) -> None:
    def change(item: Item) -> Item:
        item.setdefault("lines", []).append("x")
        return item

    for _ in range(2):
        VersionedTable(table, version="v").update(KEY, change)
    assert (stored(table)["lines"], stored(table)["v"]) == (["x", "x"], 2)


def test_an_account_stays_locked_if_a_login_fails_since_the_read(table: Any) -> None:
    """AWS's example: what was decided by an older state of the item is decided anew."""
    accounts, day_s = VersionedTable(table, version="versionNum"), 86_400
    accounts.update(KEY, lambda item: {**item, "accountLocked": "Y", "lastFailedLoginTime": 0})
    failed: list[Item] = []

    def fail(item: Item) -> Item:
        return {**item, "lastFailedLoginTime": day_s}

    def unlock(item: Item) -> Item:
        if day_s + 1 <= item["lastFailedLoginTime"] + day_s:
            return item
        if not failed:  # between the first read and its put
            failed.append(VersionedTable(table, version="versionNum").update(KEY, fail))
        return {**item, "accountLocked": "N"}

    found = accounts.update(KEY, unlock)
    assert [found] == failed == [stored(table)]
    assert (found["accountLocked"], found["versionNum"]) == ("Y", 2)


def test_an_item_from_before_gets_a_version(table: Any) -> None:
    table.put_item(Item={**KEY, "number": 6})
    assert VersionedTable(table).update(KEY, one_more)["number"] == 7
    assert stored(table)["version"] == 1


@pytest.mark.parametrize("made", [None, {}, {"pk": "another"}])
def test_what_is_no_such_item_is_refused(table: Any, made: Any) -> None:
    with pytest.raises(UsageError, match="return the new item"):
        VersionedTable(table).update(KEY, lambda _: made)
    with pytest.raises(UsageError, match="tries 0"):
        VersionedTable(table, tries=0)


def test_other_errors_are_the_callers(table: Any) -> None:
    too_large = {**KEY, "large": "x" * 500_000}
    with pytest.raises(ClientError, match="ValidationException"):
        VersionedTable(table).update(KEY, lambda _: too_large)
    with pytest.raises(ZeroDivisionError):
        VersionedTable(table).update(KEY, lambda _: {"pk": 1 // 0})
