"""A demo run: the embedded AWS, the pipeline on it, and what the demo reads and writes of both."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from rich.console import Console

from local.aws.embedded import CASSANDRA, Embedded, resident_bytes
from local.demo.backpressure import BoundedSender, queue_depth
from local.demo.emf import Ledger
from local.demo.inspection import IncompleteCount, Inspection
from local.demo.report import Sum, numbered
from local.demo.view import busy
from local.pipeline import LocalPipeline
from local.runtime.poller import Faults
from tallyroll.adapters.aws.sqs import SqsSender
from tallyroll.pipeline import Pipeline
from tallyroll.pipeline.buckets import bucket_copy
from tallyroll.settings import Settings

COUNT_EVERY_S = 1.0
MEMORY_EVERY_S = 1.0
PROBLEMS_SHOWN = 10


class Memory:
    """The resident memory of the emulators and of this process, looked at once a second."""

    def __init__(self, aws: Embedded) -> None:
        self._aws = aws
        self._seen: dict[str, list[int]] = {}
        self._stopping = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[Self]:
        """Look on while the block lasts."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(MEMORY_EVERY_S):
            for name, size in {**self._aws.memory(), "demo": resident_bytes(os.getpid())}.items():
                if size:
                    first, most, _ = self._seen.get(name, [size, 0, 0])
                    self._seen[name] = [first, max(most, size), size]

    def line(self) -> str:
        """What each process took at first, at the most and at last, for people."""
        parts = (
            f"{name} {first >> 20} / {most >> 20} / {last >> 20}"
            for name, (first, most, last) in self._seen.items()
        )
        return "memory in MiB, first / most / last: " + ", ".join(parts)


@dataclass(frozen=True)
class Run:
    """A running pipeline; `sender` takes message bodies and waits while the queue, which holds
    `queued()` messages, is long.
    """

    aws: Embedded
    pipeline: LocalPipeline
    adapters: Pipeline
    inspection: Inspection
    ledger: Ledger
    sender: BoundedSender[str]
    queued: Callable[[], int]
    memory: Memory

    def problems(self) -> list[str]:
        """The latest complaints in the functions' logs."""
        return list(self.ledger.problems)[-PROBLEMS_SHOWN:]

    def keep_archives(self, directory: Path) -> str:
        """Copy all archives out of the bucket; say where they are, and what reads them."""
        bucket, copy = self.adapters.bucket, bucket_copy(directory)
        keys = list(bucket.list("archive/"))
        for key in keys:
            copy.put(key, bucket.get(key))
        name = self.aws.settings.name
        return (
            f"archives kept in {directory}: {numbered(len(keys), 'file')}; see\n"
            f"  .venv/bin/tallyroll --name {name} archive list --dir {directory}\n"
            f'  .venv/bin/tallyroll --name {name} archive sql "FROM events" --dir {directory}'
        )


Start = Callable[[Settings], AbstractContextManager[Run]]
"""Starts a run with these settings."""


@contextmanager
def running(
    settings: Settings,
    *,
    console: Console,
    engine: str,
    dynamodb_endpoint: str | None,
    faults: Faults,
    writers: int,
    batch_size: int,
    window_s: float,
) -> Iterator[Run]:
    """Start everything, wait for the first window to open, and end everything with the block.

    Raises RuntimeError if a part does not start.
    """
    ledger = Ledger()
    with ExitStack() as stack:
        own = engine != "moto" and dynamodb_endpoint is None
        started = ["Cassandra"] * (engine == CASSANDRA) + ["DynamoDB Local"] * own + ["moto"]
        with busy(console, f"starting {' and '.join(started)}"):
            aws = stack.enter_context(
                Embedded(settings, engine=engine, dynamodb_endpoint=dynamodb_endpoint)
            )
        os.environ.update(aws.environment)  # for the adapters' clients
        made = Pipeline(aws.settings)
        pipeline = LocalPipeline(
            aws,
            writers=writers,
            batch_size=batch_size,
            window_s=window_s,
            cleanup_period_s=settings.roller_period_ms / 1000,
            faults=faults,
            on_log=lambda _function, line: ledger.log(line),
            on_error=ledger.problems.append,
        )
        with busy(console, "starting the pipeline and opening its first window"):
            stack.enter_context(pipeline)
            inspection = Inspection(aws, made, pipeline.aggregator)
            inspection.await_open()
        depth = partial(queue_depth, aws.client("sqs"), aws.settings.queue_url)
        sender = BoundedSender[str](partial(_send, made.sender), depth)
        memory = stack.enter_context(Memory(aws).watched())
        yield Run(aws, pipeline, made, inspection, ledger, sender, depth, memory)


def _send(producer: SqsSender, bodies: Sequence[str]) -> None:
    if failures := producer.send(bodies):
        raise RuntimeError(f"{len(failures)} messages were not sent: {failures[0]}")


class Counts:
    """The live counts of some keys, asked for about once a second, and how fast they grow."""

    def __init__(self, run: Run, keys: Sequence[str]) -> None:
        self._run = run
        self._keys = keys
        self._at = 0.0
        self._counted: dict[str, Sum] = {}
        self._per_second = 0.0

    def read(self) -> tuple[dict[str, Sum], float]:
        """The latest counts, and the events counted per second since those before."""
        now = time.monotonic()
        if now - self._at >= COUNT_EVERY_S:
            with suppress(IncompleteCount):  # the next ones will do
                self._update(self._run.inspection.count(self._keys), now)
        return self._counted, self._per_second

    def _update(self, found: dict[str, Sum], now: float) -> None:
        before, counted = (
            sum(part.events for part in counts.values()) for counts in (self._counted, found)
        )
        self._per_second = (counted - before) / (now - self._at)
        self._counted, self._at = found, now


def now_ms() -> int:
    """The wall clock in ms since the epoch."""
    return time.time_ns() // 1_000_000
