"""The restore runbook of docs/operations.md, run on moto: its commands, its script, its promise.

moto makes no system backup of a deleted table, so an on-demand one takes its place.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.items import identity_item
from tallyroll.model.ids import IdentityItem
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.docs.aws_commands import parsed
from tests.docs.commands import of_shell
from tests.docs.walks import ROOT, Block, blocks_of

DECLARED = declare(Settings(name="votes")).catalog
WINDOW_ID = "20261120T080000Z"
SPEC, STATE = f"{WINDOW_ID}#spec", f"{WINDOW_ID}#state"
NOTES = ("~writers", "batch#1#a"), ("2026-11", "20261120T080000Z#hot")


def section() -> list[Block]:
    """The runbook's blocks."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    first = text[: text.index("## Restoring the catalog")].count("\n")
    last = text[: text.index("## If the key is disabled")].count("\n")
    return [b for b in blocks_of(ROOT / "docs" / "operations.md") if first < b.line < last]


STOP, DELETED, BESIDE, SCRIPT, _RECOMPUTE, EXPIRY, START, WINDOW, POLICY = section()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "testing")
    with mock_aws():
        yield


@pytest.fixture
def catalog(aws: None) -> Any:
    """A client, and the catalog with items of a window, of writers, and of hints."""
    client = boto3.client("dynamodb")
    client.create_table(**table_request(DECLARED))
    client.update_continuous_backups(
        TableName=DECLARED.name,
        PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
    )
    for pk, sk in (("2026-11", SPEC), ("2026-11", STATE), *NOTES):
        put(client, pk, sk, "1")
    return client


def put(client: Any, pk: str, sk: str, n: str) -> None:
    item = {"pk": {"S": pk}, "sk": {"S": sk}, "n": {"N": n}}
    client.put_item(TableName=DECLARED.name, Item=item)


def items(client: Any, table: str = DECLARED.name) -> dict[tuple[str, str], str]:
    found = client.scan(TableName=table)["Items"]
    return {(item["pk"]["S"], item["sk"]["S"]): item["n"]["N"] for item in found}


def run(block: Block, **places: str) -> list[dict[str, Any]]:
    """Run a block's `aws` commands, with these values in the places of its capitals."""
    places |= {"NAME": "votes", "REGION": "eu-west-1", "ACCOUNT": "123456789012"}
    text = block.text
    for name, value in places.items():
        text = re.sub(rf"\b{name}\b", value, text)
    answers = []
    for command in of_shell(block.place, text):
        if command.words[0] == "aws":
            service, operation, parameters = parsed(list(command.words[1:]))
            if operation:  # else it waits, and moto is never late
                client: Any = boto3.client(service)  # type: ignore[call-overload]
                answers.append(getattr(client, operation)(**parameters))
    return answers


def script(*, put_back: bool, damaged: str = "catalog") -> str:
    text = SCRIPT.text.replace("NAME", "votes").replace("catalog", damaged)
    assert "PUT_BACK = False" in text
    with redirect_stdout(io.StringIO()) as out:
        exec(text.replace("PUT_BACK = False", f"PUT_BACK = {put_back}"), {})
    return out.getvalue()


def test_what_is_gone_comes_back_and_nothing_is_replaced(catalog: Any) -> None:
    client = catalog
    run(BESIDE, TIME="2026-11-20T08:00:00Z")
    for pk, sk in (("2026-11", SPEC), *NOTES):
        client.delete_item(TableName=DECLARED.name, Key={"pk": {"S": pk}, "sk": {"S": sk}})
    put(client, "2026-11", STATE, "2")
    put(client, "2026-12", "newer#spec", "3")
    told = f"gone 2026-11 {SPEC}\ndiffers 2026-11 {STATE}\n"

    assert script(put_back=False) == told
    assert ("2026-11", SPEC) not in items(client)
    assert script(put_back=True) == told

    assert items(client) == {
        ("2026-11", SPEC): "1",
        ("2026-11", STATE): "2",
        ("2026-12", "newer#spec"): "3",
    }


