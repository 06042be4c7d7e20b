"""The queue port on SQS, and the sender for producers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TypeVar

from tallyroll.adapters.aws.client import Caller, is_throttle
from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.errors import Refused, StoreError, Throttled
from tallyroll.limits import QUEUE_BATCH_MAX, QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.dead_letters import (
    ATTRIBUTE_BODY,
    ATTRIBUTE_DETAIL,
    ATTRIBUTE_MESSAGE_ID,
    ATTRIBUTE_REASON,
    ATTRIBUTE_SENT,
    ATTRIBUTE_TARGET,
    ATTRIBUTE_WINDOW,
    BODY_IN_BUCKET,
    REJECTED_PREFIX,
)
from tallyroll.model.messages import Rejection
from tallyroll.model.windows import iso
from tallyroll.ports.backoff import QUEUE_REQUEST
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Backlog, Post, PostError, SendFailure

T = TypeVar("T")

CALLS_AT_ONCE = 16
DETAIL_CHARACTERS_MAX = 500
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)

SIZE_MAX = f"{QUEUE_MESSAGE_BYTES_MAX >> 20} MiB"
# A message may hold only #x9 | #xA | #xD | #x20-#xD7FF | #xE000-#xFFFD | #x10000-#x10FFFF.
# Source: Amazon SQS API Reference, SendMessage.
_ILLEGAL = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message to send: its body, its attributes, all strings, and its message group if any."""

    body: str
    attributes: Mapping[str, str]
    group: str = ""

    @property
    def size(self) -> int:
        """The bytes that count towards the limit: body, attribute names, types and values."""
        texts = [self.body]
        for name, value in self.attributes.items():
            texts += [name, "String", value]
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)

    @property
    def legal(self) -> bool:
        """Whether SQS takes it: not empty, only legal characters, at most 1 MiB."""
        return (
            bool(self.body)
            and not re.search(_ILLEGAL, self.body)
            and self.size <= QUEUE_MESSAGE_BYTES_MAX
        )


@dataclass(frozen=True, slots=True)
class EntryError:
    """What SQS says of an entry that it did not take; empty if it says nothing."""

    code: str = ""
    message: str = ""
    sender_fault: bool = False


_UNNAMED = EntryError()
_REFUSED = EntryError(sender_fault=True)


