"""An index of the messages in a queue of moto."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from moto.core.utils import unix_time_millis

if TYPE_CHECKING:
    from moto.sqs import models

POISON_RECEIVES = 3


class Messages:
    """The messages of a queue in the order of their sending, and what finds them without a walk.

    A message is `ready` (visible, and not delayed) or waits in a heap for its time. Entries of
    heaps that hold no longer are passed over when they come up.
    """

    def __init__(self, messages: Iterable[models.Message] = ()) -> None:
        self._numbers = count()
        self._places: dict[models.Message, int] = {}
        self._by_handle: dict[str, models.Message] = {}
        self._ready: set[models.Message] = set()
        self._delayed: set[models.Message] = set()
        self._due: dict[models.Message, float] = {}
        self._ready_heap: list[tuple[int, models.Message]] = []
        self._waiting_heap: list[tuple[float, int, models.Message]] = []
        self._sent_heap: list[tuple[int, int, models.Message]] = []
        for message in messages:
            self.append(message)

    def __iter__(self) -> Iterator[models.Message]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def append(self, message: models.Message) -> None:
        """Add a message that was sent, here or to the queue whose dead letter it is."""
        place = self._places[message] = next(self._numbers)
        heappush(self._sent_heap, (sent_at(message), place, message))
        self._by_handle.update(dict.fromkeys(handles_of(message), message))
        self.moved(message)

    def remove(self, message: models.Message) -> None:
        """Take a message out. Raises KeyError if the queue does not hold it."""
        del self._places[message]
        self._ready.discard(message)
        self._due.pop(message, None)
        self._delayed.discard(message)
        for handle in handles_of(message):
            del self._by_handle[handle]

    def of_handle(self, handle: str) -> models.Message | None:
        """The message that was once received under a handle."""
        return self._by_handle.get(handle)

    def moved(self, message: models.Message) -> None:
        """Index a message anew after it was received or its time changed."""
        if message.receipt_handle:
            self._by_handle[message.receipt_handle] = message
        self._ready.discard(message)
        self._delayed.discard(message)
        due = self._due[message] = max(message.visible_at, message.delayed_until)
        heappush(self._waiting_heap, (due, self._places[message], message))
        if message.delayed:
            self._delayed.add(message)

    def has_ready(self) -> bool:
        """Whether a message can be received now."""
        self._ripen()
        return bool(self._ready)

    def pop_ready(self) -> models.Message | None:
        """The first of the messages that can be received now; `moved` or `remove` must follow."""
        self._ripen()
        while self._ready_heap:
            _, message = heappop(self._ready_heap)
            if message in self._ready:
                self._ready.remove(message)
                return message
        return None

    def next_ready_at(self) -> float | None:
        """When (ms) the next message can be received: 0 if one can be now; None if none is left."""
        if self.has_ready():
            return 0.0
        while self._waiting_heap:
            due, _, message = self._waiting_heap[0]
            if self._due.get(message) == due:
                return due
            heappop(self._waiting_heap)
        return None

    def counts(self) -> tuple[int, int, int]:
        """How many are ready, delayed, in flight."""
        self._ripen()
        ready, delayed = len(self._ready), len(self._delayed)
        return ready, delayed, len(self) - ready - delayed

    def oldest_sent(self) -> int | None:
        """When the oldest message received fewer than three times was sent, in ms."""
        while self._sent_heap:
            sent, _, message = self._sent_heap[0]
            if message in self._places and message.approximate_receive_count < POISON_RECEIVES:
                return sent
            heappop(self._sent_heap)
        return None

    def _ripen(self) -> None:
        now = unix_time_millis()
        while self._waiting_heap and self._waiting_heap[0][0] < now:
            due, place, message = heappop(self._waiting_heap)
            if self._due.get(message) == due and message not in self._ready:
                self._ready.add(message)
                self._delayed.discard(message)
                heappush(self._ready_heap, (place, message))


def sent_at(message: models.Message) -> int:
    """When a message was sent, in ms."""
    return int(vars(message)["sent_timestamp"])


def handles_of(message: models.Message) -> list[str]:
    """The receipt handles under which a message was received."""
    return [handle for handle in message.all_receipt_handles if handle]
