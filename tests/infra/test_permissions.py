"""Each function may do what its code does, on this pipeline's own, and nothing else."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyroll.adapters.dynamodb.items import mark_key
from tallyroll.archive.layout import prefix_of, summary_key
from tallyroll.model.dead_letters import REJECTED_PREFIX
from tallyroll.model.formats.references import object_key
from tallyroll.model.windows import table_name
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.infra.calls import Call, Trace
from tests.infra.conftest import Synthesize
from tests.infra.grants import DYNAMO_STORE, Grants, label, needed, of_identities
from tests.infra.operations import needed_by
from tests.infra.templates import FUNCTIONS, Template, actions, of_type, only, resource, statements

WINDOW = "20261120T080000Z"
# What Lambda does in the writer's name. Source: AWS Lambda Developer Guide, "Creating and
# configuring an Amazon SQS event source mapping".
BY_EVENT_SOURCE = {
    ("queue", "sqs:DeleteMessage"),
    ("queue", "sqs:GetQueueAttributes"),
    ("queue", "sqs:ReceiveMessage"),
}
OF_RETRACTIONS = {
    "writer": {("totals", "dynamodb:PutItem"), ("totals", "dynamodb:UpdateItem")},
    "cleanup": {("totals", "dynamodb:PutItem"), ("totals", "dynamodb:Query")},
}
OF_INSIGHTS = {
    "writer": {("windows", "dynamodb:Query")},  # of logs
    "roller": {
        ("windows", "dynamodb:UpdateContributorInsights"),
        ("insights role", "iam:CreateServiceLinkedRole"),
    },
}
OF_ARCHIVES = {"aggregator": {("bucket", "s3:ListBucket"), ("objects", "s3:GetObject")}}
OF_NOTES = {"cleanup": {("objects", "s3:PutObjectTagging")}}  # PutObject with tags
OF_LOGS = {("log", "logs:CreateLogStream"), ("log", "logs:PutLogEvents")}


def granted(template: Template, name: str) -> Grants:
    """What a function's role allows."""
    return {
        (label(template, resource(statement)), action)
        for statement in statements(template, name)
        for action in actions(statement)
    }


@pytest.fixture(scope="module")
def noting(synthesize: Synthesize) -> Template:
    """The template of a pipeline that takes events back, notes throttled keys, logs a key and reads
    archives.
    """
    return synthesize(
        retraction="queue",
        contributor_insights="true",
        logs='{"home-page": 5000}',
        read_archives="true",
    )


@pytest.fixture(scope="module", params=FUNCTIONS)
def traced(request: pytest.FixtureRequest) -> tuple[str, Trace]:
    """A function's name, and what its code may call."""
    return request.param, Trace(request.param)


def test_nothing_is_granted_that_the_code_does_not_call_and_nothing_called_is_missing(
    noting: Template, traced: tuple[str, Trace]
) -> None:
    name, trace = traced
    wanted = set(OF_LOGS).union(*map(needed, trace.calls))
    wanted |= OF_NOTES.get(name, set())
    if name == "writer":
        wanted |= BY_EVENT_SOURCE

    found = granted(noting, name)

    assert sorted(found - wanted) == [], "granted, but never called"
    assert sorted(wanted - found) == [], "called, but not granted"