def test_identities_come_back_and_expire(aws: None) -> None:
    client = boto3.client("dynamodb")
    declared = declare(Settings(name="votes", identity="pipeline")).identities
    assert declared
    for name in (declared.name, f"{declared.name}-restored"):
        client.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    taken = [
        identity_item(IdentityItem(name, WINDOW_ID, "k", b"digest", 1_800_000_000))
        for name in ("gone", "kept", "new")
    ]
    for item in taken[:2]:
        client.put_item(TableName=f"{declared.name}-restored", Item=item)
    for item in taken[1:]:
        client.put_item(TableName=declared.name, Item=item)
    assert script(put_back=True, damaged="identities") == "gone gone\n"
    found = client.scan(TableName=declared.name)["Items"]
    assert sorted(found, key=lambda item: str(item["pk"])) == taken

    run(EXPIRY)
    expiry = client.describe_time_to_live(TableName=declared.name)["TimeToLiveDescription"]
    assert (expiry["TimeToLiveStatus"], expiry["AttributeName"]) == ("ENABLED", declared.expires_by)


@pytest.mark.parametrize("block", [DELETED, WINDOW], ids=["permanent", "of a window"])
def test_a_deleted_table_comes_back_as_it_is_declared(catalog: Any, block: Block) -> None:
    client = catalog
    before = items(client)
    backup = client.create_backup(TableName=DECLARED.name, BackupName="system")["BackupDetails"]
    client.update_table(TableName=DECLARED.name, DeletionProtectionEnabled=False)
    client.delete_table(TableName=DECLARED.name)

    run(block, BACKUP_ARN=backup["BackupArn"], TABLE=DECLARED.name)

    assert items(client) == before
    table = client.describe_table(TableName=DECLARED.name)["Table"]
    assert table["DeletionProtectionEnabled"] is DECLARED.deletion_protection
    tags = client.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == DECLARED.tags
    backups = client.describe_continuous_backups(TableName=DECLARED.name)
    recovery = backups["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    assert recovery["PointInTimeRecoveryStatus"] == "ENABLED"


def test_a_windows_table_gets_the_policy_back_that_the_roller_made(aws: None) -> None:
    client = boto3.client("dynamodb")
    declared = declare(Settings(name="votes", deny_drops=True)).window_table("20261120T080000Z")
    request = table_request(declared)
    made = request.pop("ResourcePolicy")  # a restored table has none
    arn = client.create_table(**request)["TableDescription"]["TableArn"]

    run(POLICY, TABLE=declared.name)

    there = client.get_resource_policy(ResourceArn=arn)["Policy"]
    assert json.loads(there) == json.loads(made)


def test_functions_stop_and_start(aws: None) -> None:
    role = boto3.client("iam").create_role(
        RoleName="any", AssumeRolePolicyDocument='{"Version": "2012-10-17", "Statement": []}'
    )["Role"]["Arn"]
    client = boto3.client("lambda")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.py", "")
    for package in ("writer", "roller", "cleanup", "dropper"):
        client.create_function(
            FunctionName=f"votes-{package}",
            Runtime="python3.11",
            Role=role,
            Handler="a.b",
            Code={"ZipFile": packed.getvalue()},
        )
    queue = boto3.client("sqs").create_queue(QueueName="votes-events")["QueueUrl"]
    arn = boto3.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    source = client.create_event_source_mapping(
        FunctionName="votes-writer", EventSourceArn=arn["Attributes"]["QueueArn"]
    )["UUID"]

    [listed, *_] = run(STOP, UUID=source)
    assert [each["UUID"] for each in listed["EventSourceMappings"]] == [source]
    assert state_of(client, source) == "Disabled"
    assert {limit(client, package) for package in ("roller", "cleanup", "dropper")} == {0}

    run(START, UUID=source)
    assert state_of(client, source) == "Enabled"
    assert {limit(client, package) for package in ("roller", "cleanup", "dropper")} == {None}


def state_of(client: Any, uuid: str) -> str:
    state: str = client.get_event_source_mapping(UUID=uuid)["State"]
    return state


def limit(client: Any, package: str) -> int | None:
    found = client.get_function_concurrency(FunctionName=f"votes-{package}")
    reserved: int | None = found.get("ReservedConcurrentExecutions")
    return reserved
