"""An account as AWS tells it, and a canary table by rules like AWS's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.account import AwsAccount
from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.dynamodb.tools.canary import ACTIVE_TRIES, CanaryTable
from tallyroll.errors import Missing, Refused, StoreError, Throttled, Unknown
from tallyroll.pipeline import inspection
from tallyroll.ports.account import BucketFacts, Concurrency, Identity, KeyFacts, WriteLimits
from tallyroll.resources import TableDeclaration
from tallyroll.settings import Settings
from tests.contract.engines import SteadyEffects
from tests.contract.scripted import DENIED, LOST, THROTTLED, Scripted, failure
from tests.harness.pipeline import StillEffects

SERVICES = (
    *("sts", "iam", "lambda", "dynamodb", "ssm", "cloudformation", "sqs", "logs", "s3", "kms"),
    "apigateway",
)
KEY = "arn:aws:kms:eu-west-1:1:key/11111111-2222-3333-4444-555555555555"


def account(**script: Any) -> AwsAccount:
    caller = Caller(Scripted(script), SteadyEffects())
    callers: Any = {f"{service}_caller": caller for service in SERVICES}
    return AwsAccount(**callers, region="eu-west-1")


CALLS: dict[str, Callable[[AwsAccount], object]] = {
    "GetCallerIdentity": lambda made: made.identity(),
    "GetRole": lambda made: made.principal(session()),
    "GetAccountSettings": lambda made: made.concurrency(),
    "DescribeLimits": lambda made: made.write_limits(),
    "GetParameter": lambda made: made.bootstrap_version("hnb659fds"),
    "DescribeStacks": lambda made: made.stack_status("votes"),
    "GetQueueUrl": lambda made: made.queue_url("votes-events"),
    "DescribeLogGroups": lambda made: made.log_groups("/aws/lambda/votes-"),
    "HeadBucket": lambda made: made.bucket("votes"),
    "GetBucketVersioning": lambda made: made.bucket("votes"),
    "DescribeKey": lambda made: made.key(KEY),
    "GetKeyPolicy": lambda made: made.key_policy(KEY),
    "GetAccount": lambda made: made.api_log_role(),
    "DescribeResourcePolicies": lambda made: made.log_policies(),
}


def session() -> Identity:
    return Identity("1", "arn:aws:sts::1:assumed-role/Deployer/me", "eu-west-1")


@pytest.mark.parametrize("operation", sorted(CALLS))
@pytest.mark.parametrize(
    ("code", "kind"), [(DENIED, Refused), (THROTTLED, Throttled), (LOST, Unknown)]
)
def test_a_call_that_fails_is_told(operation: str, code: str, kind: type[StoreError]) -> None:
    with pytest.raises(kind) as told:
        CALLS[operation](account(**{operation: failure(code, operation)}))
    assert operation in str(told.value)


def test_who_asks() -> None:
    who = account(GetCallerIdentity={"Account": "1", "Arn": "arn:aws-cn:sts::1:root"}).identity()
    assert who == Identity("1", "arn:aws-cn:sts::1:root", "eu-west-1")
    assert who.partition == "aws-cn"


def test_whose_policies_can_be_simulated() -> None:
    role = "arn:aws:iam::1:role/teams/Deployer"
    made = account(GetRole={"Role": {"Arn": role}})
    assert made.principal(session()) == role
    user = "arn:aws:iam::1:user/teams/me"
    assert made.principal(Identity("1", user, "eu-west-1")) == user
    for arn in ("arn:aws:iam::1:root", "arn:aws:sts::1:federated-user/me"):
        assert made.principal(Identity("1", arn, "eu-west-1")) == ""


def test_limits() -> None:
    limits = {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 8}
    made = account(GetAccountSettings={"AccountLimit": limits})
    assert made.concurrency() == Concurrency(10, 8)
    units = {"AccountMaxWriteCapacityUnits": 80_000, "TableMaxWriteCapacityUnits": 40_000}
    assert account(DescribeLimits=units).write_limits() == WriteLimits(80_000, 40_000)


def test_what_may_not_be_there() -> None:
    none = account(
        GetParameter=failure("ParameterNotFound", "GetParameter"),
        DescribeStacks=failure("ValidationError", "DescribeStacks"),
        GetQueueUrl=failure("QueueDoesNotExist", "GetQueueUrl"),
    )
    assert none.bootstrap_version("hnb659fds") is None
    assert none.stack_status("votes") is None
    assert none.queue_url("votes-events") is None
    there = account(
        GetParameter={"Parameter": {"Value": "21"}},
        DescribeStacks={"Stacks": [{"StackStatus": "CREATE_COMPLETE"}]},
        GetQueueUrl={"QueueUrl": "url"},
    )
    assert there.bootstrap_version("hnb659fds") == 21
    assert there.stack_status("votes") == "CREATE_COMPLETE"
    assert there.queue_url("votes-events") == "url"


def test_all_pages_of_log_groups() -> None:
    pages = [
        {"logGroups": [{"logGroupName": "a"}], "nextToken": "more"},
        {"logGroups": [], "nextToken": "more"},
        {"logGroups": [{"logGroupName": "b"}]},
    ]
    assert account(DescribeLogGroups=pages).log_groups("") == ["a", "b"]


def test_a_bucket() -> None:
    made = account(HeadBucket={"BucketRegion": "eu-north-1"}, GetBucketVersioning={})
    assert made.bucket("votes") == BucketFacts("eu-north-1", versioned=False)
    versioned = {"Status": "Enabled"}
    made = account(HeadBucket={}, GetBucketVersioning=versioned)
    assert made.bucket("votes") == BucketFacts("eu-west-1", versioned=True)
    with pytest.raises(Missing):
        account(HeadBucket=failure("404", "HeadBucket", 404)).bucket("votes")


def test_a_key() -> None:
    facts = {"Arn": KEY, "KeyState": "Disabled", "KeySpec": "SYMMETRIC_DEFAULT"}
    made = account(
        DescribeKey={"KeyMetadata": {**facts, "KeyUsage": "ENCRYPT_DECRYPT"}},
        GetKeyPolicy={"Policy": "{}"},
    )
    assert made.key(KEY) == KeyFacts("eu-west-1", "Disabled", symmetric=True)
    assert made.key_policy(KEY) == "{}"
    signs = {"KeyMetadata": {**facts, "KeyUsage": "GENERATE_VERIFY_MAC"}}
    assert not account(DescribeKey=signs).key(KEY).symmetric
    with pytest.raises(Missing):
        account(DescribeKey=failure("NotFoundException", "DescribeKey")).key(KEY)


def test_what_writes_logs() -> None:
    assert account(GetAccount={}).api_log_role() == ""
    assert account(GetAccount={"cloudwatchRoleArn": "arn"}).api_log_role() == "arn"
    pages = [
        {"resourcePolicies": [{"policyName": "a", "policyDocument": "{}"}], "nextToken": "more"},
        {"resourcePolicies": [{"policyName": "b", "policyDocument": "[]"}]},
    ]
    assert account(DescribeResourcePolicies=pages).log_policies() == {"a": "{}", "b": "[]"}


# --- the canary


def canary(**script: Any) -> tuple[CanaryTable, Scripted]:
    client = Scripted({"DescribeTable": table("ACTIVE"), **script})
    effects = StillEffects()
    return CanaryTable(Caller(client, effects), effects, TableDeclaration(name="canary")), client


def table(status: str) -> dict[str, Any]:
    return {"Table": {"TableStatus": status, "TableArn": "arn"}}


def test_a_canary_is_made_with_its_policy_and_without_protection() -> None:
    gone = failure("ResourceNotFoundException", "DescribeTable")
    made, client = canary(DescribeTable=[gone, table("CREATING"), table("ACTIVE")])
    made.make()
    operation, asked = client.calls[0]
    assert operation == "create_table"
    assert asked["DeletionProtectionEnabled"] is False
    assert '"dynamodb:DeleteTable"' in asked["ResourcePolicy"]
    assert len(client.calls) == 4


def test_a_canary_that_does_not_become_active() -> None:
    made, client = canary(DescribeTable=table("CREATING"))
    with pytest.raises(Throttled, match="did not become active"):
        made.make()
    assert len(client.calls) == ACTIVE_TRIES + 1


def test_a_canary_whose_creation_is_not_answered_is_not_made_twice() -> None:
    made, client = canary(CreateTable=failure(LOST, "CreateTable"))
    with pytest.raises(Unknown):
        made.make()
    assert len(client.calls) == 1


@pytest.mark.parametrize(
    ("replies", "dropped"),
    [
        ([{}], True),
        ([failure("ResourceNotFoundException", "DeleteTable")], True),
        ([failure(DENIED, "DeleteTable")], False),
        ([failure(THROTTLED, "DeleteTable"), {}], True),
        ([failure("ResourceInUseException", "DeleteTable"), {}], True),
    ],
)
def test_a_canary_is_dropped(replies: list[Any], dropped: bool) -> None:
    made, _ = canary(DeleteTable=replies)
    assert made.drop() is dropped


def test_a_canary_that_is_being_deleted() -> None:
    busy = failure("ResourceInUseException", "DeleteTable")
    gone = failure("ResourceNotFoundException", "DescribeTable")
    for described in (table("DELETING"), gone):
        made, _ = canary(DeleteTable=busy, DescribeTable=described)
        assert made.drop()
    made, _ = canary(DeleteTable=busy)
    with pytest.raises(Throttled):
        made.drop()
    made, _ = canary(DeleteTable=failure("ValidationException", "DeleteTable"))
    with pytest.raises(Refused):
        made.drop()


def test_a_canary_is_tagged_and_unguarded() -> None:
    made, client = canary()
    made.tag()
    made.unguard()
    assert client.calls[1][1]["Tags"] == [{"Key": "proven", "Value": "canary"}]
    assert client.calls[-1] == ("delete_resource_policy", {"ResourceArn": "arn"})
    gone, client = canary(DescribeTable=failure("ResourceNotFoundException", "DescribeTable"))
    gone.unguard()
    assert (gone.arn, [name for name, _ in client.calls]) == ("", ["describe_table"] * 2)


@pytest.fixture
def on_moto() -> Iterator[tuple[AwsAccount, CanaryTable]]:
    with mock_aws():
        made, table = inspection.account(Settings(name="votes"), with_canary=True)
        assert table
        yield made, table


def test_an_account_on_moto(on_moto: tuple[AwsAccount, CanaryTable]) -> None:
    made, table = on_moto
    assert made.identity().account == "123456789012"
    make_client("ssm").put_parameter(Name="/cdk-bootstrap/ours/version", Value="21", Type="String")
    assert made.bootstrap_version("hnb659fds") is None
    assert made.bootstrap_version("ours") == 21
    assert made.stack_status("votes") is None
    assert made.queue_url("votes-events") is None
    assert made.log_groups("/aws/lambda/votes-") == []
    make_client("s3").create_bucket(Bucket="votes")
    assert made.bucket("votes").versioned is False
    key = make_client("kms").create_key(KeyUsage="ENCRYPT_DECRYPT")["KeyMetadata"]["Arn"]
    assert made.key(key) == KeyFacts("us-east-1", "Enabled", symmetric=True)
    assert '"kms:*"' in made.key_policy(key)
    with pytest.raises(Missing):
        made.key(f"{key[:-4]}0000")
    assert made.api_log_role() == ""
    assert made.log_policies() == {}
    assert table.name.startswith("votes-preflight-")
    table.make()
    table.tag()
    table.unguard()
    assert table.drop()
    assert table.drop()
    assert make_client("dynamodb").list_tables()["TableNames"] == []
    assert inspection.account(Settings(name="votes"), with_canary=False)[1] is None
