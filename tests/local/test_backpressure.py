"""The bounded sender: waits while the queue is long, and asks seldom."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from local.demo.backpressure import BoundedSender


class Queue:
    def __init__(self) -> None:
        self.messages: list[int] = []
        self.deepest = 0
        self.asked = 0

    def send(self, batch: Sequence[int]) -> None:
        self.messages.extend(batch)
        self.deepest = max(self.deepest, len(self.messages))

    def depth(self) -> int:
        self.asked += 1
        return len(self.messages)


def test_waits_for_room_and_asks_seldom() -> None:
    queue, stop = Queue(), threading.Event()
    sender = BoundedSender(queue.send, queue.depth, depth_max=50)

    def consume() -> None:
        while not stop.wait(0.005):
            del queue.messages[:10]

    consumer = threading.Thread(target=consume)
    consumer.start()
    for _ in range(40):
        sender.send(range(10))
    stop.set()
    consumer.join()
    assert queue.deepest <= 50
    assert sender.waited_s > 0
    assert queue.asked < 40


def test_a_stop_ends_the_wait() -> None:
    queue, stopping = Queue(), threading.Event()
    sender = BoundedSender(queue.send, queue.depth, depth_max=10, stopping=stopping)
    sender.send(range(10))
    threading.Timer(0.1, stopping.set).start()
    started = time.monotonic()
    sender.send(range(10))
    assert time.monotonic() - started > 0.05
    assert len(queue.messages) == 20
