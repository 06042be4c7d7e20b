"""All of a trial is removed, nothing of others, and what stays is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.trial.conftest import REGION
from trial.account import Account
from trial.teardown import Remover

WINDOW = "aws-test-20261122T180000Z"
OTHERS = ("aws-test-2-catalog", "votes-catalog", "aws-test-20261122T180000Z-backup")

LOGS = ("/aws/lambda/aws-test-writer", "/aws/vendedlogs/apigateway/aws-test")
OTHER_LOGS = (
    "/aws/lambda/votes-writer",
    "/aws/lambda/aws-test-2-writer",
    "/aws/vendedlogs/apigateway/aws-test-2",
)


@pytest.fixture
def remover(account: Account) -> Remover:
    return Remover(account, "aws-test", lambda _: None, sleep=lambda _: None)


def table(account: Account, name: str, *, protected: bool = True) -> None:
    account.client("dynamodb").create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=protected,
    )


def bucket(account: Account, name: str, pipeline: str | None) -> None:
    s3 = account.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for _ in range(2):
        s3.put_object(Bucket=name, Key="archive/a", Body=b"a")
    s3.delete_object(Bucket=name, Key="archive/a")
    if pipeline:
        tags = {"TagSet": [{"Key": "tallyroll", "Value": pipeline}]}
        s3.put_bucket_tagging(Bucket=name, Tagging=tags)


def lay_out(account: Account) -> None:
    """What a trial leaves, beside what belongs to others."""
    template = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    for stack in ("aws-test", "votes"):
        account.client("cloudformation").create_stack(StackName=stack, TemplateBody=template)
    for name in ("aws-test-catalog", "aws-test-totals", WINDOW, *OTHERS):
        table(account, name)
    for queue in ("aws-test-events", "aws-test-dead-letters", "aws-test-2-events", "votes-events"):
        account.client("sqs").create_queue(QueueName=queue)
    bucket(account, "aws-test-archive", "aws-test")
    bucket(account, "aws-test-mine", None)
    bucket(account, "aws-test-2-archive", "aws-test-2")
    for group in (*LOGS, *OTHER_LOGS):
        account.client("logs").create_log_group(logGroupName=group)


def test_all_of_a_trial_is_removed_and_nothing_of_others(
    account: Account, remover: Remover
) -> None:
    lay_out(account)
    found = {one.what for one in remover.left()}
    assert len(found) == 9
    assert {f"table {WINDOW}", "stack aws-test", "bucket aws-test-archive"} <= found

    assert remover.run() == []

    tables = account.client("dynamodb").list_tables()["TableNames"]
    assert sorted(tables) == sorted(OTHERS)
    urls = account.client("sqs").list_queues()["QueueUrls"]
    assert {url.rpartition("/")[2] for url in urls} == {"aws-test-2-events", "votes-events"}
    buckets = {one["Name"] for one in account.client("s3").list_buckets()["Buckets"]}
    assert buckets == {"aws-test-mine", "aws-test-2-archive"}
    stacks = account.client("cloudformation").list_stacks()["StackSummaries"]
    assert {one["StackName"] for one in stacks if one["StackStatus"] != "DELETE_COMPLETE"} == {
        "votes"
    }
    groups = account.client("logs").describe_log_groups()["logGroups"]
    assert {one["logGroupName"] for one in groups} == set(OTHER_LOGS)


def test_where_there_is_nothing_nothing_is_done(remover: Remover) -> None:
    assert remover.run() == []


class Denying:
    """A client that refuses one operation, so many times."""

    def __init__(self, client: Any, operation: str, code: str, times: int) -> None:
        self.client, self.operation, self.code, self.times = client, operation, code, times

    def __getattr__(self, name: str) -> Any:
        if name != self.operation:
            return getattr(self.client, name)

        def called(**given: Any) -> Any:
            if self.times:
                self.times -= 1
                raise ClientError({"Error": {"Code": self.code}}, name)
            return getattr(self.client, name)(**given)

        return called


def deny(
    monkeypatch: pytest.MonkeyPatch, service: str, operation: str, code: str, times: int = 10_000
) -> None:
    client = Account.client
    made: dict[str, Any] = {}

    def denying(self: Account, name: str) -> Any:
        if name != service:
            return client(self, name)
        return made.setdefault(name, Denying(client(self, name), operation, code, times))

    monkeypatch.setattr(Account, "client", denying)


def test_what_cannot_be_removed_is_named_with_its_command_and_the_rest_goes(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(account)
    deny(monkeypatch, "dynamodb", "delete_table", "AccessDeniedException")
    said: list[str] = []

    left = Remover(account, "aws-test", said.append, sleep=lambda _: None).run()

    assert [one.what for one in left] == [
        f"table {WINDOW}",
        "table aws-test-catalog",
        "table aws-test-totals",
    ]
    assert left[0].command.endswith(f"aws dynamodb delete-table --table-name {WINDOW}")
    assert any("AccessDenied" in line for line in said)
    buckets = {one["Name"] for one in account.client("s3").list_buckets()["Buckets"]}
    assert "aws-test-archive" not in buckets


def test_a_table_that_is_being_changed_is_deleted_when_that_is_over(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(account, WINDOW)
    deny(monkeypatch, "dynamodb", "update_table", "ResourceInUseException", times=3)
    waited: list[float] = []

    assert Remover(account, "aws-test", lambda _: None, sleep=waited.append).run() == []
    assert len(waited) == 3


def test_a_table_that_goes_meanwhile_is_gone(
    account: Account, remover: Remover, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(account, WINDOW, protected=False)
    deny(monkeypatch, "dynamodb", "update_table", "ResourceNotFoundException")

    assert remover.run() == []


def test_an_update_of_the_stack_is_awaited(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(account)
    statuses = iter(["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"])
    status = Remover._stack_status
    monkeypatch.setattr(Remover, "_stack_status", lambda self: next(statuses, status(self)))
    waited: list[float] = []

    assert Remover(account, "aws-test", lambda _: None, sleep=waited.append).run() == []
    assert len(waited) == 2
