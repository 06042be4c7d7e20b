"""Each rule asks what AWS's documents say, under each of their readings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.strict.items import transactions
from tests.strict.quotas import invoking, publishing, reserving
from tests.strict.requests import request_of
from tests.strict.roles import Role
from tests.strict.rules import RULES, UnknownRequestError, questions
from tests.strict.values import (
    READINGS,
    Account,
    Parts,
    Question,
    Reading,
    Refusal,
    Request,
    Value,
    after,
    bucket_arn,
    question,
    queue_arn,
    table_arn,
)

READING = READINGS[0]
KEY, QUEUE = "arn:aws:kms:::key/1", "https://sqs.us-east-1.amazonaws.com/123456789012/events"
T, B = table_arn("t"), bucket_arn("b")
UPDATE: dict[str, Any] = {
    "TableName": "t",
    "Key": {"pk": {"S": "k"}, "sk": {"S": "s"}},
    "UpdateExpression": "SET #a = if_not_exists(#a, :zero), plain = :one",
    "ConditionExpression": "attribute_not_exists(#g) AND size(other) < :one",
    "ExpressionAttributeNames": {"#a": "at", "#g": "gone"},
}
CHECK: dict[str, Any] = {
    "TableName": "t",
    "Key": {"pk": {"S": "gate"}, "sk": {"S": "s"}},
    "ConditionExpression": "#o = :true",
    "ExpressionAttributeNames": {"#o": "open"},
}
TRANSACTION = {"TransactItems": [{"ConditionCheck": CHECK}, {"Update": UPDATE}]}
NEW_TABLE = {
    "TableName": "t",
    "Tags": [{"Key": "team", "Value": "a"}],
    "ResourcePolicy": "{}",
    "SSESpecification": {"KMSMasterKeyId": KEY},
}
EXPORT = {"TableArn": T, "S3Bucket": "b", "S3Prefix": "p", "S3SseKmsKeyId": KEY}


def asked(
    operation: str,
    params: dict[str, Any],
    account: Account | None = None,
    *,
    service: str = "dynamodb",
    reading: Reading = READING,
) -> list[Question]:
    return questions(Request(service, operation, params), account or Account(), reading)


def actions(found: list[Question]) -> set[tuple[str, str]]:
    return {(one.action, one.resource) for one in found}


def test_each_rule_names_its_source_and_says_its_fact() -> None:
    for rule in RULES:
        assert '"' in rule.source
        assert rule.asks.__doc__


def test_what_no_rule_knows_is_no_answer() -> None:
    with pytest.raises(UnknownRequestError, match="dynamodb: RestoreTableFromBackup"):
        asked("RestoreTableFromBackup", {})


# --- items


@pytest.mark.parametrize(
    ("counted", "attributes"),
    [(False, ("at", "pk", "plain", "sk")), (True, ("at", "gone", "other", "pk", "plain", "sk"))],
)
def test_attributes_are_those_of_the_item_or_also_of_conditions(
    attributes: tuple[str, ...], *, counted: bool
) -> None:
    params = {**UPDATE, "ReturnValues": "ALL_NEW"}
    [one] = asked("UpdateItem", params, reading=Reading(True, Parts.OWN, counted))
    assert (one.action, one.resource) == ("dynamodb:UpdateItem", T)
    assert one.context == {
        "dynamodb:LeadingKeys": ("k",),
        "dynamodb:Attributes": attributes,
        "dynamodb:ReturnValues": "ALL_NEW",
    }


@pytest.mark.parametrize("enclosed", [True, False])
@pytest.mark.parametrize(
    ("parts", "of_check", "of_update"),
    [
        (Parts.OWN, ("gate",), ("k",)),
        (Parts.ALL, ("gate", "k"), ("gate", "k")),
        (Parts.NONE, None, None),
    ],
)
def test_a_part_of_a_transaction_asks_for_its_own_action(
    parts: Parts, of_check: Value | None, of_update: Value | None, *, enclosed: bool
) -> None:
    reading = Reading(enclosed, parts, conditions_count=True)
    check, update = asked("TransactWriteItems", TRANSACTION, reading=reading)
    assert (check.action, update.action) == ("dynamodb:ConditionCheckItem", "dynamodb:UpdateItem")
    assert check.context.get("dynamodb:LeadingKeys") == of_check
    assert update.context.get("dynamodb:LeadingKeys") == of_update
    assert ("dynamodb:Attributes" in update.context) is (parts is not Parts.NONE)
    assert ("dynamodb:EnclosingOperation" in check.context) is enclosed
    assert update.context["dynamodb:EnclosingOperation"] == "TransactWriteItems"


def test_only_a_transaction_encloses() -> None:
    [one] = asked("UpdateItem", UPDATE)
    assert "dynamodb:EnclosingOperation" not in one.context
    assert list(transactions(Request("dynamodb", "UpdateItem", UPDATE), Account(), READING)) == []


def test_batches_and_queries_have_the_partition_keys_that_they_name_and_scans_none() -> None:
    keys = [{"pk": {"S": one}, "sk": {"S": "s"}} for one in ("b", "a", "b")]
    [batch] = asked("BatchGetItem", {"RequestItems": {"t": {"Keys": keys}}})
    query = {
        "TableName": "t",
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :sk)",
        "ExpressionAttributeValues": {":pk": {"S": "a"}, ":sk": {"S": "s"}},
    }
    [queried] = asked("Query", query)
    [scanned] = asked("Scan", {"TableName": "t"})
    assert batch.context == {"dynamodb:LeadingKeys": ("a", "b")}
    assert queried.context == {"dynamodb:LeadingKeys": ("a",)}
    assert scanned.context == {}


# --- tags


def test_a_new_table_asks_for_what_comes_with_it() -> None:
    plain = asked("CreateTable", {"TableName": "t"})
    assert actions(plain) == {("dynamodb:CreateTable", T)}
    found = asked("CreateTable", NEW_TABLE)
    of_table = {one.action for one in found if one.resource == T}
    assert of_table == {
        "dynamodb:CreateTable",
        "dynamodb:TagResource",
        "dynamodb:PutResourcePolicy",
    }


def test_tags_are_seen_on_tables_and_in_requests() -> None:
    account = after(Account(), Request("dynamodb", "CreateTable", NEW_TABLE))
    tagging = {"ResourceArn": T, "Tags": [{"Key": "proven", "Value": "1"}]}
    [tag] = asked("TagResource", tagging, account)
    assert tag.context == {
        "aws:RequestTag/proven": "1",
        "aws:ResourceTag/team": "a",
        "aws:TagKeys": ("proven",),
    }
    account = after(account, Request("dynamodb", "TagResource", tagging))
    both = {"aws:ResourceTag/team": "a", "aws:ResourceTag/proven": "1"}
    for operation, params in (
        ("DeleteTable", {"TableName": "t"}),
        ("DescribeExport", {"ExportArn": f"{T}/export/1"}),
    ):
        [one] = asked(operation, params, account)
        assert one.context == both
    account = after(account, Request("dynamodb", "DeleteTable", {"TableName": "t"}))
    assert (account.tags, account.keys) == ({}, {})


def test_without_tag_control_no_request_has_tags() -> None:
    account = Account(tag_control=False, tags={T: {"proven": "1"}})
    tagging = {"ResourceArn": T, "Tags": [{"Key": "proven", "Value": "1"}]}
    for operation, params in (("DeleteTable", {"TableName": "t"}), ("TagResource", tagging)):
        [one] = asked(operation, params, account)
        assert one.context == {}


# --- keys


def test_who_chooses_a_key_needs_the_documented_minimum_on_it() -> None:
    found = [one for one in asked("CreateTable", NEW_TABLE) if one.resource == KEY]
    assert {one.action.removeprefix("kms:") for one in found} == {
        *("CreateGrant", "Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey"),
        *("GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"),
    }
    assert {one.context["kms:ViaService"] for one in found} == {"dynamodb.us-east-1.amazonaws.com"}
    [grant] = [one for one in found if "kms:GrantIsForAWSResource" in one.context]
    assert grant.action == "kms:CreateGrant"


ON_ITEMS: list[tuple[str, dict[str, Any]]] = [
    ("UpdateItem", UPDATE),
    ("TransactWriteItems", TRANSACTION),
    ("BatchGetItem", {"RequestItems": {"t": {"Keys": []}}}),
    ("Scan", {"TableName": "t"}),
    ("ExportTableToPointInTime", {**EXPORT, "S3SseKmsKeyId": ""}),
]


@pytest.mark.parametrize(("operation", "params"), ON_ITEMS)
def test_each_caller_needs_to_decrypt_a_tables_key(operation: str, params: dict[str, Any]) -> None:
    under_key = asked(operation, params, Account(keys={T: KEY}))
    assert actions(under_key) - actions(asked(operation, params)) == {("kms:Decrypt", KEY)}


def test_a_table_that_is_only_described_needs_no_key() -> None:
    assert len(asked("DescribeTable", {"TableName": "t"}, Account(keys={T: KEY}))) == 1


@pytest.mark.parametrize(
    ("operation", "action", "on_key"),
    [
        ("SendMessageBatch", "SendMessage", {"kms:GenerateDataKey", "kms:Decrypt"}),
        ("SendMessage", "SendMessage", {"kms:GenerateDataKey", "kms:Decrypt"}),
        ("ReceiveMessage", "ReceiveMessage", {"kms:Decrypt"}),
        ("DeleteMessage", "DeleteMessage", set()),
    ],
)
def test_producers_generate_and_decrypt_and_consumers_decrypt(
    operation: str, action: str, on_key: set[str]
) -> None:
    arn = queue_arn(QUEUE)
    found = asked(operation, {"QueueUrl": QUEUE}, Account(keys={arn: KEY}), service="sqs")
    assert actions(found) == {(f"sqs:{action}", arn)} | {(one, KEY) for one in on_key}


@pytest.mark.parametrize(
    ("operation", "action", "on_key"),
    [
        ("PutObject", "PutObject", {"kms:GenerateDataKey"}),
        ("UploadPart", "PutObject", {"kms:GenerateDataKey", "kms:Decrypt"}),
        ("GetObject", "GetObject", {"kms:Decrypt"}),
        ("DeleteObject", "DeleteObject", set()),
    ],
)
def test_objects_under_a_key(operation: str, action: str, on_key: set[str]) -> None:
    params = {"Bucket": "b", "Key": "k"}
    found = asked(operation, params, Account(keys={B: KEY}), service="s3")
    assert actions(found) == {(f"s3:{action}", f"{B}/k")} | {(one, KEY) for one in on_key}


def test_an_object_with_tags_asks_to_tag_it() -> None:
    params = {"Bucket": "b", "Key": "k", "Tagging": "a=true"}
    found = asked("PutObject", params, Account(), service="s3")
    assert actions(found) == {(f"s3:{one}", f"{B}/k") for one in ("PutObject", "PutObjectTagging")}
    url = "https://b.s3.amazonaws.com/k"
    assert request_of("s3", "PUT", url, None, b"", b"a=true") == Request("s3", "PutObject", params)


def test_an_export_writes_in_the_callers_name() -> None:
    objects = f"{B}/p/AWSDynamoDB/data"
    assert actions(asked("ExportTableToPointInTime", EXPORT)) == {
        ("dynamodb:ExportTableToPointInTime", T),
        *((f"s3:{one}", objects) for one in ("AbortMultipartUpload", "PutObject", "PutObjectAcl")),
        *((f"kms:{one}", KEY) for one in ("Decrypt", "GenerateDataKey")),
    }


# --- quotas and topics


@pytest.mark.parametrize(
    ("limit", "wanted", "least"),
    [(10, 1, 10), (50, 1, 50), (100, 1, 100), (1_000, 901, 100), (101, 2, 100)],
)
def test_reserving_leaves_a_hundred_or_all_of_fewer(limit: int, wanted: int, least: int) -> None:
    refusal = reserving(Account(concurrency=limit), wanted)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "InvalidParameterValueException"
    assert refusal.message.endswith(f"below its minimum value of [{least}].")


def test_what_is_reserved_adds_up() -> None:
    account = reserving(Account(concurrency=1_000), 500)
    assert isinstance(account, Account)
    assert isinstance(reserving(account, 400), Account)
    assert isinstance(reserving(account, 401), Refusal)


def test_functions_over_the_limit_are_throttled() -> None:
    account = Account(concurrency=10)
    assert invoking(account, 9) is None
    refusal = invoking(account, 10)
    assert refusal
    assert (refusal.status, refusal.code) == (429, "TooManyRequestsException")
    assert invoking(Account(concurrency=1_000, reserved=900), 100)


def test_a_disabled_key_silences_its_topics() -> None:
    account = Account(keys={"topic": KEY}, disabled=frozenset({KEY}))
    refusal = publishing(account, "topic")
    assert refusal
    assert refusal.code == "KMSDisabled"
    assert publishing(account, "another") is None
    assert publishing(Account(keys={"topic": KEY}), "topic") is None


# --- the wire, and roles


@pytest.mark.parametrize(
    ("method", "url", "operation", "key"),
    [
        ("GET", "https://b.s3.amazonaws.com/a/b%20c", "GetObject", "a/b c"),
        ("PUT", "https://b.s3.us-east-1.amazonaws.com/k", "PutObject", "k"),
        ("PUT", "http://127.0.0.1:1/b/k?partNumber=1&uploadId=u", "UploadPart", "k"),
        ("POST", "http://127.0.0.1:1/b/k?uploads", "CreateMultipartUpload", "k"),
        ("POST", "http://127.0.0.1:1/b/k?uploadId=u", "CompleteMultipartUpload", "k"),
        ("DELETE", "http://127.0.0.1:1/b/k?uploadId=u", "AbortMultipartUpload", "k"),
        ("GET", "http://127.0.0.1:1/b?list-type=2&prefix=p", "ListObjectsV2", ""),
    ],
)
def test_requests_of_objects_are_read(method: str, url: str, operation: str, key: str) -> None:
    expected = Request("s3", operation, {"Bucket": "b", "Key": key})
    assert request_of("s3", method, url, None, b"") == expected


def test_requests_in_json_are_read_with_the_arns_of_aws() -> None:
    body = b'{"ResourceArn": "arn:aws:dynamodb:ddblocal:000000000000:table/t"}'
    found = request_of("dynamodb", "POST", "/", b"DynamoDB_20120810.ListTagsOfResource", body)
    assert found == Request("dynamodb", "ListTagsOfResource", {"ResourceArn": T})


def test_an_operation_of_objects_that_is_not_known_is_no_answer() -> None:
    with pytest.raises(KeyError):
        request_of("s3", "DELETE", "http://127.0.0.1:1/b", None, b"")


def statement(effect: str, action: str, resource: str, **condition: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": [action], "Resource": [resource], "Condition": condition}


@pytest.mark.parametrize(
    ("statements", "allowed"),
    [
        ([], False),
        ([statement("Allow", "dynamodb:GetItem", T)], True),
        ([statement("Allow", "dynamodb:Get*", f"{T[:-1]}?")], True),
        ([statement("Allow", "dynamodb:GetItem", f"{T}/index/*")], False),
        ([statement("Allow", "dynamodb:PutItem", T)], False),
        ([statement("Allow", "dynamodb:GetItem", T, StringEquals={"k": "w"})], False),
        ([statement("Allow", "dynamodb:GetItem", T, Bool={"k": "v"})], True),
        (
            [
                statement("Allow", "dynamodb:GetItem", T),
                statement("Deny", "dynamodb:*", "*", Null={"k": "false"}),
            ],
            False,
        ),
    ],
)
def test_a_role_is_judged_as_by_iam(statements: list[dict[str, Any]], *, allowed: bool) -> None:
    assert Role(tuple(statements)).may(question("dynamodb:GetItem", T, {"k": "v"})) is allowed
