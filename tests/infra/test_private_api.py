"""The private REST API: who reaches it, what it calls, and how it is watched."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from release.asset import function_code
from tallyroll.reads.described.routes import OTHER_PATHS, ROUTES
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.e2e.aws_server import KINDS, model
from tests.e2e.triggers import RestApi
from tests.functions.invocation import Invocations, load
from tests.harness.pipeline import opened
from tests.infra.conftest import Built, Synthesize
from tests.infra.templates import Template, actions, function, of_type, only, text, watched_by
from tests.infra.test_log_role_writer import SOURCE
from tests.infra.test_network import GROUPS, SUBNETS, in_vpc
from tests.infra.test_options import ENDPOINT

if TYPE_CHECKING:
    import aws_cdk as cdk

KEY = "video:aurora-over-tromso"
AGGREGATOR = "arn:aws:lambda:us-east-1:123456789012:function:tallyroll-aggregator"
LOGGED_TO = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/vendedlogs/apigateway/tallyroll"
ROLE = "arn:aws:iam::123456789012:role/logs"


@pytest.fixture(scope="module")
def private(synthesize: Synthesize) -> Template:
    """A pipeline with a private API behind an endpoint that is there already."""
    return synthesize(api="private", api_endpoint=ENDPOINT, reads_per_second=7)


def methods(template: Template) -> dict[str, dict[str, Any]]:
    """The methods of the API, by verb and path."""
    resources = of_type(template, "AWS::ApiGateway::Resource")

    def path(id_: str) -> str:
        parent = resources[id_]["ParentId"].get("Ref")
        return f"{path(parent) if parent else ''}/{resources[id_]['PathPart']}"

    return {
        f"{method['HttpMethod']} {path(method['ResourceId']['Ref'])}": method
        for method in of_type(template, "AWS::ApiGateway::Method").values()
    }


def test_it_has_the_routes_of_the_http_api_and_each_call_is_signed(private: Template) -> None:
    found = methods(private)
    assert set(found) == {f"GET {path}" for path in (*ROUTES, OTHER_PATHS)}
    for method in found.values():
        assert method["AuthorizationType"] == "AWS_IAM"
        assert method["Integration"]["Type"] == "AWS_PROXY"
    asked = of_type(private, "AWS::Lambda::Permission").values()
    asked_for = {text(one["SourceArn"]).rpartition("/GET")[2] for one in asked}
    assert asked_for == {*ROUTES, "/*"}
    assert not [one for one in private["Resources"].values() if "ApiGatewayV2" in one["Type"]]
    # The gateway waits for 29 s.
    assert function(private, "aggregator")["Timeout"] == 28


def test_only_its_endpoint_reaches_it_and_callers_need_a_policy_of_their_own(
    private: Template,
) -> None:
    api = only(private, "AWS::ApiGateway::RestApi")
    assert api["EndpointConfiguration"] == {"Types": ["PRIVATE"], "VpcEndpointIds": [ENDPOINT]}
    allowed, denied = api["Policy"]["Statement"]
    assert (allowed["Effect"], denied["Effect"]) == ("Allow", "Deny")
    # Were it everybody, a signed request of the account would need no policy of its caller.
    assert text(allowed["Principal"]["AWS"]).endswith(":root")
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceVpce": ENDPOINT}}
    assert denied["Principal"] == {"AWS": "*"}
    assert denied["Condition"] == {"StringNotEquals": {"aws:SourceVpce": ENDPOINT}}
    for statement in (allowed, denied):
        assert actions(statement) == ["execute-api:Invoke"]
        assert statement["Resource"] == "execute-api:/*"


def test_its_address_is_the_endpoints(private: Template) -> None:
    [api] = of_type(private, "AWS::ApiGateway::RestApi")
    shown = text(private["Outputs"]["ApiUrl"]["Value"])
    assert shown == f"https://{api}-{ENDPOINT}.execute-api.AWS::Region.AWS::URLSuffix/live"
    assert not [name for name in private["Outputs"] if "Endpoint" in name]


def test_another_endpoint_is_deployed_anew(private: Template, synthesize: Synthesize) -> None:
    """A deployment has the policy of its time."""
    moved = synthesize(api="private", api_endpoint="vpce-0a1b2c3d", reads_per_second=7)
    assert set(of_type(private, "AWS::ApiGateway::Deployment")).isdisjoint(
        of_type(moved, "AWS::ApiGateway::Deployment")
    )


def test_it_is_throttled_and_logs_no_key(private: Template, template: Template) -> None:
    stage = only(private, "AWS::ApiGateway::Stage")
    [limits] = stage["MethodSettings"]
    assert (limits["ThrottlingRateLimit"], limits["ThrottlingBurstLimit"]) == (7, 14)
    assert "LoggingLevel" not in limits  # execution logs have the query
    assert limits["DataTraceEnabled"] is False
    logged = json.loads(stage["AccessLogSetting"]["Format"])
    public = only(template, "AWS::ApiGatewayV2::Stage")["AccessLogSettings"]["Format"]
    assert logged.keys() == json.loads(public).keys()
    assert logged["route"] == "$context.httpMethod $context.resourcePath"
    for secret in ("$context.path", "query", "identity", "domainname"):
        assert secret not in stage["AccessLogSetting"]["Format"].lower()
    [log] = [
        id_
        for id_, one in of_type(private, "AWS::Logs::LogGroup").items()
        if one["LogGroupName"] == "/aws/vendedlogs/apigateway/tallyroll"
    ]
    assert text(stage["AccessLogSetting"]["DestinationArn"]) == log


def test_a_change_between_both_apis_makes_nothing_anew_under_a_name_that_is_taken(
    private: Template, template: Template
) -> None:
    """CloudFormation makes what is new before it deletes what is old."""

    def named(made: Template) -> dict[tuple[str, str], str]:
        return {
            (one["Type"], json.dumps(value)): id_
            for id_, one in made["Resources"].items()
            for name, value in one.get("Properties", {}).items()
            if one["Type"].endswith(name.removesuffix("Name"))
        }

    before, after = named(template), named(private)
    assert (
        "AWS::Logs::LogGroup",
        '"/aws/vendedlogs/apigateway/tallyroll"',
    ) in before.keys() & after.keys()
    assert {key: id_ for key, id_ in before.items() if after.get(key, id_) != id_} == {}


def stage_of(template: Template) -> dict[str, Any]:
    """The API's only stage, with what it depends on."""
    kind = "AWS::ApiGateway::Stage"
    [stage] = [one for one in template["Resources"].values() if one["Type"] == kind]
    found: dict[str, Any] = stage
    return found


