"""The gauges on AWS: metrics and triggers on moto, quotas in the words of Service Quotas' model."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber
from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.aws.gauges import _METRICS, _QUOTAS, AwsGauges
from tallyroll.errors import Missing, Refused
from tallyroll.ingest.cost import LogCounts
from tallyroll.ingest.writer import BatchReport
from tallyroll.pipeline import Pipeline
from tallyroll.ports.gauges import Gauge, Quota, Trigger
from tallyroll.settings import Settings
from tallyroll.telemetry import add_read, add_report, metrics_of
from tests.contract.engines import SteadyEffects

URL = "https://sqs.us-east-1.amazonaws.com/1/handed-in"


@pytest.fixture
def gauges() -> Iterator[AwsGauges]:
    with mock_aws():
        yield Pipeline(Settings(name="votes", queue_url=URL), SteadyEffects()).gauges


def put(at: int, gauge: Gauge, *values: float, **dimensions: str) -> None:
    namespace, name, _ = _METRICS[gauge]
    make_client("cloudwatch").put_metric_data(
        Namespace=namespace,
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": key, "Value": each} for key, each in dimensions.items()],
                "Timestamp": datetime.fromtimestamp(at / 1000, UTC),
                "Value": value,
            }
            for value in values
        ],
    )


OURS = {"pipeline": "votes", "service": "writer"}


@pytest.mark.parametrize(
    ("gauge", "dimensions", "value"),
    [
        (Gauge.COUNTED, OURS, 30.0),
        (Gauge.THROTTLED_KEY_RANGE, OURS, 30.0),
        (Gauge.READS, {"pipeline": "votes", "service": "aggregator"}, 30.0),
        (Gauge.BATCHES, {"FunctionName": "votes-writer"}, 30.0),
        (Gauge.BATCH_MS, {"FunctionName": "votes-writer"}, 15.0),
        (Gauge.WRITERS, {"FunctionName": "votes-writer"}, 20.0),
        (Gauge.OLDEST_S, {"QueueName": "handed-in"}, 20.0),
    ],
)
def test_a_metric_by_its_periods(
    gauges: AwsGauges, gauge: Gauge, dimensions: dict[str, str], value: float
) -> None:
    now = gauges.queues._effects.now()
    at = now // 60_000 * 60_000 - 180_000
    put(at, gauge, 10.0, 20.0, **dimensions)
    put(at, gauge, 99.0, **dict.fromkeys(dimensions, "another"))
    found = gauges.points(gauge, at)
    assert (found.period_ms, found.values) == (60_000, ((at, value),))
    assert gauges.points(gauge, at + 60_000).values == ()
    [(start, longer)] = gauges.points(gauge, now - 86_400_000).values
    assert longer == value
    assert start <= at


def test_the_metrics_are_those_that_functions_publish() -> None:
    writer, aggregator = metrics_of("writer"), metrics_of("aggregator")
    writer.clear_metrics()
    report = BatchReport(throttled=Counter({"key-range": 1}), logs=LogCounts(slots=1))
    add_report(writer, report, 1.0)
    published = {*writer.metric_set}
    writer.clear_metrics()
    add_read(aggregator, 1.0, failed=False)
    published |= {*aggregator.metric_set}
    aggregator.clear_metrics()
    own = {name for namespace, name, _ in _METRICS.values() if namespace == "Tallyroll"}
    assert own <= published
    assert {*_METRICS} == {*Gauge}
    assert {*_QUOTAS} == {*Quota}


@contextmanager
def stubbed() -> Iterator[tuple[AwsGauges, Stubber]]:
    made = Pipeline(Settings(), SteadyEffects())
    client = make_client("service-quotas", region_name="us-east-1")
    with Stubber(client) as stub:
        caller = Caller(client, SteadyEffects())
        yield AwsGauges(made.queue_metrics, caller, caller, made.settings), stub
        stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("quota", "service", "code"),
    [
        (Quota.TABLES, "dynamodb", "L-F98FE922"),
        (Quota.TABLE_WRITES, "dynamodb", "L-AB614373"),
        (Quota.FUNCTIONS, "lambda", "L-B99A9384"),
    ],
)
def test_a_quota(quota: Quota, service: str, code: str) -> None:
    with stubbed() as (gauges, stub):
        asked = {"ServiceCode": service, "QuotaCode": code}
        stub.add_response("get_service_quota", {"Quota": {"Value": 2_500.0}}, asked)
        assert gauges.quota(quota) == 2_500.0


def test_a_quota_that_may_not_be_read() -> None:
    with stubbed() as (gauges, stub):
        stub.add_client_error("get_service_quota", "AccessDeniedException", "no")
        with pytest.raises(Refused, match="GetServiceQuota: AccessDeniedException") as denied:
            gauges.quota(Quota.TABLES)
        assert denied.value.code == "AccessDeniedException"


def test_a_quota_that_an_engine_does_not_have(gauges: AwsGauges) -> None:
    with pytest.raises(Missing, match="NoSuchResourceException"):
        gauges.quota(Quota.TABLES)


def function(name: str) -> None:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("handler.py", "")
    role = make_client("iam").create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps({"Statement": []})
    )
    make_client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=role["Role"]["Arn"],
        Handler="handler.handler",
        Code={"ZipFile": code.getvalue()},
    )


@pytest.mark.parametrize(
    ("more", "trigger"),
    [
        (
            {"MaximumBatchingWindowInSeconds": 2, "ScalingConfig": {"MaximumConcurrency": 7}},
            Trigger(500, 2, 7),
        ),
        ({}, Trigger(500, 0, None)),
    ],
)
def test_the_trigger_of_the_writer(
    gauges: AwsGauges, more: dict[str, Any], trigger: Trigger
) -> None:
    assert gauges.trigger() is None
    sqs = make_client("sqs")
    url = sqs.create_queue(QueueName="handed-in")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    for name, size in (("votes-roller", 3), ("votes-writer", 500)):
        function(name)
        make_client("lambda").create_event_source_mapping(
            EventSourceArn=arn["QueueArn"],
            FunctionName=name,
            BatchSize=size,
            **(more if size == 500 else {}),
        )
    assert gauges.trigger() == trigger
