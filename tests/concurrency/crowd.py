"""Sixteen writers at once on DynamoDB Local, and a reader that never rests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Self
from uuid import uuid4

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.memory import MemoryQueue
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import StoreError
from tallyroll.ingest.writer import BatchReport, Writer
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.limits import TRANSACTION_ACTIONS_MAX
from tallyroll.model.foreign.mappings import founded_with
from tallyroll.model.messages import Message
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.windows import Grid, Span
from tallyroll.pipeline import Pipeline
from tallyroll.resources import declare
from tallyroll.settings import Settings

WRITERS = 16
HOUR = 3_600_000
TIME_LEFT_MS = 60_000
SEGMENTS = 8


def open_window(made: Pipeline, span: Span, genesis: int) -> Spec:
    """An open window of a pipeline whose first window begins at `genesis` (ms)."""
    window = Window(span.id, f"{made.settings.name}-{span.id}", span.start, span.end)
    made.catalog.create(window)
    made.store.make_table(window.table, {"tallyroll": made.settings.name})
    spec = made.catalog.put_spec(freeze(window, made.settings, genesis=genesis))
    made.store.open_gates(spec)
    made.catalog.advance(replace(window, status=Status.OPEN))
    return spec


@dataclass
class Crowd:
    """An open window of an hour on a real engine, and writers of it."""

    settings: Settings
    made: Pipeline
    spec: Spec
    queue: MemoryQueue
    now: int
    reports: list[BatchReport] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    _mine: threading.local = field(default_factory=threading.local)

    @classmethod
    def gathered(cls, stripes: int, **changes: Any) -> Crowd:
        """A pipeline of its own, its current window open."""
        few = {"shards": stripes, "stripes_min": stripes, "buckets": 16, "gates": 64}
        settings = Settings(name=f"c{uuid4().hex[:12]}", **few | changes)
        resources = declare(settings)
        client = make_client("dynamodb")
        for table in resources.permanent:
            client.create_table(**table_request(table))
        made = Pipeline(settings)
        now = made.effects.now()
        grid = Grid.of(3600)
        span = grid.at(now)
        made.catalog.found(Calendar(grid, span.start, founded_with(settings.mapping_text)))
        spec = open_window(made, span, span.start)
        return cls(settings, made, spec, MemoryQueue(SystemEffects()), now)

    def message(self, number: int, key: str, value: int) -> Message:
        """One delivery of the event of that number; every delivery of it is the same message."""
        body = json.dumps({"id": f"event-{number}", "key": key, "ts": self.now, "value": value})
        return Message(f"message-{number}", body, self.now, 1, f"receipt-{number}")

    def deliver(self, deliveries: Sequence[Message], seed: int) -> None:
        """Deliver all, in batches cut by chance, to the writers, until nothing is handed back."""
        chance = Random(seed)
        batches = list(_cut(deliveries, chance))
        while batches:
            with ThreadPoolExecutor(WRITERS) as pool:
                back = [again for part in pool.map(self._write, batches) for again in part]
            batches = list(_cut(back, chance))

    def _write(self, batch: Sequence[Message]) -> list[Message]:
        self.begun.update([message.id for message in batch])
        report = self._writer().write(batch, TIME_LEFT_MS)
        self.reports.append(report)
        failed = set(report.failures)
        return [replace(message, receives=2) for message in batch if message.id in failed]

    def _writer(self) -> Writer:
        """This thread's own writer, with caches of its own."""
        if not hasattr(self._mine, "writer"):
            made = self.made
            ports = (made.store, made.catalog, self.queue, made.effects, made.totals)
            self._mine.writer = Writer(self.settings, *ports)
        writer: Writer = self._mine.writer
        return writer

    @property
    def counted(self) -> int:
        """The events that the writers say they were the first to count, so far."""
        return sum(report.events for report in self.reports)

    @property
    def in_doubt(self) -> int:
        """The most events that were counted and that no writer knows to be counted by it.

        On a slow machine a reply comes after the writer gave it up; the next try, which then finds
        the records, takes them for duplicates.
        """
        return sum(report.unknown for report in self.reports) * TRANSACTION_ACTIONS_MAX

    def records(self, spec: Spec | None = None) -> list[Record]:
        """All records in the table of the window, or of another one."""
        found = []
        for segment in range(SEGMENTS):
            for page in self.made.store.scan((spec or self.spec).table, segment, SEGMENTS):
                held = map(self.made.codec.parse, page)
                found += [one for one in held if isinstance(one, Record)]
        return found


def _cut(messages: Sequence[Message], chance: Random) -> Iterator[Sequence[Message]]:
    at = 0
    while at < len(messages):
        size = chance.randint(1, 600)
        yield messages[at : at + size]
        at += size


class Watcher:
    """Reads again and again while the block lasts.

    An answer is at least the one before and what was acknowledged when it was asked for, and at
    most what writers had begun with when it came.
    """

    def __init__(self, crowd: Crowd, read: Callable[[], int], *, pause_s: float = 0.05) -> None:
        self.answers: list[int] = []
        self._crowd = crowd
        self._read = read
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._watching = self._pool.submit(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._watching.result()
        self._pool.shutdown()

    def _watch(self) -> None:
        last = 0
        while not self._stopping.wait(self._pause_s):
            least = max(last, self._crowd.counted)
            try:
                answer = self._read()
            except StoreError:  # the engine took too long: that says nothing
                continue
            most = len(self._crowd.begun)
            assert least <= answer <= most, (least, answer, most)
            self.answers.append(answer)
            last = answer
