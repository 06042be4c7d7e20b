"""What an operator is granted is what the command calls."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from release.asset import function_code
from release.bundle import ROOT
from tallyroll.settings.options import Options
from tests.faults.sites import all_sites
from tests.infra.calls import REDRIVE, Call, Trace
from tests.infra.conftest import Built
from tests.infra.grants import DYNAMO_STORE, Grants, label, needed, of_identities
from tests.infra.operations import needed_by
from tests.infra.templates import actions, of_type, resource

if TYPE_CHECKING:
    import aws_cdk as cdk

ASKED = ("GetQueueUrl", "GetQueueAttributes")
SERVICE_OF = {"GetServiceQuota": "servicequotas", "ListEventSourceMappings": "lambda"}
LOOKS = (
    *("DescribeTable", "ListTagsOfResource", "DescribeContinuousBackups", "GetResourcePolicy"),
    *("GetItem", "BatchGetItem", "Query"),
)


@pytest.fixture(scope="module")
def traced() -> Trace:
    """What `tallyroll dlq redrive` may call."""
    return Trace(REDRIVE)


def granted(built: Built, grant: str = "grant_redrive", **options: Any) -> Grants:
    """What a grant allows a user."""
    from aws_cdk import aws_iam as iam

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        chosen = Options(**options)
        pipeline = Tallyroll(stack, "Counter", options=chosen, code=function_code())
        getattr(pipeline, grant)(iam.User(stack, "Operator"))

    template = built(build)
    [policy] = of_type(template, "AWS::IAM::Policy").values()
    return {
        (label(template, resource(statement)), action)
        for statement in policy["PolicyDocument"]["Statement"]
        for action in actions(statement)
    }


def test_an_operator_is_granted_what_a_redrive_calls_and_nothing_else(
    built: Built, traced: Trace
) -> None:
    wanted = set[tuple[str, str]]().union(*map(needed, traced.calls))

    found = granted(built)

    assert sorted(found - wanted) == [], "granted, but never called"
    assert sorted(wanted - found) == [], "called, but not granted"
    by_reference = {action for call in traced.calls for action in needed_by(call)}
    assert by_reference <= {action for _, action in found}


def test_the_trace_sees_all_of_a_redrive(traced: Trace) -> None:
    assert traced.unclear == set()
    letters = "adapters.aws.sqs_dead_letters.SqsDeadLetters"
    for call in (
        Call("SendMessageBatch", "adapters.aws.sqs", letters),
        Call("GetObject", "adapters.aws.s3", "adapters.aws.s3.S3Bucket"),
        Call("PutItem", "adapters.dynamodb.ledger", "adapters.dynamodb.catalog.DynamoCatalog"),
    ):
        assert call in traced.calls


def test_an_operator_of_the_whole_command_is_granted_what_the_documents_name(built: Built) -> None:
    """Of the doctor and of a measured plan by the resource, of the other commands by the action."""
    found = granted(built, "grant_operate")

    assert found > granted(built)
    tables = ("windows", "catalog", "totals")
    doctors = {
        ("*", "dynamodb:ListTables"),
        ("*", "cloudwatch:DescribeAlarms"),
        ("*", "cloudwatch:GetMetricStatistics"),
        ("topics", "sns:ListSubscriptionsByTopic"),
        ("functions", "lambda:GetFunctionConfiguration"),
        ("functions", "lambda:GetFunctionConcurrency"),
        ("roles", "iam:SimulatePrincipalPolicy"),
        ("schedules", "scheduler:GetSchedule"),
        ("*", "lambda:ListEventSourceMappings"),
        ("*", "servicequotas:GetServiceQuota"),
        ("bucket", "s3:ListBucket"),
        ("bucket", "s3:GetBucketPolicy"),
        ("objects", "s3:GetObject"),
        *((queue, f"sqs:{one}") for queue in ("queue", "dead letters") for one in ASKED),
        *((table, f"dynamodb:{one}") for table in tables for one in LOOKS),
    }
    assert sorted(doctors - found) == []
    document = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    allowed = {action for _, action in found}
    rows = document.partition("\n## Needed permissions\n")[2].splitlines()
    asked = [
        row
        for row in rows
        if row.startswith("| `") and not re.search("dynamodb:(Create|Update)Table", row)
    ]
    assert len(asked) >= 10, "all commands but those that make or change tables"
    for row in asked:
        named = re.findall(
            r"`((?:dynamodb|sqs|s3|cloudwatch|iam|lambda|scheduler|servicequotas|sns):\w+)`", row
        )
        assert named or "what `" in row
        assert {*named} <= allowed


def test_identities_are_granted_to_who_redrives_and_operates_and_only_if_there_are_any(
    built: Built, traced: Trace
) -> None:
    looked_at = [one for one in LOOKS if "Item" not in one and one != "Query"]
    more = {
        "grant_send": set(),
        "grant_redrive": {"BatchGetItem"},
        "grant_operate": {"BatchGetItem", "DescribeTimeToLive", *looked_at},
    }
    for grant, operations in more.items():
        gained = granted(built, grant, identity="key") - granted(built, grant)
        assert gained == {("identities", f"dynamodb:{one}") for one in operations}, grant
    owned = {place.name for place in traced.reached if place.owner == DYNAMO_STORE}
    assert of_identities(owned) == {("identities", "dynamodb:BatchGetItem")}


def test_quotas_and_triggers_are_granted_to_whoever_plans_and_to_nobody_else(built: Built) -> None:
    module = "adapters.aws.gauges"
    sites = {site.operation for site in all_sites() if module in site.file.replace("/", ".")}
    asked = {f"{SERVICE_OF[operation]}:{operation}" for operation in sites}
    assert asked <= {action for _, action in granted(built, "grant_operate")}
    for grant in ("grant_send", "grant_redrive"):
        assert not asked & {action for _, action in granted(built, grant)}


def test_throttled_keys_are_read_by_who_operates_where_they_are_noted(built: Built) -> None:
    more = {
        ("windows", "dynamodb:DescribeContributorInsights"),
        ("rules", "cloudwatch:GetInsightRuleReport"),
    }
    for grant in ("grant_send", "grant_redrive", "grant_operate"):
        gained = granted(built, grant, contributor_insights=True) - granted(built, grant)
        assert gained == (more if grant == "grant_operate" else set())


def test_no_grant_makes_or_deletes_a_table(built: Built) -> None:
    for grant in ("grant_send", "grant_redrive", "grant_operate"):
        allowed = {action for _, action in granted(built, grant)}
        assert not allowed & {"dynamodb:CreateTable", "dynamodb:DeleteTable", "dynamodb:*"}
        assert not [one for one in allowed if one.endswith("*")]


def test_a_producer_that_uploads_is_granted_its_own_prefix_alone(built: Built) -> None:
    from aws_cdk import aws_iam as iam

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        pipeline = Tallyroll(stack, "Counter", options=Options(name="votes"), code=function_code())
        pipeline.grant_send(iam.User(stack, "Sender"))
        pipeline.grant_send(iam.User(stack, "Uploader"), payloads=True)

    template = built(build)
    uploading = [
        (policy, resource(statement))
        for policy, made in of_type(template, "AWS::IAM::Policy").items()
        for statement in made["PolicyDocument"]["Statement"]
        if "s3:PutObject" in actions(statement)
        if "Sender" in policy or "Uploader" in policy
    ]
    [(policy, objects)] = uploading
    assert "Uploader" in policy
    assert objects.partition("/")[2] == "payloads/votes/*"
