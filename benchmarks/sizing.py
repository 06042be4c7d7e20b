"""A writer's own time for a message, measured on this machine, beside the assumed one.

    python -m benchmarks.sizing

A writer counts single events, the same as EventBridge delivers them, by a mapping, and packets of
1,000 on DynamoDB Local, in batches of several sizes. Measured is the processor time of the writer's
process. `make costs` and `tallyroll plan` compute from the assumed time how many events a second
writers count. The time of a transaction is assumed as well, and not measured here: an emulator's is
not DynamoDB's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.costs import BATCH, packets, scattered
from benchmarks.tables import Rows, show
from local.aws.embedded import Embedded
from tallyroll.client.packing import MINUTE_MS, PACKET_EVENTS_MAX
from tallyroll.ingest.writer import Writer
from tallyroll.model.amounts import MICROS
from tallyroll.model.events import Event, message_body
from tallyroll.model.messages import Message
from tallyroll.pipeline import Pipeline
from tallyroll.planning.writers import message_ms
from tallyroll.settings import Settings

KEY = "hot"
BATCHES = (10, 100, BATCH)
SINGLES = 1_960
PACKETS = 40
TIME_LEFT_MS = 60_000
MAPPING = {"key": "detail.videoId", "id": "detail.viewId", "ts": "detail.at"}


@dataclass(frozen=True, slots=True)
class Timed:
    """The writer's own time for a message of a kind that has so many events, in batches of a size,
    ms.
    """

    kind: str
    events_each: int
    batch: int
    ms: float


def message_cpu_ms(writer: Writer, bodies: Sequence[str], sent: int, batch: int) -> float:
    """Count messages in batches: the processor time of one, ms. Raises RuntimeError if an event was
    not counted.
    """
    messages = [Message(f"m{number}", body, sent, 1, "") for number, body in enumerate(bodies)]
    began = time.process_time()
    for first in range(0, len(messages), batch):
        report = writer.write(messages[first : first + batch], TIME_LEFT_MS)
        if report.failures or report.rejected or report.duplicates:
            raise RuntimeError(f"not every event was counted: {report}")
    return (time.process_time() - began) * 1_000 / len(bodies)


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


def timed(settings: Settings) -> list[Timed]:
    """Measure every kind of message on an opened window, each by a writer of its own."""
    made = Pipeline(settings)
    now = made.effects.now()
    kinds: dict[str, Callable[[str], str]] = {
        "single": lambda name: message_body(Event(KEY, name, now, MICROS, None)),
        "by a mapping": lambda name: from_event_bridge(name, now),
    }
    found = []
    for kind, body in kinds.items():
        for batch in BATCHES:
            bodies = [body(f"{kind}-{batch}-{number}") for number in range(SINGLES)]
            ms = message_cpu_ms(Pipeline(settings).writer, bodies, now, batch)
            found.append(Timed(kind, 1, batch, ms))
    minute = scattered(KEY, PACKETS * PACKET_EVENTS_MAX, now // MINUTE_MS * MINUTE_MS, MINUTE_MS)
    bodies = packets(minute)
    ms = message_cpu_ms(made.writer, bodies, now, len(bodies))
    return [*found, Timed("packet", len(minute) // len(bodies), len(bodies), ms)]


def of_times(found: list[Timed]) -> Rows:
    """The measured times beside those that `make costs` assumes."""
    rows: Rows = [("message", "events", "messages a batch", "measured, ms", "assumed, ms")]
    for one in found:
        assumed = f"{message_ms(one.events_each):.2f}"
        rows.append((one.kind, f"{one.events_each:,}", f"{one.batch:,}", f"{one.ms:.2f}", assumed))
    return rows


def main() -> None:
    """Measure, and print the table."""
    with Embedded(Settings(name="benchmark", shards=64, mapping=MAPPING)) as aws:
        os.environ.update(aws.environment)
        Pipeline(aws.settings).roller.run(TIME_LEFT_MS)
        show("A writer's own time for a message", of_times(timed(aws.settings)))


if __name__ == "__main__":
    main()
