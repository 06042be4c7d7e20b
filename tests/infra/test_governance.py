"""A deployment's tags and its KMS key reach all that is made, and the IAM statements allow exactly
these."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from release.asset import function_code
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.resources import TAG_PROVEN, declare
from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.infra.conftest import KEY, TAGS, Built, Synthesize
from tests.infra.templates import (
    FUNCTIONS,
    Template,
    actions,
    function,
    of_type,
    only,
    resource,
    statements,
    tags,
    text,
)

if TYPE_CHECKING:
    import aws_cdk as cdk

OWN = {**TAGS, "tallyroll": "tallyroll"}
TAGGED = {
    *("SQS::Queue", "DynamoDB::Table", "S3::Bucket", "Lambda::Function", "SNS::Topic"),
    *("Logs::LogGroup", "IAM::Role", "CloudWatch::Alarm", "CloudWatch::CompositeAlarm"),
    *("CloudWatch::Dashboard", "Lambda::EventSourceMapping", "Events::Rule"),
}
# API Gateway's tags are an object.
TAGGED_OTHERWISE = {"ApiGatewayV2::Api", "ApiGatewayV2::Stage"}
# CloudFormation tags none of these.
UNTAGGED = {
    *("SQS::QueuePolicy", "S3::BucketPolicy", "SNS::TopicPolicy", "SNS::Subscription"),
    *("Lambda::Permission", "Lambda::EventInvokeConfig", "Scheduler::Schedule"),
    *("ApiGatewayV2::Route", "ApiGatewayV2::Integration"),
}
OF_KEYS = "kms:"


def test_tags_are_on_whatever_takes_some(governed: Template) -> None:
    kinds = {found["Type"].removeprefix("AWS::") for found in governed["Resources"].values()}
    assert kinds <= TAGGED | TAGGED_OTHERWISE | UNTAGGED
    for kind in TAGGED & kinds:
        for id_, found in of_type(governed, f"AWS::{kind}").items():
            assert tags(found) == OWN, id_
    for kind in TAGGED_OTHERWISE:
        assert only(governed, f"AWS::{kind}")["Tags"] == OWN
    assert kinds >= TAGGED


def test_without_them_nothing_of_them_is_said(template: Template) -> None:
    assert "kms" not in json.dumps(template["Resources"]).lower()
    for name in FUNCTIONS:
        variables = function(template, name)["Environment"]["Variables"]
        assert not {"TALLYROLL_TAGS", "TALLYROLL_KMS_KEY"} & variables.keys()


def test_the_key_encrypts_all_that_holds_something(governed: Template) -> None:
    for queue in of_type(governed, "AWS::SQS::Queue").values():
        assert queue["KmsMasterKeyId"] == KEY
        assert "SqsManagedSseEnabled" not in queue
    for table in of_type(governed, "AWS::DynamoDB::Table").values():
        assert table["SSESpecification"]["KMSMasterKeyId"] == KEY
    for topic in of_type(governed, "AWS::SNS::Topic").values():
        assert "KmsMasterKeyId" not in topic  # or nobody would be told that the key is disabled
    for log in of_type(governed, "AWS::Logs::LogGroup").values():
        assert log["KmsKeyId"] == KEY
    for name in FUNCTIONS:
        assert function(governed, name)["KmsKeyArn"] == KEY
    bucket = only(governed, "AWS::S3::Bucket")["BucketEncryption"]
    [rule] = bucket["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == KEY


def environment(template: Template, name: str) -> dict[str, str]:
    """A function's environment, with logical ids for what only CloudFormation knows."""
    variables = function(template, name)["Environment"]["Variables"]
    return {variable: text(value) for variable, value in variables.items()}


