"""The alarms of the template are the rules that drills and simulations evaluate."""

from __future__ import annotations

from typing import Any

from tallyroll.cdk.alarm_rules import API, DEAD_LETTERS, EVENTS, rules_for
from tallyroll.cdk.alarm_values import AlarmRule, MetricNamespace, Watched
from tallyroll.settings import Settings
from tests.infra.templates import Template
from tests.infra.test_observability import alarms


def _of(template: Template, source: MetricNamespace, named: dict[str, Any]) -> str:
    """What a metric is of, by its dimensions, in a rule's words."""
    match source:
        case MetricNamespace.FUNCTION:
            function = template["Resources"][named["FunctionName"]["Ref"]]["Properties"]
            return str(function["Handler"].split(".")[1])
        case MetricNamespace.QUEUE:
            id_, _ = named["QueueName"]["Fn::GetAtt"]
            redriven = "RedrivePolicy" in template["Resources"][id_]["Properties"]
            return EVENTS if redriven else DEAD_LETTERS
        case MetricNamespace.API:
            return API
        case _:
            return str(named["service" if source is MetricNamespace.PIPELINE else "Resource"])


def _watched(template: Template, stat: dict[str, Any]) -> Watched:
    metric = stat["Metric"]
    source = MetricNamespace(metric["Namespace"])
    named = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
    of = _of(template, source, named)
    return Watched(source, of, metric["MetricName"], stat["Stat"], stat["Period"])


def _rule(template: Template, alarm: dict[str, Any]) -> AlarmRule:
    """An alarm of the template as a rule."""
    bare = {"Stat": alarm.get("Statistic") or alarm.get("ExtendedStatistic"), "Metric": alarm}
    parts = alarm.get("Metrics") or [{"MetricStat": {**bare, "Period": alarm["Period"]}}]
    computed: dict[str, Any] = next((one for one in parts if "Expression" in one), {})
    metrics = {
        one["Id"] if computed else "m0": one["MetricStat"] for one in parts if "MetricStat" in one
    }
    assert alarm["ComparisonOperator"] == "GreaterThanThreshold"
    periods = alarm["EvaluationPeriods"]
    return AlarmRule(
        metrics={id_: _watched(template, stat) for id_, stat in metrics.items()},
        expression=computed.get("Expression", ""),
        label=computed.get("Label", ""),
        above=alarm["Threshold"],
        times=alarm.get("DatapointsToAlarm", periods),
        within=periods if "DatapointsToAlarm" in alarm else 0,
        silence_is_bad=alarm["TreatMissingData"] == "breaching",
    )


def test_the_deployed_alarms_are_the_rules_that_are_drilled(template: Template) -> None:
    settings = Settings()
    rules = rules_for(settings, settings.queue_retention_ms // 1000)
    for id_, alarm in alarms(template).items():
        assert _rule(template, alarm) == rules[id_], id_
