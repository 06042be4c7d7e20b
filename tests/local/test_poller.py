"""The poller: Lambda's contract with a queue and a function, and faults on purpose."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import local.runtime.poller
from local.aws.embedded import Embedded
from local.demo.backpressure import queue_depth
from local.runtime.poller import Faults, Polled, Poller, _Batch, failed_ids
from local.runtime.pool import KILLED, FunctionError

MakeQueue = Callable[..., str]
Send = Callable[[str, list[str]], list[str]]


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """`stop` waits for the long polls under way, which would take most of these tests' time."""
    monkeypatch.setattr(local.runtime.poller, "LONG_POLL_S", 0)


class Stub:
    """A function that keeps its events; `answer` makes its responses, and may raise."""

    def __init__(self, answer: Callable[[list[dict[str, Any]]], Any] = lambda _records: None):
        self.batches: list[list[dict[str, Any]]] = []
        self._answer = answer

    def invoke(self, event: Any, *, kill_after_ms: float | None = None) -> Any:
        self.batches.append(event["Records"])
        if kill_after_ms is not None:
            raise FunctionError(KILLED, "as told")
        return self._answer(event["Records"])

    @property
    def bodies(self) -> Counter[str]:
        return Counter(record["body"] for batch in self.batches for record in batch)


def poll(
    aws: Embedded, url: str, stub: Stub, done: Callable[[Polled], bool], **options: Any
) -> Polled:
    """Poll until `done`, for two minutes at the most."""
    poller = Poller(aws.client("sqs"), url, stub, **options).start()
    until = time.monotonic() + 120
    while not done(poller.polled) and time.monotonic() < until:
        time.sleep(0.02)
    poller.stop()
    assert done(poller.polled), poller.polled
    return poller.polled


def depth(aws: Embedded, url: str) -> int:
    return queue_depth(aws.client("sqs"), url)


def failing(*bodies: str) -> Callable[[list[dict[str, Any]]], Any]:
    return lambda records: {
        "batchItemFailures": [
            {"itemIdentifier": record["messageId"]}
            for record in records
            if record["body"] in bodies
        ]
    }


