"""The port of dead letters on SQS: reads them and sends them back to the event queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.sqs import (
    CALLS_AT_ONCE,
    SIZE_MAX,
    Letter,
    counts_of,
    in_batches,
    in_tens,
    send_batch,
)
from tallyroll.errors import StoreError, Unknown
from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.model.dead_letters import REJECTED_PREFIX, ReceivedLetter, attributes_of, letter_of
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.dead_letters import Resend
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Backlog

# The queue from which SQS itself moved a message; no other message has it. Source: Amazon SQS API
# Reference, "Message", Attributes.
MOVED_FROM = "DeadLetterQueueSourceArn"
# Long polling asks all of SQS's servers, however short it is. Source: Amazon SQS Developer Guide,
# "Setting-up long polling in Amazon SQS" (1 s is the minimum).
LONG_POLL_SECONDS = 1


@dataclass(frozen=True)
class SqsDeadLetters:
    """A dead-letter queue, and the event queue `queue_url` to which its letters go back.

    `bucket` holds the bodies that no queue takes.
    """

    caller: Caller
    effects: Effects
    _: KW_ONLY
    queue_url: str
    dead_letters_url: str
    bucket: Bucket
    wait_seconds: int = LONG_POLL_SECONDS

    def peek(self, most: int, seconds: int) -> list[ReceivedLetter]:
        reply = self.caller.read(
            "ReceiveMessage",
            QueueUrl=self.dead_letters_url,
            MaxNumberOfMessages=min(most, QUEUE_BATCH_MAX),
            VisibilityTimeout=seconds,
            WaitTimeSeconds=self.wait_seconds,
            MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp", MOVED_FROM],
            MessageAttributeNames=["All"],
        )
        return [_received(message) for message in reply.get("Messages", ())]

    def give_back(self, letters: Sequence[ReceivedLetter]) -> None:
        jobs = [partial(self._give_back, ten) for ten in in_tens(letters)]
        self.effects.together(jobs, CALLS_AT_ONCE)

    def _give_back(self, letters: Sequence[ReceivedLetter]) -> None:
        entries = [
            {"Id": str(place), "ReceiptHandle": letter.receipt, "VisibilityTimeout": 0}
            for place, letter in enumerate(letters)
        ]
        try:
            self.caller.read(
                "ChangeMessageVisibilityBatch", QueueUrl=self.dead_letters_url, Entries=entries
            )
        except StoreError:
            return

    def delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        jobs = [partial(self._delete, ten) for ten in in_tens(letters)]
        return [gone for ten in self.effects.together(jobs, CALLS_AT_ONCE) for gone in ten]

    def _delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        entries = [
            {"Id": str(place), "ReceiptHandle": letter.receipt}
            for place, letter in enumerate(letters)
        ]
        try:
            reply = self.caller.read(
                "DeleteMessageBatch", QueueUrl=self.dead_letters_url, Entries=entries
            )
        except StoreError:
            return [False] * len(letters)
        gone = {int(entry["Id"]) for entry in reply.get("Successful", ())}
        return [place in gone for place in range(len(letters))]

    def count(self) -> Backlog:
        return counts_of(self.caller, self.dead_letters_url)

    def body(self, letter: ReceivedLetter) -> str:
        if letter.pointer is None:
            return letter.body
        if not letter.pointer.is_of(letter, self.bucket.name):
            # Whoever wrote the letter would read any object with the operator's rights.
            raise StoreError(
                f"the letter {letter.id} names s3://{letter.pointer.bucket}/{letter.pointer.key},"
                f" where no writer of this pipeline puts its body (s3://{self.bucket.name}/"
                f"{REJECTED_PREFIX}/DAY/{letter.first_id}): if that was its bucket before,"
                " deploy it with that one while you redrive; else look who sent it, then delete it"
            )
        body = self.bucket.get(letter.pointer.key)
        return body.decode("utf-8", "surrogatepass")

    def resend(self, resends: Sequence[Resend]) -> list[str]:
        why = [""] * len(resends)
        ready: list[tuple[int, Letter]] = []
        for index, resend in enumerate(resends):
            letter = Letter(resend.body, attributes_of(resend.redrive))
            if letter.legal:
                ready.append((index, letter))
            else:
                why[index] = f"the queue takes no such message: empty, over {SIZE_MAX}, or not text"
        jobs = [partial(self._resend, batch) for batch in in_batches(ready)]
        for failed in self.effects.together(jobs, CALLS_AT_ONCE):
            for index, detail in failed.items():
                why[index] = detail
        return why

    def _resend(self, batch: Sequence[tuple[int, Letter]]) -> dict[int, str]:
        """Send one batch. Returns why messages may be missing, by index."""
        try:
            failed = send_batch(self.caller, self.queue_url, [letter for _, letter in batch])
        except StoreError as error:
            unsure = " (it may have been sent)" if isinstance(error, Unknown) else ""
            return {index: f"{error}{unsure}" for index, _ in batch}
        return {batch[place][0]: "the queue did not take it" for place in failed}


def _received(message: dict[str, Any]) -> ReceivedLetter:
    system = message["Attributes"]
    attributes = {
        name: value["StringValue"]
        for name, value in message.get("MessageAttributes", {}).items()
        if "StringValue" in value
    }
    return letter_of(
        id_=message["MessageId"],
        receipt=message["ReceiptHandle"],
        receives=int(system["ApproximateReceiveCount"]),
        arrived=int(system["SentTimestamp"]),
        body=message.get("Body", ""),
        attributes=attributes,
        moved=MOVED_FROM in system,
    )
