from __future__ import annotations

from tallyroll.adapters.aws.lambda_events import batch_failures, sqs_messages
from tallyroll.model.messages import Message
from tests.harness.pipeline import NOW


def test_the_messages_of_an_event() -> None:
    attributes = {"SentTimestamp": str(NOW), "ApproximateReceiveCount": "3", "SenderId": "s"}
    records = [
        {"messageId": "m1", "body": "{}", "receiptHandle": "r1", "attributes": attributes},
        {"messageId": "m2", "body": None, "receiptHandle": "r2", "attributes": attributes},
        {"messageId": "m3", "receiptHandle": "r3", "attributes": attributes},
    ]
    assert sqs_messages({"Records": records}) == [
        Message("m1", "{}", NOW, 3, "r1"),
        Message("m2", "", NOW, 3, "r2"),
        Message("m3", "", NOW, 3, "r3"),
    ]


def test_an_event_without_records() -> None:
    assert (
        sqs_messages({}) == sqs_messages({"Records": []}) == sqs_messages({"Records": None}) == []
    )


def test_the_partial_batch_answer() -> None:
    assert batch_failures([]) == {"batchItemFailures": []}
    assert batch_failures(["m2", "m1"]) == {
        "batchItemFailures": [{"itemIdentifier": "m2"}, {"itemIdentifier": "m1"}]
    }
