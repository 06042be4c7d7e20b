"""A producer that waits while the queue is long: moto's calls take longer the longer it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

DEPTH_MAX = 500  # a receive of ten takes about 9 ms then, instead of 4
CHECK_S = 0.02


def queue_depth(client: Any, queue_url: str) -> int:
    """How many messages a queue holds: visible, in flight and delayed."""
    names = ("", "NotVisible", "Delayed")
    attributes = [f"ApproximateNumberOfMessages{name}" for name in names]
    reply = client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=attributes)
    return sum(int(number) for number in reply["Attributes"].values())


class BoundedSender(Generic[T]):
    """Calls `send` with batches, and waits before one while the queue is full.

    The depth is asked for only when what was sent since the last answer may have filled the queue.
    Threads may share a sender; each may then exceed the depth by one batch.

    Args:
        send: Sends a batch.
        depth: Tells how many messages the queue holds.
        depth_max: From which depth on to wait.
        stopping: Ends a wait early; the batch is then sent anyway.
    """

    def __init__(
        self,
        send: Callable[[Sequence[T]], object],
        depth: Callable[[], int],
        *,
        depth_max: int = DEPTH_MAX,
        stopping: threading.Event | None = None,
    ) -> None:
        self.waited_s = 0.0
        self._send = send
        self._depth = depth
        self._depth_max = depth_max
        self._stopping = stopping or threading.Event()
        self._lock = threading.Lock()
        self._room = 0

    def await_room(self) -> None:
        """Wait until there is room for a batch. Raises what `depth` raises."""
        with self._lock:
            self._await_room()

    def send(self, batch: Sequence[T]) -> None:
        """Send a batch when there is room. Raises what `send` and `depth` raise."""
        with self._lock:
            self._await_room()
            self._room -= len(batch)
        self._send(batch)

    def _await_room(self) -> None:
        started = time.monotonic()
        while self._room <= 0:
            self._room = self._depth_max - self._depth()
            if self._room <= 0 and self._stopping.wait(CHECK_S):
                break
        self.waited_s += time.monotonic() - started
