"""The updates that moto's CloudFormation is given: in place, by replacement, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.cloudformation import parsing
from moto.cloudformation.parsing import ResourceMap

from tests.e2e import updates
from tests.e2e.aws_server import KINDS, model
from tests.e2e.deployment import REGION, Json

pytestmark = pytest.mark.proof

SCHEDULE = {
    "Name": "tick",
    "ScheduleExpression": "rate(1 minute)",
    "FlexibleTimeWindow": {"Mode": "OFF"},
    "Target": {"Arn": "arn:aws:lambda:us-east-1:123456789012:function:f", "RoleArn": "r"},
}
ROLE = {"RoleName": "taker", "AssumeRolePolicyDocument": {"Statement": []}}


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    # Both are set by `install`, and put back at the end of the test.
    monkeypatch.setattr(ResourceMap, "update", ResourceMap.update)
    monkeypatch.setattr(parsing, "parse_and_update_resource", updates._update_in_place)
    models = [model(kind) for kind in KINDS if kind.type == "AWS::Scheduler::Schedule"]
    updates.install()
    with mock_aws():
        yield boto3.client("cloudformation", region_name=REGION)
    assert models  # moto knows them by weak references only


def template(**resources: tuple[str, Json]) -> str:
    made = {id_: {"Type": kind, "Properties": given} for id_, (kind, given) in resources.items()}
    return json.dumps({"Resources": made})


def ids(cloudformation: Any) -> dict[str, str]:
    listed = cloudformation.list_stack_resources(StackName="s")["StackResourceSummaries"]
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in listed}


def change(cloudformation: Any, kind: str, before: Json, after: Json) -> tuple[str, str]:
    """Create a stack with a resource, and update it; its physical ids."""
    cloudformation.create_stack(StackName="s", TemplateBody=template(One=(kind, before)))
    old = ids(cloudformation)["One"]
    cloudformation.update_stack(StackName="s", TemplateBody=template(One=(kind, after)))
    return old, ids(cloudformation)["One"]


def test_a_queue_gets_new_attributes_in_place(cloudformation: Any) -> None:
    queue: Json = {"QueueName": "q", "MessageRetentionPeriod": 60}
    allowed = {"redrivePermission": "denyAll"}
    changed = {**queue, "MessageRetentionPeriod": 120, "RedriveAllowPolicy": allowed}

    old, new = change(cloudformation, "AWS::SQS::Queue", queue, changed)

    assert old == new
    sqs = boto3.client("sqs", region_name=REGION)
    found = sqs.get_queue_attributes(QueueUrl=new, AttributeNames=["All"])["Attributes"]
    assert found["MessageRetentionPeriod"] == "120"


def test_a_resource_that_moto_cannot_update_stays(cloudformation: Any) -> None:
    table: Json = {
        "TableName": "t",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    changed = {**table, "DeletionProtectionEnabled": True}

    assert change(cloudformation, "AWS::DynamoDB::Table", table, changed) == ("t", "t")


def test_a_schedule_changes_in_place_and_is_replaced_under_a_new_name(cloudformation: Any) -> None:
    kind, slower = "AWS::Scheduler::Schedule", {**SCHEDULE, "ScheduleExpression": "rate(1 hour)"}
    scheduler = boto3.client("scheduler", region_name=REGION)

    assert change(cloudformation, kind, SCHEDULE, slower) == ("tick", "tick")
    assert scheduler.get_schedule(Name="tick")["ScheduleExpression"] == "rate(1 hour)"
    body = template(One=(kind, {**slower, "Name": "tock"}))
    cloudformation.update_stack(StackName="s", TemplateBody=body)

    assert [one["Name"] for one in scheduler.list_schedules()["Schedules"]] == ["tock"]


def test_what_keeps_its_name_cannot_be_replaced(cloudformation: Any) -> None:
    with pytest.raises(updates.ReplacementError, match=r"One must be replaced for .*Path"):
        change(cloudformation, "AWS::IAM::Role", ROLE, {**ROLE, "Path": "/other/"})
