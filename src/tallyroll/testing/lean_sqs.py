"""moto's SQS, fit for load: a call costs the same whether a queue holds ten messages or 200,000.

moto 5.2 walks through a queue's list of messages 40 times to send, receive and delete ten of them:
350 ms with 200 messages, and longer with each that is added. Here:

- the messages of a queue are indexed by receipt handle and by when they become visible;
- an attribute is computed when it is read;
- the last 10,000 deleted receipt handles are remembered, not all;
- what a queue moves to its dead letters says so (`DeadLetterQueueSourceArn`), if the receiver asks;
- all queues share the server's lock, which a long poll gives up while it waits. moto locks only an
  append, while a delete copies the list: under threads it may lose messages.

FIFO queues keep moto's way of receiving.
"""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cache
from threading import Condition, RLock
from typing import Any
from unittest.mock import patch

from moto.core.utils import camelcase_to_underscores, unix_time, unix_time_millis
from moto.sqs import models, responses
from moto.sqs.exceptions import InvalidParameterValue, ReceiptHandleIsInvalid

from tallyroll.testing.queue_index import Messages, handles_of, sent_at

HANDLES_MAX = 10_000
VISIBILITY_MS_MAX = 12 * 3_600_000
POLL_S = 1  # how often a long poll looks for messages whose time has come
_MOTOS_RECEIVE = models.SQSBackend.receive_message
_MOTOS_CHANGE = models.SQSBackend.change_message_visibility
_MOTOS_RESPONSE = responses.SQSResponse.receive_message
_MOVED_FROM = "DeadLetterQueueSourceArn"
_HANDLE_BYTES = 138  # as long, in base64, as the handles of moto


def install(turn: Condition) -> None:
    """Make moto create lean queues from now on, all under the (re-entrant) lock `turn`."""

    class SharedTurnQueue(LeanQueue):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._messages_lock = turn

    models.Queue = SharedTurnQueue  # type: ignore[misc]
    _use_index()


@contextmanager
def lean_queues(prefix: str) -> Iterator[None]:
    """Let moto create queues of the names that begin with `prefix` as `RememberingQueue`; other
    queues keep moto's ways.
    """
    motos: Any = models.Queue
    remembering: Any = RememberingQueue
    backend = models.SQSBackend
    changed = ("receive_message", "change_message_visibility")
    before = {name: getattr(backend, name) for name in changed}
    handle = vars(models)["generate_receipt_handle"]

    class QueueByName(motos):  # type: ignore[misc]
        """Moto makes queues by this name, and calls its static methods."""

        def __new__(cls, name: str, *args: Any, **kwargs: Any) -> Any:
            kind = remembering if name.startswith(prefix) else motos
            return kind(name, *args, **kwargs)

    with patch.object(models, "Queue", QueueByName):
        _use_index()
        try:
            yield
        finally:
            for name, method in before.items():
                setattr(backend, name, method)
            vars(models)["generate_receipt_handle"] = handle
            setattr(responses.SQSResponse, "receive_message", _MOTOS_RESPONSE)  # noqa: B010


def _use_index() -> None:
    # moto looks up the name in this module, and the two methods, whenever it needs them.
    vars(models)["generate_receipt_handle"] = _receipt_handle
    backend: Any = models.SQSBackend
    backend.receive_message = receive_message
    backend.change_message_visibility = change_visibility_of
    setattr(responses.SQSResponse, "receive_message", _answer_with_source)  # noqa: B010


