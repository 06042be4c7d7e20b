"""What a trial used, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tallyroll.cdk.alarm_rules import ALARMS, rules_for
from tallyroll.operations.doctor.rights import PACKAGES
from tallyroll.planning import prices
from tallyroll.planning.costs import FUNCTION_GB
from tallyroll.settings import Settings
from tests.drills.minutes import WATCHED, Read, healthy, published
from trial.account import Account
from trial.load import Load
from trial.measures import Measured, Metrics, Series, ceiling
from trial.watching import has_data

SINCE = 1_795_163_430.0
SETTINGS = Settings(name="aws-test", window_seconds=60)
OVER = "GreaterThanThreshold"
ROLLER = {"pipeline": "aws-test", "service": "roller"}
USAGE = {"Service": "DynamoDB", "Resource": "TableCount"}


def dimensions(of: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Name": key, "Value": value} for key, value in of.items()]


def put(account: Account, namespace: str, name: str, values: dict[float, float], **of: str) -> None:
    """Put values of a metric at these seconds after SINCE."""
    account.client("cloudwatch").put_metric_data(
        Namespace=namespace,
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": dimensions(of),
                "Value": value,
                "Timestamp": SINCE + at,
            }
            for at, value in values.items()
        ],
    )


def test_metrics_are_summed_over_the_trial(account: Account) -> None:
    writer = {"pipeline": "aws-test", "service": "writer"}
    put(account, "Tallyroll", "Messages", {10: 30, 400: 12, 4_000: 99}, **writer)
    put(account, "AWS/Lambda", "Duration", {20: 50, 420: 150}, FunctionName="aws-test-writer")
    table = "aws-test-catalog"
    put(account, "AWS/DynamoDB", "ConsumedWriteCapacityUnits", {0: 8, 900: 2}, TableName=table)
    put(account, "AWS/SQS", "NumberOfMessagesReceived", {5: 42}, QueueName="aws-test-events")

    metrics = Metrics(account.client("cloudwatch"), "aws-test")
    found = metrics.measured(SINCE, SINCE + 1_000, ["aws-test-writer", "aws-test-roller"], [table])

    assert found.writer["Messages"] == 42
    assert found.writer["Duplicates"] == 0
    assert found.functions["aws-test-writer"] == Series(200, 2, 150)
    assert found.functions["aws-test-writer"].mean == 100
    assert found.functions["aws-test-roller"] == Series()
    assert found.functions["aws-test-roller"].mean == 0
    assert found.batch_size == 21
    assert found.write_units == {table: 10}
    assert found.read_units == {table: 0}
    assert found.queue["NumberOfMessagesReceived"] == 42


def put_alarms(account: Account) -> None:
    """One alarm of a metric, and one of two; the others are missing."""
    client = account.client("cloudwatch")
    limits = {"EvaluationPeriods": 1, "Threshold": 1.0, "ComparisonOperator": OVER}
    client.put_metric_alarm(
        AlarmName="aws-test-writer-silent",
        Namespace="Tallyroll",
        MetricName="WritersSilentFor",
        Dimensions=dimensions(ROLLER),
        Statistic="Maximum",
        Period=60,
        **limits,
    )
    parts = [
        {
            "Id": id_,
            "MetricStat": {
                "Metric": {"Namespace": space, "MetricName": name, "Dimensions": dimensions(of)},
                "Period": 300,
                "Stat": "Maximum",
            },
            "ReturnData": False,
        }
        for id_, space, name, of in (
            ("own", "Tallyroll", "WindowTables", ROLLER),
            ("all", "AWS/Usage", "ResourceCount", USAGE),
        )
    ]
    computed = {"Id": "expr", "Expression": "MAX([own, all])", "ReturnData": True}
    client.put_metric_alarm(
        AlarmName="aws-test-window-tables", Metrics=[computed, *parts], **limits
    )


def test_what_alarms_watch_and_nobody_publishes_is_named(account: Account) -> None:
    put_alarms(account)
    put(account, "Tallyroll", "WindowTables", {10: 3}, **ROLLER)
    put(account, "Tallyroll", "WritersSilentFor", {4_000: 0}, **ROLLER)
    metrics = Metrics(account.client("cloudwatch"), "aws-test")

    found = metrics.measured(SINCE, SINCE + 1_000, [], []).without_data

    missing = [one for one in found if one.endswith(": there is no such alarm")]
    assert len(missing) == len(ALARMS) - 2
    assert sorted({*found} - {*missing}) == [
        "aws-test-window-tables: AWS/Usage ResourceCount of DynamoDB, TableCount",
        "aws-test-writer-silent: Tallyroll WritersSilentFor of aws-test, roller",
    ]
    put(account, "AWS/Usage", "ResourceCount", {20: 9}, **USAGE)
    put(account, "Tallyroll", "WritersSilentFor", {20: 0}, **ROLLER)
    assert metrics.measured(SINCE, SINCE + 1_000, [], []).without_data == missing


def test_data_is_expected_of_all_that_a_pipeline_in_health_publishes() -> None:
    """Of the API and of reads it is not: a trial does without."""
    unread = [replace(healthy(at, Settings()), read=Read(requests=0)) for at in range(60)]
    published_ = {
        one for at, minute in enumerate(unread) for each in published(minute, at) for one in each
    }
    rules = rules_for(Settings(), 864_000).values()
    every = {metric for rule in rules for metric in rule.metrics.values()}

    expected = {(one.source, one.of, one.name) for one in every if has_data(one)}

    assert expected == WATCHED & published_
    assert len(expected) >= 25


def test_a_bill_is_what_was_measured_times_the_prices() -> None:
    million = 1_000_000
    measured = Measured(
        functions={"a-writer": Series(500_000, 1_000, 900), "a-roller": Series(500_000, 1_000, 1)},
        writer={"Messages": 0},
        write_units={"a": million, "b": million},
        read_units={"a": 8 * million},
        queue={"NumberOfMessagesReceived": 1_000, "NumberOfEmptyReceives": 50},
    )

    bill = measured.bill(sent=1_001)

    assert bill == pytest.approx(
        {
            "write units": 2 * 0.625,
            "read units": 8 * 0.125,
            "Lambda requests": 2_000 * prices.LAMBDA_REQUEST,
            "Lambda time": 1_000 * 1_769 / 1_024 * prices.LAMBDA_GB_SECOND,
            "SQS requests": (101 + 200 + 50) * prices.SQS_REQUEST,
        }
    )


def test_a_writer_that_never_ran_has_no_batches() -> None:
    assert Measured(functions={"a-writer": Series()}, writer={"Messages": 0}).batch_size == 0


def test_a_ceiling_grows_with_events_rounds_and_hours() -> None:
    load = Load(singles=1_000, packets=10)
    least = ceiling(load, 1, 1.0, 4, SETTINGS)
    more = replace(load, singles=100_000)

    assert least.dollars == pytest.approx(least.events + least.hours + least.watching)
    assert ceiling(load, 2, 1.0, 4, SETTINGS).events > least.events
    assert ceiling(load, 1, 2.0, 4, SETTINGS).hours == pytest.approx(2 * least.hours)
    assert ceiling(more, 1, 1.0, 4, SETTINGS).events > 10 * (least.events - 1)
    # Each event alone costs some 14 units (`make costs`).
    assert ceiling(more, 1, 1.0, 4, SETTINGS).events > 200_000 * 14 * prices.WRITE_UNIT
    assert 10 < least.watching < 50


def test_a_ceiling_has_every_function_at_work_all_the_time() -> None:
    at_work = 4 + len(PACKAGES) - 1  # of the functions, only writers run several at once
    most = ceiling(Load(singles=0, packets=0), 1, 1.0, 4, SETTINGS).hours
    assert most > at_work * 3_600 * FUNCTION_GB * prices.LAMBDA_GB_SECOND