def test_options_change_what_notes_throttled_keys_or_reads_archives_and_nothing_else(
    retracting: Template, noting: Template
) -> None:
    """The roller's and the aggregator's rights, their settings, and the dashboard's line."""
    for name in FUNCTIONS:
        more = granted(noting, name) - granted(retracting, name)
        assert more == (OF_INSIGHTS | OF_ARCHIVES).get(name, set())
        assert granted(retracting, name) <= granted(noting, name)
    [made] = [
        one for one in statements(noting, "roller") if "iam:CreateServiceLinkedRole" in actions(one)
    ]
    service = "contributorinsights.dynamodb.amazonaws.com"
    assert made["Condition"] == {"StringEquals": {"iam:AWSServiceName": service}}
    without, with_ = json.dumps(retracting), json.dumps(noting)
    for word in ("nsights", "CONTRIBUTOR_INSIGHTS", "Which keys are throttled", "READ_ARCHIVES"):
        assert word not in without
        assert word in with_
    assert retracting["Resources"].keys() == noting["Resources"].keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_corrections_are_granted_only_where_events_may_be_taken_back(
    template: Template, retracting: Template, name: str
) -> None:
    """Who seals windows notes what was retracted of them by the rights that it has anyway, so that
    retraction can be switched off at any time.
    """
    more = OF_RETRACTIONS.get(name, set())
    assert granted(template, name) == granted(retracting, name) - more
    assert granted(template, name).isdisjoint(more)
    written = more - {("totals", "dynamodb:Query")}
    for one in statements(retracting, name):
        if {(label(retracting, resource(one)), action) for action in actions(one)} & written:
            operations = one["Condition"]["ForAnyValue:StringEquals"]
            assert operations == {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}


def test_a_template_says_nothing_of_retraction_but_its_setting_rights_and_graph(
    template: Template, retracting: Template
) -> None:
    assert "Retract" not in json.dumps(template)

    def told(of: Template) -> str:
        kept = {
            name: one
            for name, one in of["Resources"].items()
            if not re.search("::(Role|Policy|ManagedPolicy|Dashboard)$", one["Type"])
        }
        text = json.dumps(kept, sort_keys=True)
        return re.sub(r'"TALLYROLL_RETRACTION": "\w+", |, "TALLYROLL_RETRACTION": "\w+"', "", text)

    assert "RETRACT" not in told(template)
    assert told(template) == told(retracting)


def test_each_call_is_granted_by_the_action_that_awss_reference_names(
    noting: Template, traced: tuple[str, Trace]
) -> None:
    name, trace = traced
    allowed = {action for _, action in granted(noting, name)}

    def missing(allowed: set[str]) -> set[tuple[Call, str]]:
        return {(call, action) for call in trace.calls for action in needed_by(call) - allowed}

    assert missing(allowed) == set()
    assert missing(allowed - {"dynamodb:Query"}), "all of them query the catalog"


def test_identities_are_granted_to_whoever_puts_or_reads_them_and_only_if_there_are_any(
    template: Template, remembering: Template, traced: tuple[str, Trace]
) -> None:
    """The writer puts them with their records alone."""
    name, trace = traced
    wanted = of_identities({place.name for place in trace.reached if place.owner == DYNAMO_STORE})

    assert bool(wanted) is (name in ("writer", "aggregator"))
    assert granted(remembering, name) - granted(template, name) == wanted
    assert granted(template, name) <= granted(remembering, name)
    for one in statements(remembering, name):
        if label(remembering, resource(one)) == "identities":
            only_in_transaction = actions(one) == ["dynamodb:PutItem"]
            assert ("Condition" in one) is only_in_transaction


def test_tracing_is_granted_only_where_it_is_chosen(template: Template, chosen: Template) -> None:
    sent = {"xray:PutTelemetryRecords", "xray:PutTraceSegments"}
    for made, traced in ((template, False), (chosen, True)):
        for name in FUNCTIONS:
            allowed = {action for one in statements(made, name) for action in actions(one)}
            assert (sent <= allowed) is traced
            assert bool(sent & allowed) is traced


