"""What every dead-letter queue promises the operator, on moto's SQS and in memory; and what is told
by SQS's attributes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.aws.create_requests import queue_attributes
from tallyroll.adapters.aws.lambda_events import sqs_messages
from tallyroll.adapters.aws.s3 import S3Bucket
from tallyroll.adapters.aws.sqs_dead_letters import SqsDeadLetters
from tallyroll.adapters.memory import MemoryBucket, MemoryDeadLetters, MemoryQueue
from tallyroll.errors import Missing, StoreError
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.messages import Message, RedriveMark, Rejection
from tallyroll.operations.dead_letter_scan import DeadLetterScan
from tallyroll.pipeline import Pipeline
from tallyroll.ports.backoff import REQUEST
from tallyroll.ports.dead_letters import DeadLetters, Resend
from tallyroll.ports.queue import Queue
from tallyroll.reasons import Reason
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tallyroll.testing.lean_sqs import lean_queues
from tallyroll.testing.queues import queue_at
from tests.contract.engines import SteadyEffects

BUCKET = "tallyroll-archive"
SENT = 1_700_000_000_000
WINDOW = "20261120T080000Z"
REDRIVE = RedriveMark("20261120T090000Z", "first", SENT - 5)


@dataclass
class Place:
    """A queue, its dead letters, and what the writer would receive."""

    letters: DeadLetters
    queue: Queue
    received: Callable[[], list[Message]]
    sqs: Any = None
    settings: Settings | None = None


@pytest.fixture
def sqs() -> Iterator[Place]:
    """The queues of a pipeline on moto."""
    with mock_aws(), lean_queues("tallyroll"):
        client = make_client("sqs")
        resources = declare(Settings())
        dead = client.create_queue(
            QueueName=resources.dead_letters.name,
            Attributes=queue_attributes(resources.dead_letters),
        )["QueueUrl"]
        arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
        url = client.create_queue(
            QueueName=resources.queue.name,
            Attributes=queue_attributes(replace(resources.queue, max_receives=1), arn["QueueArn"]),
        )["QueueUrl"]
        make_client("s3").create_bucket(Bucket=BUCKET)
        settings = Settings(queue_url=url, dead_letters_url=dead, bucket=BUCKET)
        made = Pipeline(settings, SteadyEffects())

        def received() -> list[Message]:
            reply = client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            return sqs_messages({"Records": list(map(_record, reply.get("Messages", [])))})

        yield Place(_on_sqs(made.effects, url, dead), made.queue, received, client, settings)


def _on_sqs(effects: Any, url: str, dead: str) -> SqsDeadLetters:
    return SqsDeadLetters(
        Caller(make_client("sqs"), effects),
        effects,
        queue_url=url,
        dead_letters_url=dead,
        bucket=S3Bucket(Caller(make_client("s3"), effects), effects, BUCKET),
        wait_seconds=0,
    )


def _record(message: dict[str, Any]) -> dict[str, Any]:
    """A received message as Lambda hands it to the writer."""
    attributes = {
        name: {"stringValue": value["StringValue"], "dataType": "String"}
        for name, value in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": attributes,
    }


@pytest.fixture(params=["memory", "moto"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each kind of queue in turn."""
    if request.param == "moto":
        found = request.getfixturevalue("sqs")
        assert isinstance(found, Place)
        return found
    effects = SteadyEffects()
    queue = MemoryQueue(effects)
    return Place(MemoryDeadLetters(queue, effects), queue, queue.receive)


def _rejection(number: int = 1, **facts: Any) -> Rejection:
    message = Message(f"m-{number}", f"body {number}", SENT, 1, "r", **facts)
    return Rejection(message, Reason.TOO_LATE, "why", WINDOW)


def _only(letters: DeadLetters) -> ReceivedLetter:
    (letter,) = letters.peek(10, 60)
    return letter


def test_a_letter_tells_all_that_the_writer_knew(place: Place) -> None:
    place.queue.reject([_rejection()])
    letter = _only(place.letters)
    assert (letter.body, letter.reason, letter.detail, letter.window) == (
        "body 1",
        "too-late",
        "why",
        WINDOW,
    )
    assert (letter.first_id, letter.first_sent, letter.target) == ("m-1", SENT, None)
    assert letter.id != "m-1"
    assert letter.receives == 1
    assert letter.arrived > SENT
    assert place.letters.body(letter) == "body 1"


def test_the_letter_of_a_redriven_message_keeps_what_a_redrive_needs(place: Place) -> None:
    place.queue.reject([_rejection(redrive=REDRIVE)])
    letter = _only(place.letters)
    assert (letter.first_id, letter.first_sent, letter.target) == (
        "first",
        SENT - 5,
        REDRIVE.target,
    )


