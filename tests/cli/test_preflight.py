"""`tallyroll preflight` against moto, which is given AWS's rule for drops and Lambda's limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.exceptions import DynamodbException
from moto.dynamodb.models import DynamoDBBackend
from moto.sqs import models as moto_sqs

from benchmarks.on_call.stack import make_stack, policy
from local.aws import simulations
from tallyroll.adapters.aws import client as aws
from tallyroll.adapters.aws.account import AwsAccount
from tallyroll.adapters.dynamodb.tools import canary as canaries
from tallyroll.errors import Refused
from tallyroll.operations.preflight import canary as trials
from tallyroll.operations.preflight.checks import CHECKS
from tallyroll.ports.account import Concurrency
from tallyroll.settings import Settings
from tallyroll.testing.emulated import create_bucket, create_queues, create_tables
from tests.cli.command_line import Answer, run

ROLE = "Deployer"


class Cloud:
    """Runs the command in an empty directory, against moto with what AWS adds to it.

    `seen` says that policies see tables' tags, `reply` what Lambda allows.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, streams: pytest.CaptureFixture[str], folder: Path
    ) -> None:
        self.patch, self._streams, self.folder = patch, streams, folder
        self.seen = True
        self.denied = 0
        self.unguarded: set[str] = set()

    def run(self, *argv: str) -> Answer:
        return run(self.patch, self._streams, *argv)

    def checks(self, *argv: str) -> dict[str, dict[str, Any]]:
        """The checks by name."""
        answer = self.run("--json", "preflight", *argv)
        return {each["check"]: each for each in answer.json}

    def tables(self) -> list[str]:
        names: list[str] = aws.make_client("dynamodb").list_tables()["TableNames"]
        return names

    def delete(self, backend: Any, name: str) -> Any:
        """AWS's rule: a table's policy denies its deletion, unless policies see its tag. moto drops
        the policy that a canary is made with.
        """
        if "-preflight-" in name and name not in self.unguarded and name in backend.tables:
            tags = {tag["Key"] for tag in backend.tables[name].tags}
            if not self.seen or "proven" not in tags:
                self.denied += 1
                raise DynamodbException(ERROR, "explicit deny in a resource-based policy")
        return _delete_table(backend, name)

    def may(self, *actions: str) -> None:
        """Let CloudFormation's role, which a bootstrap makes, do this and no more."""
        iam = aws.make_client("iam")
        named = f"cdk-hnb659fds-cfn-exec-role-{DEFAULT_ACCOUNT_ID}-us-east-1"
        trusted = json.dumps({"Statement": []})
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName=named, AssumeRolePolicyDocument=trusted)
        allowed = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
        iam.put_role_policy(RoleName=named, PolicyName="All", PolicyDocument=policy(allowed))

    def unguard(self, arn: str) -> None:
        self.unguarded.add(arn.rpartition("/")[2])


ERROR = "com.amazonaws.dynamodb.v20120810#AccessDeniedException"
_delete_table = DynamoDBBackend.delete_table


@pytest.fixture
def cloud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Cloud]:
    monkeypatch.chdir(tmp_path)
    for module, name in ((trials, "TAG_EVERY_MS"), (canaries, "ACTIVE_EVERY_MS")):
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(AwsAccount, "concurrency", lambda _: Concurrency(10, 10))
    made = Cloud(monkeypatch, capsys, tmp_path)

    def delete(backend: Any, name: str) -> Any:
        return made.delete(backend, name)

    def unguard(_: Any, resource_arn: str, **__: Any) -> None:
        made.unguard(resource_arn)

    monkeypatch.setattr(DynamoDBBackend, "delete_table", delete)
    monkeypatch.setattr(DynamoDBBackend, "delete_resource_policy", unguard)
    monkeypatch.setattr(moto_sqs.Queue, "lambda_event_source_mappings", None, raising=False)
    simulations.silence_mappings(moto_sqs.Queue)
    simulations.install()
    aws._session.cache_clear()
    with mock_aws():
        ssm = aws.make_client("ssm")
        ssm.put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="21", Type="String")
        yield made
    aws._session.cache_clear()