@pytest.fixture(scope="module")
def replacing(synthesize: Synthesize) -> Template:
    """The same, where the account's role for logs is replaced."""
    return synthesize(api="private", api_endpoint=ENDPOINT, reads_per_second=7, api_log_role="true")


def test_the_accounts_role_for_logs_is_set_first_and_stays(replacing: Template) -> None:
    [(account, made)] = of_type(replacing, "AWS::ApiGateway::Account").items()
    role = replacing["Resources"][text(made["CloudWatchRoleArn"])]
    assert stage_of(replacing)["DependsOn"] == [account]
    # In an account that never had anything of API Gateway's, only after an API.
    [api] = of_type(replacing, "AWS::ApiGateway::RestApi")
    assert replacing["Resources"][account]["DependsOn"] == [api]
    for kept in (role, replacing["Resources"][account]):
        assert kept["DeletionPolicy"] == "Retain"
    [trust] = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "apigateway.amazonaws.com"}
    assert not of_type(replacing, "Custom::ApiGatewayLogRole")


def test_by_default_a_function_sets_the_role_where_there_is_none(
    private: Template, replacing: Template
) -> None:
    [(setting, made)] = of_type(private, "Custom::ApiGatewayLogRole").items()
    resources = private["Resources"]
    assert not of_type(private, "AWS::ApiGateway::Account")
    assert stage_of(private)["DependsOn"] == [setting]
    assert resources[setting]["DependsOn"] == list(of_type(private, "AWS::ApiGateway::RestApi"))
    # The role is the one of an earlier release, so an update keeps it.
    role = text(made["RoleArn"])
    assert resources[role] == replacing["Resources"][role]

    writer = resources[text(made["ServiceToken"])]["Properties"]
    assert writer["Code"]["ZipFile"] == SOURCE.read_text()
    # As many characters as an inline function may have in all Regions and releases of the CDK.
    assert len(writer["Code"]["ZipFile"]) <= 4_096
    assert "VpcConfig" not in writer  # from a VPC neither service could be reached
    # Lambda calls it again after one and two minutes.
    assert int(made["ServiceTimeout"]) > 3 * writer["Timeout"] + 180