def test_the_trace_sees_all_that_could_be_a_call(traced: tuple[str, Trace]) -> None:
    name, trace = traced

    assert trace.unclear == set()
    assert len(trace.reached) > (100 if name == "dropper" else 200)
    reached = {(place.module, place.name) for place in trace.reached}
    through = {
        "writer": "commit",
        "aggregator": "tallies",
        "roller": "seal",
        "cleanup": "export",
        "dropper": "confirm",
    }
    assert through[name] in {method for _, method in reached}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("writer", Call("Put", "adapters.dynamodb.store", "adapters.dynamodb.store.DynamoStore")),
        (
            "roller",
            Call(
                "ConditionCheck", "adapters.dynamodb.catalog", "adapters.dynamodb.store.DynamoStore"
            ),
        ),
        ("cleanup", Call("GetObject", "adapters.aws.s3", "adapters.aws.s3.S3Bucket")),
    ],
    ids=["a helper", "another module's helper", "a generator"],
)
def test_calls_are_found_behind(name: str, call: Call) -> None:
    assert call in Trace(name).calls


def test_one_role_creates_one_tags_and_one_deletes(template: Template) -> None:
    may = {name: {action for _, action in granted(template, name)} for name in FUNCTIONS}

    def who(action: str) -> set[str]:
        return {name for name in FUNCTIONS if f"dynamodb:{action}" in may[name]}

    assert who("CreateTable") == {"roller"}
    assert who("DeleteTable") == {"dropper"}
    assert who("UpdateTable") == {"roller", "dropper"}
    assert who("TagResource") == {"roller", "cleanup"}
    assert who("UntagResource") == who("BatchWriteItem") == set()
    assert not [action for allowed in may.values() for action in allowed if "*" in action]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_items_are_deleted_only_among_writers_notes(template: Template, name: str) -> None:
    deleting = [one for one in statements(template, name) if "dynamodb:DeleteItem" in actions(one)]
    assert bool(deleting) is (name in ("writer", "roller"))
    for one in deleting:
        assert one["Condition"] == {
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["~writers"]},
            "Null": {"dynamodb:LeadingKeys": "false"},
        }
        assert label(template, resource(one)) == "catalog"


def test_a_table_without_proof_cannot_be_dropped(template: Template) -> None:
    [drop] = [
        one for one in statements(template, "dropper") if "dynamodb:DeleteTable" in actions(one)
    ]
    never, _ = statements(template, "dropper", "Deny")

    assert drop["Condition"] == {"Null": {"aws:ResourceTag/proven": "false"}}
    assert never["Condition"] == {"Null": {"aws:ResourceTag/proven": "true"}}
    assert actions(never) == ["dynamodb:DeleteTable"]
    assert never["Resource"] == drop["Resource"]


def test_only_cleanup_says_that_a_table_is_proven(template: Template) -> None:
    keys = {
        name: one["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"]
        for name in FUNCTIONS
        for one in statements(template, name)
        if "dynamodb:TagResource" in actions(one)
    }

    assert keys == {"roller": ["tallyroll"], "cleanup": ["proven"]}
    assert keys["roller"] == list(declare(Settings()).windows.tags)


def pattern_of(template: Template) -> str:
    """The names of the tables that the roller may create."""
    [create] = [
        one for one in statements(template, "roller") if "dynamodb:CreateTable" in actions(one)
    ]
    return resource(create).partition(":table/")[2]


def test_all_functions_mean_the_same_window_tables(template: Template) -> None:
    arns = {
        resource(one).removesuffix("/export/*")
        for name in FUNCTIONS
        for effect in ("Allow", "Deny")
        for one in statements(template, name, effect)
        if ":table/" in resource(one)
    }
    assert len(arns) == 1


def test_the_pattern_matches_this_pipelines_window_tables_alone(
    template: Template, chosen: Template
) -> None:
    ours, votes = pattern_of(template), pattern_of(chosen)

    assert ours == votes.replace("votes", "tallyroll")
    assert fnmatchcase(table_name("tallyroll", WINDOW), ours)
    assert not fnmatchcase(table_name("votes", WINDOW), ours)
    for other in ("tallyroll-catalog", "tallyroll-totals", f"tallyroll-b-{WINDOW}"):
        assert not fnmatchcase(other, ours)