def test_the_event(aws: Embedded, make_queue: MakeQueue) -> None:
    url = make_queue()
    attributes = {
        "text": {"DataType": "String", "StringValue": "é"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
    }
    before = int(time.time() * 1000)
    sent = aws.client("sqs").send_message(
        QueueUrl=url, MessageBody="hello", MessageAttributes=attributes
    )
    stub = Stub()
    poll(aws, url, stub, lambda polled: polled.deleted == 1)
    [[record]] = stub.batches
    assert record["messageId"] == sent["MessageId"]
    assert record["body"] == "hello"
    assert record["md5OfBody"] == sent["MD5OfMessageBody"]
    assert record["receiptHandle"]
    assert record["attributes"]["ApproximateReceiveCount"] == "1"
    assert abs(int(record["attributes"]["SentTimestamp"]) - before) < 5_000
    assert {"SenderId", "ApproximateFirstReceiveTimestamp"} <= set(record["attributes"])
    assert record["messageAttributes"]["text"]["stringValue"] == "é"
    assert record["messageAttributes"]["bytes"]["binaryValue"] == "AAE="
    assert record["messageAttributes"]["bytes"]["dataType"] == "Binary"
    assert record["eventSource"] == "aws:sqs"
    assert record["eventSourceARN"].startswith("arn:aws:sqs:us-east-1:123456789012:q-")
    assert record["awsRegion"] == "us-east-1"


def test_a_batch_is_gathered_from_several_receives(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    url, stub = make_queue(), Stub()
    send(url, [str(number) for number in range(55)])
    options = {"batch_size": 25, "window_s": 0.3, "concurrency": 1}
    polled = poll(aws, url, stub, lambda polled: polled.deleted == 55, **options)
    assert [len(batch) for batch in stub.batches] == [25, 25, 5]
    assert polled == Polled(batches=3, received=55, deleted=55, ended=3)
    assert depth(aws, url) == 0


def test_partial_failures_stay_in_the_queue(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    url, stub = make_queue(VisibilityTimeout="600"), Stub(failing("bad"))
    send(url, ["good", "bad", "fine"])
    polled = poll(aws, url, stub, lambda polled: polled.deleted == 2)
    assert polled.failed == 1
    assert depth(aws, url) == 1


def test_failures_come_again_after_their_visibility_timeout(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    url = make_queue(VisibilityTimeout="1")
    stub = Stub(lambda records: failing("bad")(records) if len(stub.batches) == 1 else None)
    send(url, ["good", "bad"])
    poll(aws, url, stub, lambda polled: polled.deleted == 2, window_s=0.05)
    assert stub.bodies == {"good": 1, "bad": 2}
    assert stub.batches[-1][0]["attributes"]["ApproximateReceiveCount"] == "2"


@pytest.mark.parametrize(
    "answer",
    [
        {"batchItemFailures": [{"itemIdentifier": "nobody's"}]},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"identifier": "a"}]},
        {"batchItemFailures": ["a"]},
        {"batchItemFailures": "a"},
        {"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "nobody's"}]},
        ["a"],
        "",
    ],
)
def test_a_malformed_answer_fails_the_whole_batch(answer: Any) -> None:
    assert failed_ids(answer, {"a", "b"}) == {"a", "b"}


@pytest.mark.parametrize(
    "answer", [None, {}, {"batchItemFailures": []}, {"batchItemFailures": None}]
)
def test_an_empty_answer_is_a_success(answer: Any) -> None:
    assert failed_ids(answer, {"a", "b"}) == set()


def test_an_error_leaves_the_whole_batch(aws: Embedded, make_queue: MakeQueue, send: Send) -> None:
    def raises(_records: Any) -> Any:
        raise FunctionError("Boom", "as told")

    url, told = make_queue(VisibilityTimeout="600"), list[str]()
    send(url, ["a", "b"])
    polled = poll(aws, url, Stub(raises), lambda polled: polled.errors > 0, on_error=told.append)
    assert (polled.deleted, polled.killed) == (0, 0)
    assert told[0] == "Boom: as told"
    assert depth(aws, url) == 2


def test_redelivery_brings_each_message_again_once(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    url, stub = make_queue(), Stub()
    bodies = [str(number) for number in range(30)]
    send(url, bodies)
    faults = Faults(redeliver=1.0, again_after_s=0)
    polled = poll(aws, url, stub, lambda polled: polled.deleted == 30, faults=faults)
    assert stub.bodies == dict.fromkeys(bodies, 2)
    assert polled.redelivered == 30
    assert depth(aws, url) == 0


def test_a_share_is_redelivered_the_same_with_the_same_seed(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    runs = []
    for _ in range(2):
        url, stub = make_queue(), Stub()
        send(url, [str(number) for number in range(40)])
        faults = Faults(seed=7, redeliver=0.3, again_after_s=0)
        options = {"faults": faults, "concurrency": 1, "batch_size": 40, "window_s": 0.5}
        poll(aws, url, stub, lambda polled: polled.deleted == 40, **options)
        runs.append(sorted(body for body, times in stub.bodies.items() if times == 2))
    assert runs[0] == runs[1]
    assert 3 <= len(runs[0]) <= 25


def test_a_kill_hits_a_message_once_at_the_most(
    aws: Embedded, make_queue: MakeQueue, send: Send
) -> None:
    url, stub = make_queue(), Stub()
    bodies = [str(number) for number in range(20)]
    send(url, bodies)
    faults = Faults(kill=1.0, again_after_s=0)
    polled = poll(aws, url, stub, lambda polled: polled.deleted == 20, faults=faults)
    # A batch into which a killed one's messages come is spared, and so are those beside them.
    assert set(stub.bodies) == set(bodies)
    assert max(stub.bodies.values()) == 2
    assert polled.killed >= 1
    assert polled.errors == 0


def test_a_queue_that_is_gone_is_told_and_not_fatal(aws: Embedded, make_queue: MakeQueue) -> None:
    url, told = make_queue(), list[str]()
    poller = Poller(aws.client("sqs"), url, Stub(), on_error=told.append)
    aws.client("sqs").delete_queue(QueueUrl=url)
    poller.start()
    until = time.monotonic() + 120
    while poller.polled.errors < 3 and time.monotonic() < until:
        time.sleep(0.02)
    poller.stop()
    assert poller.polled.errors >= 3
    assert "NonExistentQueue" in told[0]


def test_a_batch_stays_under_the_payload_limit() -> None:
    messages = [{"Body": "x" * 1_000_000} for _ in range(10)]
    batch = _Batch(100)
    rest = batch.take(messages)
    assert (len(batch.messages), len(rest)) == (6, 4)
    few = _Batch(3)
    assert (len(few.take(messages)), few.full) == (7, True)