@dataclass(frozen=True)
class SqsQueue:
    """The event queue and its dead-letter queue; `metrics` are those of the event queue."""

    caller: Caller
    effects: Effects
    _: KW_ONLY
    queue_url: str
    dead_letters_url: str
    bucket: Bucket
    metrics: QueueMetrics

    def delay(self, receipts: Sequence[tuple[str, int]]) -> None:
        jobs = [partial(self._delay, ten) for ten in in_tens(receipts)]
        self.effects.together(jobs, CALLS_AT_ONCE)

    def _delay(self, receipts: Sequence[tuple[str, int]]) -> None:
        entries = [
            {"Id": str(index), "ReceiptHandle": receipt, "VisibilityTimeout": seconds}
            for index, (receipt, seconds) in enumerate(receipts)
        ]
        with suppress(StoreError):
            self.caller.call(
                "ChangeMessageVisibilityBatch", QueueUrl=self.queue_url, Entries=entries
            )

    def reject(self, rejections: Sequence[Rejection]) -> list[bool]:
        """Those that were not certainly taken are rejected again: a dead letter may occur twice."""
        letters = self.effects.together(
            [partial(self._letter, rejection) for rejection in rejections], CALLS_AT_ONCE
        )
        sent = [False] * len(rejections)
        ready = [(index, letter) for index, letter in enumerate(letters) if letter]
        jobs = [partial(self._take, rejections, batch) for batch in in_batches(ready)]
        for taken in self.effects.together(jobs, CALLS_AT_ONCE):
            for index in taken:
                sent[index] = True
        return sent

    def _letter(self, rejection: Rejection) -> Letter | None:
        """The dead letter, its body in the bucket if SQS would not take it; None if that fails."""
        letter = Letter(rejection.message.body, _attributes(rejection))
        return letter if letter.legal else self._pointer(rejection)

    def _pointer(self, rejection: Rejection) -> Letter | None:
        body = rejection.message.body.encode("utf-8", "surrogatepass")
        day = iso(self.effects.now())[:10]
        key = f"{REJECTED_PREFIX}/{day}/{rejection.message.id}"
        try:
            self.bucket.put(key, body)
        except StoreError:
            return None
        pointer = {"bucket": self.bucket.name, "key": key, "bytes": len(body)}
        attributes = {**_attributes(rejection), ATTRIBUTE_BODY: BODY_IN_BUCKET}
        return Letter(json.dumps(pointer), attributes)

    def _take(
        self, rejections: Sequence[Rejection], batch: Sequence[tuple[int, Letter]]
    ) -> list[int]:
        """Send a batch. Returns the indexes of the rejections that were taken.

        A letter that SQS refuses for its content is sent again alone, then with its body in the
        bucket.
        """
        letters = [letter for _, letter in batch]
        try:
            failed = send_batch(self.caller, self.dead_letters_url, letters)
        except Refused:
            failed = dict.fromkeys(range(len(batch)), _REFUSED)
        except StoreError:
            return []
        taken = [index for place, (index, _) in enumerate(batch) if place not in failed]
        for place, error in failed.items():
            index, letter = batch[place]
            if not error.sender_fault:
                continue
            if len(batch) > 1:
                taken += self._take(rejections, [(index, letter)])
            elif ATTRIBUTE_BODY not in letter.attributes:
                pointer = self._pointer(rejections[index])
                taken += self._take(rejections, [(index, pointer)]) if pointer else []
        return taken

    def acknowledge(self, receipts: Sequence[str]) -> None:
        jobs = [partial(self._delete, ten) for ten in in_tens(receipts)]
        self.effects.together(jobs, CALLS_AT_ONCE)

    def _delete(self, receipts: Sequence[str]) -> None:
        entries = [
            {"Id": str(index), "ReceiptHandle": receipt} for index, receipt in enumerate(receipts)
        ]
        with suppress(StoreError):
            self.caller.call("DeleteMessageBatch", QueueUrl=self.queue_url, Entries=entries)

    def counts(self) -> Backlog:
        return counts_of(self.caller, self.queue_url)

    def backlog(self, since: int, invocations_since: int | None = None) -> Backlog:
        """An age has the time of its period's start, so that no message seems newer than it is."""
        return replace(
            self.counts(),
            ages=self.metrics.ages(since),
            invocations=(
                () if invocations_since is None else self.metrics.invocations(invocations_since)
            ),
        )


@dataclass(frozen=True)
class SqsSender:
    """Sends bodies to the event queue, up to 10 and 1 MiB per request."""

    caller: Caller
    effects: Effects
    queue_url: str

    def send(self, bodies: Iterable[str]) -> list[SendFailure]:
        """A throttled request is tried up to 6 times."""
        failures: list[SendFailure] = []
        letters = ((index, Letter(body, {})) for index, body in enumerate(bodies))
        for batch in in_batches(letters):
            failures += self._send(batch)
        return failures

    def _send(self, batch: Sequence[tuple[int, Letter]]) -> list[SendFailure]:
        illegal = [entry for entry in batch if not entry[1].legal]
        legal = [entry for entry in batch if entry[1].legal]
        why = f"empty, over {SIZE_MAX}, or with a character that SQS does not take"
        failures = [SendFailure(index, letter.body, why) for index, letter in illegal]
        detail = ""
        failed: Iterable[int] = range(len(legal))
        for _ in QUEUE_REQUEST.attempts(self.effects) if legal else ():
            try:
                failed = send_batch(self.caller, self.queue_url, [letter for _, letter in legal])
                detail = "refused by the queue"
            except Throttled as error:
                detail = str(error)
                continue
            except StoreError as error:
                detail = str(error)
            break
        lost = [legal[place] for place in failed]
        return failures + [SendFailure(index, letter.body, detail) for index, letter in lost]