def test_looks_lose_nothing(place: Place) -> None:
    place.queue.reject([_rejection(number) for number in range(23)])
    for _ in range(2):
        scan = DeadLetterScan(place.letters, SteadyEffects(), 100)
        batches: list[list[ReceivedLetter]] = []
        scan.each(batches.append)
        found = [letter.first_id for batch in batches for letter in batch]
        assert sorted(found) == sorted(f"m-{number}" for number in range(23))
        assert scan.missed == 0
        counts = place.letters.count()
        assert (counts.visible, counts.in_flight) == (0, 23)
        scan.close()
        assert place.letters.count().visible == 23


def test_deleted_letters_are_gone(place: Place) -> None:
    place.queue.reject([_rejection(number) for number in range(12)])
    letters = place.letters.peek(10, 60) + place.letters.peek(10, 60)
    assert place.letters.delete(letters[:11]) == [True] * 11
    place.letters.give_back(letters[11:])
    assert _only(place.letters).id == letters[11].id
    assert place.letters.delete([]) == []


def test_a_resent_message_arrives_with_its_redrive(place: Place) -> None:
    resends = [Resend(f"body {number}", replace(REDRIVE, id=f"f-{number}")) for number in range(12)]
    assert place.letters.resend(resends) == [""] * 12
    arrived = place.received() + place.received()
    assert sorted((m.body, m.first_id, m.first_sent, m.redrive) for m in arrived) == sorted(
        (resend.body, resend.redrive.id, SENT - 5, resend.redrive) for resend in resends
    )
    assert all(message.sent > SENT for message in arrived)


# --- on SQS


def test_what_the_fuse_moves_keeps_its_id_and_attributes(sqs: Place) -> None:
    assert sqs.settings
    sent = sqs.sqs.send_message(QueueUrl=sqs.settings.queue_url, MessageBody="new")
    sqs.letters.resend([Resend("redriven", REDRIVE)])
    for message in sqs.received():
        sqs.queue.delay([(message.receipt, 0)])
    assert sqs.received() == []
    new, redriven = sorted(sqs.letters.peek(10, 60), key=lambda letter: letter.body)
    assert (new.why, new.first_id, new.target) == ("undelivered", sent["MessageId"], None)
    assert new.first_sent == new.arrived
    assert (redriven.why, redriven.first_id, redriven.target) == (
        "undelivered",
        "first",
        REDRIVE.target,
    )
    assert redriven.untold.first_id == redriven.id


def test_a_body_in_the_bucket_is_fetched(sqs: Place) -> None:
    body = "x" * QUEUE_MESSAGE_BYTES_MAX
    rejection = _rejection()
    sqs.queue.reject([replace(rejection, message=replace(rejection.message, body=body))])
    letter = _only(sqs.letters)
    assert letter.pointer
    assert letter.pointer.bucket == BUCKET
    assert sqs.letters.body(letter) == body
    why = sqs.letters.resend([Resend(body, REDRIVE), Resend("fits", REDRIVE)])
    assert why == ["the queue takes no such message: empty, over 1 MiB, or not text", ""]
    make_client("s3").delete_object(Bucket=BUCKET, Key=letter.pointer.key)
    with pytest.raises(Missing):
        sqs.letters.body(letter)


def _attributes(**texts: str) -> dict[str, Any]:
    return {
        f"tallyroll-{name.replace('_', '-')}": {"DataType": "String", "StringValue": text}
        for name, text in texts.items()
    }


FORGED = _attributes(
    reason="bad-key", detail="d", message_id="chosen", sent="1700000000000", window=WINDOW
)


def test_what_sqs_moved_is_not_believed(sqs: Place) -> None:
    assert sqs.settings
    url = sqs.settings.queue_url
    pointer = json.dumps({"bucket": BUCKET, "key": "rejected/2026-11-20/chosen", "bytes": 1})
    forged = [FORGED, FORGED | _attributes(target=WINDOW), FORGED | _attributes(body="s3")]
    for attributes in forged:
        sqs.sqs.send_message(QueueUrl=url, MessageBody=pointer, MessageAttributes=attributes)
    sent = {message.id for message in sqs.received()}
    for _ in range(2):
        _come_again(sqs)
    letters = sqs.letters.peek(10, 60)
    assert {letter.untold.first_id for letter in letters} == sent
    for letter in letters:
        assert (letter.why, letter.detail, letter.window) == ("undelivered", "", None)
        assert letter.pointer is None
        assert letter.target or letter.first_id == letter.id


def _come_again(sqs: Place) -> None:
    """Let what is in flight be received once more, if it may."""
    queue = queue_at(sqs.settings.queue_url) if sqs.settings else None
    assert queue
    for message in queue.held():
        queue.change_visibility(str(message.receipt_handle), 0)
    sqs.received()