class LeanQueue(models.Queue):
    """A queue of moto with an index of its messages, lazy attributes, and a bounded memory of
    deleted receipt handles.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.deleted_messages: Any = RecentHandles()

    @property
    def _messages(self) -> Any:  # a list, to moto
        return self._indexed

    @_messages.setter
    def _messages(self, messages: Iterable[models.Message]) -> None:
        self._indexed = Messages(messages)

    @property
    def attributes(self) -> Any:
        """The attributes by AWS's names; a mapping that computes a value when it is read."""
        return _LazyAttributes(self)

    @property
    def approximate_number_of_messages(self) -> int:
        """The messages that can be received."""
        return self._indexed.counts()[0]

    @property
    def approximate_number_of_messages_delayed(self) -> int:
        """The messages that were sent with a delay which is not over."""
        return self._indexed.counts()[1]

    @property
    def approximate_number_of_messages_not_visible(self) -> int:
        """The messages in flight."""
        return self._indexed.counts()[2]

    def wait_for_messages(self, timeout: float) -> None:
        """Wait until a message can be received, at most `timeout` seconds."""
        with self._messages_lock:
            self._messages_lock.wait_for(self._indexed.has_ready, timeout=timeout)

    def take(self, most: int, visibility_s: int) -> list[models.Message]:
        """Receive at most so many messages.

        Messages that were received too often go to the dead-letter queue, and messages older than
        the retention are dropped.
        """
        with self._messages_lock:
            return self._take(most, visibility_s)

    def _take(self, most: int, visibility_s: int) -> list[models.Message]:
        policy = self.dead_letter_queue and self.redrive_policy
        retained = unix_time_millis() - 1000 * int(vars(self)["message_retention_period"])
        taken: list[models.Message] = []
        while len(taken) < most and (message := self._indexed.pop_ready()):
            if sent_at(message) <= retained:
                self._indexed.remove(message)
            elif policy and message.approximate_receive_count >= policy["maxReceiveCount"]:
                self._indexed.remove(message)
                vars(message)["moved_from"] = self.queue_arn
                self.dead_letter_queue.add_message(message)  # type: ignore[union-attr]
            else:
                taken.append(message)
        for message in taken:
            vars(message)["received_at"] = unix_time_millis()
            message.mark_received(visibility_timeout=visibility_s)
            self._indexed.moved(message)
        return taken

    def delete_message(self, receipt_handle: str) -> None:
        """Delete the message of a handle; nothing is to do for one that was deleted lately."""
        if self.fifo_queue:
            super().delete_message(receipt_handle)
        elif message := self._indexed.of_handle(receipt_handle):
            self._indexed.remove(message)
            self.deleted_messages.update(handles_of(message))
        elif receipt_handle not in self.deleted_messages:
            raise ReceiptHandleIsInvalid

    def of_handle(self, receipt_handle: str) -> models.Message | None:
        """The message of a receipt handle, if the queue still holds it."""
        return self._indexed.of_handle(receipt_handle)

    def change_visibility(self, receipt_handle: str, timeout_s: int) -> None:
        """Let the message of a handle come again after `timeout_s` seconds."""
        message = self._indexed.of_handle(receipt_handle)
        if not message:
            raise ReceiptHandleIsInvalid
        again = unix_time_millis() + 1000 * timeout_s
        if again - vars(message)["received_at"] > VISIBILITY_MS_MAX:
            raise InvalidParameterValue(
                f"Value {timeout_s} for parameter VisibilityTimeout is invalid. Reason: Total "
                "VisibilityTimeout for the message is beyond the limit [43200 seconds]"
            )
        with self._messages_lock:
            message.change_visibility(timeout_s)
            self._indexed.moved(message)
            self._messages_lock.notify_all()

    def oldest_sent(self) -> int | None:
        """When the oldest message received fewer than three times was sent, in ms; None if empty.

        A queue that holds nothing but messages received more often gives the present: AWS leaves
        those out too. Source: Amazon SQS Developer Guide, "Available CloudWatch metrics for Amazon
        SQS".
        """
        if not self._indexed:
            return None
        sent = self._indexed.oldest_sent()
        return int(unix_time_millis()) if sent is None else sent


