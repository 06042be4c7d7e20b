"""Lean tables answer as moto's do. Whatever is asked is asked of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core.exceptions import ServiceException
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.responses import DynamoHandler

from tallyroll.testing.direct_dynamodb import DirectDynamoDB
from tallyroll.testing.lean_dynamodb import LeanTable, lean_tables

LEAN, PLAIN = "lean-table", "plain-table"
BOTH = (LEAN, PLAIN)


@pytest.fixture(scope="module")
def dynamodb(made_up_aws: None) -> Iterator[Any]:
    with mock_aws(), lean_tables("lean-"):
        client = boto3.client("dynamodb", region_name="us-east-1")
        for table in BOTH:
            client.create_table(
                TableName=table,
                KeySchema=[
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[
                    {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        tables = dynamodb_backends["123456789012"]["us-east-1"].tables
        assert [type(tables[name]) is LeanTable for name in BOTH] == [True, False]
        yield client


@pytest.fixture
def filled(dynamodb: Any) -> Any:
    """The client of both tables, each with the same seven items in two partitions."""
    for table in BOTH:
        for item in items(dynamodb, table):
            key = {name: item[name] for name in ("pk", "sk")}
            dynamodb.delete_item(TableName=table, Key=key)
        for number in range(6):
            dynamodb.put_item(TableName=table, Item=item_of(f"s{number}", n=number))
        dynamodb.put_item(TableName=table, Item={**item_of("s1", n=9), "pk": {"S": "other"}})
    return dynamodb


def item_of(sk: str, **numbers: int) -> dict[str, Any]:
    return {
        "pk": {"S": "p"},
        "sk": {"S": sk},
        **{name: {"N": str(number)} for name, number in numbers.items()},
    }


def items(dynamodb: Any, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dynamodb.scan(TableName=table)["Items"]
    return sorted(found, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))


def answers(reply: dict[str, Any]) -> dict[str, Any]:
    return {
        name: reply.get(name) for name in ("Items", "Count", "ScannedCount", "LastEvaluatedKey")
    }


KEY = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "p"}}}


@pytest.mark.parametrize(
    "asked",
    [
        KEY,
        {**KEY, "ScanIndexForward": False},
        {**KEY, "Limit": 2},
        {**KEY, "Limit": 2, "ExclusiveStartKey": {"pk": {"S": "p"}, "sk": {"S": "s1"}}},
        {
            **KEY,
            "ScanIndexForward": False,
            "Limit": 3,
            "ExclusiveStartKey": {"pk": {"S": "p"}, "sk": {"S": "s4"}},
        },
        {
            "KeyConditionExpression": "pk = :p and sk between :a and :b",
            "ExpressionAttributeValues": {
                ":p": {"S": "p"},
                ":a": {"S": "s1"},
                ":b": {"S": "s4"},
                ":n": {"N": "3"},
            },
            "FilterExpression": "n < :n",
        },
        {**KEY, "ProjectionExpression": "sk", "Limit": 4},
        {**KEY, "ExpressionAttributeValues": {":p": {"S": "nobody"}}},
    ],
)
def test_a_query_finds_the_same(filled: Any, asked: dict[str, Any]) -> None:
    lean, plain = (answers(filled.query(TableName=table, **asked)) for table in BOTH)
    assert lean == plain


def put(sk: str, **more: Any) -> dict[str, Any]:
    return {"Put": {"Item": item_of(sk, n=100), **more}}


def add(sk: str, to: str = "n", value: str = "1") -> dict[str, Any]:
    return {
        "Update": {
            "Key": item_of(sk),
            "UpdateExpression": f"ADD {to} :v",
            "ExpressionAttributeValues": {":v": {"N": value}},
        }
    }


ABSENT = {"ConditionExpression": "attribute_not_exists(pk)"}
DELETE = {"Delete": {"Key": item_of("s2")}}
CHECK = {"ConditionCheck": {"Key": item_of("s3"), "ConditionExpression": "attribute_exists(pk)"}}
TELLING = {**ABSENT, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


@pytest.mark.parametrize(
    "actions",
    [
        [put("new", **ABSENT), add("s1"), add("fresh"), DELETE, CHECK],
        [put("new"), put("s0", **ABSENT), add("s1")],
        [put("new"), put("s0", **TELLING), add("s1")],
        [put("new"), add("new")],
        [put("new"), put("s0"), add("s1"), DELETE, add("s4", to="pk")],
        [put(f"s{number}") for number in range(101)],
    ],
    ids=["all kinds", "condition", "told", "twice", "update refused", "too many"],
)
def test_a_transaction_does_the_same_or_nothing(
    filled: Any, actions: list[dict[str, dict[str, Any]]]
) -> None:
    before = items(filled, PLAIN)
    results = []
    for table in BOTH:
        asked = [
            {kind: {"TableName": table, **of} for kind, of in each.items()} for each in actions
        ]
        try:
            filled.transact_write_items(TransactItems=asked)
        except ClientError as error:
            reasons = error.response.get("CancellationReasons")
            results.append((error.response["Error"]["Code"], reasons))
        else:
            results.append(("", None))
    assert results[0] == results[1]
    assert items(filled, LEAN) == items(filled, PLAIN)
    assert (items(filled, LEAN) == before) is bool(results[0][0])


def test_an_error_in_the_middle_puts_everything_back(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that moto itself does not expect."""
    backend = dynamodb_backends["123456789012"]["us-east-1"]

    def broken(*_: object) -> None:
        raise KeyError("moto's own")

    monkeypatch.setattr(backend, "delete_item", broken)
    before = items(filled, LEAN)
    actions = [put("new"), put("s0"), add("s1"), add("fresh"), DELETE]
    asked = [{kind: {"TableName": LEAN, **of} for kind, of in each.items()} for each in actions]
    with pytest.raises(ClientError) as caught:
        filled.transact_write_items(TransactItems=asked)
    assert caught.value.response["Error"]["Code"] == "TransactionCanceledException"
    codes = [reason["Code"] for reason in caught.value.response["CancellationReasons"]]
    assert codes == ["None"] * 4 + ["KeyError"]
    assert items(filled, LEAN) == before


