"""The queue and bucket ports on moto's SQS, S3 and CloudWatch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.aws.create_requests import queue_attributes
from tallyroll.adapters.aws.sqs import SqsQueue
from tallyroll.errors import Missing, Refused
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.messages import Message, Rejection
from tallyroll.pipeline import Pipeline
from tallyroll.ports.queue import Invocations
from tallyroll.reasons import Reason
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import SteadyEffects

BUCKET = "tallyroll-archive"


@dataclass(frozen=True)
class Place:
    """A pipeline's queues and bucket, and the raw client with which a test looks inside."""

    made: Pipeline
    sqs: Any

    def dead_letters(self) -> list[dict[str, Any]]:  # attributes included
        found: list[dict[str, Any]] = []
        while messages := self.sqs.receive_message(
            QueueUrl=self.made.settings.dead_letters_url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
        ).get("Messages"):
            found += messages
        return found

    def received(self) -> list[dict[str, Any]]:
        """Up to ten visible messages of the event queue."""
        reply = self.sqs.receive_message(
            QueueUrl=self.made.settings.queue_url, MaxNumberOfMessages=10
        )
        messages: list[dict[str, Any]] = reply.get("Messages", [])
        return messages


@pytest.fixture
def place() -> Iterator[Place]:
    with mock_aws():
        sqs = make_client("sqs")
        resources = declare(Settings())
        dead = sqs.create_queue(
            QueueName=resources.dead_letters.name,
            Attributes=queue_attributes(resources.dead_letters),
        )["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
        url = sqs.create_queue(
            QueueName=resources.queue.name,
            Attributes=queue_attributes(resources.queue, arn["QueueArn"]),
        )["QueueUrl"]
        make_client("s3").create_bucket(Bucket=BUCKET)
        settings = Settings(queue_url=url, dead_letters_url=dead, bucket=BUCKET)
        yield Place(Pipeline(settings, SteadyEffects()), sqs)


def _rejection(body: str, message_id: str = "m-1", detail: str = "no good") -> Rejection:
    message = Message(id=message_id, body=body, sent=1_700_000_000_000, receives=1, receipt="r")
    return Rejection(message, Reason.BAD_KEY, detail, "20261120T080000Z")


def _attributes(message: dict[str, Any]) -> dict[str, str]:
    return {
        name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()
    }


def test_a_rejected_message_keeps_its_body_and_says_why(place: Place) -> None:
    assert place.made.queue.reject([_rejection('{"key": "ü"}')]) == [True]

    (letter,) = place.dead_letters()
    assert letter["Body"] == '{"key": "ü"}'
    assert _attributes(letter) == {
        "tallyroll-reason": "bad-key",
        "tallyroll-detail": "no good",
        "tallyroll-message-id": "m-1",
        "tallyroll-sent": "1700000000000",
        "tallyroll-window": "20261120T080000Z",
    }


def test_an_unknown_window_and_an_unprintable_detail(place: Place) -> None:
    rejection = replace(_rejection("x", detail="\x00" + "é" * 600 + "\ud800"), window=None)
    assert place.made.queue.reject([rejection]) == [True]

    (letter,) = place.dead_letters()
    attributes = _attributes(letter)
    assert "tallyroll-window" not in attributes
    assert attributes["tallyroll-detail"] == "\ufffd" + "é" * 499


@pytest.mark.parametrize(
    "body",
    [
        "",
        "a\x00b",
        "\x0b",
        "lone \ud800 surrogate",
        "\uffff",
        "x" * QUEUE_MESSAGE_BYTES_MAX,  # fits, but not with attributes
        "é" * (QUEUE_MESSAGE_BYTES_MAX // 2),
    ],
    ids=["empty", "nul", "vertical-tab", "surrogate", "noncharacter", "oversize", "oversize-utf8"],
)
def test_a_body_that_cannot_stand_in_the_queue_goes_to_the_bucket(place: Place, body: str) -> None:
    assert place.made.queue.reject([_rejection(body)]) == [True]

    (letter,) = place.dead_letters()
    assert _attributes(letter)["tallyroll-body"] == "s3"
    assert _attributes(letter)["tallyroll-reason"] == "bad-key"
    pointer = json.loads(letter["Body"])
    assert pointer["bucket"] == BUCKET
    assert re.fullmatch(r"rejected/20\d\d-\d\d-\d\d/m-1", pointer["key"])
    stored = place.made.bucket.get(pointer["key"])
    assert stored == body.encode("utf-8", "surrogatepass")
    assert pointer["bytes"] == len(stored)


def test_batches_are_cut_by_number_and_by_size(place: Place) -> None:
    small = [_rejection(f"body {index}", f"small-{index}") for index in range(23)]
    large = [_rejection("x" * 400_000, f"large-{index}") for index in range(5)]
    seen: list[tuple[str, str | None]] = []
    observed = Pipeline(
        place.made.settings, SteadyEffects(), lambda name, _, code: seen.append((name, code))
    )

    assert observed.queue.reject([*small, *large]) == [True] * 28

    # 10 + 10 + 3 small with 2 large + 2 large + 1 large
    assert seen == [("SendMessageBatch", None)] * 5

    letters = place.dead_letters()
    assert sorted(_attributes(letter)["tallyroll-message-id"] for letter in letters) == sorted(
        rejection.message.id for rejection in (*small, *large)
    )
    assert all("tallyroll-body" not in _attributes(letter) for letter in letters)


class _Fussy:
    """An SQS client that refuses bodies with a poison, alone or with the whole batch."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self.taken: list[dict[str, Any]] = []

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        refused = [entry for entry in Entries if "poison" in entry["MessageBody"]]
        if refused and self._whole:
            error: Any = {"Error": {"Code": "InvalidMessageContents", "Message": "no"}}
            raise ClientError(error, "SendMessageBatch")
        taken = [entry for entry in Entries if entry not in refused]
        self.taken += taken
        return {
            "Successful": [{"Id": entry["Id"]} for entry in taken],
            "Failed": [{"Id": entry["Id"], "SenderFault": True} for entry in refused],
        }


@pytest.mark.parametrize("whole", [False, True], ids=["entry", "batch"])
def test_what_the_queue_refuses_all_the_same_goes_to_the_bucket(place: Place, whole: bool) -> None:
    client = _Fussy(whole=whole)
    queue = SqsQueue(
        Caller(client, place.made.effects),
        place.made.effects,
        queue_url="events",
        dead_letters_url="dead",
        bucket=place.made.bucket,
        metrics=place.made.queue_metrics,
    )
    bodies = ("a", "poison 1", "b", "poison 3")
    rejections = [_rejection(body, f"m-{index}") for index, body in enumerate(bodies)]

    assert queue.reject(rejections) == [True] * 4

    assert sorted(
        entry["MessageAttributes"]["tallyroll-message-id"]["StringValue"] for entry in client.taken
    ) == ["m-0", "m-1", "m-2", "m-3"]
    keys = list(place.made.bucket.list("rejected/"))
    assert [key.rpartition("/")[2] for key in keys] == ["m-1", "m-3"]
    assert [place.made.bucket.get(key) for key in keys] == [b"poison 1", b"poison 3"]


def test_what_the_queue_did_not_take_is_said(place: Place) -> None:
    place.sqs.delete_queue(QueueUrl=place.made.settings.dead_letters_url)
    assert place.made.queue.reject([_rejection("x"), _rejection("y")]) == [False, False]


def test_without_a_bucket_only_what_needs_it_is_not_taken(place: Place) -> None:
    settings = replace(place.made.settings, bucket="there-is-none")
    queue = Pipeline(settings, SteadyEffects()).queue
    assert queue.reject([_rejection("", "gone"), _rejection("fits", "there")]) == [False, True]
    (letter,) = place.dead_letters()
    assert letter["Body"] == "fits"


def test_delaying_changes_when_messages_come_again(place: Place) -> None:
    bodies = [f"body {index}" for index in range(12)]
    assert place.made.sender.send(bodies) == []
    received = [message for _ in range(2) for message in place.received()]
    assert len(received) == 12
    assert place.received() == []

    receipts = [(message["ReceiptHandle"], 0) for message in received]
    receipts[3] = (receipts[3][0], 600)
    place.made.queue.delay([("no such receipt", 5), *receipts])

    again = [message["Body"] for _ in range(2) for message in place.received()]
    assert sorted(again) == sorted(set(bodies) - {received[3]["Body"]})


def test_delaying_is_best_effort(place: Place) -> None:
    place.sqs.delete_queue(QueueUrl=place.made.settings.queue_url)
    place.made.queue.delay([("receipt", 5)])
    place.made.queue.delay([])


def test_the_backlog_counts_and_gives_ages(place: Place) -> None:
    place.made.sender.send(["a", "b", "c"])
    received = place.sqs.receive_message(
        QueueUrl=place.made.settings.queue_url, MaxNumberOfMessages=1
    )
    assert len(received["Messages"]) == 1
    now = place.made.effects.now()
    oldest = now // 60_000 * 60_000 - 180_000
    for at, seconds in ((oldest, 7.0), (oldest + 5_000, 3.0), (oldest + 60_000, 0.5)):
        make_client("cloudwatch").put_metric_data(
            Namespace="AWS/SQS",
            MetricData=[
                {
                    "MetricName": "ApproximateAgeOfOldestMessage",
                    "Dimensions": [{"Name": "QueueName", "Value": "tallyroll-events"}],
                    "Timestamp": datetime.fromtimestamp(at / 1000, UTC),
                    "Value": seconds,
                }
            ],
        )

    backlog = place.made.queue.backlog(oldest)

    assert (backlog.visible, backlog.in_flight, backlog.delayed) == (2, 1, 0)
    assert backlog.ages == ((oldest, 7_000), (oldest + 60_000, 500))
    assert place.made.queue.backlog(0).ages == backlog.ages
    assert place.made.queue.backlog(now + 60_000).ages == ()


def _put(namespace: str, name: str, at: int, value: float, **dimensions: str) -> None:
    make_client("cloudwatch").put_metric_data(
        Namespace=namespace,
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
                "Timestamp": datetime.fromtimestamp(at / 1000, UTC),
                "Value": value,
            }
        ],
    )


def test_the_backlog_gives_the_writers_invocations(place: Place) -> None:
    now = place.made.effects.now()
    first = now // 60_000 * 60_000 - 180_000
    ours = {"FunctionName": "tallyroll-writer"}
    for at, name, value in (
        (first, "Invocations", 5),
        (first + 1_000, "Invocations", 4),
        (first, "Errors", 0),
        (first + 60_000, "Invocations", 3),
        (first + 60_000, "Errors", 2),
        (first + 60_000, "Throttles", 7),
        (first + 120_000, "Throttles", 1),
    ):
        _put("AWS/Lambda", name, at, value, **ours)
    _put("AWS/Lambda", "Errors", first, 99, FunctionName="another-writer")
    _put("Tallyroll", "NotesFailed", first, 4, pipeline="tallyroll", service="writer")
    _put("Tallyroll", "NotesFailed", first, 9, pipeline="another", service="writer")

    assert place.made.queue.backlog(first).invocations == ()
    found = place.made.queue.backlog(first, first).invocations
    assert found == (
        Invocations(first + 60_000, 9, 4),
        Invocations(first + 120_000, 10, 9),
        Invocations(first + 180_000, 1, 1),
    )
    assert [each.troubled for each in found] == [True, True, True]


def test_invocations_of_ten_days_are_told_in_longer_periods(place: Place) -> None:
    """One call gives 1,440 datapoints at the most."""
    now = place.made.effects.now()
    since = now - 10 * 86_400_000
    asked: list[Any] = []
    caller = place.made.queue_metrics._caller
    call = caller.read

    def asking(operation: str, /, **params: Any) -> dict[str, Any]:
        asked.append(params)
        return call(operation, **params)

    caller.read = asking  # type: ignore[method-assign]
    _put("AWS/Lambda", "Errors", now - 5 * 86_400_000, 3, FunctionName="tallyroll-writer")
    [only] = place.made.queue.backlog(now, since).invocations
    assert only.failed == 3
    period = {params["Period"] for params in asked if params["Namespace"] != "AWS/SQS"}
    assert period == {660}, "a multiple of the metric's period"  # ages have one of their own
    assert (now - since) / 1000 / 660 <= 1_440


def test_the_age_of_what_was_handed_back(place: Place) -> None:
    now = place.made.effects.now()
    at = now // 60_000 * 60_000 - 120_000
    for seconds in (5, 7200, 60):
        _put("Tallyroll", "OldestHandedBack", at, seconds, pipeline="tallyroll", service="writer")
    assert place.made.queue_metrics.handed_back(at) == ((at, 7_200_000),)


def test_done_messages_are_deleted_before_their_batch_ends(place: Place) -> None:
    assert place.made.sender.send([f"body {index}" for index in range(12)]) == []
    received = [message for _ in range(2) for message in place.received()]
    receipts = [message["ReceiptHandle"] for message in received]
    place.made.queue.acknowledge(["no such receipt", *receipts[:11]])
    assert place.made.queue.counts().total == 1
    place.made.queue.delay([(receipts[11], 0)])
    assert [message["Body"] for message in place.received()] == [received[11]["Body"]]
    place.made.queue.acknowledge([])


def test_acknowledging_is_best_effort(place: Place) -> None:
    place.sqs.delete_queue(QueueUrl=place.made.settings.queue_url)
    place.made.queue.acknowledge(["receipt"])


def test_no_backlog_without_a_queue(place: Place) -> None:
    place.sqs.delete_queue(QueueUrl=place.made.settings.queue_url)
    with pytest.raises(Missing):
        place.made.queue.backlog(0)


def test_the_producer_names_what_was_not_taken(place: Place) -> None:
    failures = place.made.sender.send(iter(["a", "", "b", "c\x00", "x" * 1_048_577, "d"]))
    assert [failure.index for failure in failures] == [1, 3, 4]
    assert [message["Body"] for message in place.received()] == ["a", "b", "d"]

    place.sqs.delete_queue(QueueUrl=place.made.settings.queue_url)
    failures = place.made.sender.send(["a", "b"])
    assert [(failure.index, failure.body) for failure in failures] == [(0, "a"), (1, "b")]
    assert all("NonExistentQueue" in failure.detail for failure in failures)


def test_the_bucket_keeps_objects(place: Place) -> None:
    bucket = place.made.bucket
    whole = bytes(range(256)) * 4_096
    bucket.put("a/2", whole)
    bucket.put("a/10", b"")
    bucket.put("b", b"x")

    assert bucket.name == BUCKET
    assert bucket.get("a/2") == b"".join(bucket.stream("a/2")) == whole
    assert len(list(bucket.stream("a/2"))) > 1
    assert bucket.get("a/10") == b"".join(bucket.stream("a/10")) == b""
    assert list(bucket.list("a/")) == ["a/10", "a/2"]
    assert list(bucket.list("c")) == []
    with pytest.raises(Missing):
        bucket.get("c")
    with pytest.raises(Missing):
        next(iter(bucket.stream("c")))


def test_a_listing_goes_on_over_pages(place: Place) -> None:
    raw = make_client("s3")
    keys = [f"many/{index:04d}" for index in range(1_003)]
    for key in keys:
        raw.put_object(Bucket=BUCKET, Key=key, Body=b"")
    assert list(place.made.bucket.list("many/", after=keys[1])) == keys[2:]


def test_a_bucket_of_a_bad_name_is_refused(place: Place) -> None:
    settings = replace(place.made.settings, bucket="")
    with pytest.raises(Refused):
        Pipeline(settings, SteadyEffects()).bucket.put("a", b"")
