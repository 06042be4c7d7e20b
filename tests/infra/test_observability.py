from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from aws_lambda_powertools import Metrics

from release.bundle import ROOT
from tallyroll.adapters.dynamodb.throughput import Limit
from tallyroll.cdk.alarm_rules import ALARMS, COMPACTING
from tallyroll.cdk.pages import PAGES
from tallyroll.ingest.cost import ItemSizes, LogCounts, WriteCost
from tallyroll.ingest.writer import DEADLINE_RESERVE_MS, BatchReport
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.states import Status
from tallyroll.planning.costs import METRICS_IDLE, METRICS_WATCHED
from tallyroll.planning.costs import PAGES as PAGES_CHARGED
from tallyroll.reads.counts import Count, Gathering
from tallyroll.reasons import Reason
from tallyroll.settings.options import Options
from tallyroll.telemetry import (
    NAMESPACE,
    add_answer,
    add_gathering,
    add_kept,
    add_read,
    add_report,
    add_rolled,
    add_steps,
    add_windows,
    metrics_of,
)
from tests.infra.conftest import Synthesize
from tests.infra.templates import Template, function, named, of_type, only, text, watched_by

DAY = 86_400
GUIDE = (ROOT / "docs" / "operations.md").read_text()


def alarms(template: Template, name: str = "tallyroll") -> dict[str, dict[str, Any]]:
    """The alarms by their ids."""
    found = of_type(template, "AWS::CloudWatch::Alarm").values()
    return {alarm["AlarmName"].removeprefix(f"{name}-"): alarm for alarm in found}


def test_there_is_one_alarm_of_each_and_it_says_where_to_read_on(template: Template) -> None:
    found = alarms(template)
    tickets = topic(template, "tallyroll tickets")

    assert found.keys() == ALARMS.keys()
    for id_, alarm in found.items():
        assert alarm["AlarmDescription"] == f"{ALARMS[id_]}. What to do: docs/operations.md#{id_}"
        assert alarm["AlarmActions"] == alarm["OKActions"] == [tickets]


def topic(template: Template, shown: str) -> dict[str, str]:
    """The reference to the topic with this display name."""
    return {"Ref": named(template, "AWS::SNS::Topic", "DisplayName", shown)}


def pages(template: Template) -> dict[str, dict[str, Any]]:
    """The composite alarms by their ids."""
    found = of_type(template, "AWS::CloudWatch::CompositeAlarm").values()
    return {page["AlarmName"].removeprefix("tallyroll-"): page for page in found}


def test_a_cause_pages_once_whatever_number_of_its_alarms_is_on(template: Template) -> None:
    found, pager = pages(template), topic(template, "tallyroll alarms")

    assert found.keys() == PAGES.keys()
    for id_, page in found.items():
        assert page["AlarmDescription"].endswith(f". What to do: docs/operations.md#{id_}")
        assert page["AlarmActions"] == page["OKActions"] == [pager]
        rule = text(page["AlarmRule"])
        ids = [
            named(template, "AWS::CloudWatch::Alarm", "AlarmName", f"tallyroll-{one}")
            for one in PAGES[id_].alarms
        ]
        assert re.findall(r'ALARM\("(\w+)"\)', rule) == ids
        assert rule.count(" OR ") == len(ids) - 1
        assert len(rule) < 10_240
    paged = [one for page in PAGES.values() for one in page.alarms]
    assert len(paged) == len(set(paged))
    assert set(paged) < set(ALARMS)
    assert len(PAGES) == PAGES_CHARGED


def test_no_alarm_waits_for_every_datapoint(template: Template) -> None:
    """M of N, but where silence is bad: then a missing datapoint counts as a bad one."""
    for id_, alarm in alarms(template).items():
        wanted = alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])
        lenient = wanted < alarm["EvaluationPeriods"] or wanted == 1
        assert lenient == (alarm["TreatMissingData"] == "notBreaching"), id_
        for metric in alarm.get("Metrics", ()):
            assert "FILL" not in metric.get("Expression", ""), id_


