"""The relay answers for the engines what a function's role does not allow, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from tests.strict.gate import Gate
from tests.strict.relay import OTHERS, access_key, relayed
from tests.strict.roles import Role
from tests.strict.values import REGION, bucket_arn, table_arn

ALLOWED = {
    "dynamodb:CreateTable": table_arn("mine"),
    "dynamodb:TagResource": table_arn("mine"),
    "dynamodb:DescribeTable": table_arn("*"),
    "s3:GetObject": f"{bucket_arn('mine')}/*",
    "s3:PutObject": f"{bucket_arn('mine')}/*",
}
TABLE = {
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "BillingMode": "PAY_PER_REQUEST",
    "Tags": [{"Key": "team", "Value": "a"}],
}


@pytest.fixture(scope="module")
def gate() -> Gate:
    statements = [
        {"Effect": "Allow", "Action": [action], "Resource": [resource]}
        for action, resource in ALLOWED.items()
    ]
    return Gate({"writer": Role(tuple(statements))})


@pytest.fixture(scope="module")
def address(gate: Gate) -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with relayed(gate, {OTHERS: f"http://{host}:{port}"}) as relay:
        yield relay
    server.stop()


def client(address: str, service: str, caller: str = access_key("writer")) -> Any:
    made: Any = boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=address,
        region_name=REGION,
        aws_access_key_id=caller,
        aws_secret_access_key="testing",
        config=Config(retries={"total_max_attempts": 1}),
    )
    return made


def test_what_is_allowed_is_carried_out_and_noted(address: str, gate: Gate) -> None:
    client(address, "dynamodb").create_table(TableName="mine", **TABLE)
    described = client(address, "dynamodb").describe_table(TableName="mine")
    assert described["Table"]["TableName"] == "mine"
    assert gate.account.tags == {table_arn("mine"): {"team": "a"}}


def test_what_is_not_allowed_is_refused_and_not_carried_out(address: str, gate: Gate) -> None:
    with pytest.raises(ClientError, match=r"CreateTable on resource: .*table/theirs") as no:
        client(address, "dynamodb").create_table(TableName="theirs", **TABLE)
    assert no.value.response["Error"]["Code"] == "AccessDeniedException"
    assert gate.refused[-1][0] == "writer"
    assert client(address, "dynamodb", "TESTS").list_tables()["TableNames"] == ["mine"]


def test_objects_pass_and_are_refused(address: str) -> None:
    for bucket in ("mine", "theirs"):
        client(address, "s3", "TESTS").create_bucket(Bucket=bucket)
    s3 = client(address, "s3")
    s3.put_object(Bucket="mine", Key="a/b", Body=b"body")
    assert s3.get_object(Bucket="mine", Key="a/b")["Body"].read() == b"body"
    with pytest.raises(ClientError, match="s3:PutObject") as no:
        s3.put_object(Bucket="theirs", Key="a/b", Body=b"body")
    assert no.value.response["Error"]["Code"] == "AccessDenied"


def test_what_no_rule_knows_is_refused_and_noted(address: str, gate: Gate) -> None:
    with pytest.raises(ClientError, match="NotImplemented"):
        client(address, "dynamodb").list_tables()
    assert gate.refused[-1][1].code == "NotImplemented"


@pytest.mark.engine
def test_tags_are_played_where_the_engine_has_none(dynamodb_endpoint: str) -> None:
    arn, verbs = table_arn("relayed-tags"), ("Create*", "Describe*", "ListTagsOf*", "TagResource")
    actions = [f"dynamodb:{verb}" for verb in verbs]
    allowed = {"Effect": "Allow", "Action": actions, "Resource": [arn]}
    with relayed(Gate({"writer": Role((allowed,))}), {OTHERS: dynamodb_endpoint}) as relay:
        dynamodb = client(relay, "dynamodb")
        made = dynamodb.create_table(TableName="relayed-tags", **TABLE)
        there = made["TableDescription"]["TableArn"]
        dynamodb.tag_resource(ResourceArn=there, Tags=[{"Key": "proven", "Value": "1"}])
        listed = dynamodb.list_tags_of_resource(ResourceArn=there)["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in listed} == {"team": "a", "proven": "1"}
