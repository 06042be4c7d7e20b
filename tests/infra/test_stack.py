from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest

from infra.options import Options, OptionsError
from tallyroll.archive import prefix_of, summary_key
from tallyroll.limits import RECEIVES_FUSE
from tallyroll.resources import (
    QueueDeclaration,
    TableDeclaration,
    declare,
    queue_attributes,
    table_request,
)
from tallyroll.settings import Settings
from tallyroll.sqs import REJECTED_PREFIX
from tallyroll.windows import table_name

Template = dict[str, Any]
FUNCTIONS = ("writer", "aggregator", "roller", "cleanup")
DECLARED = declare(Options().settings())


def of_type(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    """The properties of the resources of one type, by logical id."""
    return {
        id_: resource["Properties"]
        for id_, resource in template["Resources"].items()
        if resource["Type"] == kind
    }


def function(template: Template, name: str) -> dict[str, Any]:
    """The properties of one function."""
    functions = of_type(template, "AWS::Lambda::Function").values()
    [found] = [f for f in functions if f["Handler"] == f"functions.{name}.handler.handler"]
    return found


def statements(template: Template, name: str) -> list[dict[str, Any]]:
    """What one function's role allows."""
    role_id = function(template, name)["Role"]["Fn::GetAtt"][0]
    role = template["Resources"][role_id]["Properties"]
    assert "ManagedPolicyArns" not in role
    [policy] = role["Policies"]
    found: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return found


def actions(statement: dict[str, Any]) -> list[str]:
    """A statement's actions, always as a list."""
    found = statement["Action"]
    return [found] if isinstance(found, str) else found


def queue(template: Template, declared: QueueDeclaration) -> tuple[str, dict[str, Any]]:
    """Logical id and properties of the queue of a declaration."""
    queues = of_type(template, "AWS::SQS::Queue").items()
    [found] = [entry for entry in queues if entry[1]["QueueName"] == declared.name]
    return found


def test_resource_counts(template: Template) -> None:
    counts = Counter(resource["Type"] for resource in template["Resources"].values())

    assert counts == {
        "AWS::ApiGatewayV2::Api": 1,
        "AWS::ApiGatewayV2::Integration": 1,
        "AWS::ApiGatewayV2::Route": 1,
        "AWS::ApiGatewayV2::Stage": 1,
        "AWS::DynamoDB::Table": 2,
        "AWS::IAM::Policy": 2,
        "AWS::IAM::Role": 6,
        "AWS::Lambda::EventInvokeConfig": 2,
        "AWS::Lambda::EventSourceMapping": 1,
        "AWS::Lambda::Function": 4,
        "AWS::Lambda::Permission": 1,
        "AWS::Logs::LogGroup": 4,
        "AWS::S3::Bucket": 1,
        "AWS::S3::BucketPolicy": 1,
        "AWS::SQS::Queue": 2,
        "AWS::SQS::QueuePolicy": 2,
        "AWS::Scheduler::Schedule": 2,
    }


@pytest.mark.parametrize("declared", [DECLARED.catalog, DECLARED.totals], ids=lambda d: d.name)
def test_tables_are_as_declared(template: Template, declared: TableDeclaration) -> None:
    tables = of_type(template, "AWS::DynamoDB::Table")
    [id_] = [id_ for id_, table in tables.items() if table["TableName"] == declared.name]
    table = tables[id_]

    recovery = table.pop("PointInTimeRecoverySpecification")
    assert recovery == {"PointInTimeRecoveryEnabled": declared.point_in_time_recovery}
    assert table == table_request(declared)
    assert template["Resources"][id_]["DeletionPolicy"] == "Retain"


@pytest.mark.parametrize("declared", [DECLARED.queue, DECLARED.dead_letters], ids=lambda d: d.name)
def test_queues_are_as_declared(template: Template, declared: QueueDeclaration) -> None:
    id_, found = queue(template, declared)
    attributes = queue_attributes(declared)

    assert {name: str(found[name]) for name in attributes if name in found} == {
        "VisibilityTimeout": attributes["VisibilityTimeout"],
        "MaximumMessageSize": attributes["MaximumMessageSize"],
        "MessageRetentionPeriod": attributes["MessageRetentionPeriod"],
    }
    assert found["SqsManagedSseEnabled"] is True
    assert {tag["Key"]: tag["Value"] for tag in found["Tags"]} == declared.tags
    [policy] = [
        policy["PolicyDocument"]
        for policy in of_type(template, "AWS::SQS::QueuePolicy").values()
        if policy["Queues"] == [{"Ref": id_}]
    ]
    [deny] = policy["Statement"]
    assert deny["Effect"] == "Deny"
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_dead_letter_rule_is_a_fuse(template: Template) -> None:
    _, events = queue(template, DECLARED.queue)
    dead_id, dead_letters = queue(template, DECLARED.dead_letters)

    assert events["RedrivePolicy"] == {
        "deadLetterTargetArn": {"Fn::GetAtt": [dead_id, "Arn"]},
        "maxReceiveCount": 1_000,
    }
    assert RECEIVES_FUSE == 1_000
    assert dead_letters["MessageRetentionPeriod"] > events["MessageRetentionPeriod"]


@pytest.mark.parametrize("window", [0, 300])
def test_visibility_covers_six_batches(synthesize: Callable[..., Template], window: int) -> None:
    template = synthesize(batch_size=10, batch_window_seconds=window)

    _, events = queue(template, DECLARED.queue)
    timeout = function(template, "writer")["Timeout"]
    [source] = of_type(template, "AWS::Lambda::EventSourceMapping").values()
    assert source["MaximumBatchingWindowInSeconds"] == window
    assert events["VisibilityTimeout"] >= 6 * (timeout + window)


def test_options_reach_the_event_source(synthesize: Callable[..., Template]) -> None:
    template = synthesize(
        name="votes", batch_size="250", batch_window_seconds=2, max_concurrency=9, shards=32
    )

    [source] = of_type(template, "AWS::Lambda::EventSourceMapping").values()
    assert source["BatchSize"] == 250
    assert source["MaximumBatchingWindowInSeconds"] == 2
    assert source["ScalingConfig"] == {"MaximumConcurrency": 9}
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    names = {table["TableName"] for table in of_type(template, "AWS::DynamoDB::Table").values()}
    assert names == {"votes-catalog", "votes-totals"}
    assert function(template, "roller")["Environment"]["Variables"]["TALLYROLL_SHARDS"] == "32"


def test_unknown_option_ends_the_synthesis(synthesize: Callable[..., Template]) -> None:
    with pytest.raises(OptionsError, match="tallyroll:shard:"):
        synthesize(shard=3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_share_their_defaults_and_their_handlers_exist(
    template: Template, name: str
) -> None:
    found = function(template, name)

    module, _, attribute = found["Handler"].rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))
    assert found["Architectures"] == ["arm64"]
    assert found["Runtime"] == f"python3.{min(max(sys.version_info.minor, 11), 14)}"
    log = template["Resources"][found["LoggingConfig"]["LogGroup"]["Ref"]]["Properties"]
    assert log["LogGroupName"] == f"/aws/lambda/tallyroll-{name}"
    assert log["RetentionInDays"] == 30


