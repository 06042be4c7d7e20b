"""What a producer takes, and how sends spread over partitions: `python -m benchmarks.producing`.

The first table: `send` calls a second of CPU time, that of the producer's threads included, into a
queue that takes everything at once; and the process's peak memory. The last one: what compression
takes. The second: what the partitions
of a table have to write in each second, for input that is sorted by key, in that order and with the
keys in turn. The placement of shards is drawn from a fixed seed; the rest is counted.
"""

from __future__ import annotations

import gc
import random
import sys
import time
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.processes import peak_mib
from benchmarks.tables import Rows, show
from tallyroll import Producer
from tallyroll.client.interleaving import interleaved
from tallyroll.client.packing import MINUTE_MS, PACKET_EVENTS_MAX, entry_text, packet_body
from tallyroll.limits import PARTITION_WRITE_UNITS
from tallyroll.model.events import Event
from tallyroll.model.sharding import STRATEGIES
from tallyroll.pipeline.producer import SPREAD_EVENTS
from tallyroll.settings import Settings

SENDS = 300_000
KEYS = 50
GOAL_SENDS, GOAL_MIB = 100_000, 64
URL = "https://sqs.us-east-1.amazonaws.com/123456789012/stubbed"

LOAD_KEYS = 20
LOAD_EVENTS = 1_500  # of each key
LOAD_RATE = 1_500  # events a second that the writers take
PARTITIONS = 4  # of a new table
SHARDS = 16  # of a key; over 256, the default, a key alone just reaches a partition's limit
EVENT_UNITS = 2.041  # of a single event in full batches (make costs)
LEVELS, ROUNDS = (1, 3, 6, 9), 50
BARS = " ▁▂▃▄▅▆▇█"


class StubbedQueue:
    """A client that takes every message at once."""

    def __init__(self) -> None:
        self.messages = self.bytes = 0

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        """Take the entries."""
        entries = request["Entries"]
        self.messages += len(entries)
        self.bytes += sum(len(entry["MessageBody"]) for entry in entries)
        return {"Successful": [{"Id": entry["Id"]} for entry in entries]}


@dataclass(frozen=True, slots=True)
class Sends:
    """A kind of events, and what sending them took: CPU seconds, messages, body bytes."""

    kind: str
    cpu_s: float
    messages: int
    size: int

    @property
    def a_second(self) -> float:
        """Calls of `send` per second of CPU time."""
        return SENDS / self.cpu_s


def measured(kind: str, payloads: Sequence[Any], *, compress: bool = False) -> Sends:
    """Send events of some keys with these payloads in turn."""
    queue = StubbedQueue()
    keys = [f"video-{number}" for number in range(KEYS)]
    gc.collect()
    began = time.process_time()
    with Producer(URL, client=queue, compress=compress) as producer:
        send = producer.send
        for number in range(SENDS):
            send(keys[number % KEYS], payload=payloads[number % len(payloads)])
    return Sends(kind, time.process_time() - began, queue.messages, queue.bytes)


def payloads_of(chance: random.Random) -> list[dict[str, str]]:
    """Payloads of 40 bytes: a user, a platform, a country."""
    return [
        {"u": f"{chance.getrandbits(64):016x}", "p": "ios", "c": chance.choice(("de", "fr"))}
        for _ in range(1_000)
    ]


def load() -> list[tuple[str, str]]:
    """The (key, id) pairs of a load that is sorted by key."""
    return [
        (f"user-{key:03d}", f"{key}-{number}")
        for key in range(LOAD_KEYS)
        for number in range(LOAD_EVENTS)
    ]


def units_by_second(events: Sequence[tuple[str, str]]) -> list[list[float]]:
    """The write units of each partition in each second, if writers take events in this order."""
    settings = Settings(shards=SHARDS)
    suffix = STRATEGIES["calculated"]
    chance = random.Random(20261122)
    partition_of: dict[str, int] = {}
    seconds = []
    for first in range(0, len(events), LOAD_RATE):
        units: Counter[int] = Counter()
        for key, record_id in events[first : first + LOAD_RATE]:
            place = f"{key}.{suffix(record_id, settings.shards)}"
            if place not in partition_of:
                partition_of[place] = chance.randrange(PARTITIONS)
            units[partition_of[place]] += 1
        seconds.append([units[number] * EVENT_UNITS for number in range(PARTITIONS)])
    return seconds


