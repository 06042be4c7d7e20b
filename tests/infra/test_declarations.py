"""What the embedded engine creates and what the stack creates, of the same declarations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from local.aws.embedded import Embedded
from tallyroll.resources import declare
from tallyroll.settings.options import Options
from tests.infra.templates import Template, function, named, of_type, only, queue, tags

SETTINGS = Options().settings()
DECLARED = declare(SETTINGS)
# Not of a declaration: where a queue is, and what is in it.
NOT_DECLARED = {
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "QueueArn",
    "RedrivePolicy",
}
# SQS's own defaults, of which the template says nothing.
DEFAULTS = {"DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0"}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    with Embedded(SETTINGS, engine="moto") as aws:
        yield aws


@pytest.mark.parametrize("declared", [DECLARED.queue, DECLARED.dead_letters], ids=lambda d: d.name)
def test_queues_agree(embedded: Embedded, template: Template, declared: Any) -> None:
    sqs = embedded.client("sqs")
    url = sqs.get_queue_url(QueueName=declared.name)["QueueUrl"]
    there = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    _, deployed = queue(template, declared)

    kept = {name: text for name, text in there.items() if name not in NOT_DECLARED}
    for name, text in kept.items():
        assert str(deployed.get(name, DEFAULTS.get(name))).lower() == text.lower(), name
    assert kept.keys() >= {"VisibilityTimeout", "MessageRetentionPeriod", "MaximumMessageSize"}
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == tags(deployed)


def test_the_dead_letter_rules_agree(embedded: Embedded, template: Template) -> None:
    sqs = embedded.client("sqs")
    url = sqs.get_queue_url(QueueName=DECLARED.queue.name)["QueueUrl"]
    asked = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    _, deployed = queue(template, DECLARED.queue)
    dead_id, _ = queue(template, DECLARED.dead_letters)

    rule = asked["Attributes"]["RedrivePolicy"]
    assert f'"maxReceiveCount":{deployed["RedrivePolicy"]["maxReceiveCount"]}' in rule.replace(
        " ", ""
    )
    assert f":{DECLARED.dead_letters.name}" in rule
    assert deployed["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": [dead_id, "Arn"]}


@pytest.mark.parametrize("declared", [DECLARED.catalog, DECLARED.totals], ids=lambda d: d.name)
def test_tables_agree(embedded: Embedded, template: Template, declared: Any) -> None:
    dynamodb = embedded.client("dynamodb")
    there = dynamodb.describe_table(TableName=declared.name)["Table"]
    id_ = named(template, "AWS::DynamoDB::Table", "TableName", declared.name)
    deployed = template["Resources"][id_]["Properties"]

    for name in ("TableName", "KeySchema", "AttributeDefinitions", "DeletionProtectionEnabled"):
        assert there[name] == deployed[name], name
    assert there["BillingModeSummary"]["BillingMode"] == deployed["BillingMode"]
    listed = dynamodb.list_tags_of_resource(ResourceArn=there["TableArn"])["Tags"]
    assert listed == deployed["Tags"]


def test_nothing_is_created_here_that_is_not_deployed(
    embedded: Embedded, template: Template
) -> None:
    tables = embedded.client("dynamodb").list_tables()["TableNames"]
    urls = embedded.client("sqs").list_queues()["QueueUrls"]
    buckets = embedded.client("s3").list_buckets()["Buckets"]

    deployed = {one["TableName"] for one in of_type(template, "AWS::DynamoDB::Table").values()}
    assert set(tables) == deployed
    queues = {one["QueueName"] for one in of_type(template, "AWS::SQS::Queue").values()}
    assert {url.rpartition("/")[2] for url in urls} == queues
    assert len(buckets) == len(of_type(template, "AWS::S3::Bucket"))


def test_buckets_agree(embedded: Embedded, template: Template) -> None:
    there = embedded.client("s3").get_bucket_versioning(Bucket=embedded.settings.bucket)

    deployed = only(template, "AWS::S3::Bucket")["VersioningConfiguration"]
    assert there["Status"] == deployed["Status"]


def test_functions_get_the_same_settings_but_for_the_names_of_what_was_created(
    embedded: Embedded, template: Template
) -> None:
    variables = function(template, "writer")["Environment"]["Variables"]

    here = replace(embedded.settings, read_archives=False).to_env()  # the option is off
    places = {name for name, value in variables.items() if isinstance(value, dict)}
    assert places == {"TALLYROLL_QUEUE_URL", "TALLYROLL_DEAD_LETTERS_URL", "TALLYROLL_BUCKET"}
    assert {name: value for name, value in variables.items() if name not in places} == {
        name: value for name, value in here.items() if name not in places
    }
    assert here.keys() == variables.keys()
