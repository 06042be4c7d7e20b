"""Somebody is told when the pipeline's key is disabled, by parts that do not need the key."""

from __future__ import annotations

from typing import Any

import pytest
from moto.events.models import EventPattern

from tallyroll.cdk.observability import KEY_ENTRY
from tests.infra.conftest import KEY
from tests.infra.templates import Template, of_type, only, text
from tests.infra.test_observability import GUIDE, topic

OTHER = KEY.replace("key/", "key/9")
CALL = "AWS API Call via CloudTrail"


def call(name: str, key: str = KEY, **detail: Any) -> dict[str, Any]:
    """What CloudTrail hands to EventBridge, with one resource instead of a list of one, as
    EventBridge compares it. Source: AWS KMS Developer Guide, "Logging AWS KMS API calls with AWS
    CloudTrail".
    """
    return {
        "source": "aws.kms",
        "detail-type": CALL,
        "resources": [],
        "detail": {
            "eventSource": "kms.amazonaws.com",
            "eventName": name,
            "requestParameters": {"keyId": key.rpartition("/")[2]},
            "resources": {"accountId": "123456789012", "type": "AWS::KMS::Key", "ARN": key},
            **detail,
        },
    }


def lost(kind: str, key: str = KEY) -> dict[str, Any]:
    """What KMS itself hands to EventBridge."""
    id_ = key.rpartition("/")[2]
    return {"source": "aws.kms", "detail-type": kind, "resources": [key], "detail": {"key-id": id_}}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (call("DisableKey"), True),
        (call("ScheduleKeyDeletion"), True),
        (call("EnableKey"), True),
        (lost("KMS CMK Deletion"), True),
        (lost("KMS Imported Key Material Expiration"), True),
        (call("DisableKey", OTHER), False),
        (call("DisableKey", errorCode="AccessDenied"), False),
        (call("Decrypt"), False),
        (lost("KMS CMK Deletion", OTHER), False),
        (lost("KMS CMK Rotation"), False),
    ],
)
def test_what_is_told(governed: Template, event: Any, *, told: bool) -> None:
    pattern = only(governed, "AWS::Events::Rule")["EventPattern"]
    assert EventPattern("", pattern).matches_event(event) is told


def test_the_pager_is_told_by_a_topic_that_needs_no_key(governed: Template) -> None:
    pager = topic(governed, "tallyroll alarms")
    [(id_, rule)] = of_type(governed, "AWS::Events::Rule").items()
    [target] = rule["Targets"]
    assert target["Arn"] == pager
    topics = of_type(governed, "AWS::SNS::Topic").values()
    assert len(topics) == 2
    assert not any("KmsMasterKeyId" in one for one in topics)
    said = text(target["InputTransformer"]["InputTemplate"])
    assert said.startswith('"tallyroll-key-state: <what> <call> of its key arn:')
    assert f"#{KEY_ENTRY}" in said
    [policy] = [
        one
        for one in of_type(governed, "AWS::SNS::TopicPolicy").values()
        if one["Topics"] == [pager]
    ]
    [allowed] = [
        one
        for one in policy["PolicyDocument"]["Statement"]
        if one["Principal"] == {"Service": "events.amazonaws.com"}
    ]
    assert allowed["Action"] == "sns:Publish"
    assert allowed["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": [id_, "Arn"]}}}


def test_without_a_key_there_is_no_rule(template: Template) -> None:
    assert of_type(template, "AWS::Events::Rule") == {}


def test_the_operations_guide_says_what_to_do() -> None:
    assert f"\n## {KEY_ENTRY.replace('-', ' ').capitalize()}\n" in GUIDE