class RememberingQueue(LeanQueue):
    """A lean queue that knows all messages that were ever sent to it.

    Its lock is re-entrant, so that a message can move to another queue of this kind.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._messages_lock = Condition(RLock())
        self.sent: list[models.Message] = []

    def add_message(self, message: models.Message) -> None:
        """Add a message that was sent, here or to the queue whose dead letter it is."""
        super().add_message(message)
        self.sent.append(message)

    def held(self) -> list[models.Message]:
        """The messages in the queue, in the order of their sending."""
        with self._messages_lock:
            return list(self._indexed)

    def is_empty(self) -> bool:
        """Whether the queue holds no message, visible or not."""
        return not self._indexed

    def next_ready_at(self) -> float | None:
        """When (ms) the next message can be received: 0 if one can be now; None if none is left."""
        with self._messages_lock:
            return self._indexed.next_ready_at()

    def deliver_again(self) -> None:
        """Put a copy of every message into the queue that was ever sent to it, as SQS may do: with
        the same id, the same time of sending, and its receives so far.
        """
        with self._messages_lock:
            for message in self.sent:
                again = copy(message)
                again.visible_at = again.delayed_until = 0.0
                again.receipt_handle = None
                vars(again)["_old_receipt_handles"] = []
                self._indexed.append(again)


def receive_message(
    backend: models.SQSBackend,
    queue_name: str,
    count: int,
    wait_seconds_timeout: int,
    visibility_timeout: int,
    message_attribute_names: list[str] | None = None,
) -> list[models.Message]:
    """`SQSBackend.receive_message` of moto, by the index."""
    queue: Any = backend.get_queue(queue_name)
    wanted = (count, wait_seconds_timeout, visibility_timeout, message_attribute_names)
    if queue.fifo_queue or not isinstance(queue, LeanQueue):
        return _MOTOS_RECEIVE(backend, queue_name, *wanted)
    end, left = unix_time() + wait_seconds_timeout, float(wait_seconds_timeout)
    while not (taken := queue.take(count, visibility_timeout)) and left > 0:
        queue.wait_for_messages(min(left, POLL_S))
        # A test may have frozen the clock.
        left = min(left - POLL_S, end - unix_time())
    received = [copy(message) for message in taken]
    for message in received:
        models._filter_message_attributes(message, message_attribute_names or [])  # noqa: SLF001
    return received


def _answer_with_source(response: Any) -> Any:
    """`SQSResponse.receive_message` of moto, which also says what was moved, to who asks for it."""
    answer = _MOTOS_RESPONSE(response)
    params = response._get_params()  # noqa: SLF001
    asked = [*params.get("MessageSystemAttributeNames", ()), *params.get("AttributeNames", ())]
    queue = response.sqs_backend.get_queue(response._get_queue_name())  # noqa: SLF001
    if isinstance(queue, LeanQueue) and ("All" in asked or _MOVED_FROM in asked):
        result: Any = answer.result
        for received in result.get("Messages", ()):
            if source := moved_from(queue.of_handle(received["ReceiptHandle"])):
                received.setdefault("Attributes", {})[_MOVED_FROM] = source
    return answer


def moved_from(message: models.Message | None) -> str | None:
    """The ARN of the queue from which a message was moved to this one; None for any other."""
    return vars(message).get("moved_from") if message else None


def change_visibility_of(
    backend: models.SQSBackend, queue_name: str, receipt_handle: str, visibility_timeout: int
) -> None:
    """`SQSBackend.change_message_visibility` of moto, by the index."""
    queue: Any = backend.get_queue(queue_name)
    if queue.fifo_queue or not isinstance(queue, LeanQueue):
        _MOTOS_CHANGE(backend, queue_name, receipt_handle, visibility_timeout)
    else:
        queue.change_visibility(receipt_handle, int(visibility_timeout))


class RecentHandles(OrderedDict[str, None]):
    """The receipt handles that were deleted last.

    To delete by an older one fails, as on AWS by an expired one.
    """

    def update(self, handles: Iterable[str]) -> None:  # type: ignore[override]
        """Add handles, and forget the oldest beyond 10,000."""
        for handle in handles:
            self[handle] = None
        while len(self) > HANDLES_MAX:
            self.popitem(last=False)


class _LazyAttributes(Mapping[str, Any]):
    """What `Queue.attributes` of moto gives, name by name."""

    def __init__(self, queue: models.Queue) -> None:
        self._queue = queue

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        value = getattr(self._queue, _snake(name))
        if name == "RedrivePolicy" and value:
            return json.dumps(value)
        return str(value).lower() if isinstance(value, bool) else value

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        queue: Any = self._queue
        fifo = queue.FIFO_ATTRIBUTES if queue.fifo_queue else []
        encrypted = queue.KMS_ATTRIBUTES if queue.kms_master_key_id else []
        return [*queue.BASE_ATTRIBUTES, *fifo, *encrypted]


@cache
def _snake(name: str) -> str:
    return camelcase_to_underscores(name)


def _receipt_handle() -> str:
    return secrets.token_urlsafe(_HANDLE_BYTES)