@pytest.mark.parametrize("name", FUNCTIONS)
def test_environment_reads_back_as_the_settings(template: Template, name: str) -> None:
    variables = function(template, name)["Environment"]["Variables"]
    texts = {
        variable: value if isinstance(value, str) else value["Ref"]
        for variable, value in variables.items()
    }

    [bucket] = of_type(template, "AWS::S3::Bucket")
    assert Settings.from_env(texts) == Options().settings(
        queue_url=queue(template, DECLARED.queue)[0],
        dead_letters_url=queue(template, DECLARED.dead_letters)[0],
        bucket=bucket,
    )


def test_schedules(template: Template) -> None:
    rates = {}
    for schedule in of_type(template, "AWS::Scheduler::Schedule").values():
        id_ = schedule["Target"]["Arn"]["Fn::GetAtt"][0]
        handler = template["Resources"][id_]["Properties"]["Handler"]
        rates[handler.split(".")[1]] = schedule["ScheduleExpression"]
        assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0

    assert rates == {"roller": "rate(1 minute)", "cleanup": "rate(5 minutes)"}
    lease_ms = Options().settings().export_lease_ms
    assert function(template, "cleanup")["Timeout"] * 1000 < lease_ms


def test_reads_need_a_signature(template: Template) -> None:
    [route] = of_type(template, "AWS::ApiGatewayV2::Route").values()

    assert route["RouteKey"] == "GET /v1/counters"
    assert route["AuthorizationType"] == "AWS_IAM"


