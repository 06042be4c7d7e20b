"""What it takes to export a window by scan and to prove its archive, on DynamoDB Local and moto.

`make bench`, or

    python -m benchmarks.archiving [RECORDS] [--segments 64]

Cleanup runs in a process of its own, whose memory is watched. Machines are noisy, and an emulator
is no partition: look at the memory, and at the ratio of export to proof.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from benchmarks import processes
from local.aws.embedded import Embedded
from tallyroll import pipeline
from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.dynamodb.items import Item, record_item, tally_key
from tallyroll.lifecycle import cleanup
from tallyroll.model.amounts import format_amount
from tallyroll.model.formats.payloads import FORMAT_JSON
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import Total
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

RECORDS = 1_000_000
SEGMENTS = 64
KEYS = 10_000
MICROS = 1_000_000
BATCH = 25  # BatchWriteItem's most
THREADS = 8
BATCHES_AT_ONCE = 400
TIME_LEFT_MS = 900_000
SETTINGS = Settings(
    name="archiving",
    window_seconds=31_536_000,
    gates=16,
    retention_ms=0,
    settle_ms=0,
    shards_max=16,
    export_segments=SEGMENTS,
)


def records_of(spec: Spec, count: int, keys: int = KEYS) -> Iterator[Record]:
    """So many records of single events, each with a small payload."""
    for number in range(count):
        key, record_id = f"key-{number % keys}", f"record-{number:09d}"
        yield Record(
            key=key,
            id=record_id,
            shard=spec.shard(key, record_id),
            ts=spec.start + number % 1000,
            n=1,
            amount=number % 7 * MICROS,
            digest=number.to_bytes(16, "big"),
            data=b'{"number":%d,"from":"a benchmark"}' % number,
            format=FORMAT_JSON,
        )


def fill(made: Pipeline, count: int, keys: int = KEYS) -> Window:
    """Put so many records, with their tallies and totals, into the current window past the writer,
    and seal it; its state.
    """
    pipeline.Pipeline(made.settings).roller.run(60_000)
    pipeline.Pipeline(made.settings).roller.run(60_000)
    now = made.effects.now()
    [window] = [one for one in made.catalog.windows(0, now) if one.status is Status.OPEN]
    spec = made.catalog.specs([window.id])[window.id]
    sums: dict[str, tuple[int, int]] = {}

    def items() -> Iterator[Item]:
        for record in records_of(spec, count, keys):
            n, amount = sums.get(record.key, (0, 0))
            sums[record.key] = (n + 1, amount + record.amount)
            yield record_item(record)

    put_all(window.table, items())
    put_all(window.table, (_tally(spec, key, *of) for key, of in sums.items()))
    made.store.shut_gates(spec)
    totals = [Total(key, window.id, n, amount) for key, (n, amount) in sums.items()]
    chunks = [totals[at : at + 500] for at in range(0, len(totals), 500)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(made.totals.put, chunks))
    return made.catalog.advance(
        replace(
            window,
            status=Status.SEALED,
            times={**window.times, Status.SEALED: now},
            keys=len(sums),
            events=count,
            amount=sum(amount for _, amount in sums.values()),
        )
    )


def _tally(spec: Spec, key: str, n: int, amount: int) -> Item:
    numbers = {"n": str(n), "v": format_amount(amount), "u": "0"}
    return {**tally_key(spec, key, 1), **{name: {"N": text} for name, text in numbers.items()}}


def put_all(table: str, items: Iterator[Item]) -> None:
    """Put items by BatchWriteItem, several requests at once."""
    client = make_client("dynamodb")
    with ThreadPoolExecutor(THREADS) as pool:
        while some := list(islice(items, BATCH * BATCHES_AT_ONCE)):
            batches = [some[at : at + BATCH] for at in range(0, len(some), BATCH)]
            list(pool.map(partial(_put_batch, client, table), batches))


def _put_batch(client: Any, table: str, items: Sequence[Item]) -> None:
    request = {table: [{"PutRequest": {"Item": item}} for item in items]}
    while request:
        request = client.batch_write_item(RequestItems=request).get("UnprocessedItems")


def clean(time_left_ms: int) -> None:
    """One run of cleanup in this process, timed."""
    seconds = {"export": 0.0, "proof": 0.0}

    for name, attribute in (("export", "export"), ("proof", "prove")):
        setattr(cleanup, attribute, processes.timed(seconds, name, getattr(cleanup, attribute)))
    settings = Settings.from_env(os.environ)
    processes.tell_taken(seconds, pipeline.Pipeline(settings).cleanup.run(time_left_ms).problems)


def spawned(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """A process of cleanup; it prints a line when it begins, and another with what it took."""
    return processes.spawned("benchmarks.archiving", environment, "--clean", *arguments)


def measure(records: int, segments: int) -> None:
    """Fill a window, have it archived and dropped, and print what that took."""
    settings = replace(SETTINGS, export_segments=segments)
    with Embedded(settings) as aws:
        os.environ.update(aws.environment)
        made = pipeline.Pipeline(aws.settings)
        window = fill(made, records)
        runs = []
        while (now := made.catalog.window(window.id)) and now.status not in (
            Status.DROPPING,
            Status.DROPPED,
        ):
            runs.append(processes.taken(spawned(aws.environment, f"--time-left-ms={TIME_LEFT_MS}")))
            if runs[-1].problems:
                raise RuntimeError(f"not archived: {runs[-1].problems}")
        assert now
        items, segments = now.attempt.items, now.attempt.segments
    title = f"A window in {segments} segments, DynamoDB Local and moto"
    processes.show_taken(title, "items", runs, {"export": items, "proof": items})


def main() -> None:
    """Measure, and print the table; or be the process that is measured."""
    options = argparse.ArgumentParser()
    options.add_argument("records", type=int, nargs="?", default=RECORDS)
    options.add_argument("--segments", type=int, default=SEGMENTS)
    options.add_argument("--clean", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--time-left-ms", type=int, default=TIME_LEFT_MS, help=argparse.SUPPRESS)
    options.add_argument("--reserve-ms", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if not given.clean:
        measure(given.records, given.segments)
        return
    if given.reserve_ms is not None:
        setattr(cleanup, "DEADLINE_RESERVE_MS", given.reserve_ms)  # noqa: B010 (not its own)
    print("begun", flush=True)
    clean(given.time_left_ms)


if __name__ == "__main__":
    main()