def hottest_keys(events: Sequence[tuple[str, str]]) -> list[int]:
    """The most events of one key in each second."""
    return [
        max(Counter(key for key, _ in events[first : first + LOAD_RATE]).values())
        for first in range(0, len(events), LOAD_RATE)
    ]


def turned(events: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same events in the order in which a bulk send sends them."""
    return list(interleaved(events, lambda event: event[0], SPREAD_EVENTS))


def bar(values: Sequence[float], full: float) -> str:
    """A line of bars, one for each value; the highest is `full`."""
    return "".join(
        BARS[min(len(BARS) - 1, round(each / full * (len(BARS) - 1)))] for each in values
    )


def chart() -> Iterator[tuple[str, str, str, str]]:
    """Each partition's units a second over time, and the hottest key's, in both orders."""
    orders = {"sorted by key": load(), "keys in turn": turned(load())}
    for name, events in orders.items():
        seconds = units_by_second(events)
        for number in range(PARTITIONS):
            rates = [second[number] for second in seconds]
            yield (
                name,
                f"partition {number + 1}",
                bar(rates, PARTITION_WRITE_UNITS),
                f"{min(rates):,.0f} to {max(rates):,.0f}",
            )
        hottest = [count * EVENT_UNITS for count in hottest_keys(events)]
        report = f"{min(hottest):,.0f} to {max(hottest):,.0f}"
        yield name, "hottest key", bar(hottest, PARTITION_WRITE_UNITS), report


def levels() -> Rows:
    """What levels of compression take and give, of packets of 1,000 events."""
    chance = random.Random(3)
    rows: Rows = [("events", "as it is", *(f"level {level}" for level in LEVELS))]
    for kind, payloads in (("no payload", [None]), ("40 bytes", payloads_of(chance))):
        times = sorted(chance.randrange(MINUTE_MS) for _ in range(PACKET_EVENTS_MAX))
        entries = [
            entry_text(dt, Event.of("k", payload=payloads[number % len(payloads)]))
            for number, dt in enumerate(times)
        ]
        text = packet_body("p", "video-1", 0, entries).encode()
        row = [kind, f"{len(text):,}"]
        for level in LEVELS:
            began = time.process_time()
            for _ in range(ROUNDS):
                zlib.compress(text, level)
            us = (time.process_time() - began) / ROUNDS * 1e6
            row.append(f"{us:,.0f} us, {len(b64encode(zlib.compress(text, level))):,}")
        rows.append(tuple(row))
    return rows


def main() -> int:
    """Print the tables; the status is 1 if a goal is missed."""
    kinds = [
        measured("no payload", [None]),
        measured("payload of 40 bytes", payloads_of(random.Random(1))),
        measured("no payload, compressed", [None], compress=True),
        measured("40 bytes, compressed", payloads_of(random.Random(1)), compress=True),
    ]
    sends: Rows = [("events", "sends / CPU s", "us each", "events / message", "bytes / event")]
    for kind in kinds:
        row = (
            kind.kind,
            f"{kind.a_second:,.0f}",
            f"{kind.cpu_s / SENDS * 1e6:.1f}",
            f"{SENDS / kind.messages:,.0f}",
            f"{kind.size / SENDS:.0f}",
        )
        sends.append(row)
    peak = peak_mib()
    reached = peak <= GOAL_MIB and all(kind.a_second >= GOAL_SENDS for kind in kinds)
    show(
        f"{SENDS:,} packed sends of {KEYS} keys into a stubbed queue",
        sends,
        f"peak memory of this process: {peak:.0f} MiB (goal: {GOAL_MIB})",
        f"goal: {GOAL_SENDS:,} sends a second: {'reached' if reached else 'MISSED'}",
    )
    show(
        f"{LOAD_KEYS} keys of {LOAD_EVENTS:,} events each, {LOAD_RATE:,} events a second",
        [("order", "where", "over time", "units a second"), *chart()],
        f"a full bar is {PARTITION_WRITE_UNITS:,} units a second: all a partition takes",
        left=4,
    )
    show("packets of 1,000 events, compressed: CPU us, and bytes of the body", levels())
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
