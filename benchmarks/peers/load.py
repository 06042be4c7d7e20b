"""The load of the comparison: events, the queue's deliveries of them, and what their sum truly is.

SQS delivers at least once. So 5 % of the messages come a second time two batches later, and the
writer of one batch dies after a part of its writes, so that the whole batch comes again. Everything
is drawn from a fixed seed: each way is given the same deliveries.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import Any

from tallyroll.client.packing import MINUTE_MS, PACKET_EVENTS_MAX, pack
from tallyroll.model.amounts import MICROS
from tallyroll.model.events import Event, message_body

BATCH = 980
REDELIVERED = 0.05
ZIPF_KEYS = 2_000
ZIPF_THETA = 0.99  # of YCSB
SPAN_MS = 10_000  # in which the events happen
HOUR_MS = 3_600_000
SEED = 20261122
PAYLOADS = ("none", "text", "random")
"""Kinds of payloads of packed events: none, 40 bytes of a device and a country, 40 random bytes."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message as SQS delivers it to a function."""

    id: str
    body: str
    sent: int
    receives: int

    def again(self) -> Delivered:
        """Its next delivery."""
        return replace(self, receives=self.receives + 1)

    def record(self) -> dict[str, Any]:
        """Its part of the event that invokes the function."""
        return {
            "messageId": self.id,
            "receiptHandle": self.id,
            "body": self.body,
            "attributes": {
                "ApproximateReceiveCount": str(self.receives),
                "SentTimestamp": str(self.sent),
            },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
        }


Invocation = Mapping[str, Any]
"""The event that invokes a function with a batch."""


def invocation(batch: Sequence[Delivered]) -> Invocation:
    """The event with these messages."""
    return {"Records": [message.record() for message in batch]}


@dataclass(frozen=True, slots=True)
class Load:
    """Events and their deliveries. The writer of batch number `dies` dies."""

    name: str
    truth: Counter[str]
    bodies: Sequence[str]
    batches: Sequence[Sequence[Delivered]]
    dies: int

    @property
    def events(self) -> int:
        """How many events there are."""
        return self.truth.total()


LOADS = {"hot": "one hot key", "zipf": "2,000 keys by Zipf's law"}


def keys_of(load: str, events: int) -> list[str]:
    """A key for each event of a load."""
    if load == "hot":
        return ["hot"] * events
    weights = list(accumulate(1 / rank**ZIPF_THETA for rank in range(1, ZIPF_KEYS + 1)))
    names = [f"key-{rank}" for rank in range(1, ZIPF_KEYS + 1)]
    return random.Random(SEED).choices(names, cum_weights=weights, k=events)


def own_ids(name: str, keys: Sequence[str], now: int) -> Load:
    """Each event is a message, with an id of its own."""
    span = min(SPAN_MS, now % HOUR_MS + 1)  # in the current window
    bodies = [
        message_body(Event(key, f"id-{number:07d}", now - number % span, MICROS, None))
        for number, key in enumerate(keys)
    ]
    return _delivered(name, keys, bodies, now)


def packed(name: str, keys: Sequence[str], now: int, payloads: str = "none") -> Load:
    """The same events in packets, in the order of their times."""
    minute = now // MINUTE_MS * MINUTE_MS
    since = max(minute, now - SPAN_MS)
    times = [since + (now - since) * number // len(keys) for number in range(len(keys))]
    chance, ids = random.Random(SEED), count()
    events = [
        Event(key, None, ts, MICROS, _payload(payloads, chance))
        for key, ts in zip(keys, times, strict=True)
    ]
    new_id = lambda: f"00000000-0000-7000-8000-{next(ids):012d}"  # noqa: E731
    bodies = list(pack(events, new_id, events_max=PACKET_EVENTS_MAX))
    return _delivered(name, keys, bodies, now)


def _payload(kind: str, chance: random.Random) -> str | None:
    if kind == "text":
        device, country = chance.choice(("ios", "web", "tv")), chance.choice(("de", "fr"))
        return f'{{"country":"{country}","device":"{device}","s":{chance.random():.3f}}}'
    return f'"{chance.getrandbits(152):038x}"' if kind == "random" else None


def _delivered(name: str, keys: Sequence[str], bodies: Sequence[str], now: int) -> Load:
    chance = random.Random(SEED)
    messages = [
        Delivered(f"00000000-0000-4000-8000-{number:012d}", body, now, 1)
        for number, body in enumerate(bodies)
    ]
    batches = [messages[first : first + BATCH] for first in range(0, len(messages), BATCH)]
    late: list[list[Delivered]] = [[] for _ in range(len(batches) + 2)]
    for number, batch in enumerate(batches):
        share = max(1, round(len(batch) * REDELIVERED))
        late[number + 2] = [message.again() for message in chance.sample(batch, share)]
    whole = [
        [*(batches[number] if number < len(batches) else ()), *late[number]]
        for number in range(len(late))
    ]
    return Load(name, Counter(keys), bodies, whole, dies=len(batches) // 2)
