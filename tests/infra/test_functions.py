# ruff: noqa: PLC0415  (importing the CDK starts Node.js, which has to be found first)

from __future__ import annotations

import importlib

import pytest

from tallyroll.settings import Settings
from tallyroll.settings.options import Options
from tallyroll.settings.options.rules import RUNTIMES, OptionsError
from tests.infra.conftest import Synthesize
from tests.infra.templates import FUNCTIONS, Template, actions, function, of_type, only, statements


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_share_their_defaults_and_their_handlers_exist(
    template: Template, name: str
) -> None:
    found = function(template, name)

    module, _, attribute = found["Handler"].rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))
    assert found["Architectures"] == ["arm64"]
    assert found["Runtime"] == Options().runtime
    assert "TracingConfig" not in found
    log = template["Resources"][found["LoggingConfig"]["LogGroup"]["Ref"]]["Properties"]
    assert log["LogGroupName"] == f"/aws/lambda/tallyroll-{name}"
    assert log["RetentionInDays"] == 30


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_follow_the_options(chosen: Template, name: str) -> None:
    found = function(chosen, name)

    assert found["FunctionName"] == f"votes-{name}"
    assert found["Architectures"] == ["x86_64"]
    assert found["TracingConfig"] == {"Mode": "Active"}
    variables = found["Environment"]["Variables"]
    assert variables["TALLYROLL_SHARDS"] == "32"
    assert variables["TALLYROLL_EXPORTER"] == "native"
    assert variables["TALLYROLL_HOT_SHARDS"] == '{"Ada":64}'
    assert not [one for one in variables if "XRAY" in one or one.startswith("POWERTOOLS_TRACE")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_tracer_is_a_setting_of_each_function_which_may_send_segments(
    synthesize: Synthesize, template: Template, name: str
) -> None:
    made = synthesize(tracer="true")

    found = function(made, name)
    assert found["TracingConfig"] == {"Mode": "Active"}
    assert found["Environment"]["Variables"]["TALLYROLL_TRACER"] == "true"
    assert "Layers" not in found
    sent = ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]
    assert [one for one in statements(made, name) if actions(one) == sent]
    assert "TALLYROLL_TRACER" not in function(template, name)["Environment"]["Variables"]
    assert not [one for one in statements(template, name) if "xray" in str(actions(one))]


def test_all_logs_follow_the_options(chosen: Template) -> None:
    logs = of_type(chosen, "AWS::Logs::LogGroup").values()

    assert {log["RetentionInDays"] for log in logs} == {7}
    assert len(logs) == len(FUNCTIONS) + 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_environment_reads_back_as_the_settings(template: Template, name: str) -> None:
    variables = function(template, name)["Environment"]["Variables"]
    texts = {
        variable: value if isinstance(value, str) else value["Ref"]
        for variable, value in variables.items()
    }

    [bucket] = of_type(template, "AWS::S3::Bucket")
    queues = {one["QueueName"]: id_ for id_, one in of_type(template, "AWS::SQS::Queue").items()}
    assert Settings.from_env(texts) == Options().settings(
        queue_url=queues["tallyroll-events"],
        dead_letters_url=queues["tallyroll-dead-letters"],
        bucket=bucket,
    )


def test_the_runtime_is_an_option_and_not_the_interpreters(
    synthesize: Synthesize, template: Template
) -> None:
    assert Options().runtime == RUNTIMES[0] == "python3.11"
    made = synthesize(runtime="python3.13")
    for name in FUNCTIONS:
        assert function(made, name)["Runtime"] == "python3.13"
        assert function(template, name)["Runtime"] == "python3.11"
    said = r"^tallyroll:runtime 'python3.10': give one of python3.11, python3.12, "
    with pytest.raises(OptionsError, match=said):
        Options(runtime="python3.10")


def test_the_newest_cdk_knows_the_runtimes(node: None) -> None:
    from aws_cdk import aws_lambda as lambda_

    known = {runtime.name for runtime in lambda_.Runtime.ALL}
    assert known >= set(RUNTIMES)


def test_schedules(template: Template) -> None:
    rates = {}
    for schedule in of_type(template, "AWS::Scheduler::Schedule").values():
        id_ = schedule["Target"]["Arn"]["Fn::GetAtt"][0]
        handler = template["Resources"][id_]["Properties"]["Handler"]
        rates[handler.split(".")[1]] = schedule["ScheduleExpression"]
        assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
        assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
        assert schedule["Name"] == f"tallyroll-{handler.split('.')[1]}"  # runbooks name it

    assert rates == {
        "roller": "rate(1 minute)",
        "cleanup": "rate(5 minutes)",
        "dropper": "rate(5 minutes)",
    }
    lease_ms = Options().settings().export_lease_ms
    assert function(template, "cleanup")["Timeout"] * 1000 < lease_ms
    for invocation in of_type(template, "AWS::Lambda::EventInvokeConfig").values():
        assert invocation["MaximumRetryAttempts"] == 0


def test_the_scheduler_acts_by_its_own_role(template: Template) -> None:
    arns = [
        schedule["Target"]["RoleArn"]
        for schedule in of_type(template, "AWS::Scheduler::Schedule").values()
    ]
    assert arns[0] == arns[1]
    role = template["Resources"][arns[0]["Fn::GetAtt"][0]]["Properties"]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert only(template, "AWS::ApiGatewayV2::Api")["Name"] == "tallyroll"
