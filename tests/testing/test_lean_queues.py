"""Lean queues do what moto's do, and a call costs the same however many messages they hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from threading import Condition, RLock
from typing import Any, cast
from uuid import uuid4

import boto3
import pytest
import time_machine
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.sqs import models

from tallyroll.testing import lean_sqs
from tallyroll.testing.lean_sqs import (
    HANDLES_MAX,
    LeanQueue,
    RecentHandles,
    RememberingQueue,
    lean_queues,
)

MakeQueue = Callable[..., str]
Clock = Any  # of time_machine, whose type has no public name
NOW_S = 1_795_163_400


@pytest.fixture
def clock() -> Iterator[Clock]:
    with time_machine.travel(NOW_S, tick=False) as clock:
        yield clock


@pytest.fixture
def sqs(clock: Clock) -> Iterator[Any]:
    with mock_aws(), lean_queues("lean"):
        yield boto3.client("sqs", region_name="us-east-1")


@pytest.fixture
def make_queue(sqs: Any) -> MakeQueue:
    def make(name: str = "lean", **attributes: str) -> str:
        url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    return make


def bodies(sqs: Any, url: str, **more: Any) -> list[str]:
    reply = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **more)
    return [message["Body"] for message in reply.get("Messages", [])]


def receive(sqs: Any, url: str, **more: Any) -> dict[str, Any]:
    (message,) = sqs.receive_message(QueueUrl=url, **more)["Messages"]
    return cast("dict[str, Any]", message)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"VisibilityTimeout": "7", "KmsMasterKeyId": "alias/mine"},
        {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    ],
)
def test_a_lean_queue_has_the_attributes_of_motos(options: dict[str, str]) -> None:
    name = "q.fifo" if "FifoQueue" in options else "q"
    kinds: list[Any] = [models.Queue, LeanQueue]
    queues = [kind(name, "us-east-1", "123456789012", **options) for kind in kinds]
    for queue in queues:
        queue.created_timestamp = queue.last_modified_timestamp = 0
        for body in "abc":
            message = models.Message(str(uuid4()), body)
            message.mark_sent()
            queue._messages.append(message)
    plain, lean = (queue.attributes for queue in queues)
    assert {name: lean[name] for name in lean} == plain
    assert len(lean) == len(plain)
    assert [name for name in (*plain, "Nonsense") if name in lean] == list(plain)
    assert lean.get("Nonsense") is None


def test_a_call_costs_the_same_with_a_thousand_times_the_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in looks at messages, which moto takes hundreds of thousands of for each call."""
    looks = 0

    def look(message: Any, name: str) -> Any:
        nonlocal looks
        looks += 1
        return object.__getattribute__(message, name)

    def looks_of_calls(queued: int) -> int:
        nonlocal looks
        backend, kind = models.SQSBackend("us-east-1", "123456789012"), cast("Any", LeanQueue)
        queue = backend.queues["q"] = kind("q", "us-east-1", "123456789012")
        for _ in range(queued):
            backend.send_message("q", "body")
        looks = 0
        backend.send_message("q", "one more")
        first, second = lean_sqs.receive_message(backend, "q", 2, 0, 30)
        lean_sqs.change_visibility_of(backend, "q", str(first.receipt_handle), 60)
        queue.delete_message(str(second.receipt_handle))
        assert queue.attributes["ApproximateNumberOfMessages"] == queued - 1
        assert queue.attributes["ApproximateNumberOfMessagesNotVisible"] == 1
        assert queue.oldest_sent()
        return looks

    monkeypatch.setattr(models.Message, "__getattribute__", look, raising=False)
    few, many = looks_of_calls(20), looks_of_calls(20_000)
    assert 0 < many <= few


def test_receipt_handles_are_bounded() -> None:
    handles = RecentHandles()
    handles.update(str(number) for number in range(HANDLES_MAX + 5))
    assert len(handles) == HANDLES_MAX
    assert "4" not in handles
    assert "5" in handles


def test_only_queues_of_the_prefix_are_lean(sqs: Any, make_queue: MakeQueue) -> None:
    make_queue()
    make_queue("other")
    kinds = [
        type(queue) for queue in models.sqs_backends["123456789012"]["us-east-1"].queues.values()
    ]
    assert kinds[0] is RememberingQueue
    assert not issubclass(kinds[1], LeanQueue)


def test_a_message_received_too_often_goes_to_the_dead_letters(
    sqs: Any, make_queue: MakeQueue, clock: Clock
) -> None:
    dead = make_queue("lean-dead")
    asked = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": asked["Attributes"]["QueueArn"], "maxReceiveCount": 2}
    url = make_queue(VisibilityTimeout="30", RedrivePolicy=json.dumps(policy))
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]
    assert json.loads(told["RedrivePolicy"]) == policy
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        assert bodies(sqs, url) == ["poison"]
        assert bodies(sqs, url) == []
        clock.shift(31)
    assert bodies(sqs, url) == []
    assert bodies(sqs, dead) == ["poison"]


def test_messages_older_than_the_retention_are_gone(
    sqs: Any, make_queue: MakeQueue, clock: Clock
) -> None:
    url = make_queue(MessageRetentionPeriod="60")
    sqs.send_message(QueueUrl=url, MessageBody="old")
    clock.shift(40)
    sqs.send_message(QueueUrl=url, MessageBody="new")
    clock.shift(40)
    assert bodies(sqs, url) == ["new"]


