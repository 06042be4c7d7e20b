"""What a trial used, and what that costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.operations.doctor.rights import PACKAGES
from tallyroll.planning import prices
from tallyroll.planning.costs import FUNCTION_GB
from tallyroll.settings import Settings
from trial.account import Account
from trial.load import Load
from trial.measures import Measured, Metrics, Series, ceiling

SINCE = 1_795_163_430.0
SETTINGS = Settings(name="aws-test", window_seconds=60)


def put(account: Account, namespace: str, name: str, values: dict[float, float], **of: str) -> None:
    """Put values of a metric at these seconds after SINCE."""
    account.client("cloudwatch").put_metric_data(
        Namespace=namespace,
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": key, "Value": text} for key, text in of.items()],
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
