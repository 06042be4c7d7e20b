"""How a new writer takes over: at once, or a tenth of the batches first, with a way back."""

from __future__ import annotations

import pytest

from tallyroll.cdk.alarm_rules import rules_for
from tallyroll.cdk.pages import PAGES
from tallyroll.settings import Settings
from tests.harness.replacements import harms
from tests.infra.conftest import Synthesize
from tests.infra.templates import Template, function, of_type, only, text

ALARMS = {"writer-errors", "writer-silent", "mostly-rejected", "rejections"}
PARTS = ("Alias", "Version", "CodeDeploy")


@pytest.fixture(scope="module")
def canary(synthesize: Synthesize) -> Template:
    return synthesize(rollout="canary")


@pytest.fixture(scope="module")
def at_once(synthesize: Synthesize) -> Template:
    return synthesize(rollout="at-once")


def test_by_default_the_queue_invokes_the_function_itself(template: Template) -> None:
    source = only(template, "AWS::Lambda::EventSourceMapping")["FunctionName"]
    assert function(template, "writer") == template["Resources"][source["Ref"]]["Properties"]
    kinds = {one["Type"] for one in template["Resources"].values()}
    assert not [kind for kind in kinds if any(part in kind for part in PARTS)]


def test_the_queue_invokes_the_alias_which_codedeploy_moves(canary: Template) -> None:
    [(alias, made)] = of_type(canary, "AWS::Lambda::Alias").items()
    writer = canary["Resources"][made["FunctionName"]["Ref"]]["Properties"]
    assert writer == function(canary, "writer")
    source = only(canary, "AWS::Lambda::EventSourceMapping")["FunctionName"]
    name, qualifier = source["Fn::Join"][1]
    assert (made["Name"], qualifier) == ("live", ":live")
    assert name["Fn::Select"][1]["Fn::Split"][1] == {"Ref": alias}

    moved = canary["Resources"][alias]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
    [application] = of_type(canary, "AWS::CodeDeploy::Application")
    [(group, steps)] = of_type(canary, "AWS::CodeDeploy::DeploymentGroup").items()
    refs = (moved["ApplicationName"]["Ref"], moved["DeploymentGroupName"]["Ref"])
    assert refs == (application, group)
    assert only(canary, "AWS::CodeDeploy::Application")["ApplicationName"] == "tallyroll-writer"
    assert steps["DeploymentGroupName"] == "tallyroll-writer"
    named = "CodeDeployDefault.LambdaCanary10Percent30Minutes"
    assert steps["DeploymentConfigName"] == named


def test_an_alarm_of_the_writer_takes_the_alias_back(canary: Template) -> None:
    group = only(canary, "AWS::CodeDeploy::DeploymentGroup")
    assert group["AlarmConfiguration"]["Enabled"] is True
    # Without their state nothing is rolled out.
    assert "IgnorePollAlarmFailure" not in group["AlarmConfiguration"]
    alarms = of_type(canary, "AWS::CloudWatch::Alarm")
    ids = [text(one["Name"]) for one in group["AlarmConfiguration"]["Alarms"]]
    assert {alarms[id_]["AlarmName"] for id_ in ids} == {f"tallyroll-{name}" for name in ALARMS}
    assert set(group["AutoRollbackConfiguration"]["Events"]) == {
        "DEPLOYMENT_FAILURE",
        "DEPLOYMENT_STOP_ON_ALARM",
        "DEPLOYMENT_STOP_ON_REQUEST",
    }
    assert {*PAGES["page-not-counting"].alarms} > ALARMS - {"rejections"}


def test_a_canary_that_always_fails_puts_the_alarm_on_in_time() -> None:
    rule = rules_for(Settings(), 4 * 86_400)["writer-errors"]
    assert rule.above < 0.1  # of all invocations, whichever version's
    # A period has begun already, and metrics are late by some minutes.
    assert (rule.times + 1) * rule.period + 300 <= 30 * 60


def test_the_version_before_stays_and_that_of_a_failed_deployment_goes(canary: Template) -> None:
    [version] = [one for one in canary["Resources"].values() if one["Type"].endswith("::Version")]
    assert version["DeletionPolicy"] == "RetainExceptOnCreate"
    assert version["UpdateReplacePolicy"] == "Retain"


def test_at_once_keeps_the_alias_and_asks_nobody(canary: Template, at_once: Template) -> None:
    [(alias, made)] = of_type(at_once, "AWS::Lambda::Alias").items()
    assert of_type(canary, "AWS::Lambda::Alias") == {alias: made}
    assert "UpdatePolicy" not in at_once["Resources"][alias]
    source = "AWS::Lambda::EventSourceMapping"
    assert of_type(canary, source) == of_type(at_once, source)
    assert not [one for one in at_once["Resources"].values() if "CodeDeploy" in one["Type"]]


def test_a_change_of_the_option_replaces_and_deletes_nothing_that_is_to_stay(
    template: Template, canary: Template, at_once: Template
) -> None:
    """The event source keeps its id: only another queue would replace it."""
    for before, after in ((template, canary), (canary, at_once), (canary, template)):
        assert harms(before, after) == []
