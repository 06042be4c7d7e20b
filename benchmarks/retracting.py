"""What it takes to take events back, on DynamoDB Local, beside what it took to count them.

`make bench`, or

    python -m benchmarks.retracting [EVENTS]

A writer counts events of one hot key, each with an id of its own, and takes half of them back while
their window is open, and the rest once it is sealed. Write units are those of AWS's rule. Compare
the rows with each other: an emulator is no partition.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.tables import Rows, show
from local.aws.embedded import Embedded
from tallyroll.adapters.memory import MemoryQueue
from tallyroll.adapters.system import SystemEffects
from tallyroll.model.messages import Message
from tallyroll.model.retractions import Retraction
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

EVENTS = 9_800
BATCH = 980  # messages that a writer is handed at once
ALONE = 100  # that come one by one
MINUTE_MS = 60_000
RUNS_MAX = 60  # of the roller, a minute apart, until a window is sealed
TIME_LEFT_MS = 600_000
KEY = "candidate-7"
SETTINGS = Settings(
    name="retracting",
    window_seconds=600,
    accept_for_ms=MINUTE_MS,
    settle_ms=0,
    retraction="queue",
    shards_max=16,
)


class Ahead(SystemEffects):
    """The system's clock, set ahead by `ms`."""

    ms = 0

    def now(self) -> int:
        """The time, in ms."""
        return super().now() + self.ms


@dataclass
class Run:
    """A pipeline with one writer; `requests` counts the calls of DynamoDB."""

    settings: Settings

    def __post_init__(self) -> None:
        self.requests = 0
        self.effects = Ahead()
        queue = MemoryQueue(self.effects)
        self.made = Pipeline(self.settings, self.effects, self._observe, ports={"queue": queue})

    def _observe(self, *_: object) -> None:
        self.requests += 1

    def roll(self) -> None:
        """Run the roller a minute later."""
        self.effects.ms += MINUTE_MS
        self.made.roller.run(TIME_LEFT_MS)

    def row(self, name: str, bodies: Sequence[str], batch: int = BATCH) -> tuple[str, ...]:
        """Write messages, so many at once; what each took. Raises RuntimeError unless each was
        counted or taken back.
        """
        requests, units, done, began = self.requests, 0.0, 0, time.perf_counter()
        for at in range(0, len(bodies), batch):
            now = self.effects.now()
            messages = [
                Message(f"{name}-{number}", body, now, 1, "r")
                for number, body in enumerate(bodies[at : at + batch], at)
            ]
            report = self.made.writer.write(messages, TIME_LEFT_MS)
            units += report.cost.total
            done += report.events + report.retracted
        seconds = time.perf_counter() - began
        if done != len(bodies):
            raise RuntimeError(f"{name}: {done} of {len(bodies)} were done")
        each = (units / done, (self.requests - requests) / done, done / seconds)
        return name, f"{done:,}", f"{each[0]:.3f}", f"{each[1]:.4f}", f"{each[2]:,.0f}"


def measure(settings: Settings, events: int) -> Rows:
    """The table's rows. Raises RuntimeError if a number is wrong."""
    run = Run(settings)
    for _ in range(3):  # a window opens one run after its table is made
        run.roll()
    ts = run.effects.now()
    sent = [json.dumps({"key": KEY, "id": f"vote-{n:07d}", "ts": ts}) for n in range(events)]
    back = [Retraction.of(KEY, f"vote-{n:07d}", ts=ts).body for n in range(events)]
    half = events // 2
    rows: Rows = [("", "messages", "write units each", "requests each", "a second")]
    rows.append(run.row("counted", sent))
    rows.append(run.row("taken back, window open", back[ALONE:half]))
    rows.append(run.row("the same, one by one", back[:ALONE], 1))
    grid = run.made.catalog.calendar()
    assert grid
    window = grid.grid.at(ts).id
    state = None
    for _ in range(RUNS_MAX):
        run.roll()
        state = run.made.catalog.window(window)
        if state and state.status.sealed:
            break
    else:
        raise RuntimeError(f"window {window} is not sealed: {state}")
    rows.append(run.row("taken back, window sealed", back[half + ALONE :]))
    rows.append(run.row("the same, one by one", back[half : half + ALONE], 1))
    count = run.made.reader.count(KEY)
    if (count.events, count.retracted[0]) != (0, events):
        raise RuntimeError(f"{count.events} events are left, {count.retracted} were taken back")
    return rows


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", nargs="?", type=int, default=EVENTS)
    events = parser.parse_args().events
    with Embedded(SETTINGS) as aws:
        os.environ.update(aws.environment)
        show(f"Taking {events:,} events back, DynamoDB Local", measure(aws.settings, events))


if __name__ == "__main__":
    main()