@dataclass(frozen=True)
class SqsPoster:
    """Sends one request of a producer to a queue."""

    caller: Caller
    queue_url: str

    def post(self, posts: Sequence[Post]) -> list[PostError | None]:
        """An entry that the reply does not name may have been taken."""
        failed = send_batch(
            self.caller, self.queue_url, [Letter(post.body, {}, post.group) for post in posts]
        )
        return [
            _post_error(failed[place]) if place in failed else None for place in range(len(posts))
        ]


def _post_error(error: EntryError) -> PostError:
    if error == _UNNAMED:
        return PostError("the queue's reply did not name the message", unknown=True)
    detail = f"{error.code}: {error.message}" if error.message else error.code
    # SQS blames the sender for throttles of its key, too.
    return PostError(detail, final=error.sender_fault and not is_throttle(error.code))


def counts_of(caller: Caller, queue_url: str) -> Backlog:
    """A queue's approximate counts, by GetQueueAttributes."""
    reply = caller.read("GetQueueAttributes", QueueUrl=queue_url, AttributeNames=list(_COUNTS))
    visible, in_flight, delayed = (int(reply["Attributes"][name]) for name in _COUNTS)
    return Backlog(visible, in_flight, delayed)


def in_tens(entries: Sequence[T]) -> list[Sequence[T]]:
    """Split entries into the batches of a request."""
    return [entries[at : at + QUEUE_BATCH_MAX] for at in range(0, len(entries), QUEUE_BATCH_MAX)]


def send_batch(caller: Caller, queue_url: str, letters: Sequence[Letter]) -> dict[int, EntryError]:
    """One SendMessageBatch. Returns the places that failed, and why."""
    entries = [
        {
            "Id": str(place),
            "MessageBody": letter.body,
            **({"MessageGroupId": letter.group} if letter.group else {}),
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": value}
                for name, value in letter.attributes.items()
            },
        }
        for place, letter in enumerate(letters)
    ]
    reply = caller.call("SendMessageBatch", QueueUrl=queue_url, Entries=entries)
    taken = {int(entry["Id"]) for entry in reply.get("Successful", ())}
    faults = {
        int(entry["Id"]): EntryError(
            entry.get("Code", ""), entry.get("Message", ""), bool(entry.get("SenderFault"))
        )
        for entry in reply.get("Failed", ())
    }
    return {
        place: faults.get(place, _UNNAMED) for place in range(len(letters)) if place not in taken
    }


def in_batches(letters: Iterable[tuple[int, Letter]]) -> Iterator[list[tuple[int, Letter]]]:
    """Split into batches of at most 10 letters and 1 MiB; a larger letter gets its own batch."""
    batch: list[tuple[int, Letter]] = []
    size = 0
    for index, letter in letters:
        more = letter.size
        if batch and (len(batch) == QUEUE_BATCH_MAX or size + more > QUEUE_MESSAGE_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append((index, letter))
        size += more
    if batch:
        yield batch


def _attributes(rejection: Rejection) -> dict[str, str]:
    detail = re.sub(_ILLEGAL, "\ufffd", rejection.detail)[:DETAIL_CHARACTERS_MAX]
    attributes = {
        ATTRIBUTE_REASON: rejection.reason.value,
        ATTRIBUTE_DETAIL: detail or rejection.reason.value,
        ATTRIBUTE_MESSAGE_ID: rejection.message.first_id,
        ATTRIBUTE_SENT: str(rejection.message.first_sent),
    }
    if rejection.message.redrive:
        attributes[ATTRIBUTE_TARGET] = rejection.message.redrive.target
    if rejection.window:
        attributes[ATTRIBUTE_WINDOW] = rejection.window
    return attributes
