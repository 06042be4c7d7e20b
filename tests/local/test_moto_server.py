"""The moto server: lean queues that behave as moto's, the metric of ages, and bounded memory."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.utils import utcnow

from local.aws.embedded import Embedded
from local.aws.moto_server import DATAPOINTS_KEPT, UNSIGNED, forget
from local.demo.backpressure import queue_depth

MakeQueue = Callable[..., str]
Send = Callable[[str, list[str]], list[str]]


def ages(aws: Embedded, url: str) -> list[float]:
    """The ages published for a queue in the last ten minutes, ascending by time."""
    now = datetime.now(UTC)
    reply = aws.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SQS",
        MetricName="ApproximateAgeOfOldestMessage",
        Dimensions=[{"Name": "QueueName", "Value": url.rpartition("/")[2]}],
        StartTime=now - timedelta(minutes=10),
        EndTime=now + timedelta(seconds=1),
        Period=1,
        Statistics=["Maximum"],
    )
    points = sorted(reply["Datapoints"], key=lambda point: point["Timestamp"])
    return [point["Maximum"] for point in points]


def await_ages(aws: Embedded, url: str, number: int) -> None:
    """Wait until so many ages of a queue are published."""
    until = time.monotonic() + 120
    while len(ages(aws, url)) < number:
        assert time.monotonic() < until, f"{len(ages(aws, url))} of {number} ages were published"
        time.sleep(0.1)


def receive_all(sqs: Any, url: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    while True:
        reply = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        if not reply.get("Messages"):
            return messages
        messages += reply["Messages"]


def delete(sqs: Any, url: str, messages: list[dict[str, Any]]) -> list[str]:
    failed: list[str] = []
    for at in range(0, len(messages), 10):
        entries = [
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
            for number, message in enumerate(messages[at : at + 10])
        ]
        failed += sqs.delete_message_batch(QueueUrl=url, Entries=entries).get("Failed", [])
    return failed


def test_the_redrive_policy_moves_messages(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    sqs, dead = aws.client("sqs"), make_queue()
    asked = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": asked["Attributes"]["QueueArn"], "maxReceiveCount": 1}
    url = make_queue(VisibilityTimeout="0", RedrivePolicy=json.dumps(policy))
    [sent] = send(url, ["poison"])
    assert len(sqs.receive_message(QueueUrl=url)["Messages"]) == 1
    time.sleep(0.01)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    [message] = receive_all(sqs, dead)
    assert (message["MessageId"], message["Body"]) == (sent, "poison")


def test_ages_are_published_for_queues_that_hold_messages(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    sqs = aws.client("sqs")
    idle, busy, poisoned = make_queue(), make_queue(), make_queue(VisibilityTimeout="0")
    began = time.monotonic()
    send(busy, ["old"])
    send(poisoned, ["poison"])
    for _ in range(3):
        assert sqs.receive_message(QueueUrl=poisoned)["Messages"]
        time.sleep(0.01)
    # In flight counts as well.
    received = sqs.receive_message(QueueUrl=busy)["Messages"]
    await_ages(aws, busy, 3)
    assert ages(aws, idle) == []
    growing = ages(aws, busy)
    assert growing == sorted(growing)
    assert growing[0] < growing[-1] <= time.monotonic() - began + 1
    # What was received three times is the older one, and counts no more.
    before, sent = len(ages(aws, poisoned)), time.monotonic()
    send(poisoned, ["fresh"])
    await_ages(aws, poisoned, before + 1)
    assert ages(aws, poisoned)[before] <= time.monotonic() - sent + 1
    # One look may have begun before the message was deleted; none begins after that.
    delete(sqs, busy, received)
    await_ages(aws, poisoned, before + 3)
    published = len(ages(aws, busy))
    await_ages(aws, poisoned, before + 5)
    assert len(ages(aws, busy)) == published


def test_nothing_is_lost_under_threads(aws: Embedded, make_queue: MakeQueue, send: Send) -> None:
    url, sqs = make_queue(), aws.client("sqs")
    counted, lock, sending = list[str](), threading.Lock(), threading.Event()

    def consume() -> None:
        while True:
            messages = receive_all(sqs, url)
            assert delete(sqs, url, messages) == []
            with lock:
                counted.extend(message["MessageId"] for message in messages)
            if sending.is_set() and not messages:
                return

    with ThreadPoolExecutor(5) as pool:
        consumers = [pool.submit(consume) for _ in range(2)]
        senders = [pool.submit(send, url, ["x"] * 200) for _ in range(3)]
        sent = [message for sender in senders for message in sender.result()]
        sending.set()
        for consumer in consumers:
            consumer.result()
    assert sorted(counted) == sorted(sent)
    assert queue_depth(sqs, url) == 0


def test_a_long_poll_waits_and_lets_others_work(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    url, sqs = make_queue(), aws.client("sqs")
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=10)
        time.sleep(0.3)
        send(url, ["at last"])
        [message] = waiting.result()["Messages"]
    assert message["Body"] == "at last"
    assert 0.3 <= time.monotonic() - started < 10


def test_objects_large_and_small(aws: Embedded) -> None:
    s3, bucket = aws.client("s3"), aws.settings.bucket
    bodies = {"a/é-1": b"small", "a/2": bytes(range(256)) * 8_000, "b": b""}
    for key, body in bodies.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    for key, body in bodies.items():
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == body
    listed = s3.list_objects_v2(Bucket=bucket, Prefix="a/")["Contents"]
    assert [entry["Key"] for entry in listed] == ["a/2", "a/é-1"]


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({}, "text/xml"),
        ({"Authorization": "Basic bG9jYWw6bG9jYWw="}, "text/xml"),
        ({"X-Amz-Target": "AmazonSQS.SendMessage"}, "application/x-amz-json-1.0"),
    ],
)
def test_unsigned_requests_are_told_to_sign(
    aws: Embedded, headers: dict[str, str], kind: str
) -> None:
    request = urllib.request.Request(aws.settings.queue_url, b'{"key": "a"}', headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    with caught.value as answer:
        said = answer.read().decode()
        assert (answer.code, answer.headers["content-type"]) == (403, kind)
    assert "MissingAuthenticationToken" in said
    assert UNSIGNED in said


def test_a_signature_may_be_in_the_query(aws: Embedded) -> None:
    s3, bucket = aws.client("s3"), aws.settings.bucket
    s3.put_object(Bucket=bucket, Key="signed", Body=b"there")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "signed"})
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"there"


def test_deleted_messages_are_forgotten(aws: Embedded, make_queue: MakeQueue, send: Send) -> None:
    url, sqs = make_queue(), aws.client("sqs")
    send(url, ["x"] * 100)
    messages = receive_all(sqs, url)
    assert delete(sqs, url, messages) == delete(sqs, url, messages) == []
    dashboard = f"{aws.environment['AWS_ENDPOINT_URL']}/moto-api/data.json"
    until, kept = time.monotonic() + 120, -1
    while kept and time.monotonic() < until:
        time.sleep(0.1)
        with urllib.request.urlopen(dashboard) as told:
            kept = len(json.load(told)["sqs"]["Message"])
    assert kept == 0


def test_datapoints_are_bounded() -> None:
    backend, now = cloudwatch_backends["123456789012"]["us-east-1"], utcnow()
    times = [now - DATAPOINTS_KEPT - timedelta(seconds=1), now - DATAPOINTS_KEPT, now]
    for at in times:
        backend.put_metric_data("Test", [{"MetricName": "m", "Value": 1, "Timestamp": at}])
    forget(now)
    assert [datum.timestamp for datum in backend.metric_data] == times[1:]
    backend.metric_data.clear()
