"""The event queue and its dead letters as the fixture drives them: in moto, past boto3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moto.sqs.models import Message, sqs_backends

from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.adapters.aws.sqs import SqsQueue
from tallyroll.model.dead_letters import ReceivedLetter, letter_of
from tallyroll.ports.queue import Backlog, Invocations
from tallyroll.testing.errors import TestingError
from tallyroll.testing.lean_sqs import RememberingQueue, moved_from
from tallyroll.testing.queue_index import sent_at
from tallyroll.testing.sqs_records import record

BATCH_MESSAGES = 1_000
BATCH_BYTES = 4 * 1024 * 1024  # of bodies; an invocation takes 6 MB


class NoMetrics(QueueMetrics):
    """The metrics of a queue in an account without CloudWatch."""

    def ages(self, since: int) -> tuple[tuple[int, int], ...]:  # noqa: ARG002
        """None are known."""
        return ()

    def invocations(self, since: int) -> tuple[Invocations, ...]:  # noqa: ARG002
        """None are known."""
        return ()


@dataclass(frozen=True)
class CountedQueue(SqsQueue):
    """The queue port on SQS, with counts that cost no request."""

    def counts(self) -> Backlog:
        """The queue's counts now."""
        events = queue_at(self.queue_url)
        return Backlog(
            events.approximate_number_of_messages,
            events.approximate_number_of_messages_not_visible,
            events.approximate_number_of_messages_delayed,
        )


def queue_at(url: str) -> RememberingQueue:
    """The queue in moto that has this address. Raises TestingError if the test has deleted it."""
    address, account, name = url.rsplit("/", 2)
    region = address.split(".")[1]
    queue = sqs_backends[account][region].queues.get(name)
    if not isinstance(queue, RememberingQueue):
        raise TestingError(
            f"moto has lost the queue {name}: something in this test has reset or deleted it"
        )
    return queue


def next_batch(queue: RememberingQueue) -> list[Message]:
    """Receive the messages of one invocation of the writer."""
    visibility: Any = queue.visibility_timeout  # type: ignore[attr-defined]
    batch: list[Message] = []
    size = 0
    while len(batch) < BATCH_MESSAGES and size < BATCH_BYTES:
        taken = queue.take(min(10, BATCH_MESSAGES - len(batch)), int(visibility))
        if not taken:
            break
        batch += taken
        size += sum(len(message.body) for message in taken)
    return batch


def event_of(batch: Sequence[Message], queue: RememberingQueue) -> dict[str, Any]:
    """The event with which Lambda invokes a function for these messages."""
    replies = (_reply(message) for message in batch)
    return {"Records": [record(reply, queue.queue_arn, queue.region) for reply in replies]}


def _reply(message: Message) -> dict[str, Any]:
    """A message as ReceiveMessage answers it."""
    attributes: dict[str, Any] = message.message_attributes
    return {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt_handle,
        "Body": message.body,
        "MD5OfBody": message.body_md5,
        "Attributes": {
            "SenderId": message.sender_id,
            "SentTimestamp": str(sent_at(message)),
            "ApproximateReceiveCount": str(message.approximate_receive_count),
            "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp),
        },
        "MessageAttributes": attributes,
        **({"MD5OfMessageAttributes": message.attribute_md5} if attributes else {}),
    }


def letters(queue: RememberingQueue, first: int = 0) -> list[ReceivedLetter]:
    """All messages that ever came to a dead-letter queue, in the order of their coming, without the
    `first` ones.
    """
    return [
        letter_of(
            id_=message.id,
            receipt="",
            receives=message.approximate_receive_count,
            arrived=sent_at(message),
            body=message.body,
            attributes={
                name: value["StringValue"]
                for name, value in message.message_attributes.items()
                if "StringValue" in value
            },
            moved=moved_from(message) is not None,
        )
        for message in queue.sent[first:]
    ]
