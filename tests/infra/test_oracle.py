"""The oracle on AWS's reference is at work, and what is argued against it is needed.

`conftest` asks it about every template that any test synthesizes.
"""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from release.asset import function_code
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tests.infra.argued import ARGUED
from tests.infra.conftest import Built, as_aws_has_it
from tests.infra.documents import statement, statements_of
from tests.infra.oracle import Problem, findings, judged
from tests.infra.reference import arn, overlap
from tests.infra.templates import Template

if TYPE_CHECKING:
    import aws_cdk as cdk

QUEUE, TABLE = arn("sqs", "queue", "events"), arn("dynamodb", "table", "catalog")
OBJECTS = "arn:aws:s3:::archive/rejected/*"


def problems(
    action: str | list[str],
    resource: str | list[str],
    condition: dict[str, Any] | None = None,
    itself: str = "",
) -> list[tuple[Problem, str]]:
    """What is found in a statement that allows this."""
    written = {"Effect": "Allow", "Action": action, "Resource": resource}
    found = findings(statement("planted", {**written, "Condition": condition or {}}, itself))
    return sorted({(one.problem, one.subject) for one in found})


def test_what_is_right_is_let_be() -> None:
    assert problems(["dynamodb:PutItem", "dynamodb:Query"], TABLE) == []
    assert problems("kms:ReEncrypt*", "*", itself=arn("kms", "key", "k")) == []
    assert problems("s3:*", ["arn:aws:s3:::archive", OBJECTS]) == []
    assert problems("cloudwatch:GetMetricStatistics", "*") == []
    assert problems("sqs:*", QUEUE, {"Bool": {"aws:SecureTransport": "false"}}) == []
    for condition in (
        {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["~writers"]}},
        {"StringEquals": {"dynamodb:EnclosingOperation": "TransactWriteItems"}},
        {"StringEqualsIfExists": {"dynamodb:ReturnValues": "NONE"}},
        {"Null": {"aws:ResourceTag/proven": "true"}},
    ):
        assert problems("dynamodb:UpdateItem", TABLE, condition) == []


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ("dynamodb:PutItems", "dynamodb:PutItems"),
        ("dynamodb:ConditionCheck", "dynamodb:ConditionCheck"),
        ("dynamo:PutItem", "dynamo:PutItem"),
        (["dynamodb:GetItem", "dynamodb:Drop*"], "dynamodb:Drop*"),
    ],
)
def test_a_misspelt_action_is_found(action: str | list[str], wrong: str) -> None:
    assert (Problem.ACTION, wrong) in problems(action, TABLE)


@pytest.mark.parametrize(
    ("action", "resource", "wrong"),
    [
        ("dynamodb:PutItem", QUEUE, QUEUE),
        ("dynamodb:UpdateTable", f"{TABLE}/export/*", f"{TABLE}/export/*"),
        ("dynamodb:DescribeExport", TABLE, TABLE),
        ("s3:ListBucket", OBJECTS, OBJECTS),
        ("s3:PutObject", "arn:aws:s3:::archive", "arn:aws:s3:::archive"),
        ("cloudwatch:GetMetricStatistics", TABLE, TABLE),
        ("sqs:SendMessage", "EventsQueue", "EventsQueue"),  # a URL, as `Ref` gives it
        (["s3:GetObject", "s3:PutObject"], [OBJECTS, TABLE], TABLE),
        (["s3:GetObject", "s3:ListBucket"], OBJECTS, OBJECTS),
    ],
)
def test_a_resource_that_no_action_takes_is_found(
    action: str | list[str], resource: str | list[str], wrong: str
) -> None:
    assert problems(action, resource) == [(Problem.RESOURCE, wrong)]


def test_all_resources_are_for_actions_that_take_no_other() -> None:
    assert problems("dynamodb:PutItem", "*") == [(Problem.WIDE, "*")]
    assert problems("sqs:StartMessageMoveTask", "*", itself=TABLE) == [(Problem.RESOURCE, TABLE)]


