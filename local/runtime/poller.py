"""Plays Lambda's SQS event source: polls a queue, invokes a function, deletes what it did.

Source of the contract: AWS Lambda Developer Guide, "Using Lambda with Amazon SQS": batch size and
window, the event's shape, `ReportBatchItemFailures`.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from local.runtime.pool import KILLED, FunctionError, Invokes
from local.runtime.schedule import ended
from tallyroll.testing.sqs_records import record

RECEIVE_MAX = 10  # messages of one receive or delete call
PAYLOAD_BYTES_MAX = 6 * 1024 * 1024  # of an invocation, its envelope included
_ENVELOPE_BYTES = 64
_RECORD_BYTES = 1_200  # what a record has besides its body, at the most
LONG_POLL_S = 1  # so that stop() does not wait for longer
PAUSE_S = 0.2
EMPTY_PAUSE_S = 0.02

Message = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong on purpose; the same seed and the same load draw the same faults.

    Attributes:
        redeliver: The share of the messages processed that are not deleted, and so come again once;
            0 to 1.
        kill: The probability, per batch, that the function is killed while it works; never if a
            message of the batch has come before, so that a message meets it once at the most.
        again_after_s: When such messages come again; None: after the queue's visibility timeout.
    """

    seed: int = 0
    redeliver: float = 0.0
    kill: float = 0.0
    again_after_s: int | None = None


@dataclass(frozen=True)
class Polled:
    """What a poller has done so far: numbers of batches, and of messages.

    `deleted` counts the messages that are done; `failed` those left in the queue by the function's
    answer; `redelivered` those left there on purpose; `killed` the batches whose function was
    killed on purpose; `errors` other batches that failed as a whole, and failed calls to the queue.
    `ended` counts all invocations that ended, `broken` those that failed and were not killed.
    """

    batches: int = 0
    received: int = 0
    deleted: int = 0
    failed: int = 0
    redelivered: int = 0
    killed: int = 0
    errors: int = 0
    ended: int = 0
    broken: int = 0


