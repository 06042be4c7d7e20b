"""A whole probe on real engines, with a writer between the queue (moto) and DynamoDB Local."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tallyroll import pipeline
from tallyroll.adapters.aws import client
from tallyroll.model.messages import Message
from tallyroll.operations.probe import run
from tallyroll.operations.probe.history import ReadRule
from tallyroll.resources import declare
from tests.cli.test_care_on_engines import Town, town

__all__ = ["town"]
pytestmark = pytest.mark.engine
EVENTS = 160


class Counting:
    """A writer that polls the queue, every message twice, until it is stopped."""

    def __init__(self, town: Town) -> None:
        self._sqs = client.make_client("sqs")
        name = declare(town.settings).queue.name
        self._url = self._sqs.get_queue_url(QueueName=name)["QueueUrl"]
        self._writer = pipeline.Pipeline(town.settings).writer
        self._stopping = threading.Event()
        self.written = 0

    def run(self) -> None:
        """Write batch after batch, each again before it is deleted."""
        while not self._stopping.is_set():
            reply = self._sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=10,
                MessageSystemAttributeNames=["SentTimestamp"],
            )
            batch = [_message(received) for received in reply.get("Messages", ())]
            if not batch:
                self._stopping.wait(0.1)
                continue
            for _ in range(2):
                assert not self._writer.write(batch, 60_000).failures
            for message in batch:
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message.receipt)
            self.written += len(batch)

    def stop(self) -> None:
        """Have it end after the batch that it is at."""
        self._stopping.set()


def _message(received: dict[str, Any]) -> Message:
    sent = int(received["Attributes"]["SentTimestamp"])
    return Message(received["MessageId"], received["Body"], sent, 1, received["ReceiptHandle"])


@pytest.fixture
def counting(town: Town, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    monkeypatch.setattr(run, "ROUNDS", 10)
    monkeypatch.setattr(run, "LINGER_MS", 500)
    counting = Counting(town)
    with ThreadPoolExecutor(1) as pool:
        ran: Future[None] = pool.submit(counting.run)
        yield counting
        counting.stop()
    ran.result()


def test_a_probe(town: Town, counting: Counting) -> None:
    argv = ("probe", "--live", "--yes", "--events", str(EVENTS), "--json", "--timeout", "10m")
    answer = town.run(*argv)
    assert answer.status == 0, answer.err
    plan, *rules, result = answer.json
    assert (result["result"], result["events"], result["counted"]) == ("holds", EVENTS, EVENTS)
    judged = {rule["rule"]: rule["judged"] for rule in rules}
    assert set(judged) == set(ReadRule)
    assert all(judged.values())
    assert counting.written == plan["plan"]["messages"]
    counts = town.run("count", *plan["plan"]["keys"], "--json").json
    assert sum(count["events"] for count in counts) == EVENTS
    assert {check["level"] for check in town.run("doctor", "--deep", "--json").json} == {"ok"}