@pytest.mark.parametrize(
    ("action", "key"),
    [
        ("dynamodb:PutItem", "dynamodb:LeadingKey"),
        ("dynamodb:ConditionCheckItem", "dynamodb:EnclosingOperation"),
        ("dynamodb:PutItem", "aws:SourceAcount"),
        ("dynamodb:PutItem", "aws:TagKeys"),
        ("dynamodb:ListTables", "aws:ResourceTag/proven"),
        ("dynamodb:PutItem", "kms:ViaService"),
    ],
)
def test_a_condition_key_that_requests_do_not_have_is_found(action: str, key: str) -> None:
    resource = "*" if action == "dynamodb:ListTables" else TABLE
    assert problems(action, resource, {"StringEquals": {key: "a"}}) == [(Problem.KEY, key)]


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("StringEquals", "dynamodb:LeadingKeys", "a"),
        ("ForAllValues:StringEqual", "dynamodb:LeadingKeys", "a"),
        ("ForAnyValue:StringEquals", "dynamodb:ReturnValues", "NONE"),
        ("Bool", "dynamodb:ReturnValues", "true"),
        ("Null", "dynamodb:LeadingKeys", "yes"),
        ("ArnLike", "aws:SourceAccount", "1"),
        ("StringEquals", "aws:SecureTransport", "true"),
    ],
)
def test_an_operator_that_is_not_the_keys_is_found(operator: str, key: str, value: str) -> None:
    found = problems("dynamodb:PutItem", TABLE, {operator: {key: value}})
    assert found == [(Problem.OPERATOR, f"{operator} {key}")]


@pytest.mark.parametrize(
    ("pattern", "format_", "match"),
    [
        ("arn:*:table/*", "arn:x:table/${Name}", True),
        ("arn:*:table/*", "arn:x:table/${Name}/export/${Export}", True),
        ("table/votes-????????T??????Z", "table/${Name}", True),
        ("table/votes-????????T??????Z", "table/${Name}/export/${Export}", False),
        ("table/votes/export/*", "table/${Name}", False),
        ("table/votes/*", "table/${Name}", False),
        ("table/votes*", "table/${Name}/index/${Index}", True),
        ("table/", "table/${Name}", False),
        ("bucket/a/b", "${Bucket}/${ObjectName}", True),
        ("bucket", "${Bucket}/${ObjectName}", False),
        ("log-group:/aws/a:*", "log-group:${LogGroupName}:log-stream:${LogStreamName}", True),
    ],
)
def test_patterns_and_formats_of_arns(pattern: str, format_: str, *, match: bool) -> None:
    assert overlap(pattern, format_) is match


def test_a_template_with_a_planted_mistake_is_refused(template: Template) -> None:
    planted = json.dumps(template).replace('"sqs:ReceiveMessage"', '"sqs:ReceiveMessages"')
    with pytest.raises(AssertionError, match=r"IngestWriterRole.*sqs:ReceiveMessages.*no such act"):
        as_aws_has_it(json.loads(planted))


def holders(template: Template) -> set[str]:
    """The types of the resources that hold the statements."""
    places = (one.where.partition(".")[0] for one in statements_of(template))
    return {template["Resources"][id_]["Type"] for id_ in places}


def test_all_kinds_of_policies_are_read(template: Template) -> None:
    assert holders(template) == {
        "AWS::IAM::Role",
        "AWS::Lambda::Permission",
        "AWS::S3::BucketPolicy",
        "AWS::SNS::TopicPolicy",
        "AWS::SQS::QueuePolicy",
    }
    found = list(statements_of(template))
    assert len(found) > 60
    assert any(one.where.endswith(".AssumeRolePolicyDocument[0]") for one in found)


def test_the_policy_of_window_tables_is_one_for_tables() -> None:
    declared = declare(Settings(deny_drops=True))
    policy = table_request(declared.window_table("20261120T080000Z"))["ResourcePolicy"]

    [denial] = json.loads(policy)["Statement"]

    assert list(findings(statement("window table", denial, TABLE))) == []
    wrong = {
        **denial,
        "Action": "dynamodb:DeleteItem",
        "Condition": {"Null": {"aws:TagKeys": "true"}},
    }
    assert len(list(findings(statement("window table", wrong, TABLE)))) == 1


# --- the one list of contradictions


@pytest.fixture
def everything(built: Built) -> Template:
    """A pipeline with whatever contradicts the reference, and all grants."""
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        options = Options(
            api="none",
            snap_start=True,
            runtime="python3.13",
            vpc_subnets="subnet-0a1b2c3d",
            vpc_security_groups="sg-0a1b2c3d",
        )
        key = kms.Key(stack, "Key")
        pipeline = Tallyroll(
            stack, "Counter", options=options, code=function_code(), encryption_key=key
        )
        user = iam.User(stack, "User")
        pipeline.grant_operate(user)
        pipeline.grant_read(user)

    return built(build)


def test_each_contradiction_that_is_argued_is_one(everything: Template) -> None:
    found = judged(everything)

    assert holders(everything) >= {"AWS::IAM::Policy", "AWS::KMS::Key"}
    for one in ARGUED:
        for action in one.actions:
            this = replace(one, actions=(action,))
            assert any(this.covers(each) for each in found), f"argued, but not found: {this}"
        assert '"' in one.source, "the title of a document"
