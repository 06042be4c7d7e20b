"""The construct in a stack of someone else's."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from release.asset import function_code
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.infra.conftest import Built
from tests.infra.templates import (
    actions,
    function,
    named,
    of_type,
    only,
    resource,
    statements,
    text,
)

if TYPE_CHECKING:
    import aws_cdk as cdk

ROOT = Path(__file__).parents[2]


def test_several_pipelines_stand_in_one_stack(built: Built) -> None:
    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        for name in ("votes", "votes-eu"):
            Tallyroll(stack, name, options=Options(name=name), code=function_code())

    template = built(build)

    names = [
        (kind, text(found[property_]))
        for kind, property_ in (
            ("AWS::SQS::Queue", "QueueName"),
            ("AWS::DynamoDB::Table", "TableName"),
            ("AWS::Lambda::Function", "FunctionName"),
            ("AWS::Logs::LogGroup", "LogGroupName"),
            ("AWS::CloudWatch::Alarm", "AlarmName"),
            ("AWS::CloudWatch::Dashboard", "DashboardName"),
        )
        for found in of_type(template, kind).values()
    ]
    assert len(names) == len(set(names)) > 60
    for name in ("votes-catalog", "votes-eu-catalog"):
        assert ("AWS::DynamoDB::Table", name) in names


def test_producers_and_readers_are_granted_what_they_need(built: Built) -> None:
    from aws_cdk import aws_iam as iam

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        pipeline = Tallyroll(stack, "Counter", options=Options(), code=function_code())
        client = iam.User(stack, "Client")
        pipeline.grant_send(client)
        pipeline.grant_read(client)
        assert pipeline.queue is not pipeline.dead_letter_queue
        shown = (pipeline.catalog, pipeline.totals, pipeline.bucket)
        assert len({one.node.path for one in shown}) == 3

    template = built(build)

    [policy] = of_type(template, "AWS::IAM::Policy").values()
    allowed = {
        action: one for one in policy["PolicyDocument"]["Statement"] for action in actions(one)
    }
    events = named(template, "AWS::SQS::Queue", "QueueName", "tallyroll-events")
    assert resource(allowed["sqs:SendMessage"]) == events
    assert "sqs:ReceiveMessage" not in allowed
    assert {one for one in allowed if one.startswith("execute-api:")} == {"execute-api:Invoke"}


def test_a_queue_that_is_there_already_is_used(built: Built) -> None:
    import aws_cdk as cdk
    from aws_cdk import aws_sqs as sqs

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        queue = sqs.Queue(
            stack,
            "Clicks",
            queue_name="clicks",
            encryption=sqs.QueueEncryption.KMS,
            visibility_timeout=cdk.Duration.seconds(Options().visibility_seconds),
            retention_period=cdk.Duration.days(2),
        )
        pipeline = Tallyroll(stack, "Counter", options=Options(), code=function_code(), queue=queue)
        assert pipeline.queue is queue

    template = built(build)

    queues = {one["QueueName"]: id_ for id_, one in of_type(template, "AWS::SQS::Queue").items()}
    assert queues.keys() == {"clicks", "tallyroll-dead-letters"}
    source = only(template, "AWS::Lambda::EventSourceMapping")
    assert source["EventSourceArn"] == {"Fn::GetAtt": [queues["clicks"], "Arn"]}
    letters = template["Resources"][queues["tallyroll-dead-letters"]]["Properties"]
    assert letters["RedriveAllowPolicy"]["sourceQueueArns"] == [source["EventSourceArn"]]
    variables = function(template, "writer")["Environment"]["Variables"]
    assert variables["TALLYROLL_QUEUE_URL"] == {"Ref": queues["clicks"]}
    for name in ("writer", "roller"):
        assert queues["clicks"] in {resource(one) for one in statements(template, name)}
    writers = {action for one in statements(template, "writer") for action in actions(one)}
    assert "kms:Decrypt" in writers
    [alarm] = [
        one
        for one in of_type(template, "AWS::CloudWatch::Alarm").values()
        if one["AlarmName"] == "tallyroll-events-expire"
    ]
    assert alarm["Threshold"] == 86_400


def test_a_queue_that_hides_messages_too_shortly_is_refused(built: Built) -> None:
    from aws_cdk import aws_sqs as sqs

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        Tallyroll(
            stack,
            "Counter",
            options=Options(),
            code=function_code(),
            queue=sqs.Queue(stack, "Clicks"),
        )

    said = r"queue Theirs/Clicks: visibility timeout 30 s; give at least 366 s"
    with pytest.raises(OptionsError, match=said):
        built(build)


def test_a_fifo_queue_is_refused(built: Built) -> None:
    from aws_cdk import aws_sqs as sqs

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        queue = sqs.Queue(stack, "Clicks", fifo=True)
        Tallyroll(stack, "Counter", options=Options(), code=function_code(), queue=queue)

    with pytest.raises(OptionsError, match=r"queue Theirs/Clicks: a FIFO queue; give a standard"):
        built(build)


def test_an_imported_queue_is_taken_at_its_word(built: Built) -> None:
    from aws_cdk import aws_sqs as sqs

    from tallyroll.cdk.pipeline import Tallyroll

    arn = "arn:aws:sqs:eu-west-1:123456789012:clicks"

    def build(stack: cdk.Stack) -> None:
        queue = sqs.Queue.from_queue_arn(stack, "Clicks", arn)
        Tallyroll(stack, "Counter", options=Options(), code=function_code(), queue=queue)

    source = only(built(build), "AWS::Lambda::EventSourceMapping")
    assert source["EventSourceArn"] == arn


def test_grants_are_for_callers_that_iam_knows(built: Built) -> None:
    from aws_cdk import aws_iam as iam

    from tallyroll.cdk.pipeline import Tallyroll

    def build(stack: cdk.Stack) -> None:
        options = Options(auth="jwt", jwt_issuer="https://a.example", jwt_audience="a")
        pipeline = Tallyroll(stack, "Counter", options=options, code=function_code())
        pipeline.grant_read(iam.User(stack, "Client"))

    with pytest.raises(OptionsError, match=r"^tallyroll:auth 'jwt': grants are for iam"):
        built(build)


def test_the_documents_own_stack_synthesizes(node: None) -> None:
    document = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if "cdk.App()" in block]
    made: dict[str, Any] = {}

    exec(block, made)
    template = made["app"].synth().get_stack_by_name("Election").template

    assert named(template, "AWS::SQS::Queue", "QueueName", "votes-events")