def test_that_function_may_do_this_and_nothing_else(private: Template) -> None:
    [made] = of_type(private, "Custom::ApiGatewayLogRole").values()
    writer = private["Resources"][text(made["ServiceToken"])]["Properties"]
    own = private["Resources"][text(writer["Role"])]["Properties"]
    assert "ManagedPolicyArns" not in own
    [policy] = own["Policies"]
    log, account, passed = policy["PolicyDocument"]["Statement"]
    assert actions(log) == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert text(log["Resource"]) == text(writer["LoggingConfig"]["LogGroup"])
    assert actions(account) == ["apigateway:GET", "apigateway:PATCH"]
    assert text(account["Resource"]) == "arn:AWS::Partition:apigateway:AWS::Region::/account"
    assert actions(passed) == ["iam:PassRole"]
    assert text(passed["Resource"]) == text(made["RoleArn"])
    to = {"iam:PassedToService": "apigateway.amazonaws.com"}
    assert passed["Condition"] == {"StringEquals": to}


def test_the_role_for_logs_can_be_left_to_others(
    replacing: Template, synthesize: Synthesize
) -> None:
    without = synthesize(api="private", api_endpoint=ENDPOINT, api_log_role="false")
    assert not of_type(without, "AWS::ApiGateway::Account")
    assert not of_type(without, "Custom::ApiGatewayLogRole")
    roles = "AWS::IAM::Role"
    assert len(of_type(without, roles)) == len(of_type(replacing, roles)) - 1


def test_it_is_watched_by_the_metrics_of_rest_apis(private: Template, template: Template) -> None:
    alarms = of_type(private, "AWS::CloudWatch::Alarm").values()
    [errors] = [one for one in alarms if one["AlarmName"] == "tallyroll-api-errors"]
    [stage] = of_type(private, "AWS::ApiGateway::Stage")
    of_stage = [
        {"Name": "ApiName", "Value": "tallyroll"},
        {"Name": "Stage", "Value": {"Ref": stage}},
    ]
    for watched, name in zip(watched_by(errors), ("5XXError", "Count"), strict=True):
        assert (watched["Namespace"], watched["MetricName"]) == ("AWS/ApiGateway", name)
        assert watched["Dimensions"] == of_stage
    # All alarms are those of a pipeline with an HTTP API.
    names = {one["AlarmName"] for one in of_type(template, "AWS::CloudWatch::Alarm").values()}
    assert {one["AlarmName"] for one in alarms} == names
    shown = json.dumps(only(private, "AWS::CloudWatch::Dashboard")["DashboardBody"])
    for metric in ("5XXError", "4XXError", "Latency", "Count"):
        assert f'\\"AWS/ApiGateway\\",\\"{metric}\\",\\"ApiName\\"' in shown.replace("\\\\", "\\")
    assert "Private API" in shown
    assert "Private API" not in json.dumps(only(template, "AWS::CloudWatch::Dashboard"))


def test_with_snap_start_it_calls_the_published_version(synthesize: Synthesize) -> None:
    made = synthesize(api="private", api_endpoint=ENDPOINT, snap_start="true", runtime="python3.13")
    [alias] = of_type(made, "AWS::Lambda::Alias")
    for method in methods(made).values():
        assert {"Ref": alias} in method["Integration"]["Uri"]["Fn::Join"][1]


def test_a_vpc_that_is_passed_in_gets_an_endpoint_in_each_zone(built: Built) -> None:
    template = in_vpc(built, _options=Options(api="private"))

    [(id_, endpoint)] = [
        (id_, one)
        for id_, one in of_type(template, "AWS::EC2::VPCEndpoint").items()
        if text(one["ServiceName"]).endswith(".execute-api")
    ]
    assert len(endpoint["SubnetIds"]) == 2  # of the four, one in each zone
    # With private names, no other API could be called from the VPC.
    assert endpoint["PrivateDnsEnabled"] is False
    api = only(template, "AWS::ApiGateway::RestApi")
    assert api["EndpointConfiguration"]["VpcEndpointIds"] == [{"Ref": id_}]
    for statement in api["Policy"]["Statement"]:
        [[value]] = [one.values() for one in statement["Condition"].values()]
        assert value == {"Ref": id_}


def test_an_endpoint_of_the_same_app_is_passed_in_by_its_id(built: Built) -> None:
    from aws_cdk import aws_ec2 as ec2

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        vpc = ec2.Vpc(stack, "Vpc")
        service = ec2.InterfaceVpcEndpointAwsService.APIGATEWAY
        there = ec2.InterfaceVpcEndpoint(stack, "There", vpc=vpc, service=service)
        options = Options(api="private", api_endpoint=there.vpc_endpoint_id)
        Tallyroll(stack, "Counter", options=options, code=function_code(), vpc=vpc)

    template = built(build)

    [id_] = of_type(template, "AWS::EC2::VPCEndpoint")
    api = only(template, "AWS::ApiGateway::RestApi")
    assert api["EndpointConfiguration"]["VpcEndpointIds"] == [{"Ref": id_}]


