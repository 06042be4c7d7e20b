"""Functions in a VPC, what they reach from there, doors that are not public, and traces."""

# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from release.asset import function_code
from tallyroll.cdk.alarm_rules import ALARMS
from tallyroll.cdk.pages import PAGES
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import OptionsError
from tests.infra.calls import Trace
from tests.infra.conftest import Built, Synthesize
from tests.infra.templates import (
    FUNCTIONS,
    Template,
    actions,
    function,
    named,
    of_type,
    only,
    statements,
    text,
)
from tests.infra.test_options import LAYER

if TYPE_CHECKING:
    import aws_cdk as cdk

SUBNETS, GROUPS = "subnet-0a1b2c3d,subnet-0a1b2c3d4e5f60718", "sg-0a1b2c3d"
ATTACHING = {
    *("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface"),
    *("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"),
    *("ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"),
}
SERVICE_OF = {
    "adapters.aws.cloudwatch": "monitoring",
    "adapters.aws.s3": "s3",
    "adapters.aws.sqs": "sqs",
}


@pytest.fixture(scope="module")
def inside(synthesize: Synthesize) -> Template:
    """A pipeline whose functions run in subnets, traced by a layer, without an API."""
    return synthesize(
        vpc_subnets=SUBNETS,
        vpc_security_groups=GROUPS,
        tracing="true",
        tracing_layer=LAYER,
        api="none",
    )