def test_each_alarm_names_the_address_of_its_entry_in_the_runbook(chosen: Template) -> None:
    for kind in ("Alarm", "CompositeAlarm"):
        for alarm in of_type(chosen, f"AWS::CloudWatch::{kind}").values():
            id_ = alarm["AlarmName"].removeprefix("votes-")
            url = f"https://wiki.example/votes#{id_}"
            assert alarm["AlarmDescription"].endswith(f". What to do: {url}")


def test_a_writer_that_needs_its_time_is_told_before_it_runs_out(template: Template) -> None:
    alarm = alarms(template)["writer-slow"]

    assert (alarm["MetricName"], alarm["ExtendedStatistic"]) == ("Duration", "p99")
    left_ms = function(template, "writer")["Timeout"] * 1000 - DEADLINE_RESERVE_MS
    assert 0.8 * left_ms < alarm["Threshold"] < left_ms


def test_errors_that_no_function_saw_are_the_apis(template: Template) -> None:
    alarm = alarms(template)["api-errors"]

    [api] = of_type(template, "AWS::ApiGatewayV2::Api")
    for metric, name in zip(watched_by(alarm), ("5xx", "Count"), strict=True):
        assert (metric["Namespace"], metric["MetricName"]) == ("AWS/ApiGateway", name)
        assert metric["Dimensions"] == [{"Name": "ApiId", "Value": {"Ref": api}}]


