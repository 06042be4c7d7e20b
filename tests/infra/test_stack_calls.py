"""What a preflight asks of CloudFormation's role is what the template's resources need."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from cfnlint import helpers  # type: ignore[import-untyped]
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

import app
from tallyroll.operations.preflight.budget import WITHOUT
from tallyroll.operations.preflight.handlers import CALLS
from tallyroll.operations.preflight.key import CALLS as KEY_CALLS
from tallyroll.operations.preflight.planned_deployment import QUALIFIER, wish_of
from tallyroll.operations.preflight.stack_calls import BESIDES, calls_for
from tallyroll.ports.account import Identity
from tests.infra.conftest import KEY, SKIP_BUNDLING, TAGS
from tests.infra.reference import actions_of
from tests.infra.templates import FUNCTIONS, Template, actions, statements
from tests.infra.unused_calls import UNUSED

WHO = Identity("123456789012", "arn:aws:iam::123456789012:user/me", "eu-west-1")
KINDS = sorted(kind for kind in CALLS if kind.startswith("AWS::") and "<" not in kind)
HANDLERS = ("create", "read", "update", "delete")  # all but the one that lists
JWT = {"auth": "jwt", "jwt_issuer": "https://a.example", "jwt_audience": "a"}
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
        "identity": "pipeline",
        "archive": "both",
        "archive_lock_days": 365,
        "archive_replica": "arn:aws:s3:::copies",
    },
    {
        "api": "private",
        "api_endpoint": "vpce-0a1b2c3d4e5f60718",
        "rollout": "canary",
        "budget": 50,
        "budget_monitor": "true",
        "alarm_email": "night@example.org",
    },
]
UNLISTED = {
    # API Gateway Developer Guide, "Configure logging for HTTP APIs in API Gateway".
    "AWS::ApiGatewayV2::Stage": {
        *("logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeResourcePolicies"),
        *("logs:GetLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
        "logs:UpdateLogDelivery",
    }
}
"""What the schemas do not list, and why it is needed."""


def test_every_resource_type_is_known(
    template: Template, chosen: Template, governed: Template
) -> None:
    for made, options in (
        (template, {}),
        (chosen, {**JWT, "alarm_email": "a@b.c", "reserved_concurrency": 10}),
        (governed, {"kms_key": KEY, "tags": TAGS}),
    ):
        assert made_types(made) == wanted(options)


@pytest.fixture(scope="module")
def others(node: None, tmp_path_factory: pytest.TempPathFactory) -> list[Template]:
    """The templates of `OTHERS`, for a bootstrap with another qualifier."""

    def made(options: dict[str, Any]) -> Template:
        context = {f"tallyroll:{name}": value for name, value in options.items()}
        outdir = str(tmp_path_factory.mktemp("cdk.out"))
        path = app.synthesize(outdir, {**context, QUALIFIER: "ours", **SKIP_BUNDLING})
        found: Template = json.loads(path.read_text())
        return found

    return [made(options) for options in OTHERS]


def test_every_resource_type_of_other_options_is_known(others: list[Template]) -> None:
    for options, made in zip(OTHERS, others, strict=True):
        assert made_types(made) == wanted(options)
        assert made["Parameters"]["BootstrapVersion"]["Default"] == "/cdk-bootstrap/ours/version"


def made_types(template: Template) -> set[str]:
    """Of the resources, and of the parameters that CloudFormation reads."""
    parts = (*template["Resources"].values(), *template["Parameters"].values())
    return {one["Type"] for one in parts}


def calls_of(options: dict[str, Any]) -> Mapping[str, Mapping[str, Sequence[str]]]:
    context = {f"tallyroll:{name}": value for name, value in options.items()}
    return calls_for(wish_of(context, {}), WHO)


def wanted(options: dict[str, Any]) -> set[str]:
    return {*calls_of(options)}


def asked_of(kind: str) -> set[str]:
    tables = (CALLS, *(more for _, more in BESIDES))
    return {one for table in tables for actions in table.get(kind, {}).values() for one in actions}


@pytest.mark.parametrize("kind", KINDS)
def test_the_calls_are_those_of_cloudformations_handlers(kind: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    handlers = [schema["handlers"].get(name, {}) for name in HANDLERS]
    permissions = [
        one["permissions"]
        for one in (*handlers, schema.get("tagging", {}))
        if one.get("permissions")
    ]
    listed = {action for actions in permissions for action in actions}
    argued = [action for one in UNUSED if one.kind == kind for action in one.actions]
    asked = asked_of(kind)
    assert sorted(asked - listed - UNLISTED.get(kind, set())) == []
    assert sorted(listed - asked - {*argued}) == [], "needed, or argued to be unused?"
    assert sorted(argued) == sorted(listed - asked), "argued twice, or for nothing"


def test_what_no_template_sets_is_argued_to_be_unused(
    template: Template, chosen: Template, governed: Template, others: list[Template]
) -> None:
    resources = [
        one for made in (template, chosen, governed, *others) for one in made["Resources"].values()
    ]
    for one in UNUSED:
        assert bool(one.properties) != bool(one.why), one
        of_kind = [each.get("Properties", {}) for each in resources if each["Type"] == one.kind]
        assert of_kind, one.kind
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", one.kind).schema
        for path in one.properties:
            first, _, second = path.partition(".")
            assert first in schema["properties"], path
            for each in of_kind:
                assert not (each.get(first, {}).get(second) if second else each.get(first)), path


@pytest.mark.parametrize("options", [{}, *OTHERS], ids="-".join)
def test_each_call_is_asked_of_a_resource_that_it_takes(options: dict[str, Any]) -> None:
    """But for API Gateway, whose calls are methods of paths."""
    for kind, calls in calls_of(options).items():
        for arn, asked in calls.items():
            for service, _, name in (action.partition(":") for action in asked):
                taken = service == "apigateway" or actions_of(service)[name].takes(arn)
                assert taken, (kind, name, arn)


def test_the_regions_without_budgets_are_those_of_cloudformations_schemas() -> None:
    types = {
        region: PROVIDER_SCHEMA_MANAGER.get_resource_types(region) for region in helpers.REGIONS
    }
    for kind in ("AWS::Budgets::Budget", "AWS::CE::AnomalyMonitor", "AWS::CE::AnomalySubscription"):
        lack = {region for region, known in types.items() if kind not in known}
        assert lack == WITHOUT or (kind.startswith("AWS::CE") and lack < WITHOUT), kind


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
