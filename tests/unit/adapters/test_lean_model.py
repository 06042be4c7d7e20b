"""The lean client sends what botocore's own sends."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from tallyroll.adapters.aws import lean_model
from tallyroll.adapters.aws.client import make_client

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
    def stream(self, *_: Any, **__: Any) -> list[bytes]:
        return [b"{}"]


def _sent(client: Any, **params: Any) -> tuple[str, dict[str, str], bytes]:
    """The URL, the headers that say what is asked, and the body of a transaction."""
    requests = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        requests.append(request)
        return AWSResponse(request.url, 200, HTTPHeaders(), _Raw())

    client.meta.events.register("before-send.dynamodb.TransactWriteItems", answer)
    client.transact_write_items(**params)
    [request] = requests
    told = {name: request.headers[name] for name in ("X-Amz-Target", "Content-Type")}
    return request.url, told, request.body


def test_the_bytes_are_those_of_a_plain_client() -> None:
    session: Any = boto3.session.Session()
    plain = session.client("dynamodb", **WHERE)
    params = {"TransactItems": ACTIONS, "ClientRequestToken": "a token"}
    sent = _sent(make_client("dynamodb", **WHERE), **params)
    assert sent == _sent(plain, **params)
    assert json.loads(sent[2])["TransactItems"][1]["Put"]["Item"]["h"] == {"B": "AP8gZGlnZXN0"}


def test_the_actions_that_were_given_stay_as_they_are() -> None:
    before = repr(ACTIONS)
    _sent(make_client("dynamodb", **WHERE), TransactItems=ACTIONS)
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