@pytest.mark.parametrize(
    ("bucket", "key"),
    [
        ("another", "rejected/2026-11-20/m-1"),
        (BUCKET, "archive/2026-11-20/m-1"),
        (BUCKET, "rejected/2026-11-20/m-2"),
        (BUCKET, "rejected/2026-11-20/m-12"),
        (BUCKET, "rejected/2026-11-20/../../m-1"),
        (BUCKET, "rejected/m-1"),
    ],
)
def test_only_a_letters_own_body_is_fetched(sqs: Place, bucket: str, key: str) -> None:
    assert sqs.settings
    s3 = make_client("s3")
    if bucket != BUCKET:
        s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=key, Body=b"secret")
    sqs.sqs.send_message(
        QueueUrl=sqs.settings.dead_letters_url,
        MessageBody=json.dumps({"bucket": bucket, "key": key, "bytes": 6}),
        MessageAttributes=_attributes(
            reason="bad-key", message_id="m-1", sent="1700000000000", body="s3"
        ),
    )
    letter = _only(sqs.letters)
    with pytest.raises(StoreError, match="where no writer of this pipeline puts its body"):
        sqs.letters.body(letter)


def test_the_body_of_a_redriven_message_is_fetched(sqs: Place) -> None:
    """Its object has the id of the redriven message, which its letter does not tell."""
    body = "x" * QUEUE_MESSAGE_BYTES_MAX
    rejection = _rejection(redrive=REDRIVE)
    sqs.queue.reject([replace(rejection, message=replace(rejection.message, body=body))])
    assert sqs.letters.body(_only(sqs.letters)) == body


def test_a_pointer_that_no_writer_wrote_is_a_body(sqs: Place) -> None:
    assert sqs.settings
    told = _attributes(body="s3", reason="bad-key")
    forged = [(body, told) for body in ("no JSON", "5", "[]", '{"bucket": "another"}')]
    forged += [(json.dumps({"bucket": "another", "key": "secret"}), _attributes(body="s3"))]
    for body, attributes in forged:
        sqs.sqs.send_message(
            QueueUrl=sqs.settings.dead_letters_url, MessageBody=body, MessageAttributes=attributes
        )
    letters = sqs.letters.peek(10, 60)
    assert [letter.pointer for letter in letters] == [None] * len(forged)
    assert {sqs.letters.body(letter) for letter in letters} == {body for body, _ in forged}


def test_attributes_that_are_not_in_due_form_are_passed_over(sqs: Place) -> None:
    assert sqs.settings
    odd = {
        "tallyroll-reason": {"DataType": "String", "StringValue": "too-late"},
        "tallyroll-message-id": {"DataType": "Binary", "BinaryValue": b"x"},
        "tallyroll-sent": {"DataType": "String", "StringValue": "yesterday"},
    }
    sqs.sqs.send_message(
        QueueUrl=sqs.settings.dead_letters_url, MessageBody="b", MessageAttributes=odd
    )
    letter = _only(sqs.letters)
    assert (letter.first_id, letter.first_sent) == (letter.id, letter.arrived)


def test_without_queues_nothing_is_sure(sqs: Place) -> None:
    assert sqs.settings
    sqs.queue.reject([_rejection()])
    letter = _only(sqs.letters)
    sqs.sqs.delete_queue(QueueUrl=sqs.settings.dead_letters_url)
    sqs.sqs.delete_queue(QueueUrl=sqs.settings.queue_url)
    sqs.letters.give_back([letter])
    assert sqs.letters.delete([letter]) == [False]
    (why,) = sqs.letters.resend([Resend("body", REDRIVE)])
    assert "NonExistentQueue" in why
    with pytest.raises(Missing):
        sqs.letters.peek(10, 60)
    with pytest.raises(Missing):
        sqs.letters.count()


class _Fickle:
    """An SQS client that fails as `fail` says, and else does half of what it is told."""

    def __init__(self, fail: Exception | None = None) -> None:
        self._fail = fail
        self.calls = 0

    def _half(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        self.calls += 1
        if self._fail:
            raise self._fail
        done, failed = entries[::2], entries[1::2]
        return {
            "Successful": [{"Id": entry["Id"]} for entry in done],
            "Failed": [{"Id": entry["Id"], "SenderFault": False} for entry in failed],
        }

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        return self._half(Entries)

    def delete_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        return self._half(Entries)


def _fickle(client: _Fickle) -> SqsDeadLetters:
    effects = SteadyEffects()
    return SqsDeadLetters(
        Caller(client, effects),
        effects,
        queue_url="events",
        dead_letters_url="dead",
        bucket=MemoryBucket(BUCKET),
    )


LETTER = ReceivedLetter("dead-1", "r", 1, SENT, "body", None, "", None, "dead-1", SENT)


def test_what_was_done_by_half_is_told_apart() -> None:
    letters = _fickle(_Fickle())
    assert letters.resend([Resend("body", REDRIVE)] * 3) == ["", "the queue did not take it", ""]
    assert letters.delete([LETTER] * 3) == [True, False, True]


def test_what_may_have_been_sent_is_not_sent_again() -> None:
    client = _Fickle(ReadTimeoutError(endpoint_url="https://sqs"))
    (why,) = _fickle(client).resend([Resend("body", REDRIVE)])
    assert why.endswith("(it may have been sent)")
    assert client.calls == 1
    assert _fickle(client).delete([LETTER]) == [False]
    assert client.calls == 1 + REQUEST.tries, "deleting again does no harm"