NAMES = st.from_regex(r"[a-z][a-z0-9-]{1,20}[a-z0-9]", fullmatch=True)
REST = st.from_regex(r"-[a-z0-9-]{0,25}[a-z0-9]", fullmatch=True)


@given(name=NAMES, rest=REST)
def test_patterns_do_not_overlap_where_one_name_begins_with_another(name: str, rest: str) -> None:
    pattern = f"{name}-????????T??????Z"
    longer = name + rest

    assert fnmatchcase(table_name(name, WINDOW), pattern)
    assert not fnmatchcase(table_name(longer, WINDOW), pattern)
    assert not fnmatchcase(table_name(name, WINDOW), f"{longer}-????????T??????Z")
    for table in ("catalog", "totals"):
        assert not fnmatchcase(f"{longer}-{table}", pattern)


def test_that_law_is_about_the_pattern_that_is_deployed(chosen: Template) -> None:
    assert pattern_of(chosen) == "votes-????????T??????Z"


def test_objects_are_allowed_where_the_core_puts_them(template: Template) -> None:
    allowed: dict[str, Any] = {
        name: [
            resource(one).partition("/")[2]
            for one in statements(template, name)
            if "s3:PutObject" in actions(one)
        ]
        for name in FUNCTIONS
    }
    archive = summary_key(prefix_of("tallyroll", WINDOW, "attempt"))

    assert allowed["writer"] == [f"{REJECTED_PREFIX}/*"]
    [archives] = allowed["cleanup"]
    assert fnmatchcase(archive, archives)
    assert not fnmatchcase(archive.replace("tallyroll", "tally"), archives)
    assert allowed["aggregator"] == allowed["roller"] == allowed["dropper"] == []


def test_only_uploads_are_deleted_and_marks_put(template: Template) -> None:
    deleting = {
        name: [one for one in statements(template, name) if "s3:DeleteObject" in actions(one)]
        for name in FUNCTIONS
    }
    [swept] = deleting.pop("cleanup")
    assert not any(deleting.values())
    key = object_key("tallyroll", 1_795_163_400_000, "0" * 64, "1")
    assert fnmatchcase(key, resource(swept).partition("/")[2])
    assert not fnmatchcase(prefix_of("tallyroll", WINDOW, "a"), resource(swept).partition("/")[2])
    conditions = [
        one["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        for one in statements(template, "writer")
        if "ForAllValues:StringLike" in one.get("Condition", {})
    ]
    assert ["~payloads.*"] in conditions
    assert fnmatchcase(mark_key(key)["pk"]["S"], "~payloads.*")


def test_the_scheduler_may_call_these_functions_alone(template: Template) -> None:
    roles = of_type(template, "AWS::IAM::Role").values()
    [role] = [
        role
        for role in roles
        if role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]
        == {"Service": "scheduler.amazonaws.com"}
    ]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    [policy] = role["Policies"]
    [invoke] = policy["PolicyDocument"]["Statement"]

    assert trust["Condition"]["StringEquals"]["aws:SourceAccount"] == {"Ref": "AWS::AccountId"}
    assert actions(invoke) == ["lambda:InvokeFunction"]
    handlers = {
        template["Resources"][arn["Fn::GetAtt"][0]]["Properties"]["Handler"].split(".")[1]
        for arn in invoke["Resource"]
    }
    assert handlers == {"roller", "cleanup", "dropper"}


def test_only_encrypted_calls_reach_queues_bucket_and_topics(template: Template) -> None:
    policies = [
        *of_type(template, "AWS::SQS::QueuePolicy").values(),
        only(template, "AWS::S3::BucketPolicy"),
        *of_type(template, "AWS::SNS::TopicPolicy").values(),
    ]
    for policy in policies:
        denied = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Deny"]
        conditions = [one.get("Condition") for one in denied]
        assert {"Bool": {"aws:SecureTransport": "false"}} in conditions
    kinds = ("AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::SNS::Topic")
    assert len(policies) == sum(len(of_type(template, kind)) for kind in kinds)
