from __future__ import annotations

from pathlib import Path

import pytest

from tallyroll.adapters.aws.lambda_events import batch_failures, clear_disk, sqs_messages
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


@pytest.mark.parametrize("in_lambda", [True, False])
def test_what_an_ended_process_left_is_deleted_in_lambda_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_lambda: bool
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("AWS_LAMBDA_RUNTIME_API", raising=False)
    if in_lambda:
        monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
    left, others = tmp_path / "tallyroll-x1", tmp_path / "others"
    for folder in (left, others):
        (folder / "events").mkdir(parents=True)
    clear_disk()
    assert (left.exists(), others.exists()) == (not in_lambda, True)
