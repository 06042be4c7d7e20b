"""The events of a trial, and their truth: own ids over many keys, packets, one hot key."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

HOT, PACKED = "hot", "packed"
DUPLICATES = 50  # every so manieth single event is sent twice, under the same id
_BATCH = 10  # messages that SQS takes at once
_SENDERS = 8
_TRIES = 5


@dataclass(frozen=True)
class Load:
    """How many events are sent.

    Args:
        singles: Events with ids of their own, over `keys` keys; and so many to the one hot key.
        packets: Packets, of `packet` events each.
        seconds: Over how long they are sent.
    """

    singles: int = 20_000
    keys: int = 200
    packets: int = 200
    packet: int = 500
    seconds: float = 150.0

    @property
    def events(self) -> int:
        """How many events there are, those that are sent twice counted once."""
        return 2 * self.singles + self.packets * self.packet

    @property
    def messages(self) -> int:
        """How many messages are sent, the duplicates included."""
        return 2 * (self.singles + self.singles // DUPLICATES) + self.packets

    def bodies(self, now: Callable[[], int], truth: Truth) -> Iterator[str]:
        """The messages, each dated when it is taken; what they count to is added to the truth."""
        most = max(self.singles, self.packets)
        for number in range(most):
            if number < self.singles:
                yield from self._singles(number, now(), truth)
            if number * self.packets // most != (number + 1) * self.packets // most:
                at = truth.note(PACKED, now(), self.packet)
                packet = {"v": 1, "id": str(uuid.uuid4()), "key": PACKED, "t0": at}
                yield json.dumps({**packet, "events": [[0]] * self.packet})

    def _singles(self, number: int, now: int, truth: Truth) -> Iterator[str]:
        for key in (HOT, f"key-{number % self.keys}"):
            at = truth.note(key, now, 1)
            body = json.dumps({"v": 1, "id": str(uuid.uuid4()), "key": key, "ts": at})
            yield body
            if number % DUPLICATES == DUPLICATES - 1:
                yield body


@dataclass
class Truth:
    """What was sent: events by key, messages, and the times (ms) at which the events happened."""

    events: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    since: int = 0
    until: int = 0

    def note(self, key: str, at: int, events: int) -> int:
        """Add events of a time; that time."""
        self.events[key] += events
        self.since = min(self.since or at, at)
        self.until = max(self.until, at)
        return at


class SendingError(Exception):
    """SQS did not take messages."""


def send(load: Load, truth: Truth, sqs: Any, queue_url: str) -> None:
    """Send a load to a queue, evenly over its seconds. Raises SendingError."""
    began = time.monotonic()
    bodies = load.bodies(lambda: time.time_ns() // 1_000_000, truth)

    def post(batch: tuple[str, ...]) -> None:
        entries = [{"Id": str(place), "MessageBody": body} for place, body in enumerate(batch)]
        failed: dict[str, Any] = {}
        for _ in range(_TRIES):
            reply = sqs.send_message_batch(QueueUrl=queue_url, Entries=entries)
            failed = {one["Id"]: one for one in reply.get("Failed", ())}
            entries = [entry for entry in entries if entry["Id"] in failed]
            if not entries:
                return
        why = next(iter(failed.values()))
        raise SendingError(f"SQS did not take {len(failed)} messages: {why}")

    with ThreadPoolExecutor(_SENDERS) as pool:
        while round_ := tuple(islice(bodies, _SENDERS * _BATCH)):
            list(pool.map(post, (round_[at : at + _BATCH] for at in range(0, len(round_), _BATCH))))
            truth.messages += len(round_)
            due = load.seconds * truth.messages / load.messages
            time.sleep(max(0.0, due - (time.monotonic() - began)))
