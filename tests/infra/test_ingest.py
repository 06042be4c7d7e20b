from __future__ import annotations

import json

import pytest

from tallyroll.adapters.aws.create_requests import queue_attributes
from tallyroll.limits import RECEIVES_FUSE
from tallyroll.resources import QueueDeclaration, declare
from tallyroll.settings.options import Options
from tests.infra.conftest import Synthesize
from tests.infra.templates import Template, function, of_type, only, queue, tags, text

DECLARED = declare(Options().settings())
DAY = 86_400


@pytest.mark.parametrize("declared", [DECLARED.queue, DECLARED.dead_letters], ids=lambda d: d.name)
def test_queues_are_as_declared(template: Template, declared: QueueDeclaration) -> None:
    _, found = queue(template, declared)
    attributes = queue_attributes(declared)

    shown = {name: str(value).lower() for name, value in found.items() if name in attributes}
    shown["MaximumMessageSize"] = str(found["MaximumMessageSize"])
    assert shown == attributes
    assert tags(found) == declared.tags


def test_the_dead_letter_rule_is_a_fuse(template: Template) -> None:
    _, events = queue(template, DECLARED.queue)
    dead_id, dead_letters = queue(template, DECLARED.dead_letters)

    assert events["RedrivePolicy"] == {
        "deadLetterTargetArn": {"Fn::GetAtt": [dead_id, "Arn"]},
        "maxReceiveCount": 1_000,
    }
    assert RECEIVES_FUSE == 1_000
    assert events["MessageRetentionPeriod"] == 10 * DAY
    assert dead_letters["MessageRetentionPeriod"] == 14 * DAY
    assert "RedrivePolicy" not in dead_letters


def test_only_the_event_queues_letters_come_and_sqs_itself_moves_none(template: Template) -> None:
    dead_id, dead_letters = queue(template, DECLARED.dead_letters)
    allowed = dead_letters["RedriveAllowPolicy"]

    assert allowed["redrivePermission"] == "byQueue"
    [source] = allowed["sourceQueueArns"]
    assert text(source) == (
        f"arn:AWS::Partition:sqs:AWS::Region:AWS::AccountId:{DECLARED.queue.name}"
    )
    [policy] = [
        one["PolicyDocument"]["Statement"]
        for one in of_type(template, "AWS::SQS::QueuePolicy").values()
        if one["Queues"] == [{"Ref": dead_id}]
    ]
    [denied] = [one for one in policy if one["Action"] == "sqs:StartMessageMoveTask"]
    assert (denied["Effect"], denied["Principal"]) == ("Deny", {"AWS": "*"})
    assert denied["Resource"] == {"Fn::GetAtt": [dead_id, "Arn"]}
    assert "Condition" not in denied


@pytest.mark.parametrize(
    ("option", "lacks"),
    [("deny_sqs_redrive", "StartMessageMoveTask"), ("redrive_allow_policy", "RedriveAllowPolicy")],
)
def test_each_guard_of_the_dead_letters_can_be_left_out_alone(
    template: Template, synthesize: Synthesize, option: str, lacks: str
) -> None:
    whole, without = json.dumps(template), json.dumps(synthesize(**{option: "false"}))
    for guard in ("StartMessageMoveTask", "RedriveAllowPolicy"):
        assert guard in whole
        assert (guard in without) is (guard != lacks)


def test_visibility_covers_six_batches(template: Template, synthesize: Synthesize) -> None:
    for made, window in ((template, 1), (synthesize(batch_size=10, batch_window_seconds=300), 300)):
        _, events = queue(made, DECLARED.queue)
        source = only(made, "AWS::Lambda::EventSourceMapping")
        assert source["MaximumBatchingWindowInSeconds"] == window
        assert events["VisibilityTimeout"] >= 6 * (function(made, "writer")["Timeout"] + window)


def test_the_source_feeds_the_writer_and_hears_of_partial_failures(
    template: Template, chosen: Template
) -> None:
    source = only(template, "AWS::Lambda::EventSourceMapping")
    events_id, _ = queue(template, DECLARED.queue)
    writer_id = source["FunctionName"]["Ref"]

    assert source["EventSourceArn"] == {"Fn::GetAtt": [events_id, "Arn"]}
    assert template["Resources"][writer_id]["Properties"] == function(template, "writer")
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["BatchSize"] == 1_000
    assert source["ScalingConfig"] == {"MaximumConcurrency": 4}
    assert "ProvisionedPollerConfig" not in source
    assert "FilterCriteria" not in source  # a filter deletes in silence
    other = only(chosen, "AWS::Lambda::EventSourceMapping")
    assert (other["BatchSize"], other["MaximumBatchingWindowInSeconds"]) == (250, 2)
    assert other["ScalingConfig"] == {"MaximumConcurrency": 9}


def test_provisioned_pollers_replace_the_maximum_concurrency(synthesize: Synthesize) -> None:
    source = only(synthesize(pollers={"min": 3, "max": 30}), "AWS::Lambda::EventSourceMapping")
    assert source["ProvisionedPollerConfig"] == {"MinimumPollers": 3, "MaximumPollers": 30}
    assert "ScalingConfig" not in source


def test_no_concurrency_is_reserved_unless_it_is_chosen(
    template: Template, chosen: Template
) -> None:
    reserved = "ReservedConcurrentExecutions"
    assert not [
        one for one in of_type(template, "AWS::Lambda::Function").values() if reserved in one
    ]
    assert function(chosen, "writer")[reserved] == 10
