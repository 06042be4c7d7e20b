"""What a preflight asks of CloudFormation's role is what the template's resources need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

import app
from tallyroll.cdk.options import Options
from tallyroll.operations.preflight.key import CALLS as KEY_CALLS
from tallyroll.operations.preflight.stack_calls import BESIDES, CALLS, calls_for
from tallyroll.operations.preflight.wish import API_LOG_ROLE, QUALIFIER, wish_of
from tallyroll.ports.account import Identity
from tests.infra.conftest import KEY, SKIP_BUNDLING, TAGS
from tests.infra.templates import FUNCTIONS, Template, actions, statements

WHO = Identity("123456789012", "arn:aws:iam::123456789012:user/me", "eu-west-1")
CHANGES = ("create", "update", "delete")
OTHERS: list[dict[str, Any]] = [
    {
        "api": "private",
        "api_log_role": "true",
        "api_endpoint": "vpce-0a1b2c3d4e5f60718",
        "snap_start": "true",
        "runtime": "python3.12",
        "vpc_subnets": "subnet-0a1b2c3d",
        "vpc_security_groups": "sg-0a1b2c3d",
    },
    {"store": "keyspaces", "api": "none", "kms_key": KEY},
    {
        "api": "private",
        "api_endpoint": "vpce-0a1b2c3d4e5f60718",
        "rollout": "canary",
        "budget": 50,
        "alarm_email": "night@example.org",
    },
]
UNLISTED = {
    # Reads come before updates.
    "AWS::ApiGateway::Resource": {"apigateway:GET"},
    # API Gateway Developer Guide, "Configure logging for HTTP APIs in API Gateway".
    "AWS::ApiGatewayV2::Stage": {
        *("logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeResourcePolicies"),
        *("logs:GetLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
        "logs:UpdateLogDelivery",
    },
}
"""What the schemas do not list, and why it is needed."""

NEVER = {
    ("AWS::Cassandra::Keyspace", "delete"): "its deletion policy is Retain",
    ("AWS::SNS::Subscription", "update"): "topic, protocol and address are never updated",
}


def test_every_resource_type_is_known(
    template: Template, chosen: Template, governed: Template
) -> None:
    for made, options in (
        (template, {}),
        (chosen, {"auth": "jwt", "alarm_email": "a@b.c", "reserved_concurrency": 10}),
        (governed, {"kms_key": KEY, "tags": TAGS}),
    ):
        assert made_types(made) == wanted(options)


@pytest.mark.parametrize("options", OTHERS, ids="-".join)
def test_every_resource_type_of_other_options_is_known(
    node: None, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Also in a Region whose bootstrap has another qualifier."""
    context = {f"tallyroll:{name}": value for name, value in options.items()}
    path = app.synthesize(str(tmp_path), {**context, QUALIFIER: "ours", **SKIP_BUNDLING})
    made = json.loads(path.read_text())
    assert made_types(made) == wanted(options)
    assert made["Parameters"]["BootstrapVersion"]["Default"] == "/cdk-bootstrap/ours/version"


def test_the_option_for_the_logs_role_has_the_default_that_a_preflight_takes() -> None:
    assert Options().api_log_role == API_LOG_ROLE


def made_types(template: Template) -> set[str]:
    return {one["Type"] for one in template["Resources"].values()}


def wanted(options: dict[str, Any]) -> set[str]:
    context = {f"tallyroll:{name}": value for name, value in options.items()}
    return {*calls_for(wish_of(context, {}), WHO)}


@pytest.mark.parametrize("kind", sorted(one for one in CALLS if one.startswith("AWS::")))
def test_the_calls_are_those_of_cloudformations_handlers(kind: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    handlers = schema["handlers"]
    listed = {one for handler in handlers.values() for one in handler["permissions"]}
    asked = {
        action
        for table in (CALLS, *(more for _, more in BESIDES))
        for actions in table.get(kind, {}).values()
        for action in actions
    }
    assert sorted(asked - listed - UNLISTED.get(kind, set())) == []
    for change in CHANGES:
        if (kind, change) in NEVER:
            continue
        assert asked & {*handlers.get(change, {}).get("permissions", asked)}, change


def test_what_the_roles_do_with_a_key_is_asked_of_its_policy(governed: Template) -> None:
    for package, calls in KEY_CALLS.items():
        granted = {action for one in statements(governed, package) for action in actions(one)}
        assert {*calls} == {action for action in granted if action.startswith("kms:")}, package
    assert {*KEY_CALLS} == {*FUNCTIONS}


def test_only_what_is_always_kept_needs_no_deletion(template: Template) -> None:
    for one in template["Resources"].values():
        calls = {action for actions in CALLS[one["Type"]].values() for action in actions}
        deletes = {call for call in calls if "Delete" in call or call.startswith("apigateway:")}
        replaced = {"sqs:SetQueueAttributes", "sns:SetTopicAttributes", "lambda:RemovePermission"}
        assert (one.get("DeletionPolicy") == "Retain") != bool(deletes or calls & replaced)