def test_the_tables_that_the_roller_makes_have_them_too(governed: Template) -> None:
    settings = Settings.from_env(environment(governed, "roller"))
    request = table_request(declare(settings).window_table("20261120T080000Z"))

    assert {tag["Key"]: tag["Value"] for tag in request["Tags"]} == OWN
    encrypted = {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
    assert request["SSESpecification"] == encrypted


def test_the_roller_may_tag_with_these_keys_alone(governed: Template) -> None:
    [may] = [
        one for one in statements(governed, "roller") if "dynamodb:TagResource" in actions(one)
    ]
    settings = Settings.from_env(environment(governed, "roller"))
    allowed = may["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"]

    assert allowed == ["tallyroll", "cost-centre", "team"]
    assert set(allowed) == set(declare(settings).windows.tags)
    assert TAG_PROVEN not in allowed
    assert actions(may) == ["dynamodb:TagResource"]


def grants(template: Template, name: str) -> set[tuple[str, str, str]]:
    """What a function's role allows: action, resource and condition."""
    return {
        (action, resource(one), json.dumps(one.get("Condition"), sort_keys=True))
        for one in statements(template, name)
        for action in actions(one)
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_else_is_allowed_than_without_them_but_the_key(
    template: Template, governed: Template, name: str
) -> None:
    plain, more = grants(template, name), grants(governed, name)
    tagging = {
        grant for grant in plain | more if (name, grant[0]) == ("roller", "dynamodb:TagResource")
    }

    gained = more - plain - tagging
    assert {where for _, where, _ in gained} == {KEY}
    assert all(action.startswith(OF_KEYS) for action, _, _ in gained)
    assert plain - more - tagging == set()
    read = {"kms:Decrypt", "kms:DescribeKey"}
    assert read <= {action for action, _, _ in gained}
    written = {action for action, _, _ in gained} - read - {"kms:CreateGrant"}
    assert bool(written) is (name != "aggregator")


def test_the_roller_alone_may_let_dynamodb_grant_itself_the_key(governed: Template) -> None:
    found = {
        name: [one for one in statements(governed, name) if "kms:CreateGrant" in actions(one)]
        for name in FUNCTIONS
    }
    [grant] = found.pop("roller")

    assert not any(found.values())
    assert actions(grant) == ["kms:CreateGrant"]
    assert grant["Resource"] == KEY
    assert grant["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    via = grant["Condition"]["StringEquals"]["kms:ViaService"]
    assert text(via) == "dynamodb.AWS::Region.AWS::URLSuffix"


LEAST_OF_A_KEY = {
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
}
"""What both stores ask, at a minimum, of who makes a table under a key. Sources: DynamoDB Developer
Guide, "How DynamoDB encryption at rest uses AWS KMS"; Amazon Keyspaces Developer Guide, "Encryption
at rest: How to use customer managed keys".
"""


@pytest.mark.parametrize("store", ["dynamodb", "keyspaces"])
def test_the_roller_has_the_least_of_a_key_that_its_stores_ask_for(
    synthesize: Synthesize, store: str
) -> None:
    made = synthesize(kms_key=KEY, store=store)
    # Neither service's permissions may rest on the other's.
    other = {"dynamodb": "cassandra.", "keyspaces": "dynamodb."}[store]
    may = {
        action
        for one in statements(made, "roller")
        if one["Resource"] == KEY and other not in json.dumps(one.get("Condition", {}))
        for action in actions(one)
    }
    assert may >= LEAST_OF_A_KEY


def pipeline(built: Built, options: Options | None = None, **given: Any) -> Template:
    """The template of a pipeline with a key of the same app, if none is given."""
    from aws_cdk import aws_kms as kms

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        given.setdefault("encryption_key", kms.Key(stack, "Key"))
        Tallyroll(stack, "Counter", options=options or Options(), code=function_code(), **given)

    return built(build)


def test_the_policy_of_a_key_of_the_same_app_lets_logs_use_it(built: Built) -> None:
    template = pipeline(built)

    policy = only(template, "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    services: dict[str, list[dict[str, Any]]] = {}
    for one in policy:
        if "Service" in one["Principal"]:
            services.setdefault(text(one["Principal"]["Service"]), []).append(one)
    assert services.keys() == {"logs.AWS::Region.amazonaws.com"}
    logs = services["logs.AWS::Region.amazonaws.com"]
    groups = {
        text(one["Condition"]["ArnEquals"]["kms:EncryptionContext:aws:logs:arn"]).rpartition(":")[2]
        for one in logs
    }
    named = {found["LogGroupName"] for found in of_type(template, "AWS::Logs::LogGroup").values()}
    assert groups == named
    key = next(iter(of_type(template, "AWS::KMS::Key")))
    assert environment(template, "roller")["TALLYROLL_KMS_KEY"] == key


def test_tags_of_the_options_and_of_the_argument_are_joined(built: Built) -> None:
    options = Options(tags={"team": "elections", "tier": "1"})
    template = pipeline(built, options, tags={"team": "elections", "account": "42"})

    joined = {"team": "elections", "tier": "1", "account": "42"}
    assert json.loads(environment(template, "roller")["TALLYROLL_TAGS"]) == joined
    for queue in of_type(template, "AWS::SQS::Queue").values():
        assert tags(queue) == {**joined, "tallyroll": "tallyroll"}


def test_a_tag_whose_value_cloudformation_knows_alone(built: Built) -> None:
    import aws_cdk as cdk

    template = pipeline(built, tags={"account": cdk.Aws.ACCOUNT_ID})

    found = environment(template, "roller")["TALLYROLL_TAGS"]
    assert found == '{"account":"AWS::AccountId"}'


def test_what_contradicts_itself_is_refused(built: Built) -> None:
    with pytest.raises(OptionsError, match=r"^tags 'team': 'b' is passed in, .*tags has 'a'; give"):
        pipeline(built, Options(tags={"team": "a"}), tags={"team": "b"})
    with pytest.raises(OptionsError, match=r"^encryption_key Theirs/Key: tallyroll:kms_key is giv"):
        pipeline(built, Options(kms_key=KEY))
    many = {f"k{n}": "" for n in range(30)}
    more = {f"l{n}": "" for n in range(30)}
    with pytest.raises(OptionsError, match=r"^tags 'l17': it is tag 48 of 60; give at most 47"):
        pipeline(built, Options(tags=many), tags=more)
    with pytest.raises(OptionsError, match=r"^tags 'team': its value 'a\|b' has \|; give letters"):
        pipeline(built, tags={"team": "a|b"})


@pytest.fixture(scope="module")
def denying(synthesize: Synthesize) -> Template:
    """A pipeline of defaults whose window tables deny everybody to drop them unproven."""
    return synthesize(deny_drops="true")


def test_a_window_table_may_deny_everybody_its_deletion(denying: Template) -> None:
    settings = Settings.from_env(environment(denying, "roller"))
    declared = declare(settings)
    policy = json.loads(table_request(declared.window_table("20261120T080000Z"))["ResourcePolicy"])

    [denial] = policy["Statement"]
    assert denial == {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "dynamodb:DeleteTable",
        "Resource": "*",
        "Condition": {"Null": {"aws:ResourceTag/proven": "true"}},
    }
    own, _ = statements(denying, "dropper", "Deny")
    assert denial["Condition"] == own["Condition"], "the dropper is denied no more than before"
    for permanent in declared.permanent:
        assert "ResourcePolicy" not in table_request(permanent)


def test_only_then_the_roller_may_give_tables_a_policy(
    template: Template, denying: Template
) -> None:
    for name in FUNCTIONS:
        gained = grants(denying, name) - grants(template, name)
        lost = grants(template, name) - grants(denying, name)
        assert {action for action, _, _ in gained} == (
            {"dynamodb:PutResourcePolicy"} if name == "roller" else set()
        )
        assert lost == set()
    made = [one for one in statements(denying, "roller") if "dynamodb:CreateTable" in actions(one)]
    assert all("dynamodb:PutResourcePolicy" in actions(one) for one in made)
    for name in FUNCTIONS:
        allowed = {action for action, _, _ in grants(denying, name)}
        assert "dynamodb:DeleteResourcePolicy" not in allowed
        assert not {"dynamodb:DeleteTable", "dynamodb:PutResourcePolicy"} <= allowed
