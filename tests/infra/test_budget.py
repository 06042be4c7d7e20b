"""A budget of what has the pipeline's tag, and a monitor of anomalies; each only if asked for."""

from __future__ import annotations

import json

import pytest

from tests.harness.replacements import harms
from tests.infra.conftest import Synthesize
from tests.infra.templates import Template, function, of_type, only, tags

EMAIL = "night@example.org"


@pytest.fixture(scope="module")
def budgeted(synthesize: Synthesize) -> Template:
    return synthesize(name="votes", budget="55", alarm_email=EMAIL)


@pytest.fixture(scope="module")
def monitored(synthesize: Synthesize) -> Template:
    return synthesize(name="votes", budget="55", budget_monitor="true", alarm_email=EMAIL)


def test_by_default_there_is_neither(template: Template) -> None:
    kinds = {one["Type"] for one in template["Resources"].values()}
    assert not [kind for kind in kinds if "Budgets" in kind or "::CE::" in kind]


def test_the_budget_is_of_the_tag_that_everything_has(budgeted: Template) -> None:
    made = only(budgeted, "AWS::Budgets::Budget")["Budget"]
    assert made["BudgetLimit"] == {"Amount": 55, "Unit": "USD"}
    assert (made["BudgetType"], made["TimeUnit"]) == ("COST", "MONTHLY")
    [(key, value)] = tags(function(budgeted, "writer")).items()
    assert made["CostFilters"] == {"TagKeyValue": [f"user:{key}${value}"]}
    # With a name, it could not be replaced, which another address needs.
    assert "BudgetName" not in made


def test_the_address_is_told_before_and_after_the_money_is_spent(budgeted: Template) -> None:
    found = only(budgeted, "AWS::Budgets::Budget")["NotificationsWithSubscribers"]
    said = {one["Notification"]["NotificationType"]: one["Notification"] for one in found}
    over = {"ComparisonOperator": "GREATER_THAN", "ThresholdType": "PERCENTAGE"}
    assert said == {
        "ACTUAL": {**over, "NotificationType": "ACTUAL", "Threshold": 80},
        "FORECASTED": {**over, "NotificationType": "FORECASTED", "Threshold": 100},
    }
    for one in found:
        assert one["Subscribers"] == [{"SubscriptionType": "EMAIL", "Address": EMAIL}]


def test_anomalies_of_the_tag_are_told_from_a_tenth_of_the_budget_on(monitored: Template) -> None:
    [(id_, monitor)] = of_type(monitored, "AWS::CE::AnomalyMonitor").items()
    # An account has one monitor of its services only.
    assert (monitor["MonitorType"], monitor.get("MonitorDimension")) == ("CUSTOM", None)
    watched = json.loads(monitor["MonitorSpecification"])
    assert watched == {"Tags": {"Key": "tallyroll", "Values": ["votes"]}}
    told = only(monitored, "AWS::CE::AnomalySubscription")
    assert told["MonitorArnList"] == [{"Fn::GetAtt": [id_, "MonitorArn"]}]
    assert told["Subscribers"] == [{"Type": "EMAIL", "Address": EMAIL}]
    assert told["Frequency"] == "DAILY"  # at once only SNS is told
    assert json.loads(told["ThresholdExpression"]) == {
        "Dimensions": {
            "Key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE",
            "MatchOptions": ["GREATER_THAN_OR_EQUAL"],
            "Values": ["5.50"],
        }
    }


def test_a_member_account_can_deploy_a_budget_without_a_monitor(
    budgeted: Template, monitored: Template, synthesize: Synthesize
) -> None:
    """AWS Cost Management User Guide, "Getting started with AWS Cost Anomaly Detection": a monitor
    of a tag can only be created in the management account.
    """
    without = synthesize(name="votes", alarm_email=EMAIL)
    assert added(without, budgeted) == ["AWS::Budgets::Budget"]
    assert added(budgeted, monitored) == ["AWS::CE::AnomalyMonitor", "AWS::CE::AnomalySubscription"]


def added(before: Template, after: Template) -> list[str]:
    """The types of what is new; nothing else changed."""
    assert harms(before, after) == []
    there = before["Resources"]
    assert {id_: after["Resources"][id_] for id_ in there} == there
    new = after["Resources"].keys() - there.keys()
    return sorted(after["Resources"][id_]["Type"] for id_ in new)