def in_vpc(built: Built, _options: Options | None = None, **given: Any) -> Template:
    """A pipeline in a VPC of the same stack, with two subnets in each of two zones."""
    from aws_cdk import aws_ec2 as ec2

    from tallyroll.cdk import Endpoints, Tallyroll

    def build(stack: cdk.Stack) -> None:
        vpc = ec2.Vpc(
            stack,
            "Vpc",
            max_azs=2,
            nat_gateways=0,
            restrict_default_security_group=False,
            subnet_configuration=[
                ec2.SubnetConfiguration(name=name, subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
                for name in ("here", "there")
            ],
        )
        more = {name: make(stack, vpc) for name, make in given.items()}
        Endpoints(stack, "Endpoints", vpc=vpc, subnets=ec2.SubnetSelection(one_per_az=True))
        options = _options or Options()
        Tallyroll(stack, "Counter", options=options, code=function_code(), vpc=vpc, **more)

    return built(build)


def test_by_default_functions_are_in_no_vpc(template: Template) -> None:
    for name in FUNCTIONS:
        assert "VpcConfig" not in function(template, name)
        allowed = {action for one in statements(template, name) for action in actions(one)}
        assert not {action for action in allowed if action.startswith("ec2:")}


def test_subnets_are_an_option(inside: Template) -> None:
    for name in FUNCTIONS:
        assert function(inside, name)["VpcConfig"] == {
            "SubnetIds": SUBNETS.split(","),
            "SecurityGroupIds": [GROUPS],
        }
    assert not of_type(inside, "AWS::EC2::SecurityGroup")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lambda_may_attach_a_function_and_its_code_may_not(inside: Template, name: str) -> None:
    [attaching] = [
        one for one in statements(inside, name) if "ec2:CreateNetworkInterface" in actions(one)
    ]
    assert set(actions(attaching)) == ATTACHING
    assert "Condition" not in attaching
    [denied] = [
        one
        for one in statements(inside, name, "Deny")
        if "ec2:CreateNetworkInterface" in actions(one)
    ]
    assert set(actions(denied)) == ATTACHING
    itself = denied["Condition"]["ArnEquals"]["lambda:SourceFunctionArn"]
    assert text(itself).endswith(f":function:tallyroll-{name}")


def test_a_vpc_that_is_passed_in_is_used_with_a_group_that_lets_out_https(built: Built) -> None:
    template = in_vpc(built)

    group = named(
        template,
        "AWS::EC2::SecurityGroup",
        "GroupDescription",
        "Functions of Tallyroll call AWS by HTTPS",
    )
    [egress] = template["Resources"][group]["Properties"]["SecurityGroupEgress"]
    assert (egress["IpProtocol"], egress["FromPort"], egress["ToPort"]) == ("tcp", 443, 443)
    for name in FUNCTIONS:
        config = function(template, name)["VpcConfig"]
        assert [each["Fn::GetAtt"][0] for each in config["SecurityGroupIds"]] == [group]
        assert len(config["SubnetIds"]) == 4  # all private ones


CACHE = "rediss://reader:{{resolve:secretsmanager:a/b:SecretString:password}}@cache.example"


def test_only_the_aggregator_knows_the_shared_cache(synthesize: Synthesize) -> None:
    plain = synthesize(vpc_subnets=SUBNETS, vpc_security_groups=GROUPS)
    made = synthesize(vpc_subnets=SUBNETS, vpc_security_groups=GROUPS, cache_url=CACHE)
    variables = {
        name: function(made, name)["Environment"]["Variables"].get("TALLYROLL_CACHE_URL")
        for name in FUNCTIONS
    }
    assert variables == dict.fromkeys(FUNCTIONS) | {"aggregator": CACHE}
    assert [statements(made, name) for name in FUNCTIONS] == [
        statements(plain, name) for name in FUNCTIONS
    ]
    shown = {
        name: text(only(template, "AWS::CloudWatch::Dashboard")["DashboardBody"])
        for name, template in {"plain": plain, "made": made}.items()
    }
    for metric in ("SharedHits", "SharedMisses", "SharedErrors"):
        assert metric in shown["made"]
        assert metric not in shown["plain"]


@pytest.mark.parametrize(("suffix", "port"), [("", 6379), (":7000", 7000)])
def test_a_group_that_is_made_here_lets_out_to_the_shared_cache(
    built: Built, suffix: str, port: int
) -> None:
    template = in_vpc(built, Options(cache_url=CACHE + suffix))
    said = "Functions of Tallyroll call AWS by HTTPS"
    group = named(template, "AWS::EC2::SecurityGroup", "GroupDescription", said)
    rules = template["Resources"][group]["Properties"]["SecurityGroupEgress"]
    assert {rule["FromPort"] for rule in rules} == {443, port}


def test_a_shared_cache_needs_a_vpc(synthesize: Synthesize) -> None:
    said = r"^tallyroll:cache_url \(not shown\): .* give tallyroll:vpc_subnets and"
    with pytest.raises(OptionsError, match=said):
        synthesize(cache_url=CACHE)


def test_subnets_and_groups_may_be_chosen(built: Built) -> None:
    from aws_cdk import aws_ec2 as ec2

    template = in_vpc(
        built,
        vpc_subnets=lambda _, __: ec2.SubnetSelection(subnet_group_name="there"),
        security_groups=lambda stack, _: [
            ec2.SecurityGroup.from_security_group_id(stack, "Ours", "sg-1")
        ],
    )

    config = function(template, "writer")["VpcConfig"]
    assert config["SecurityGroupIds"] == ["sg-1"]
    assert all("there" in text(subnet) for subnet in config["SubnetIds"])


def test_the_endpoints_are_those_of_what_functions_call(built: Built) -> None:
    template = in_vpc(built)

    found: dict[str, set[str]] = {"Gateway": set(), "Interface": set()}
    for endpoint in of_type(template, "AWS::EC2::VPCEndpoint").values():
        service = endpoint["ServiceName"]
        found[endpoint["VpcEndpointType"]].add(text(service).rpartition(".")[2])
    called = {
        SERVICE_OF.get(call.module, "dynamodb") for name in FUNCTIONS for call in Trace(name).calls
    }
    assert found == {"Gateway": {"dynamodb", "s3"}, "Interface": {"monitoring", "sqs"}}
    assert found["Gateway"] | found["Interface"] == called


def test_endpoints_that_there_are_already_are_left_out(built: Built) -> None:
    from aws_cdk import aws_ec2 as ec2

    from tallyroll.cdk import Endpoints

    def build(stack: cdk.Stack, *services: str) -> None:
        Endpoints(stack, "Endpoints", vpc=ec2.Vpc(stack, "Vpc"), services=services)

    template = built(lambda stack: build(stack, "sqs"))
    assert only(template, "AWS::EC2::VPCEndpoint")["VpcEndpointType"] == "Interface"
    with pytest.raises(OptionsError, match=r"^services 'sns': no function calls it; give dynamodb"):
        built(lambda stack: build(stack, "sns"))


def test_wrong_networks_are_refused(built: Built) -> None:
    from aws_cdk import aws_ec2 as ec2

    from tallyroll.cdk import Tallyroll

    def refused(said: str, options: Options, **given: Any) -> None:
        def build(stack: cdk.Stack) -> None:
            made = {name: make(stack) for name, make in given.items()}
            Tallyroll(stack, "Counter", options=options, code=function_code(), **made)

        with pytest.raises(OptionsError, match=said):
            built(build)

    chosen = Options(vpc_subnets=SUBNETS, vpc_security_groups=GROUPS)
    refused(
        r"^vpc Theirs/Vpc: tallyroll:vpc_subnets is given too; give one of them",
        chosen,
        vpc=lambda stack: ec2.Vpc(stack, "Vpc"),
    )
    refused(r"^vpc 'vpc-1': give an ec2\.Vpc", Options(), vpc=lambda _: "vpc-1")
    refused(
        "^vpc_subnets: no vpc is passed in",
        Options(),
        vpc_subnets=lambda _: ec2.SubnetSelection(one_per_az=True),
    )
    refused("^security_groups: no vpc is passed in", Options(), security_groups=lambda _: ["sg"])


def test_without_an_api_nothing_is_public_and_the_aggregator_is_invoked(inside: Template) -> None:
    kinds = {one["Type"] for one in inside["Resources"].values()}
    assert not [kind for kind in kinds if kind.startswith("AWS::ApiGateway")]
    assert not of_type(inside, "AWS::Lambda::Permission")
    assert "ApiUrl" not in inside["Outputs"]
    names = {one["AlarmName"] for one in of_type(inside, "AWS::CloudWatch::Alarm").values()}
    assert names == {f"tallyroll-{id_}" for id_ in ALARMS if id_ != "api-errors"}
    [page] = [
        one["AlarmRule"]
        for one in of_type(inside, "AWS::CloudWatch::CompositeAlarm").values()
        if one["AlarmName"] == "tallyroll-page-no-reads"
    ]
    assert len(PAGES["page-no-reads"].alarms) == 3
    assert text(page).count("ALARM(") == 2


def test_readers_without_an_api_are_granted_the_function(built: Built) -> None:
    from aws_cdk import aws_iam as iam

    from tallyroll.cdk import Tallyroll

    def build(stack: cdk.Stack) -> None:
        options = Options(api="none")
        counter = Tallyroll(stack, "Counter", options=options, code=function_code())
        counter.grant_read(iam.User(stack, "Reader"))
        with pytest.raises(OptionsError, match=r"^tallyroll:api 'none': there is no HTTP API"):
            _ = counter.api_url

    template = built(build)

    [granted] = only(template, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    assert actions(granted) == ["lambda:InvokeFunction"]
    aggregator = named(template, "AWS::Lambda::Function", "FunctionName", "tallyroll-aggregator")
    assert aggregator in str(granted["Resource"])


def test_the_layer_traces_each_function_by_its_name(inside: Template, chosen: Template) -> None:
    for name in FUNCTIONS:
        made = function(inside, name)
        assert made["Layers"] == [LAYER]
        assert made["TracingConfig"] == {"Mode": "Active"}
        variables = made["Environment"]["Variables"]
        assert variables["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/otel-instrument"
        assert variables["OTEL_SERVICE_NAME"] == f"tallyroll-{name}"
        assert variables["OTEL_AWS_APPLICATION_SIGNALS_ENABLED"] == "false"
        # Lambda's own segments need none of it.
        plain = function(chosen, name)
        assert "Layers" not in plain
        assert not [key for key in plain["Environment"]["Variables"] if key.startswith("OTEL")]
        assert "AWS_LAMBDA_EXEC_WRAPPER" not in plain["Environment"]["Variables"]
