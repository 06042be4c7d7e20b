"""What a team passes in: a bucket, a topic, a key, tags. (Queues are in test_pipeline.)"""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from release.asset import function_code
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.infra.conftest import Built
from tests.infra.templates import (
    FUNCTIONS,
    Template,
    actions,
    function,
    named,
    of_type,
    only,
    resource,
    statements,
    tags,
    text,
)

if TYPE_CHECKING:
    import aws_cdk as cdk

READS = {"kms:Decrypt", "kms:DescribeKey"}
WRITES = READS | {*("kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo")}


def granted(template: Template, id_: str, *, to: str) -> set[str]:
    """What a function may do with the resource of a logical id, or with what is in it."""
    return {
        action
        for one in statements(template, to)
        if not isinstance(one["Resource"], list) and id_ in resource(one)
        for action in actions(one)
    }


@pytest.mark.parametrize("archived", [False, True])
def test_a_bucket_that_is_there_already_is_used(built: Built, *, archived: bool) -> None:
    from aws_cdk import aws_s3 as s3

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        bucket = s3.Bucket(stack, "Lake", encryption=s3.BucketEncryption.KMS, versioned=True)
        options = Options(read_archives=archived)
        pipeline = Tallyroll(stack, "Counter", options=options, code=function_code(), bucket=bucket)
        assert pipeline.bucket is bucket

    template = built(build)

    [lake] = of_type(template, "AWS::S3::Bucket")
    [key] = of_type(template, "AWS::KMS::Key")
    for name in FUNCTIONS:
        variables = function(template, name)["Environment"]["Variables"]
        assert variables["TALLYROLL_BUCKET"] == {"Ref": lake}
    assert granted(template, lake, to="writer") == {"s3:PutObject"}
    assert "s3:GetObject" in granted(template, lake, to="cleanup")
    assert {name: granted(template, key, to=name) for name in FUNCTIONS} == {
        "writer": WRITES,
        "cleanup": WRITES,
        "dropper": READS,
        "aggregator": READS if archived else set(),
        "roller": set(),
    }


def test_a_bucket_of_another_app_is_taken_by_its_name(built: Built) -> None:
    from aws_cdk import aws_s3 as s3

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        bucket = s3.Bucket.from_bucket_name(stack, "Lake", "lake")
        Tallyroll(stack, "Counter", options=Options(), code=function_code(), bucket=bucket)

    template = built(build)

    assert not of_type(template, "AWS::S3::Bucket")
    assert function(template, "cleanup")["Environment"]["Variables"]["TALLYROLL_BUCKET"] == "lake"
    written = [one for one in statements(template, "writer") if "s3:PutObject" in actions(one)]
    assert [resource(one).rpartition(":::")[2] for one in written] == ["lake/rejected/*"]