def test_a_message_is_deleted_under_any_handle_and_more_than_once(
    sqs: Any, make_queue: MakeQueue
) -> None:
    url = make_queue(VisibilityTimeout="0")
    sqs.send_message(QueueUrl=url, MessageBody="once")
    first = receive(sqs, url)["ReceiptHandle"]
    second = receive(sqs, url)["ReceiptHandle"]
    for handle in (first, first, second):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    assert bodies(sqs, url) == []
    with pytest.raises(ClientError, match="ReceiptHandleIsInvalid"):
        sqs.delete_message(QueueUrl=url, ReceiptHandle="none of its")


def test_the_visibility_of_a_message_is_changed(
    sqs: Any, make_queue: MakeQueue, clock: Clock
) -> None:
    url = make_queue(VisibilityTimeout="30")
    sqs.send_message(QueueUrl=url, MessageBody="m")
    handle = receive(sqs, url)["ReceiptHandle"]

    def change(to_s: int, handle: str = handle) -> None:
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=to_s)

    change(100)
    clock.shift(99)
    assert bodies(sqs, url) == []
    clock.shift(2)
    assert bodies(sqs, url) == ["m"]
    clock.shift(10)
    change(0)
    clock.shift(0.01)
    assert bodies(sqs, url) == ["m"]
    clock.shift(5)
    with pytest.raises(ClientError, match=r"beyond the limit \[43200 seconds\]"):
        change(12 * 3600)
    with pytest.raises(ClientError, match="ReceiptHandleIsInvalid"):
        change(0, "none of its")


def test_a_fifo_queue_keeps_the_ways_of_moto(sqs: Any, make_queue: MakeQueue, clock: Clock) -> None:
    url = make_queue("lean.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    for body in ("a", "a", "b"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
    first = receive(sqs, url)
    assert first["Body"] == "a"
    handle = {"QueueUrl": url, "ReceiptHandle": first["ReceiptHandle"]}
    sqs.change_message_visibility(**handle, VisibilityTimeout=0)
    clock.shift(1)
    again = receive(sqs, url)
    assert (again["Body"], again["MessageId"]) == ("a", first["MessageId"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert bodies(sqs, url) == ["b"]


def test_only_the_attributes_that_are_asked_for_are_given(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(VisibilityTimeout="0")
    given = {"trace": {"DataType": "String", "StringValue": "t"}}
    sqs.send_message(QueueUrl=url, MessageBody="m", MessageAttributes=given)
    assert "MessageAttributes" not in receive(sqs, url)
    told = receive(sqs, url, MessageAttributeNames=["trace"])["MessageAttributes"]
    assert told["trace"]["StringValue"] == "t"


def test_a_purged_queue_is_empty(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue()
    sqs.send_message(QueueUrl=url, MessageBody="m")
    sqs.purge_queue(QueueUrl=url)
    assert bodies(sqs, url) == []


@pytest.fixture
def lean(clock: Clock) -> Iterator[tuple[models.SQSBackend, Any]]:
    """A backend of moto with one lean queue, as the local server makes it."""
    turn = Condition(RLock())
    with pytest.MonkeyPatch.context() as patch:  # `install` is for a process of its own
        patch.setattr(models, "Queue", models.Queue)
        patch.setitem(vars(models), "generate_receipt_handle", None)
        for name in ("receive_message", "change_message_visibility"):
            patch.setattr(models.SQSBackend, name, getattr(models.SQSBackend, name))
        lean_sqs.install(turn)
        backend = models.SQSBackend("us-east-1", "123456789012")
        queue: Any = backend.create_queue("q", {})
        assert queue._messages_lock is turn
        yield backend, queue


def test_the_age_of_a_queue_leaves_out_what_was_received_three_times(
    lean: tuple[models.SQSBackend, Any], clock: Clock
) -> None:
    backend, queue = lean
    assert queue.oldest_sent() is None
    backend.send_message("q", "poison")
    for _ in range(3):
        assert queue.oldest_sent() == NOW_S * 1000
        clock.shift(0.01)
        assert len(queue.take(1, 0)) == 1
    clock.shift(10)
    assert queue.oldest_sent() == (NOW_S + 10) * 1000 + 30
    backend.send_message("q", "fresh")
    clock.shift(10)
    assert queue.oldest_sent() == (NOW_S + 10) * 1000 + 30


def test_what_is_deleted_or_hidden_while_it_could_be_received_is_not(
    lean: tuple[models.SQSBackend, Any], clock: Clock
) -> None:
    backend, queue = lean
    for body in "abc":
        backend.send_message("q", body)
    clock.shift(1)
    a, b, c = queue.take(3, 0)
    clock.shift(1)
    assert queue.approximate_number_of_messages == 3
    queue.change_visibility(a.receipt_handle, 0)
    queue.delete_message(b.receipt_handle)
    queue.change_visibility(c.receipt_handle, 60)
    clock.shift(1)
    assert [message.body for message in queue.take(3, 60)] == ["a"]
    assert queue.approximate_number_of_messages_not_visible == 2


def test_when_the_next_message_can_be_received(clock: Clock) -> None:
    kind: Any = RememberingQueue
    queue = kind("q", "us-east-1", "123456789012")
    assert queue.next_ready_at() is None
    message = models.Message(str(uuid4()), "m")
    message.mark_sent(delay_seconds=20)
    queue.add_message(message)
    assert queue.next_ready_at() == (NOW_S + 20) * 1000
    clock.shift(21)
    assert queue.next_ready_at() == 0
    queue.take(1, 60)
    assert queue.next_ready_at() == (NOW_S + 81) * 1000
    queue.delete_message(message.receipt_handle)
    assert queue.next_ready_at() is None
