"""The lean client sends what botocore's own sends."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from tallyroll.adapters.aws import lean_model
from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.dynamodb.actions import RecordPut
from tallyroll.adapters.dynamodb.attributes import facts_of
from tallyroll.adapters.dynamodb.items import jsonable, parse_item, record_item
from tests.harness.pipeline import record_with

WHERE = {
    "region_name": "eu-central-1",
    "aws_access_key_id": "id",
    "aws_secret_access_key": "secret",
    "endpoint_url": "http://127.0.0.1:1",
}
VALUES = {
    "pk": {"S": "Ada.1"},
    "n": {"N": "12"},
    "open": {"BOOL": True},
    "h": {"B": b"\x00\xff digest"},
    "text": {"B": "Grüße"},
    "all": {"BS": [b"\x01", b"\x02"]},
    "of": {"M": {"deep": {"L": [{"B": b"\x03"}, {"S": "x"}, {"NULL": True}]}}},
}
ACTIONS: list[dict[str, Any]] = [
    {"ConditionCheck": {"TableName": "t", "Key": VALUES, "ConditionExpression": "#a = :b"}},
    {"Put": {"TableName": "t", "Item": VALUES}},
    {
        "Update": {
            "TableName": "t",
            "Key": {},
            "UpdateExpression": "SET a = :n",
            "ExpressionAttributeValues": VALUES,
        }
    },
    {"Delete": {"TableName": "t", "Key": {"pk": {"S": "x"}}}},
]


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> list[bytes]:
        return [self._body]


def _sent(
    client: Any, operation: str, reply: bytes = b"{}", **params: Any
) -> tuple[str, dict[str, str], bytes]:
    """The URL, the headers that say what is asked, and the body of a request."""
    requests = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        requests.append(request)
        return AWSResponse(request.url, 200, HTTPHeaders(), _Raw(reply))

    client.meta.events.register(f"before-send.dynamodb.{operation}", answer)
    getattr(client, xform_name(operation))(**params)
    [request] = requests
    told = {name: request.headers[name] for name in ("X-Amz-Target", "Content-Type")}
    return request.url, told, request.body


@pytest.fixture
def plain() -> Any:
    """A client as boto3 makes it."""
    session: Any = boto3.session.Session()
    return session.client("dynamodb", **WHERE)


def test_the_bytes_of_a_transaction_are_those_of_a_plain_client(plain: Any) -> None:
    params: dict[str, Any] = {"TransactItems": ACTIONS, "ClientRequestToken": "a token"}
    sent = _sent(make_client("dynamodb", **WHERE), "TransactWriteItems", **params)
    assert sent == _sent(plain, "TransactWriteItems", **params)
    assert json.loads(sent[2])["TransactItems"][1]["Put"]["Item"]["h"] == {"B": "AP8gZGlnZXN0"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"key": 'a "Grüße" \\ 🗳', "data": b"\x00\xff", "format": "json", "slot": 0},
        {"keys": ('a "Grüße"', "k"), "slot": 59},
        {"keys": ("a",)},
    ],
)
@pytest.mark.parametrize("stripe", [None, 7])
def test_puts_that_write_themselves_have_the_bytes_of_a_plain_client(
    plain: Any, changes: dict[str, Any], stripe: int | None
) -> None:
    put = RecordPut("votes-20261120T080000Z", record_with(**changes), stripe)
    actions = [ACTIONS[0], put, ACTIONS[2]]
    params: dict[str, Any] = {"TransactItems": actions, "ClientRequestToken": "a token"}
    sent = _sent(make_client("dynamodb", **WHERE), "TransactWriteItems", **params)
    written = {**params, "TransactItems": [ACTIONS[0], dict(put), ACTIONS[2]]}
    assert sent == _sent(plain, "TransactWriteItems", **written)


def test_the_token_is_made_as_for_a_plain_client() -> None:
    client = make_client("dynamodb", **WHERE)
    _, _, body = _sent(client, "TransactWriteItems", TransactItems=ACTIONS)
    assert len(json.loads(body)["ClientRequestToken"]) == 36
    assert len(json.loads(body)["TransactItems"]) == len(ACTIONS)


def test_a_text_like_the_place_of_the_actions_stays(plain: Any) -> None:
    item = {"pk": {"S": '"TransactItems": []'}}
    params: dict[str, Any] = {
        "TransactItems": [{"Put": {"TableName": "t", "Item": item}}],
        "ClientRequestToken": '"TransactItems": []',
    }
    sent = _sent(make_client("dynamodb", **WHERE), "TransactWriteItems", **params)
    assert sent == _sent(plain, "TransactWriteItems", **params)


def test_the_bytes_of_a_read_of_many_items_are_those_of_a_plain_client(plain: Any) -> None:
    keys = [{"pk": {"S": "Grüße"}, "sk": {"S": "e#1"}}, {"pk": {"S": "b"}, "sk": {"S": "e#2"}}]
    params: dict[str, Any] = {"RequestItems": {"t": {"Keys": keys, "ConsistentRead": True}}}
    sent = _sent(make_client("dynamodb", **WHERE), "BatchGetItem", **params)
    assert sent == _sent(plain, "BatchGetItem", **params)


def test_binaries_that_were_read_in_base64_are_bytes() -> None:
    client, found = make_client("dynamodb", **WHERE), []
    record = record_with(data=b"\x00\xff", format="json", series=())
    items = {"t": [jsonable(record_item(record))]}
    reply = {"Responses": items, "UnprocessedKeys": {"t": {"Keys": [{"pk": {"S": "b"}}]}}}
    client.meta.events.register(
        "after-call.dynamodb.BatchGetItem", lambda parsed, **_: found.append(parsed)
    )
    _sent(client, "BatchGetItem", json.dumps(reply).encode(), RequestItems={})
    assert parse_item(found[0]["Responses"]["t"][0]) == record
    assert facts_of(items["t"][0])["h"] == record.digest
    assert found[0]["UnprocessedKeys"] == reply["UnprocessedKeys"]


def test_binaries_of_a_page_are_bytes_and_the_rest_is_that_of_a_plain_client(plain: Any) -> None:
    record = record_with(data=b"\x00\xff", format="json", keys=("a", "b"), slot=3, series=())
    item = jsonable(record_item(record))
    reply = {"Items": [item], "Count": 1, "LastEvaluatedKey": {"pk": item["pk"], "sk": item["sk"]}}
    asked = {"TableName": "t", "KeyConditionExpression": "pk = :pk", "ConsistentRead": True}
    pages = []
    for client in (make_client("dynamodb", **WHERE), plain):
        client.meta.events.register(
            "after-call.dynamodb.Query", lambda parsed, **_: pages.append(parsed)
        )
        _sent(client, "Query", json.dumps(reply).encode(), **asked)
    lean, others = (page.pop("Items") for page in pages)
    assert parse_item(lean[0]) == parse_item(others[0]) == record
    assert pages[0]["LastEvaluatedKey"] == pages[1]["LastEvaluatedKey"] == reply["LastEvaluatedKey"]


def test_the_actions_that_were_given_stay_as_they_are() -> None:
    before = repr(ACTIONS)
    _sent(make_client("dynamodb", **WHERE), "TransactWriteItems", TransactItems=ACTIONS)
    assert repr(ACTIONS) == before


def test_a_transaction_names_tables_and_its_endpoint_is_not_looked_for_in_them() -> None:
    model = make_client("dynamodb", **WHERE).meta.service_model
    found = [model.operation_model(name) for name in model.operation_names]
    assert len(found) > 40
    assert not any(operation.operation_context_parameters for operation in found)


def test_a_folder_with_models_of_ones_own_is_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("AWS_DATA_PATH", f"{tmp_path}")
    loader = lean_model.lean_session().get_component("data_loader")
    assert str(tmp_path) in loader.search_paths