@pytest.mark.parametrize("enforce_ssl", [False, True])
def test_a_topic_that_is_there_already_is_notified(built: Built, *, enforce_ssl: bool) -> None:
    from aws_cdk import aws_sns as sns

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        topic = sns.Topic(stack, "Pager", enforce_ssl=enforce_ssl)
        pipeline = Tallyroll(
            stack,
            "Counter",
            options=Options(alarm_email="night@example.org"),
            code=function_code(),
            alarm_topic=topic,
        )
        assert pipeline.alarm_topic_arn == topic.topic_arn

    template = built(build)

    [pager] = of_type(template, "AWS::SNS::Topic")
    for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmActions"] == [{"Ref": pager}]
    policy = only(template, "AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    assert [one["Action"] for one in policy if one["Effect"] == "Allow"] == ["sns:Publish"]
    assert only(template, "AWS::SNS::Subscription")["TopicArn"] == {"Ref": pager}


def test_pages_and_tickets_may_go_to_two_topics(built: Built) -> None:
    from aws_cdk import aws_sns as sns

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        desk = sns.Topic(stack, "Desk")
        pipeline = Tallyroll(
            stack, "Counter", options=Options(), code=function_code(), ticket_topic=desk
        )
        assert pipeline.ticket_topic_arn == desk.topic_arn != pipeline.alarm_topic_arn

    template = built(build)

    desk, pager = of_type(template, "AWS::SNS::Topic")
    for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmActions"] == [{"Ref": desk}]
    for page in of_type(template, "AWS::CloudWatch::CompositeAlarm").values():
        assert page["AlarmActions"] == [{"Ref": pager}]


def test_an_address_for_tickets_needs_a_topic_of_theirs(built: Built) -> None:
    from aws_cdk import aws_sns as sns

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        options = Options(alarm_email="night@example.org", ticket_email="day@example.org")
        topic = sns.Topic(stack, "Pager")
        Tallyroll(stack, "Counter", options=options, code=function_code(), alarm_topic=topic)

    with pytest.raises(OptionsError, match=r"tallyroll:ticket_email 'day@.*pass in a ticket_topic"):
        built(build)


@pytest.mark.parametrize("imported", [False, True])
def test_a_fifo_topic_is_refused(built: Built, *, imported: bool) -> None:
    from aws_cdk import aws_sns as sns

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        topic: sns.ITopic = sns.Topic(stack, "Pager", fifo=True)
        if imported:
            arn = "arn:aws:sns:eu-west-1:123456789012:pager.fifo"
            topic = sns.Topic.from_topic_arn(stack, "Far", arn)
        Tallyroll(stack, "Counter", options=Options(), code=function_code(), alarm_topic=topic)

    with pytest.raises(OptionsError, match=r"alarm_topic \S+: a FIFO topic; give a standard one"):
        built(build)


def test_a_topic_of_another_app_is_notified(built: Built) -> None:
    from aws_cdk import aws_sns as sns

    from tallyroll.cdk import Tallyroll

    arn = "arn:aws:sns:eu-west-1:123456789012:pager"

    def build(stack: cdk.Stack) -> None:
        topic = sns.Topic.from_topic_arn(stack, "Pager", arn)
        Tallyroll(stack, "Counter", options=Options(), code=function_code(), alarm_topic=topic)

    template = built(build)

    assert not of_type(template, "AWS::SNS::Topic")
    assert not of_type(template, "AWS::SNS::TopicPolicy")
    for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmActions"] == [arn]


def encrypted(built: Built, **given: Any) -> tuple[Template, str]:
    """A pipeline with a key for a producer and two operators, and the key's logical id."""
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        pipeline = Tallyroll(
            stack,
            "Counter",
            options=Options(),
            code=function_code(),
            encryption_key=kms.Key(stack, "Key"),
            **given,
        )
        for name in ("send", "redrive", "operate", "read"):
            user = iam.User(stack, name, user_name=name)
            getattr(pipeline, f"grant_{name}")(user)

    template = built(build)
    [key] = of_type(template, "AWS::KMS::Key")
    return template, key


def test_a_key_encrypts_all_that_is_permanent(built: Built) -> None:
    template, key = encrypted(built)

    arn = {"Fn::GetAtt": [key, "Arn"]}
    for queue in of_type(template, "AWS::SQS::Queue").values():
        assert queue["KmsMasterKeyId"] == arn
    for table in of_type(template, "AWS::DynamoDB::Table").values():
        assert table["SSESpecification"] == {
            "SSEEnabled": True,
            "SSEType": "KMS",
            "KMSMasterKeyId": arn,
        }
    bucket = only(template, "AWS::S3::Bucket")["BucketEncryption"]
    [rule] = bucket["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {
        "KMSMasterKeyID": arn,
        "SSEAlgorithm": "aws:kms",
    }
    assert rule["BucketKeyEnabled"] is True


def test_whoever_uses_what_is_encrypted_may_use_the_key(built: Built) -> None:
    template, key = encrypted(built)

    assert {name: granted(template, key, to=name) for name in FUNCTIONS} == {
        "writer": WRITES,
        "aggregator": READS,
        "roller": WRITES | {"kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"},
        "cleanup": WRITES,
        "dropper": WRITES,
    }
    users = {
        named(template, "AWS::IAM::User", "UserName", name): name
        for name in ("send", "redrive", "operate", "read")
    }
    may: dict[str, set[str]] = {name: set() for name in users.values()}
    for policy in of_type(template, "AWS::IAM::Policy").values():
        [user] = policy["Users"]
        for one in policy["PolicyDocument"]["Statement"]:
            if text(one["Resource"]) == key:
                may[users[user["Ref"]]] |= {*actions(one)}
    assert may["redrive"] == may["operate"] == WRITES
    assert {"kms:Decrypt", "kms:GenerateDataKey*"} <= may["send"]
    assert may["read"] == set()


def test_tags_are_on_all_that_is_made(built: Built) -> None:
    from tallyroll.cdk import Tallyroll

    given = {"team": "elections", "cost-centre": "42"}

    def build(stack: cdk.Stack) -> None:
        Tallyroll(stack, "Counter", options=Options(), code=function_code(), tags=given)

    template = built(build)

    for kind in ("SQS::Queue", "DynamoDB::Table", "S3::Bucket", "Lambda::Function", "SNS::Topic"):
        found = of_type(template, f"AWS::{kind}").values()
        assert found
        for one in found:
            assert tags(one) == {**given, "tallyroll": "tallyroll"}


@pytest.mark.parametrize("key", ["tallyroll", "proven", "Proven", "aws:team", "AWS:team"])
def test_reserved_tags_are_refused(built: Built, key: str) -> None:
    """The dropper may drop a table with the tag `proven`."""
    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        Tallyroll(stack, "Counter", options=Options(), code=function_code(), tags={key: "yes"})

    with pytest.raises(OptionsError, match=rf"^tags '{key}': tallyroll, .* and aws:\.\.\. are"):
        built(build)