def test_a_table_of_one_key_does_the_same_and_puts_its_items_back(dynamodb: Any) -> None:
    """Such as that of identities, in one transaction with a table of two keys."""

    def named(pk: str, **condition: str) -> dict[str, Any]:
        item = {"pk": {"S": pk}, "n": {"N": "1"}, "h": {"B": b"digest"}}
        return {"TableName": table, "Item": item, **condition}

    answers = []
    for table, beside in (("lean-names", LEAN), ("plain-names", PLAIN)):
        dynamodb.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        dynamodb.put_item(**named("taken"))
        record = {"Put": {"TableName": beside, "Item": item_of("beside")}}
        refused = [record, {"Put": named("new")}, {"Put": named("taken", **TELLING)}]
        with pytest.raises(ClientError) as caught:
            dynamodb.transact_write_items(TransactItems=refused)
        broken = {"Update": {"TableName": beside, **add("s0", to="pk")["Update"]}}
        with pytest.raises(ClientError):
            dynamodb.transact_write_items(
                TransactItems=[{"Put": {**named("taken"), "Item": {"pk": {"S": "taken"}}}}, broken]
            )
        fine = [record, {"Put": named("next", **ABSENT)}]
        dynamodb.transact_write_items(TransactItems=fine)
        keys = [{"pk": {"S": pk}} for pk in ("taken", "new", "next")]
        found = dynamodb.batch_get_item(RequestItems={table: {"Keys": keys}})["Responses"][table]
        asked = {**KEY, "ExpressionAttributeValues": {":p": {"S": "taken"}}}
        answers.append(
            (
                caught.value.response["CancellationReasons"],
                sorted(found, key=str),
                dynamodb.query(TableName=table, **asked)["Items"],
            )
        )
    assert answers[0] == answers[1]
    assert [item["pk"]["S"] for item in answers[0][1]] == ["next", "taken"]
    tables = dynamodb_backends["123456789012"]["us-east-1"].tables
    kinds = [type(tables[name]) is LeanTable for name in ("lean-names", "plain-names")]
    assert kinds == [True, False]
    for table in ("lean-names", "plain-names"):
        dynamodb.delete_table(TableName=table)


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("get_item", {"TableName": "nowhere", "Key": item_of("s0")}),
        ("put_item", {"TableName": LEAN, "Item": item_of("s0"), **TELLING}),
        (
            "transact_write_items",
            {
                "TransactItems": [
                    {"Put": {"TableName": LEAN, "Item": item_of("new")}},
                    {"Put": {"TableName": LEAN, "Item": item_of("s0"), **TELLING}},
                ]
            },
        ),
    ],
)
def test_an_error_is_the_same_without_boto3(
    filled: Any, operation: str, asked: dict[str, Any]
) -> None:
    told = []
    for client in (DirectDynamoDB(filled), filled):
        with pytest.raises(ClientError) as caught:
            getattr(client, operation)(**asked)
        response: Any = caught.value.response
        told.append(
            (
                response["Error"]["Code"],
                response["Error"]["Message"],
                response.get("Item"),
                response.get("CancellationReasons"),
            )
        )
    assert told[0] == told[1]


def test_the_newer_errors_of_moto_are_understood(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise ServiceException("LimitExceededException", "too many at once")

    monkeypatch.setattr(DynamoHandler, "get_item", refuse)
    with pytest.raises(ClientError, match=r"LimitExceededException.*: too many at once"):
        DirectDynamoDB(filled).get_item(TableName=LEAN, Key=item_of("s0"))


def test_other_operations_go_through_boto3(filled: Any) -> None:
    assert {*DirectDynamoDB(filled).list_tables()["TableNames"]} == {*BOTH}
