"""A writer's own time for a message, measured on this machine, beside the assumed one.

    python -m benchmarks.sizing

A writer counts single events and packets of 1,000 on DynamoDB Local, in batches of several sizes.
Measured is the processor time of the writer's process. `make costs` and `tallyroll plan` compute
from the assumed time how many events a second writers count. The time of a transaction is assumed
as well, and not measured here: an emulator's is not DynamoDB's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from benchmarks.costs import Rows, packets, scattered, show
from benchmarks.writing import KEY, MICROS, measure, write
from local.aws.embedded import Embedded
from tallyroll.client.packing import MINUTE_MS, PACKET_EVENTS_MAX
from tallyroll.model.events import Event, message_body
from tallyroll.pipeline import Pipeline
from tallyroll.planning.writers import message_ms
from tallyroll.settings import Settings

BATCHES = (10, 100, 980)
SINGLES = 1_960
PACKETS = 40
TIME_LEFT_MS = 60_000
WIDTH = 120


@dataclass(frozen=True, slots=True)
class Timed:
    """The writer's own time for a message that has so many events, in batches of a size, ms."""

    events_each: int
    batch: int
    ms: float


def timed(made: Pipeline) -> list[Timed]:
    """Measure every kind of message on an opened window."""
    writer, now = made.writer, made.effects.now()
    found = []
    for batch in BATCHES:
        bodies = [
            message_body(Event(KEY, f"{batch}-{number}", now, MICROS, None))
            for number in range(SINGLES)
        ]
        work = partial(write, writer, bodies, now, batch)
        found.append(Timed(1, batch, measure("", len(bodies), work).cpu_us / 1_000))
    minute = scattered(KEY, PACKETS * PACKET_EVENTS_MAX, now // MINUTE_MS * MINUTE_MS, MINUTE_MS)
    bodies = packets(minute)
    took = measure("", len(bodies), partial(write, writer, bodies, now))
    found.append(Timed(len(minute) // len(bodies), len(bodies), took.cpu_us / 1_000))
    return found


def of_times(found: list[Timed]) -> Rows:
    """The measured times beside those that `make costs` assumes."""
    rows: Rows = [("events a message", "messages a batch", "measured, ms", "assumed, ms")]
    for one in found:
        assumed = f"{message_ms(one.events_each):.2f}"
        rows.append((f"{one.events_each:,}", f"{one.batch:,}", f"{one.ms:.2f}", assumed))
    return rows


def main() -> None:
    """Measure, and print the tables."""
    with Embedded(Settings(name="benchmark", shards=64)) as aws:
        os.environ.update(aws.environment)
        Pipeline(aws.settings).roller.run(TIME_LEFT_MS)
        found = timed(Pipeline(aws.settings))
    console = Console(width=WIDTH)
    show(console, "A writer's own time for a message", of_times(found))


if __name__ == "__main__":
    main()