def test_an_account_before_the_deployment(cloud: Cloud) -> None:
    context = {"tallyroll:name": "votes", "tallyroll:max_concurrency": 9}
    (cloud.folder / "cdk.json").write_text(json.dumps({"context": context}))
    checks = cloud.checks()
    assert list(checks) == list(CHECKS)
    levels = {name: each["level"] for name, each in checks.items()}
    # moto has no such quotas, its user is no user, and CloudFormation's role is not there.
    unknown = {"table-quota", "throughput", "permissions", "execution-role"}
    assert {name for name, level in levels.items() if level == "unchecked"} == unknown
    assert {name for name, level in levels.items() if level == "warning"} == {"concurrency"}
    assert levels["tags"] == "ok"
    assert DEFAULT_ACCOUNT_ID in checks["account"]["text"]
    assert "votes is not deployed there" in checks["account"]["text"]
    assert (cloud.tables(), cloud.denied) == ([], 1)

    answer = cloud.run("preflight", "-c", "tallyroll:max_concurrency=2", "--no-canary")
    assert answer.status == 3
    assert "\nunchecked  execution-role what " in answer.out
    assert "unchecked  tags           whether policies see tables' tags was not tried" in answer.out
    assert f"{len(CHECKS)} checks, 0 findings, 0 warnings, 5 could not be checked" in answer.err
    assert cloud.denied == 1


def test_an_account_without_tag_based_access_control(cloud: Cloud) -> None:
    cloud.seen = False
    answer = cloud.run("--name", "votes", "preflight")
    assert answer.status == 1
    assert "policies do not see tables' tags: no table would be dropped" in answer.out
    assert "Switch attribute-based access control on" in answer.out
    assert cloud.tables() == []
    assert cloud.denied > 2


def test_the_canary_is_dropped_after_an_interrupt(cloud: Cloud) -> None:
    def interrupt(_: object) -> None:
        assert len(cloud.tables()) == 1
        raise KeyboardInterrupt

    cloud.patch.setattr(canaries.CanaryTable, "tag", interrupt)
    answer = cloud.run("--name", "votes", "preflight")
    assert answer.status == 130
    assert cloud.tables() == []


def test_a_canary_that_stays_is_named(cloud: Cloud) -> None:
    cloud.seen = False
    cloud.patch.setattr(canaries.CanaryTable, "unguard", lambda _: None)
    answer = cloud.run("--name", "votes", "preflight")
    assert answer.status == 3
    [left] = cloud.tables()
    assert left.startswith("votes-preflight-")
    assert f"table {left} may still exist" in answer.err
    assert "aws dynamodb delete-resource-policy --resource-arn arn:aws:" in answer.err


def test_what_is_left_of_an_earlier_pipeline(cloud: Cloud) -> None:
    settings = create_queues(Settings(name="votes"), aws.make_client("sqs"))
    create_tables(settings, aws.make_client("dynamodb"))
    logs = aws.make_client("logs")
    for name in ("votes-writer", "votes-eu-writer"):
        logs.create_log_group(logGroupName=f"/aws/lambda/{name}")
    signs = cloud.checks("--name", "votes", "--no-canary")["names"]["signs"]
    texts = [sign["text"].split(" already")[0] for sign in signs]
    assert texts == [
        "there is a table votes-catalog",
        "there is a table votes-totals",
        "there is a queue votes-events",
        "there is a queue votes-dead-letters",
        "there is a log group /aws/lambda/votes-writer",
    ]
    assert f"--queue-url {settings.queue_url}" in signs[2]["remedy"]
    assert "--import-existing-resources" in signs[0]["remedy"]


def test_an_account_after_the_deployment(cloud: Cloud) -> None:
    settings = create_queues(Settings(name="votes", window_seconds=7_200), aws.make_client("sqs"))
    settings = create_bucket(settings, aws.make_client("s3"))
    create_tables(settings, aws.make_client("dynamodb"))
    make_stack(settings, aws.make_client)
    cloud.may("*")
    checks = cloud.checks("--name", "votes", "--bucket", settings.bucket)
    bad = {name: each["text"] for name, each in checks.items() if each["level"] != "ok"}
    assert {*bad} == {"table-quota", "throughput", "permissions"}
    assert "votes is deployed there" in checks["account"]["text"]
    assert "40 of windows to be kept" in checks["table-quota"]["text"]
    assert "up to 8 functions at once (4 writers, " in checks["concurrency"]["text"]
    assert checks["functions"]["text"].startswith("functions that may run")
    assert "is in this Region, and keeps versions" in checks["bucket"]["text"]
    aws.make_client("lambda").put_function_concurrency(
        FunctionName="votes-writer", ReservedConcurrentExecutions=0
    )
    assert cloud.run("--name", "votes", "preflight", "--no-canary").status == 1


