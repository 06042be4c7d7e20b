"""What a million events cost on AWS, and a month in which nothing happens: `make costs`.

Write units come from the requests that the writer would send, by AWS's rule; prices are those of
`tallyroll.planning.prices`. Where a figure is assumed, and not
computed, the last table says so: put your own in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from rich.console import Console
from rich.table import Table

from tallyroll.adapters.dynamodb.throughput import METERING
from tallyroll.client.packing import MINUTE_MS, PACKET_EVENTS_MAX, pack
from tallyroll.ingest.cost import Cost, commit_cost
from tallyroll.ingest.transactions import plan
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.events import Event, decode, event_body
from tallyroll.model.messages import Message
from tallyroll.model.records import Record, record_of
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.planning.costs import (
    FUNCTION_GB,
    FUNCTION_MS_IDLE,
    SQS_BATCH,
    SQS_CHUNK_BYTES,
    function_dollars,
    idle_month,
)
from tallyroll.planning.plan import WRITER_MS_PER_MESSAGE
from tallyroll.planning.prices import LAMBDA_REQUEST, MILLION, SQS_REQUEST, WRITE_UNIT
from tallyroll.settings import Settings

BATCH = 980  # messages that a writer is handed at once
EVENTS = 9_800
START_MS = 1_795_161_600_000
HOUR_MS = 3_600_000
WIDTH = 100
Rows = list[tuple[str, ...]]
"""A table, its headings first."""


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of traffic, as message bodies that carry EVENTS events in all."""

    name: str
    bodies: Sequence[str]

    @property
    def messages_each(self) -> float:
        """Messages per event."""
        return len(self.bodies) / EVENTS


def loads() -> Iterator[Load]:
    """Events alone and in packets: of one key, and of many keys over an hour."""
    hot = [f'{{"id": "vote-{n:08d}", "key": "Ada", "ts": {START_MS + n}}}' for n in range(EVENTS)]
    yield Load("one hot key, own ids", hot)
    cold = [f'{{"id": "o-{n:08d}", "key": "k-{n}", "ts": {START_MS + n}}}' for n in range(EVENTS)]
    yield Load("every event its own key", cold)
    chance = Random(1)
    hot_events = scattered("Ada", EVENTS, START_MS, MINUTE_MS)
    yield Load("one hot key, packets of 10", packets(hot_events, events_max=10))
    yield Load("one hot key, packets of 1,000", packets(hot_events))
    paid = [replace(event, payload=f'{{"user":"{chance.random():.16f}"}}') for event in hot_events]
    yield Load("packets of 1,000 with payloads", packets(paid))
    hour = scattered("", EVENTS, START_MS, HOUR_MS)
    spread = [replace(event, key=f"k-{chance.random() * 1_000:.0f}") for event in hour]
    alone = [event_body(replace(event, id=f"s-{n:08d}")) for n, event in enumerate(spread)]
    yield Load("1,000 keys over an hour, own ids", alone)
    yield Load("the same, packed by minute (a file)", packets(spread))
    yield Load("the same, packed by window (stdin)", packets(spread, span_ms=HOUR_MS))


def scattered(key: str, events: int, since: int, span_ms: int) -> list[Event]:
    """Events without ids at random times in a span, ascending."""
    chance = Random(2)
    times = sorted(since + int(chance.random() * span_ms) for _ in range(events))
    return [Event(key, None, ts, MILLION, None) for ts in times]


def packets(
    events: Iterable[Event], events_max: int = PACKET_EVENTS_MAX, span_ms: int = MINUTE_MS
) -> list[str]:
    """The bodies of their packets."""
    ids = count()
    new_id = lambda: f"00000000-0000-7000-8000-{next(ids):012d}"  # noqa: E731
    return list(pack(events, new_id, events_max=events_max, span_ms=span_ms))


def store_cost(spec: Spec, bodies: Sequence[str]) -> Cost:
    """The writes for these messages, in full batches."""
    cost = Cost()
    for first in range(0, len(bodies), BATCH):
        records = [_record(spec, body, first + n) for n, body in enumerate(bodies[first:][:BATCH])]
        for commit in plan(spec, records, METERING):
            cost += commit_cost(commit.records, commit.increments, METERING)
    return cost


def _record(spec: Spec, body: str, number: int) -> Record:
    return record_of(decode(body), Message(f"m{number}", body, START_MS, 1, ""), spec)


def queue_requests(bodies: Sequence[str]) -> float:
    """SQS requests: sent by tens, received by tens, deleted by tens."""
    requests = 0.0
    for first in range(0, len(bodies), SQS_BATCH):
        size = sum(len(body.encode()) for body in bodies[first : first + SQS_BATCH])
        chunks = -(-size // SQS_CHUNK_BYTES)
        requests += 2 * chunks + 1
    return requests


def of_events(settings: Settings) -> Rows:
    """What a million events of each load cost."""
    spec = freeze(Window("20261120T080000Z", "", START_MS, START_MS + 3_600_000), settings)
    rows: Rows = [("load", "units each", "DynamoDB", "SQS", "Lambda", "in all")]
    for load in loads():
        units = store_cost(spec, load.bodies).total / EVENTS
        dynamodb = units * MILLION * WRITE_UNIT
        sqs = queue_requests(load.bodies) / EVENTS * MILLION * SQS_REQUEST
        messages = load.messages_each * MILLION
        compute = function_dollars(messages * WRITER_MS_PER_MESSAGE)
        compute += messages / BATCH * LAMBDA_REQUEST
        costs = (dynamodb, sqs, compute, dynamodb + sqs + compute)
        rows.append((load.name, f"{units:.3f}", *(f"{cost:.3f}" for cost in costs)))
    return rows


def of_a_month(settings: Settings) -> Rows:
    """What stands there costs in a month, whether anything is counted or not."""
    costs = idle_month(settings)
    costs["in all"] = sum(costs.values())
    return [("for", "cost"), *((name, f"{cost:.2f}") for name, cost in costs.items())]


def assumed() -> Rows:
    """The figures that are not computed."""
    return [
        ("what", "value"),
        ("messages in a writer's batch", f"{BATCH}"),
        ("writer's time for a message, ms", f"{WRITER_MS_PER_MESSAGE}"),
        ("memory of functions, GB", f"{FUNCTION_GB:.2f}"),
        ("an idle run of roller or cleanup, ms", f"{FUNCTION_MS_IDLE}"),
    ]


def main() -> None:
    """Print the tables."""
    settings, console = Settings(), Console(width=WIDTH)
    for title, rows in (
        ("A million events, in US dollars", of_events(settings)),
        ("An idle month, in US dollars", of_a_month(settings)),
        ("Assumed, not computed", assumed()),
    ):
        table = Table(title=title)
        for number, heading in enumerate(rows[0]):
            table.add_column(heading, justify="right" if number else "left")
        for row in rows[1:]:
            table.add_row(*row)
        console.print(table)
    console.print("units are without conflicts; `python -m benchmarks.conflicts` models these")
    console.print("left out: storage, archives, logs, reads by the API, point-in-time recovery")


if __name__ == "__main__":
    main()