class Poller:
    """Polls a queue with several threads, each of which invokes the function with one batch.

    Args:
        client: A boto3 client of SQS.
        queue_url: The queue.
        function: What is invoked.
        batch_size: The most messages of a batch, 1 to 10,000.
        window_s: How long a batch is gathered, from its first message on.
        concurrency: The most invocations at once.
        faults: What goes wrong on purpose.
        on_error: Told of every batch that failed as a whole and of every failed call to the queue.
    """

    def __init__(
        self,
        client: Any,
        queue_url: str,
        function: Invokes,
        *,
        batch_size: int = 100,
        window_s: float = 0.1,
        concurrency: int = 2,
        faults: Faults | None = None,
        on_error: Callable[[str], None] | None = None,
    ) -> None:
        self._client = client
        self._queue_url = queue_url
        self._function = function
        self._batch_size = batch_size
        self._window_s = window_s
        self._faults = faults or Faults()
        self._on_error = on_error or (lambda _text: None)
        self._region = client.meta.region_name
        asked = client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
        self._arn = asked["Attributes"]["QueueArn"]
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._polled = Polled()
        self._chance = random.Random(self._faults.seed)
        self._redelivered: set[str] = set()
        self._batch_ms = 50.0
        self._threads = [
            threading.Thread(target=self._poll, name=f"poller-{number}", daemon=True)
            for number in range(concurrency)
        ]

    @property
    def polled(self) -> Polled:
        """What was done so far."""
        return self._polled

    def start(self) -> Self:
        """Begin to poll."""
        for thread in self._threads:
            thread.start()
        return self

    def stop(self, within_s: float | None = None) -> bool:
        """Finish the batches at work; whether the last thread has ended, in the time given."""
        self._stopping.set()
        return ended(self._threads, within_s)

    def _poll(self) -> None:
        waiting: list[Message] = []
        while not self._stopping.is_set():
            try:
                batch, waiting = self._gather(waiting)
                if batch:
                    self._process(batch)
            except (BotoCoreError, ClientError) as error:
                self._add(errors=1)
                self._on_error(str(error))
                self._stopping.wait(PAUSE_S)

    def _gather(self, waiting: list[Message]) -> tuple[list[Message], list[Message]]:
        """A batch, and what was received beyond its size or payload."""
        batch = _Batch(self._batch_size)
        rest = batch.take(waiting)
        until = time.monotonic() + self._window_s
        while not (rest or batch.full or self._stopping.is_set()):
            first = not batch.messages
            left = until - time.monotonic()
            if not first and left <= 0:
                break
            received = self._receive(batch.room, wait_s=LONG_POLL_S if first else 0)
            rest = batch.take(received)
            if first:
                until = time.monotonic() + self._window_s
            elif not received:
                self._stopping.wait(min(EMPTY_PAUSE_S, max(0.0, left)))
        return batch.messages, rest

    def _receive(self, number: int, wait_s: int) -> list[Message]:
        reply = self._client.receive_message(
            QueueUrl=self._queue_url,
            MaxNumberOfMessages=number,
            WaitTimeSeconds=wait_s,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages: list[Message] = reply.get("Messages", [])
        return messages

    def _process(self, batch: Sequence[Message]) -> None:
        self._add(batches=1, received=len(batch))
        kill_after_ms = self._draw_kill(batch)
        event = {"Records": [record(message, self._arn, self._region) for message in batch]}
        started = time.monotonic()
        try:
            response = self._function.invoke(event, kill_after_ms=kill_after_ms)
        except FunctionError as error:
            killed = kill_after_ms is not None and error.kind == KILLED
            if killed:
                self._add(killed=1, ended=1)
                self._bring_again(batch)
            else:
                self._add(errors=1, ended=1, broken=1)
                self._on_error(str(error))
            return
        self._add(ended=1)
        self._batch_ms += 0.2 * ((time.monotonic() - started) * 1000 - self._batch_ms)
        failed = failed_ids(response, {message["MessageId"] for message in batch})
        done = [message for message in batch if message["MessageId"] not in failed]
        self._add(failed=len(batch) - len(done))
        self._settle(done)

    def _settle(self, done: Sequence[Message]) -> None:
        """Delete the messages that are done, but for those that shall come again."""
        again = [message for message in done if self._draw_redelivery(message["MessageId"])]
        kept = {message["MessageId"] for message in again}
        self._bring_again(again)
        self._add(redelivered=len(again))
        for chunk in _tens([message for message in done if message["MessageId"] not in kept]):
            entries = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(chunk)
            ]
            reply = self._client.delete_message_batch(QueueUrl=self._queue_url, Entries=entries)
            for failure in reply.get("Failed", []):
                self._on_error(f"not deleted: {failure.get('Message')}")
            self._add(deleted=len(chunk) - len(reply.get("Failed", [])))
            with self._lock:
                self._redelivered.difference_update(message["MessageId"] for message in chunk)

    def _bring_again(self, messages: Sequence[Message]) -> None:
        if self._faults.again_after_s is None:
            return
        for chunk in _tens(messages):
            entries = [
                {
                    "Id": str(number),
                    "ReceiptHandle": message["ReceiptHandle"],
                    "VisibilityTimeout": self._faults.again_after_s,
                }
                for number, message in enumerate(chunk)
            ]
            self._client.change_message_visibility_batch(QueueUrl=self._queue_url, Entries=entries)

    def _draw_kill(self, batch: Sequence[Message]) -> float | None:
        """After how many ms to kill the function, somewhere within a usual batch; mostly None."""
        with self._lock:
            drawn = self._faults.kill and self._chance.random() < self._faults.kill
            if not drawn or any(_receives(message) > 1 for message in batch):
                return None
            return self._chance.random() * self._batch_ms

    def _draw_redelivery(self, message_id: str) -> bool:
        with self._lock:
            if not self._faults.redeliver or message_id in self._redelivered:
                return False
            drawn = self._chance.random() < self._faults.redeliver
            if drawn:
                self._redelivered.add(message_id)
            return drawn

    def _add(self, **numbers: int) -> None:
        with self._lock:
            now = self._polled
            self._polled = replace(
                now, **{name: getattr(now, name) + n for name, n in numbers.items()}
            )


def failed_ids(response: Any, ids: set[str]) -> set[str]:
    """Which of the messages a function's response leaves in the queue.

    None, `{}` and an empty or absent list are a success of all; a malformed response, or an unknown
    or empty id, a failure of all.
    """
    if response is None:
        return set()
    if not isinstance(response, dict):
        return ids
    failures = response.get("batchItemFailures")
    if failures is None:
        return set()
    if not isinstance(failures, list):
        return ids
    named: list[Any] = [
        failure.get("itemIdentifier") if isinstance(failure, dict) else None for failure in failures
    ]
    return set(named) if all(name in ids for name in named) else ids


class _Batch:
    """Messages that fit into one invocation."""

    def __init__(self, most: int) -> None:
        self.messages: list[Message] = []
        self._most = most
        self._bytes = _ENVELOPE_BYTES

    @property
    def room(self) -> int:
        """How many messages to ask for."""
        return min(RECEIVE_MAX, self._most - len(self.messages))

    @property
    def full(self) -> bool:
        return len(self.messages) >= self._most

    def take(self, messages: Sequence[Message]) -> list[Message]:
        """Add messages while they fit, the first in any case; give the rest."""
        for number, message in enumerate(messages):
            size = _RECORD_BYTES + len(json.dumps(message["Body"]))
            size += len(str(message.get("MessageAttributes", "")))
            if self.full or (self.messages and self._bytes + size > PAYLOAD_BYTES_MAX):
                return list(messages[number:])
            self.messages.append(message)
            self._bytes += size
        return []


def _receives(message: Message) -> int:
    return int(message["Attributes"]["ApproximateReceiveCount"])


def _tens(messages: Sequence[Message]) -> list[Sequence[Message]]:
    return [messages[at : at + RECEIVE_MAX] for at in range(0, len(messages), RECEIVE_MAX)]
