"""moto's queue, fit for load: two names of moto's module are replaced, nothing else is touched.

What moto 5.2's own queue does with every message, whatever its length n (measured with 200 messages
in it):

- it computes all 20 attributes, three of them by walking the queue, 40 times to send, receive and
  delete ten messages: 350 of 361 ms. Here an attribute is computed when it is read: 9 ms;
- it remembers every receipt handle that was ever deleted. Here the last 10,000;
- it takes a lock only to append, while a delete copies the list: an acknowledged message may be
  lost under threads. Here all queues share the server's lock, which a long poll gives up while it
  waits.
"""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from threading import Condition
from typing import Any

from moto.core.utils import camelcase_to_underscores, unix_time_millis
from moto.sqs import models

HANDLES_MAX = 10_000
POISON_RECEIVES = 3
_HANDLE_BYTES = 138  # as long, in base64, as the handles of moto


def install(turn: Condition) -> None:
    """Make moto create lean queues from now on, all under the (re-entrant) lock `turn`."""

    class SharedTurnQueue(LeanQueue):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._messages_lock = turn

    # The two replaced names. moto looks both up in this module whenever it needs them.
    models.Queue = SharedTurnQueue  # type: ignore[misc]
    vars(models)["generate_receipt_handle"] = _receipt_handle


class LeanQueue(models.Queue):
    """A queue of moto with lazy attributes and a bounded memory of deleted receipt handles."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.deleted_messages: Any = RecentHandles()

    @property
    def attributes(self) -> Any:
        """The attributes by AWS's names; a mapping that computes a value when it is read."""
        return _LazyAttributes(self)


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


def oldest_sent(queue: models.Queue) -> int | None:
    """When the oldest message received fewer than three times was sent, in ms; None if empty.

    A queue that holds nothing but messages received more often gives the present: AWS leaves those
    out too. Source: Amazon SQS Developer Guide, "Available CloudWatch metrics for Amazon SQS".
    """
    messages = list(queue._messages)  # noqa: SLF001  (moto offers no other way to see those in flight)
    if not messages:
        return None
    fresh: list[Any] = [
        m.sent_timestamp for m in messages if m.approximate_receive_count < POISON_RECEIVES
    ]
    return int(min(fresh, default=unix_time_millis()))
