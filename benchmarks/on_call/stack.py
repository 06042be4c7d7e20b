"""The part of a pipeline's stack that the doctor looks at, made in an emulated AWS by its API.

`tests/benchmarks/test_on_call.py` compares it with the template of the CDK constructs.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

from tallyroll.operations.doctor.alarm_checks import ASKED
from tallyroll.operations.doctor.rights import PACKAGES, SCHEDULED
from tallyroll.resources import declare, function_name
from tallyroll.settings import Settings

EVERY = {"roller": "rate(1 minute)"}
OTHERS_EVERY = "rate(5 minutes)"
MAPPING = {
    "BatchSize": 1_000,
    "MaximumBatchingWindowInSeconds": 1,
    "ScalingConfig": {"MaximumConcurrency": 4},
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
}
RETRIES = {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
ALLOWED = "Allowed"
_ALLOW = {"Effect": "Allow", "Action": ["dynamodb:*", "s3:*", "sqs:*"], "Resource": "*"}

TLS = {
    "Effect": "Deny",
    "Principal": {"AWS": "*"},
    "Action": "sqs:*",
    "Resource": "*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}

Clients = Callable[[str], Any]


def make_stack(settings: Settings, client: Clients) -> None:
    """Make functions, which nothing invokes, their roles, the event source and the schedules."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("handler.py", "")
    iam, functions = client("iam"), client("lambda")
    arns, roles = {}, {}
    for package in PACKAGES:
        name = function_name(settings.name, package)
        roles[package] = iam.create_role(
            RoleName=name, AssumeRolePolicyDocument=json.dumps({"Statement": []})
        )["Role"]["Arn"]
        iam.put_role_policy(RoleName=name, PolicyName=ALLOWED, PolicyDocument=policy(_ALLOW))
        arns[package] = functions.create_function(
            FunctionName=name,
            Runtime="python3.11",
            Role=roles[package],
            Handler="handler.handler",
            Code={"ZipFile": code.getvalue()},
            Environment={"Variables": settings.to_env()},
        )["FunctionArn"]
    make_mapping(settings, client)
    make_alarms(settings, client)
    guard(settings, client)
    for package in SCHEDULED:
        client("scheduler").create_schedule(
            Name=function_name(settings.name, package),
            ScheduleExpression=EVERY.get(package, OTHERS_EVERY),
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": arns[package], "RoleArn": roles[package], "RetryPolicy": RETRIES},
        )


def make_mapping(settings: Settings, client: Clients) -> None:
    """Have the event queue feed the writer."""
    asked = client("sqs").get_queue_attributes(
        QueueUrl=settings.queue_url, AttributeNames=["QueueArn"]
    )
    client("lambda").create_event_source_mapping(
        EventSourceArn=asked["Attributes"]["QueueArn"],
        FunctionName=function_name(settings.name, "writer"),
        **MAPPING,
    )


def make_alarms(settings: Settings, client: Clients) -> None:
    """Make a ticket and a page, and subscribe to their topics; moto confirms that at once."""
    topics = [topic(settings, client, kind) for kind in ("tickets", "alarms")]
    for arn in topics:
        client("sns").subscribe(TopicArn=arn, Protocol="email", Endpoint="night@example.org")
    ticket, page = (f"{settings.name}-{id_}" for id_ in ASKED)
    client("cloudwatch").put_metric_alarm(
        AlarmName=ticket,
        Namespace="AWS/SQS",
        MetricName="ApproximateNumberOfMessagesVisible",
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=0.0,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=topics[:1],
    )
    client("cloudwatch").put_composite_alarm(
        AlarmName=page, AlarmRule=f'ALARM("{ticket}")', AlarmActions=topics[1:]
    )


def topic(settings: Settings, client: Clients, kind: str) -> str:
    """The ARN of a topic, which is made if there is none."""
    return str(client("sns").create_topic(Name=f"{settings.name}-{kind}")["TopicArn"])


def guard(settings: Settings, client: Clients) -> None:
    """Switch the permanent tables' recovery on, and have the queues demand TLS."""
    resources = declare(settings)
    for table in (resources.catalog, resources.totals):
        client("dynamodb").update_continuous_backups(
            TableName=table.name,
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
        )
    for url in (settings.queue_url, settings.dead_letters_url):
        client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy(TLS)})


def policy(*statements: dict[str, Any]) -> str:
    """A policy document of these statements."""
    return json.dumps({"Version": "2012-10-17", "Statement": [*statements]})
