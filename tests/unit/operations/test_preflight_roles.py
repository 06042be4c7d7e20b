"""A preflight's checks of roles, keys, logs and concurrency."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallyroll.errors import Missing
from tallyroll.operations.doctor.checkup import Level
from tallyroll.ports.account import Concurrency, Identity, KeyFacts
from tallyroll.ports.stack import FunctionCard
from tests.harness.doctoring import FakeStack
from tests.unit.operations.accounts import (
    DENIED,
    KEY,
    ROLE,
    FakeAccount,
    FakeRights,
    key_policy,
    looked,
    only,
)

BUDGET: dict[str, Any] = {"budget": 50, "alarm_email": "night@example.org"}
SNAP_START = {"snap_start": True, "runtime": "python3.12"}
VPC = {"vpc_subnets": "subnet-0a1b2c3d", "vpc_security_groups": "sg-0a1b2c3d"}


def test_the_bootstrap_of_another_qualifier() -> None:
    ours = FakeAccount(qualifier="ours")
    sign = only(looked(ours), "bootstrap", Level.FINDING)
    assert "-c @aws-cdk/core:bootstrapQualifier=" in sign.remedy
    rights = FakeRights(["AssumeRole"])
    found = looked(ours, qualifier="ours", rights=rights)
    assert found["bootstrap"].level is Level.OK
    assert "cdk-ours-deploy-role-1-eu-west-1" in found["permissions"].text
    assert rights.identities == [
        ROLE,
        ROLE,
        "arn:aws:iam::1:role/cdk-ours-cfn-exec-role-1-eu-west-1",
    ]
    assert (
        "s3:GetObject"
        in rights.asked["arn:aws:s3:::cdk-ours-assets-1-eu-west-1/0123456789abcdef.zip"]
    )
    old = looked(FakeAccount(qualifier="ours", bootstrap=5), qualifier="ours")
    assert only(old, "bootstrap", Level.FINDING).remedy.endswith(" --qualifier ours`")


def test_the_role_that_deploys() -> None:
    denied = FakeRights(["sqs:CreateQueue", "iam:PassRole on"])
    found = looked(rights=denied)["execution-role"]
    role = "arn:aws:iam::1:role/cdk-hnb659fds-cfn-exec-role-1-eu-west-1"
    assert [sign.text.split(": arn")[0] for sign in found.bad] == [
        *("AWS::Lambda::Function", "AWS::SQS::Queue", "AWS::Scheduler::Schedule")
    ]
    assert {sign.level for sign in found.bad} == {Level.FINDING}
    queue = "arn:aws:sqs:eu-west-1:1:tallyroll-events"
    assert f"AWS::SQS::Queue: {role} may not: sqs:CreateQueue on {queue}" in found.bad[1].text
    assert "npx cdk bootstrap aws://1/eu-west-1 --cloudformation-exec" in found.bad[0].remedy
    after = looked(rights=denied, deployed=True)["execution-role"]
    assert {sign.level for sign in after.bad} == {Level.WARNING}
    none = FakeRights(error=Missing("SimulatePrincipalPolicy: NoSuchEntity", "NoSuchEntity"))
    assert "not known" in only(looked(rights=none), "execution-role", Level.UNCHECKED).text


@pytest.mark.parametrize(
    ("options", "denied", "kind"),
    [
        ({"kms_key": KEY}, "kms:CreateGrant", "AWS::DynamoDB::Table"),
        ({"kms_key": KEY}, "events:PutRule", "AWS::Events::Rule"),
        (VPC, "ec2:DescribeSubnets on *", "AWS::Lambda::Function"),
        ({"reserved_concurrency": 4}, "lambda:PutFunctionConcurrency", "AWS::Lambda::Function"),
        (SNAP_START, "lambda:CreateAlias", "AWS::Lambda::Alias"),
        ({"rollout": "canary"}, "codedeploy:CreateDeployment on", "AWS::Lambda::Alias"),
        ({"rollout": "canary"}, "iam:AttachRolePolicy", "AWS::IAM::Role"),
        ({"rollout": "at-once"}, "lambda:PublishVersion", "AWS::Lambda::Version"),
        ({"rollout": "canary"}, "GetDeploymentConfig on", "AWS::CodeDeploy::DeploymentGroup"),
        (BUDGET, "budgets:ModifyBudget", "AWS::Budgets::Budget"),
        (BUDGET, "budgets:TagResource", "AWS::Budgets::Budget"),
        ({**BUDGET, "budget_monitor": True}, "ce:CreateAnomalyM", "AWS::CE::AnomalyMonitor"),
        ({**BUDGET, "budget_monitor": True}, "ce:GetAnomalyMon", "AWS::CE::AnomalyMonitor"),
        ({"api": "private"}, "lambda:InvokeFunction", "Custom::ApiGatewayLogRole"),
        ({"api": "private"}, "apigateway:UpdateRestApiPolicy", "AWS::ApiGateway::RestApi"),
    ],
)
def test_what_only_an_option_makes(options: dict[str, Any], denied: str, kind: str) -> None:
    rights = FakeRights([denied])
    assert looked(rights=rights)["execution-role"].level is Level.OK
    assert kind in looked(rights=rights, **options)["execution-role"].text


@pytest.mark.parametrize(
    ("denied", "kind"),
    [
        (
            "ssm:GetParameters on arn:aws:ssm:eu-west-1:1:parameter/cdk-bootstrap/hnb659fds/ver",
            "AWS::SSM::Parameter::Value<String>",
        ),
        ("apigateway:PUT on arn:aws:apigateway:eu-west-1::/tags/arn%3A", "AWS::ApiGatewayV2::Api"),
        ("apigateway:TagResource", "AWS::ApiGatewayV2::Stage"),
        ("dynamodb:DescribeTimeToLive", "AWS::DynamoDB::Table"),
        ("lambda:GetRuntimeManagementConfig", "AWS::Lambda::Function"),
        ("s3:GetLifecycleConfiguration", "AWS::S3::Bucket"),
        ("sns:ListTagsForResource", "AWS::SNS::Topic"),
    ],
)
def test_a_role_without_reads_or_tags_may_not_deploy(denied: str, kind: str) -> None:
    found = looked(rights=FakeRights([denied]))["execution-role"]
    assert [sign.text.split(": arn")[0] for sign in found.bad] == [kind]


def test_a_budget_where_cloudformation_has_none() -> None:
    north = FakeAccount(who=Identity("1", "arn:aws:sts::1:assumed-role/Deployer/me", "eu-north-1"))
    sign = only(looked(north, **BUDGET), "budget", Level.WARNING)
    assert "no budgets in eu-north-1" in sign.text
    assert looked(north)["budget"].level is Level.OK
    assert "has budgets in eu-west-1" in looked(**BUDGET)["budget"].text


def test_concurrency() -> None:
    new = FakeAccount(at_once=Concurrency(10, 10))
    assert looked(new)["concurrency"].level is Level.OK
    many = only(looked(new, max_concurrency="8"), "concurrency", Level.WARNING)
    others = "aggregator, roller, cleanup, dropper"
    assert f"up to 12 functions at once (8 writers, {others}), of 10 that may" in many.text
    own = looked(new, max_concurrency="6", api="private")
    assert "up to 11 functions at once" in only(own, "concurrency", Level.WARNING).text
    assert looked(new, max_concurrency="6", api="private", api_log_role="true")[
        "concurrency"
    ].level is (Level.OK)
    pollers = only(looked(new, pollers='{"min": 2, "max": 3}'), "concurrency", Level.WARNING)
    assert "30 writers" in pollers.text
    kept = only(looked(new, reserved_concurrency=4), "concurrency", Level.FINDING)
    assert "Lambda keeps 100" in kept.text
    assert looked(reserved_concurrency=4)["concurrency"].level is Level.OK
    assert looked(reserved_concurrency=900)["concurrency"].level is Level.OK
    small = FakeAccount(at_once=Concurrency(1_000, 3))
    left = only(looked(small, reserved_concurrency=4, deployed=True), "concurrency", Level.WARNING)
    assert f"up to 4 functions at once ({others}), of 3 that may" in left.text
    denied = FakeAccount(at_once=DENIED)
    assert looked(denied)["concurrency"].level is Level.UNCHECKED


def test_a_key() -> None:
    assert "AWS's own keys" in looked()["key"].text
    assert looked(kms_key=KEY)["key"].level is Level.OK
    noting = looked(kms_key=KEY, contributor_insights=True)
    assert "stand in CloudWatch" in only(noting, "key", Level.WARNING).text
    assert looked(contributor_insights=True)["key"].level is Level.OK
    for facts, says, remedy in (
        (KeyFacts("eu-west-1", "Disabled", symmetric=True), "is Disabled", "enable-key"),
        (KeyFacts("eu-west-1", "PendingDeletion", symmetric=True), "is Pend", "cancel-key-del"),
        (KeyFacts("eu-west-1", "Unavailable", symmetric=True), "is Unavail", "describe-key"),
        (KeyFacts("us-east-1", "Enabled", symmetric=True), "is in us-east-1", "own Region"),
        (KeyFacts("eu-west-1", "Enabled", symmetric=False), "no symmetric key", "SYMMETRIC"),
        (Missing("DescribeKey: NotFoundException", "NotFoundException"), "there is no key", "ARN"),
    ):
        sign = only(looked(FakeAccount(held_key=facts), kms_key=KEY), "key", Level.FINDING)
        assert says in sign.text
        assert remedy in sign.remedy
    for unread in (FakeAccount(held_key=DENIED), FakeAccount(policy=DENIED)):
        assert looked(unread, kms_key=KEY)["key"].level is Level.UNCHECKED


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (key_policy("arn:aws:iam::1:role/Admin"), "does not let the account's IAM policies decide"),
        (key_policy("arn:aws:iam::2:root"), "policies decide (arn:aws:iam::1:root) on kms:Decr"),
        (key_policy(logs="logs.us-east-1.amazonaws.com"), "not let logs.eu-west-1.amazonaws.com"),
        (
            key_policy("1", "*", {"Effect": "Deny", "Principal": "*", "Action": "kms:CreateGrant"}),
            "denies kms:CreateGrant",
        ),
    ],
)
def test_a_keys_policy(policy: str, says: str) -> None:
    sign = only(looked(FakeAccount(policy=policy), kms_key=KEY), "key", Level.FINDING)
    assert says in sign.text
    assert "aws kms put-key-policy" in sign.remedy


def test_a_keys_policy_that_names_the_roles() -> None:
    role = "arn:aws:iam::1:role/votes"
    functions = {
        package: FunctionCard(f"tallyroll-{package}", "Active", "", role)
        for package in ("writer", "roller")
    }
    named = FakeAccount(policy=key_policy(role))
    stack = FakeStack(functions=functions)
    assert looked(named, kms_key=KEY, deployed=True, stack=stack)["key"].level is Level.OK
    reads = {"Effect": "Allow", "Principal": {"AWS": role}, "Action": ["kms:D*", "kms:E*"]}
    logs = "logs.eu-west-1.amazonaws.com"
    some = FakeAccount(policy=key_policy("arn:aws:iam::1:role/Admin", logs, reads))
    found = looked(some, kms_key=KEY, deployed=True, stack=stack)["key"]
    missing = "kms:GenerateDataKey, kms:ReEncryptFrom, kms:ReEncryptTo"
    rollers = f"{missing}, kms:CreateGrant, kms:GenerateDataKeyWithoutPlaintext"
    nobody = f"neither to the account (arn:aws:iam::1:root) nor to {role}"
    assert [sign.text.partition(" allows ")[2] for sign in found.bad] == [
        *(f"{missing} {nobody}", f"{rollers} {nobody}")
    ]


def test_the_role_by_which_a_private_api_logs() -> None:
    theirs = FakeAccount(log_role="arn:aws:iam::1:role/ApiLogs")
    none = FakeAccount()
    false = only(looked(none, api="private", api_log_role=False), "api-logs", Level.FINDING)
    assert "the deployment will fail" in false.text
    true = only(looked(theirs, api="private", api_log_role="true"), "api-logs", Level.WARNING)
    assert "replaces arn:aws:iam::1:role/ApiLogs" in true.text
    ours = FakeAccount(log_role="arn:aws:iam::1:role/tallyroll-PipelineReadsPrivateLogRole-A1")
    for account, option, says in (
        (theirs, "auto", "by arn:aws:iam::1:role/ApiLogs; tallyroll:api_log_role is auto"),
        (theirs, "false", "tallyroll:api_log_role is false"),
        (ours, "true", "tallyroll:api_log_role is true"),
        (none, "auto", "the stack sets one"),
        (none, "true", "the stack sets one"),
    ):
        found = looked(account, api="private", api_log_role=option)["api-logs"]
        assert found.level is Level.OK
        assert says in found.text
    denied = looked(FakeAccount(log_role=DENIED), api="private")
    assert denied["api-logs"].level is Level.UNCHECKED
    assert looked(FakeAccount(log_role=DENIED), api="none")["api-logs"].level is Level.OK


def test_the_policy_by_which_logs_are_delivered() -> None:
    def delivering(*groups: str) -> dict[str, Any]:
        arns = [f"arn:aws:logs:eu-west-1:1:log-group:{group}:*" for group in groups]
        allowed = {"Principal": {"Service": "delivery.logs.amazonaws.com"}, "Resource": arns}
        return {"AWSLogDeliveryWrite20150319": json.dumps({"Statement": [allowed]})}

    many = [f"/aws/apigateway/other-{number:03}" for number in range(77)]
    full = FakeAccount(deliveries=delivering(*many))
    sign = only(looked(full), "api-logs", Level.WARNING)
    assert "AWSLogDeliveryWrite20150319 of CloudWatch Logs has 5,1" in sign.text
    for policies in (delivering(*many, "/aws/vendedlogs/*"), delivering(*many[:40]), {}):
        assert looked(FakeAccount(deliveries=policies))["api-logs"].level is Level.OK
    others = {f"Route53-{number}": "{}" for number in range(10)}
    most = only(looked(FakeAccount(deliveries=others)), "api-logs", Level.WARNING)
    assert "10 resource policies here, the most" in most.text
    some = looked(FakeAccount(deliveries={**others, **delivering(*many[:3])}))
    assert some["api-logs"].level is Level.OK
    assert looked(full, api="private")["api-logs"].level is Level.OK