def test_permissions_of_a_role(cloud: Cloud) -> None:
    iam = aws.make_client("iam")
    role = iam.create_role(
        RoleName=ROLE, Path="/teams/", AssumeRolePolicyDocument=json.dumps({"Statement": []})
    )["Role"]["Arn"]
    allowed = {"Effect": "Allow", "Action": ["sts:*", "sqs:*", "lambda:*"], "Resource": "*"}
    iam.put_role_policy(
        RoleName=ROLE,
        PolicyName="Some",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}),
    )
    who = {"Account": "1", "Arn": f"arn:aws:sts::1:assumed-role/{ROLE}/me"}
    call = aws.Caller.call

    def answering(self: aws.Caller, operation: str, /, **params: Any) -> dict[str, Any]:
        return who if operation == "GetCallerIdentity" else call(self, operation, **params)

    cloud.patch.setattr(aws.Caller, "call", answering)
    [sign] = cloud.checks("--name", "votes", "--no-canary")["permissions"]["signs"]
    assert sign["text"].startswith(f"{role} may not: dynamodb:DescribeTable on arn:aws:dynamodb:")
    assert "sts:" not in sign["text"].partition("may not")[2]


def test_what_an_enterprise_restricts(cloud: Cloud) -> None:
    cloud.may("dynamodb:*", "lambda:*", "iam:Get*", "s3:*", "sns:*", "sqs:*")
    key = aws.make_client("kms").create_key(KeyUsage="ENCRYPT_DECRYPT")["KeyMetadata"]["Arn"]
    given = ("-c", f"tallyroll:kms_key={key}", "--no-canary")
    checks = cloud.checks(*given)
    denied = [sign["text"].partition(": arn:")[0] for sign in checks["execution-role"]["signs"]]
    assert "AWS::IAM::Role" in denied
    assert "AWS::CloudWatch::Alarm" in denied
    assert "AWS::SQS::Queue" not in denied
    assert checks["key"]["level"] == "finding"  # moto's default policy lacks CloudWatch Logs
    assert "does not let logs.us-east-1.amazonaws.com call" in checks["key"]["text"]
    aws.make_client("kms").disable_key(KeyId=key.rpartition("/")[2])
    assert f"aws kms enable-key --key-id {key}" in cloud.run("preflight", *given).out


@pytest.mark.parametrize(
    ("argv", "file", "says"),
    [
        (("-c", "tallyroll:name"), "", "give KEY=VALUE"),
        (("-c", "tallyroll:shards=2", "--nothing"), "", "--nothing"),
        (("-c", "tallyroll:max_concurrency=many"), "", "give a whole number"),
        ((), "{", "cdk.json"),
        ((), "[]", "cdk.json"),
    ],
)
def test_wrong_use(cloud: Cloud, argv: tuple[str, ...], file: str, says: str) -> None:
    if file:
        (cloud.folder / "cdk.json").write_text(file)
    answer = cloud.run("preflight", *argv)
    assert answer.status == 2
    assert says in answer.err


def test_a_file_without_a_context(cloud: Cloud) -> None:
    for text in ("{}", '{"context": []}'):
        (cloud.folder / "cdk.json").write_text(text)
        assert "tallyroll is not deployed" in cloud.checks("--no-canary")["account"]["text"]


def test_what_writers_are_deployed_may_not_be_known(cloud: Cloud) -> None:
    settings = create_queues(Settings(name="votes"), aws.make_client("sqs"))
    make_tables = create_bucket(settings, aws.make_client("s3"))
    create_tables(make_tables, aws.make_client("dynamodb"))
    make_stack(make_tables, aws.make_client)
    call = aws.Caller.call

    def refusing(self: aws.Caller, operation: str, /, **params: Any) -> dict[str, Any]:
        if operation == "ListEventSourceMappings":
            raise Refused("ListEventSourceMappings: AccessDeniedException", "AccessDenied")
        return call(self, operation, **params)

    cloud.patch.setattr(aws.Caller, "call", refusing)
    answer = cloud.run("--name", "votes", "preflight", "--no-canary")
    assert answer.status == 3
    assert "the deployment's writers are not known" in answer.err


def test_without_credentials(cloud: Cloud) -> None:
    aws._session.cache_clear()
    cloud.patch.setenv("AWS_PROFILE", "nobody")
    answer = cloud.run("preflight")
    assert answer.status == 3
    assert "AWS_PROFILE" in answer.err