def test_only_the_roller_creates_and_only_cleanup_deletes(template: Template) -> None:
    may = {
        name: [action for statement in statements(template, name) for action in actions(statement)]
        for name in FUNCTIONS
    }

    def who(action: str) -> set[str]:
        return {name for name in FUNCTIONS if f"dynamodb:{action}" in may[name]}

    assert who("CreateTable") == {"roller"}
    assert who("DeleteTable") == who("UpdateTable") == {"cleanup"}
    assert who("TagResource") == {"roller", "cleanup"}
    assert who("DeleteItem") == who("BatchWriteItem") == set()
    assert not [action for allowed in may.values() for action in allowed if "*" in action]


def test_a_table_without_proof_cannot_be_dropped(template: Template) -> None:
    [drop] = [
        statement
        for statement in statements(template, "cleanup")
        if "dynamodb:DeleteTable" in actions(statement)
    ]
    assert drop["Condition"] == {"Null": {"aws:ResourceTag/proven": "false"}}
    tags = {
        name: statement["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"]
        for name in ("roller", "cleanup")
        for statement in statements(template, name)
        if actions(statement) == ["dynamodb:TagResource"]
    }
    assert tags == {"roller": ["tallyroll"], "cleanup": ["proven"]}


def test_the_pattern_of_window_tables_matches_them_alone(template: Template) -> None:
    [create] = [
        statement
        for statement in statements(template, "roller")
        if "dynamodb:CreateTable" in actions(statement)
    ]
    pattern = create["Resource"]["Fn::Join"][1][-1].removeprefix(":table/")

    assert fnmatchcase(table_name("tallyroll", "20261120T080000Z"), pattern)
    for other in ("tallyroll-catalog", "tallyroll-totals", "tallyroll-b-20261120T080000Z"):
        assert not fnmatchcase(other, pattern)


def test_objects_are_allowed_where_the_core_puts_them(template: Template) -> None:
    allowed = {
        name: [
            statement["Resource"]["Fn::Join"][1][-1].removeprefix("/")
            for statement in statements(template, name)
            if "s3:PutObject" in actions(statement)
        ]
        for name in FUNCTIONS
    }
    archive = summary_key(prefix_of("tallyroll", "20261120T080000Z", "attempt"))

    assert allowed["writer"] == [f"{REJECTED_PREFIX}/*"]
    [archives] = allowed["cleanup"]
    assert fnmatchcase(archive, archives)
    assert not fnmatchcase(archive.replace("tallyroll", "tally"), archives)
    assert allowed["aggregator"] == allowed["roller"] == []


def test_only_metrics_which_have_no_arn_are_allowed_on_everything(template: Template) -> None:
    everywhere = [
        actions(statement)
        for name in FUNCTIONS
        for statement in statements(template, name)
        if statement["Resource"] == "*"
    ]
    assert everywhere == [["cloudwatch:GetMetricStatistics"]]
