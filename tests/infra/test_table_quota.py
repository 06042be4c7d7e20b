"""Tables near the quota are told, by the quota of their store, whoever has the tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallyroll.telemetry import NAMESPACE
from tests.infra.conftest import Synthesize
from tests.infra.templates import Template, only, text, watched_by
from tests.infra.test_observability import alarms


def test_tables_of_others_count_too(template: Template, synthesize: Synthesize) -> None:
    """DynamoDB Developer Guide, "DynamoDB Metrics and dimensions": usage metrics."""
    alarm = alarms(template)["window-tables"]
    own, every = watched_by(alarm)
    assert alarm["Threshold"] == 2_000
    assert (own["Namespace"], own["MetricName"]) == (NAMESPACE, "WindowTables")
    assert (every["Namespace"], every["MetricName"]) == ("AWS/Usage", "ResourceCount")
    dimensions = {one["Name"]: one["Value"] for one in every["Dimensions"]}
    assert dimensions["Service"] == "DynamoDB"
    assert dimensions["Resource"] == "TableCount"
    assert {"Class": "None", "Type": "Resource"}.items() <= dimensions.items()
    in_keyspaces = alarms(synthesize(store="keyspaces"))["window-tables"]
    assert [one["MetricName"] for one in watched_by(in_keyspaces)] == ["WindowTables"]


def drawn(made: Template) -> set[str]:
    """The metrics and the expressions of the dashboard's graph of tables."""
    body = json.loads(text(only(made, "AWS::CloudWatch::Dashboard")["DashboardBody"]))
    [graph] = [
        one["properties"]
        for one in body["widgets"]
        if one["properties"].get("title") == "Tables used, % of the quota"
    ]
    return {
        one[0]["expression"] if isinstance(one[0], dict) else one[1] for one in graph["metrics"]
    }


@pytest.mark.parametrize(("options", "quota"), [({}, 256), ({"table_quota": 500}, 500)])
def test_the_quota_is_that_of_the_windows_store(
    synthesize: Synthesize, options: dict[str, Any], quota: int
) -> None:
    """256 tables a Region: Amazon Keyspaces Developer Guide, "Quotas"."""
    made = synthesize(store="keyspaces", **options)
    assert alarms(made)["window-tables"]["Threshold"] == 0.8 * quota
    assert drawn(made) == {"WindowTables", f"100 * own / {quota}"}


def test_both_numbers_of_the_alarm_are_drawn(template: Template) -> None:
    of_account = {"ResourceCount", "100 * all / 2500"}
    assert drawn(template) == {"WindowTables", "100 * own / 2500"} | of_account
