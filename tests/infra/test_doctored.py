"""What the doctor expects of a deployment is what the template makes."""

from __future__ import annotations

from fnmatch import fnmatchcase

from benchmarks.on_call.stack import EVERY, MAPPING, OTHERS_EVERY, RETRIES
from tallyroll.operations.doctor.alarm_checks import ASKED
from tallyroll.operations.doctor.deployment_checks import BUCKET_CALLS
from tallyroll.operations.doctor.rights import PACKAGES, RIGHTS, SCHEDULED
from tallyroll.operations.preflight.checks import BOOTSTRAP_LEAST
from tests.infra.grants import label
from tests.infra.templates import Template, actions, of_type, resource, statements


def names(template: Template, type_: str, key: str) -> set[str]:
    return {str(found[key]) for found in of_type(template, type_).values() if key in found}


def test_the_functions_are_those_of_the_template(template: Template) -> None:
    functions = names(template, "AWS::Lambda::Function", "FunctionName")
    assert functions == {f"tallyroll-{package}" for package in PACKAGES}
    schedules = names(template, "AWS::Scheduler::Schedule", "Name")
    assert schedules == {f"tallyroll-{package}" for package in SCHEDULED}


def test_planted_faults_lie_in_a_stack_like_the_template(template: Template) -> None:
    [mapping] = of_type(template, "AWS::Lambda::EventSourceMapping").values()
    assert {name: mapping[name] for name in MAPPING} == MAPPING
    for found in of_type(template, "AWS::Scheduler::Schedule").values():
        package = found["Name"].removeprefix("tallyroll-")
        assert found["ScheduleExpression"] == EVERY.get(package, OTHERS_EVERY)
        assert found["FlexibleTimeWindow"] == {"Mode": "OFF"}
        assert found["Target"]["RetryPolicy"] == RETRIES


def test_the_roles_allow_what_the_doctor_asks_for_and_without_a_condition(
    remembering: Template,
) -> None:
    for package, wanted in RIGHTS.items():
        allowed = _allowed(remembering, package)
        for what, calls in wanted.items():
            for call in calls:
                granted = any(fnmatchcase(call, one) for one in allowed.get(what, ()))
                assert granted, f"{package}: {call} on {what}"
    cleanups = {call for calls in RIGHTS["cleanup"].values() for call in calls}
    assert {call for call in cleanups if call.startswith("s3:")} == {*BUCKET_CALLS}


def _allowed(template: Template, package: str) -> dict[str, set[str]]:
    """The actions that a function's role allows without a condition, by the doctor's words."""
    found: dict[str, set[str]] = {}
    for statement in statements(template, package):
        if "Condition" not in statement:
            what = label(template, resource(statement))
            found.setdefault("archives" if what == "objects" else what, set()).update(
                actions(statement)
            )
    return found


def test_the_alarms_that_the_doctor_asks_for_notify_the_topics_of_all(template: Template) -> None:
    asked, every = set(), set()
    for kind in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"):
        for alarm in of_type(template, kind).values():
            topics = {action["Ref"] for action in alarm["AlarmActions"]}
            every |= topics
            if alarm["AlarmName"] in {f"tallyroll-{id_}" for id_ in ASKED}:
                asked |= topics
    assert asked == every == {*of_type(template, "AWS::SNS::Topic")}


def test_the_bootstrap_that_a_preflight_asks_for(template: Template) -> None:
    [rule] = template["Rules"]["CheckBootstrapVersion"]["Assertions"]
    refused, _ = rule["Assert"]["Fn::Not"][0]["Fn::Contains"]
    assert max(map(int, refused)) + 1 == BOOTSTRAP_LEAST