def entries() -> dict[str, str]:
    """The entries of the operations guide: text by heading."""
    parts = re.split(r"^### (\S+)$", GUIDE, flags=re.MULTILINE)
    return {
        title: re.split(r"^##? ", text, maxsplit=1, flags=re.MULTILINE)[0]
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_the_operations_guide_has_an_entry_for_every_alarm_and_for_nothing_else() -> None:
    assert list(entries()) == [*PAGES, *ALARMS, *COMPACTING]


@pytest.mark.parametrize("id_", [*PAGES, *ALARMS, *COMPACTING])
def test_every_entry_says_what_it_means_how_to_check_and_what_to_do(id_: str) -> None:
    for part in ("**Means**", "**Check**", "**Do**"):
        _, _, said = entries()[id_].partition(part)
        assert len(said.split("\n\n")[0]) > 40, part


Published = set[tuple[str, str]]


def emitted(metrics: Metrics) -> Published:
    """The names that were added, with their function; nothing but the two dimensions."""
    entry: dict[str, Any] = {**metrics.serialize_metric_set()}
    [directive] = entry["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == NAMESPACE
    assert sorted(directive["Dimensions"][0]) == ["pipeline", "service"]
    names = {(str(entry["service"]), one["Name"]) for one in directive["Metrics"]}
    metrics.clear_metrics()
    return names


def published() -> Published:
    """All metrics that functions publish, those of single reasons too."""
    found: Published = set()
    writer, aggregator = metrics_of("writer"), metrics_of("aggregator")
    writer.clear_metrics()
    sizes = ItemSizes([100])
    throttled: Counter[str] = Counter(Limit)
    every = BatchReport(
        ["m"], paced=1, retracted=1, rejected=Counter(Reason), throttled=throttled, sizes=sizes
    )
    add_report(writer, every, 1.0)
    found |= emitted(writer)
    add_read(aggregator, 1.0, failed=False)
    add_kept(aggregator, [Count("k", 0, 0, (), 0)], confirmed=False)
    add_answer(aggregator, complete=True)
    add_gathering(aggregator, Gathering(8, 1))
    found |= emitted(aggregator)
    for name in ("roller", "cleanup"):
        metrics = metrics_of(name)
        add_rolled(metrics, Rolled())
        if name == "roller":
            add_windows(metrics, Rolled(shards=1))
        found |= emitted(metrics)
    dropper = metrics_of("dropper")
    add_steps(dropper, Rolled())
    found |= emitted(dropper)
    return found


def asked_by_alarms(template: Template) -> Iterator[dict[str, Any]]:
    """The metrics of ours that alarms look at."""
    for alarm in alarms(template).values():
        for metric in [*watched_by(alarm), alarm]:
            if metric.get("Namespace") == NAMESPACE:
                yield metric


def dashboard(template: Template) -> list[dict[str, Any]]:
    """The dashboard's widgets."""
    body = json.loads(text(only(template, "AWS::CloudWatch::Dashboard")["DashboardBody"]))
    widgets: list[dict[str, Any]] = body["widgets"]
    return widgets


def asked_by_dashboard(template: Template) -> Iterator[list[Any]]:
    """The metrics of ours that are drawn: namespace, name, dimensions and their values."""
    for widget in dashboard(template):
        for metric in widget["properties"].get("metrics", ()):
            if metric[0] == NAMESPACE:
                yield metric


def test_alarms_and_dashboard_look_at_metrics_that_are_published(template: Template) -> None:
    asked: Published = set()
    for metric in asked_by_alarms(template):
        dimensions = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
        assert dimensions.keys() == {"pipeline", "service"}
        assert dimensions["pipeline"] == "tallyroll"
        asked.add((dimensions["service"], metric["MetricName"]))
    drawn: Published = set()
    for one in asked_by_dashboard(template):
        dimensions = dict(zip(one[2:6:2], one[3:6:2], strict=True))
        assert dimensions.keys() == {"pipeline", "service"}
        drawn.add((dimensions["service"], one[1]))

    assert len(asked) >= 10
    assert len(drawn) >= 15
    assert (asked | drawn) - published() == set()
    always = {one for one in published() if not one[1].startswith(("Rejected-", "Throttles-"))}
    assert 45 <= len(always) <= 57  # "some fifty a pipeline", says the guide
    idle = [name for function, name in always if function in ("roller", "cleanup", "dropper")]
    assert len(idle) == METRICS_IDLE  # which the table of costs has


def test_the_table_of_costs_has_every_metric_that_an_alarm_watches(template: Template) -> None:
    watched = [
        sum("MetricStat" in one for one in alarm.get("Metrics", ())) or 1
        for alarm in alarms(template).values()
    ]
    assert sum(watched) == METRICS_WATCHED


def test_a_pipelines_alarms_look_at_its_own_metrics_alone(chosen: Template) -> None:
    assert alarms(chosen, "votes").keys() == ALARMS.keys()
    for metric in asked_by_alarms(chosen):
        assert {"Name": "pipeline", "Value": "votes"} in metric["Dimensions"]


def test_silent_writers_raise_an_alarm_before_events_expire(template: Template) -> None:
    found = alarms(template)

    silent = found["writer-silent-expire"]
    assert watched_by(silent)[0]["MetricName"] == "WritersSilentFor"
    assert silent["Metrics"][0]["MetricStat"]["Period"] * silent["EvaluationPeriods"] == 5 * DAY
    behind = found["falling-behind"]["Threshold"]
    assert Options().visibility_seconds * 2 < behind < 3600


@pytest.mark.parametrize(("window_seconds", "open_"), [(3600, 4), (60, 128), (86_400, 2)])
def test_windows_do_not_close_where_more_are_open_than_should_be(
    synthesize: Synthesize, template: Template, window_seconds: int, open_: int
) -> None:
    """Those of an hour may be drained at once, and those that are open anyway beside them."""
    made = template
    if window_seconds != 3600:
        made = synthesize(window_seconds=window_seconds, retention_seconds=3600)
    found = alarms(made)["close-stuck"]

    assert found["Threshold"] == open_
    assert found["Metrics"][0]["MetricStat"]["Stat"] == "Minimum"


def test_somebody_is_told_by_e_mail_if_that_is_chosen(template: Template, chosen: Template) -> None:
    assert of_type(template, "AWS::SNS::Subscription") == {}
    found = of_type(chosen, "AWS::SNS::Subscription").values()
    assert {one["Protocol"] for one in found} == {"email"}
    assert {one["TopicArn"]["Ref"]: one["Endpoint"] for one in found} == {
        topic(chosen, "votes alarms")["Ref"]: "night@example.org",
        topic(chosen, "votes tickets")["Ref"]: "day@example.org",
    }


def test_alarms_may_publish_to_the_topic_though_its_policy_replaces_the_default(
    template: Template,
) -> None:
    policies = of_type(template, "AWS::SNS::TopicPolicy").values()
    assert len(policies) == 2
    for policy in policies:
        statements = policy["PolicyDocument"]["Statement"]
        [allowed] = [one for one in statements if one["Effect"] == "Allow"]
        assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
        source = allowed["Condition"]["StringEquals"]["aws:SourceAccount"]
        assert source == {"Ref": "AWS::AccountId"}


def test_the_dashboard_answers_four_questions(template: Template) -> None:
    widgets = dashboard(template)
    headings = [one["properties"]["markdown"] for one in widgets if one["type"] == "text"]

    assert [heading.splitlines()[0] for heading in headings] == [
        "## Is it exact?",
        "## Does it keep up?",
        "## What is hot?",
        "## What does it cost?",
    ]
    kinds = Counter(one["type"] for one in widgets)
    assert kinds["alarm"] == 1
    assert kinds["metric"] >= 12
    [status] = [one for one in widgets if one["type"] == "alarm"]
    assert len(status["properties"]["alarms"]) == len(PAGES) + len(ALARMS)


def test_each_limit_of_writes_is_drawn_that_of_identities_only_if_there_are_any(
    template: Template, remembering: Template
) -> None:
    """Their throttles are among those of the alarm."""
    drawn = [
        {metric[1] for metric in asked_by_dashboard(made) if metric[1].startswith("Throttles-")}
        for made in (template, remembering)
    ]
    assert drawn[1] == {f"Throttles-{limit}" for limit in Limit}
    assert drawn[1] - drawn[0] == {"Throttles-identities"}
    report = BatchReport(["m"], throttled=Counter({Limit.IDENTITIES: 2}))
    metrics = metrics_of("writer")
    metrics.clear_metrics()
    add_report(metrics, report, 1.0)
    published: dict[str, Any] = {**metrics.serialize_metric_set()}
    metrics.clear_metrics()
    assert published["Throttles"] == published["Throttles-identities"] == [2.0]
    [watched] = watched_by(alarms(remembering)["store-throttles"])
    assert watched["MetricName"] == "Throttles"
    _, _, check = entries()["store-throttles"].partition("**Check**")
    for limit in Limit:
        assert f"`{limit}`" in check or limit is Limit.OTHER


def test_retracted_events_are_drawn_where_there_may_be_some(
    template: Template, retracting: Template
) -> None:
    """And what is drawn is published."""
    drawn = [{metric[1] for metric in asked_by_dashboard(made)} for made in (template, retracting)]
    assert drawn[1] - drawn[0] == {"EventsRetracted"}
    metrics = metrics_of("writer")
    metrics.clear_metrics()
    add_report(metrics, BatchReport(["m"], retracted=3), 1.0)
    published: dict[str, Any] = {**metrics.serialize_metric_set()}
    metrics.clear_metrics()
    assert published["EventsRetracted"] == [3.0]


def test_what_logged_events_cost_is_drawn_where_a_key_is_logged(
    template: Template, synthesize: Synthesize
) -> None:
    logging = synthesize(logs={"home-page": 1_000})
    drawn = [{metric[1] for metric in asked_by_dashboard(made)} for made in (template, logging)]
    expected = {"LoggedEventsCounted", "StoreRequestsLogged", "WriteUnitsLogged"}
    assert drawn[1] - drawn[0] == expected
    formulas = json.dumps(dashboard(logging))
    assert formulas.count("(single + packed + logged)") == 2
    cost = WriteCost(logged=1.0, requests_logged=1.0)
    report = BatchReport(["m"], logged_events=1, cost=cost, logs=LogCounts(slots=1))
    metrics = metrics_of("writer")
    metrics.clear_metrics()
    add_report(metrics, report, 1.0)
    published: dict[str, Any] = {**metrics.serialize_metric_set()}
    metrics.clear_metrics()
    assert expected <= published.keys()


def test_dashboards_of_one_name_in_two_regions_do_not_meet(template: Template) -> None:
    """An account has one list of dashboards for all Regions."""
    name = only(template, "AWS::CloudWatch::Dashboard")["DashboardName"]

    assert text(name) == "tallyroll-AWS::Region"


def test_every_state_of_a_window_is_published_and_drawn(template: Template) -> None:
    states = {f"Windows-{status}" for status in Status}

    assert {("roller", name) for name in states} <= published()
    assert states <= {metric[1] for metric in asked_by_dashboard(template)}
