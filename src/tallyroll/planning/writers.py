"""What writers take: how long one batch lasts, and how many messages a second N writers count."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tallyroll.limits import IN_FLIGHT_MAX
from tallyroll.planning.load import PeakLoad
from tallyroll.planning.writes import BatchWrites, batch_writes
from tallyroll.settings import Settings

# Assumed: a writer's own time for one message, and for each event if it is a packet. About twice
# what `python -m benchmarks.sizing` measures on one processor.
WRITER_MS_PER_MESSAGE, PACKED_EVENT_MS = 0.2, 0.005
TRANSACTION_MS = 20  # assumed: of a full transaction, from prepare to commit
# Lambda hands a function at most 6 MB at once. Source: AWS Lambda Developer Guide, "Lambda quotas".
INVOCATION_BYTES_MAX = 6 * 1024 * 1024
RECORD_ENVELOPE_BYTES = 1_000  # assumed: of a message in Lambda's event, beside its body


@dataclass(frozen=True, slots=True)
class Sustained:
    """What so many writers count while messages wait, so that every batch is full.

    `messages` are those of one batch; `busy` is how many of the writers SQS keeps busy. The units
    are those of the window's table.
    """

    messages: int
    busy: float
    messages_per_second: float
    events_per_second: float
    units_per_event: float


def message_ms(events_each: float) -> float:
    """A writer's own time for a message of so many events, as it is assumed."""
    return WRITER_MS_PER_MESSAGE + (PACKED_EVENT_MS * events_each if events_each > 1 else 0.0)


def batch_seconds(batch: BatchWrites, *, at_once: int) -> float:
    """How long a writer takes for one batch, with so many transactions at once."""
    own_ms = batch.records * message_ms(batch.events_each)
    return (own_ms + ceil(batch.transactions / at_once) * TRANSACTION_MS) / 1_000


def sustained(load: PeakLoad, *, writers: int, batch_size: int, settings: Settings) -> Sustained:
    """What so many writers take of a load, with batches of this size at the most.

    Two limits of AWS are part of it: 6 MB a batch, and 120,000 messages in flight. Left out are the
    limits of tables and keys, conflicts, and how fast Lambda adds writers.
    """
    fits = int(INVOCATION_BYTES_MAX // (load.message_bytes + RECORD_ENVELOPE_BYTES))
    messages = max(1, min(batch_size, fits))
    batch = batch_writes(load, messages=messages, with_ids=settings.remembers_ids)
    seconds = batch_seconds(batch, at_once=settings.transactions_at_once)
    busy = min(writers, IN_FLIGHT_MAX / messages)
    rate = busy * messages / seconds
    return Sustained(messages, busy, rate, rate * load.events_each, batch.per_event.each)