@pytest.mark.parametrize("network", [{}, {"vpc_subnets": SUBNETS, "vpc_security_groups": GROUPS}])
def test_without_an_endpoint_and_a_vpc_the_remedy_is_told(
    synthesize: Synthesize, network: dict[str, str]
) -> None:
    said = "^tallyroll:api 'private': give tallyroll:api_endpoint vpce-.*, or pass in the vpc"
    with pytest.raises(OptionsError, match=said):
        synthesize(api="private", **network)


def test_tokens_are_refused() -> None:
    said = "^tallyroll:api 'private': leave tallyroll:auth jwt out; callers of a REST API"
    with pytest.raises(OptionsError, match=said):
        Options(
            api="private",
            api_endpoint=ENDPOINT,
            auth="jwt",
            jwt_issuer="https://a.example",
            jwt_audience="a",
        )


def test_readers_are_granted_its_routes(built: Built) -> None:
    from aws_cdk import aws_iam as iam

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        options = Options(api="private", api_endpoint=ENDPOINT)
        counter = Tallyroll(stack, "Counter", options=options, code=function_code())
        counter.grant_read(iam.User(stack, "Reader"))
        assert ENDPOINT in counter.api_url

    template = built(build)

    [granted] = only(template, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    assert actions(granted) == ["execute-api:Invoke"]
    assert text(granted["Resource"]).endswith("/live/GET/*")


# --- on the emulator


def alone(template: Template) -> Template:
    """The API of a template, without what is around it."""
    arns = {"Function": AGGREGATOR, "Log": LOGGED_TO, "Role": ROLE}
    kept = {
        id_: one
        for id_, one in template["Resources"].items()
        if one["Type"].startswith("AWS::ApiGateway::")
    }

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(one) for one in value]
        if not isinstance(value, dict):
            return value
        if "Fn::GetAtt" in value and value["Fn::GetAtt"][0] not in kept:
            kind = template["Resources"][value["Fn::GetAtt"][0]]["Type"]
            [arn] = [arn for name, arn in arns.items() if name in kind.rpartition("::")[2]]
            return arn
        return {key: named(one) for key, one in value.items()}

    return {"Resources": {id_: named(one) for id_, one in kept.items()}}


def test_deployed_on_the_emulator_it_answers_as_the_http_api_does(
    replacing: Template, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = Invocations(opened(), monkeypatch, capsys)
    functions.write(load("writer-own-id.json"))
    functions.write(load("writer-packet.json"))

    def invoke(arn: str, event: Any) -> Any:
        assert arn == AGGREGATOR
        return functions.ask(event)

    models = [model(kind) for kind in KINDS if kind.service == "apigateway"]
    with mock_aws():
        stacks = boto3.client("cloudformation", region_name="us-east-1")
        stacks.create_stack(StackName="api", TemplateBody=json.dumps(alone(replacing)))
        client = boto3.client("apigateway", region_name="us-east-1")
        api = RestApi(client, invoke)
        role = client.get_account()["cloudwatchRoleArn"]
    assert len(models) == 2
    assert role == ROLE
    assert set(api.methods) == {f"GET {path}" for path in (*ROUTES, OTHER_PATHS)}
    assert {method["authorizationType"] for method in api.methods.values()} == {"AWS_IAM"}
    assert api.stage["accessLogSettings"]["destinationArn"] == LOGGED_TO
    limits = api.stage["methodSettings"]["*/*"]
    assert (limits["throttlingRateLimit"], limits["throttlingBurstLimit"]) == (7.0, 14)

    status, answer = api.get("/v1/counters", key=KEY)
    assert (status, answer["events"], answer["sum"]) == (200, 4, "7")
    status, page = api.get("/v1/events", key=KEY, window="20261120T080000Z", limit="2")
    assert (status, len(page["events"])) == (200, 2)
    status, problem = api.get("/v1/counters")
    assert (status, problem["title"]) == (400, "Bad request")
    status, problem = api.get("/v1/votes", key=KEY)
    assert (status, problem["title"], problem["detail"][:9]) == (404, "Not found", "known are")
