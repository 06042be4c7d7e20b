"""What it takes to count on a hot key, on DynamoDB Local, in one run: `make bench`.

Four ways to count events of one key, one writer each: an UpdateItem that adds 1 per event (which
counts redeliveries twice), this project's writer on events with ids of their own, on the same
events from EventBridge by a mapping, and on packets.
Machines are noisy, and an emulator is no partition: look at the ratios.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from rich.console import Console
from rich.table import Table

from benchmarks.costs import packets, scattered
from local.aws.embedded import Embedded
from tallyroll import pipeline
from tallyroll.adapters.aws.client import make_client
from tallyroll.client.packing import MINUTE_MS
from tallyroll.ingest.writer import BatchReport, Writer
from tallyroll.model.events import Event, message_body
from tallyroll.model.messages import Message
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

KEY = "hot"
ADDS = 1_000
SINGLES = 9_800
PACKED = 98_000
PASSES = 10
BATCH = 980
MICROS = 1_000_000
TIME_LEFT_MS = 60_000
MAPPING = {"key": "detail.videoId", "id": "detail.viewId", "ts": "detail.at"}
WIDTH = 100


@dataclass(frozen=True, slots=True)
class Measured:
    """What one way took: events per second of wall time; per event, the client CPU in microseconds
    and write units by AWS's rule.
    """

    way: str
    per_second: float
    cpu_us: float
    units: float


def measure(way: str, events: int, work: Callable[[], float]) -> Measured:
    """Time `work`, which counts this many events and gives the write units it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    units = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Measured(way, events / wall, cpu / events * 1e6, units / events)


def add_one_by_one(catalog_table: str) -> float:
    """The plain way: one UpdateItem per event, all on one item."""
    client = make_client("dynamodb")
    for _ in range(ADDS):
        client.update_item(
            TableName=catalog_table,
            Key={"pk": {"S": "benchmark"}, "sk": {"S": KEY}},
            UpdateExpression="ADD n :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )
    return ADDS


def write(writer: Writer, bodies: Sequence[str], sent: int, batch_size: int = BATCH) -> float:
    """This project's way: batches through the writer. Raises RuntimeError if one is not exact."""
    units, numbers = 0.0, count()
    for first in range(0, len(bodies), batch_size):
        batch = [
            Message(f"m{next(numbers)}", body, sent, 1, "")
            for body in bodies[first : first + batch_size]
        ]
        report: BatchReport = writer.write(batch, TIME_LEFT_MS)
        if report.failures or report.rejected or report.duplicates:
            raise RuntimeError(f"not every event was counted: {report}")
        units += report.cost.total
    return units


def from_event_bridge(view: str, at: int) -> str:
    """The body of an event as EventBridge delivers it, for `MAPPING`."""
    return json.dumps(
        {
            "version": "0",
            "id": f"17793124-05d4-b198-2fde-{view}",
            "detail-type": "view",
            "source": "site.player",
            "account": "123456789012",
            "time": "2026-11-20T08:30:00Z",
            "region": "eu-central-1",
            "resources": [],
            "detail": {"videoId": KEY, "viewId": view, "at": at},
        }
    )


def measure_all(made: Pipeline, settings: Settings) -> list[Measured]:
    """All ways, on an opened window."""
    writer, now = pipeline.Pipeline(settings).writer, made.effects.now()
    singles = [message_body(Event(KEY, f"id-{n}", now, MICROS, None)) for n in range(SINGLES)]
    mapped = [from_event_bridge(f"mapped-{n}", now) for n in range(SINGLES)]
    minute = scattered(KEY, PACKED // PASSES, now // MINUTE_MS * MINUTE_MS, MINUTE_MS)
    packed = packets(minute * PASSES)  # each packet as dense as in `make costs`
    table = f"{settings.name}-catalog"
    return [
        measure("UpdateItem ADD per event", ADDS, lambda: add_one_by_one(table)),
        measure("events with own ids", SINGLES, lambda: write(writer, singles, now)),
        measure("the same, by a mapping", SINGLES, lambda: write(writer, mapped, now)),
        measure("packets of 1,000", PACKED, lambda: write(writer, packed, now)),
    ]


def main() -> None:
    """Measure, and print the table."""
    with Embedded(Settings(name="benchmark", shards=64, mapping=MAPPING)) as aws:
        os.environ.update(aws.environment)
        made = pipeline.Pipeline(aws.settings)
        pipeline.Pipeline(aws.settings).roller.run(TIME_LEFT_MS)
        measured = measure_all(made, aws.settings)
    table = Table(title="One hot key, one writer, DynamoDB Local", title_justify="left")
    table.add_column("way")
    for name in ("events/s", "ratio", "client CPU us/event", "write units/event"):
        table.add_column(name, justify="right")
    for row in measured:
        table.add_row(
            row.way,
            f"{row.per_second:,.0f}",
            f"{row.per_second / measured[0].per_second:.1f}",
            f"{row.cpu_us:.0f}",
            f"{row.units:.3f}",
        )
    Console(width=WIDTH).print(table)


if __name__ == "__main__":
    main()
