"""A pipeline on in-memory ports, at half past eight, with a clock that moves only when told to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

from tallyroll.adapters.memory import (
    MemoryBucket,
    MemoryCatalog,
    MemoryQueue,
    MemoryStore,
    MemoryTotals,
)
from tallyroll.ingest.writer import BatchReport, Writer
from tallyroll.lifecycle.cleanup import Cleanup
from tallyroll.lifecycle.compactor import Compactor
from tallyroll.lifecycle.dropper import Dropper
from tallyroll.lifecycle.roller import Roller
from tallyroll.model.messages import Message, Rejection
from tallyroll.model.records import Increment, Record
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import window_id, window_start
from tallyroll.ports.effects import T
from tallyroll.ports.store import Outcome
from tallyroll.reads.reader import PortReader
from tallyroll.settings import Settings
from tests.harness.native_exports import MemoryExports

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOW = 1_795_163_400_000  # 2026-11-20T08:30:00Z
WINDOW = "20261120T080000Z"
START = window_start(WINDOW)
TIME_LEFT = 60_000

Commitment = tuple[Spec, tuple[Record, ...], tuple[Increment, ...]]


class StillEffects:
    """Sleeping moves the clock, jobs run one after another, chance is seeded."""

    def __init__(self, now: int = NOW, seed: int = 1) -> None:
        self.chance: Chance = Random(seed)
        self._now = now
        self.slept: list[float] = []

    def now(self) -> int:
        return self._now

    def sleep(self, ms: float) -> None:
        self.slept.append(ms)
        self._now += math.ceil(ms)

    def pass_by(self, ms: int) -> None:
        """Let time pass."""
        self._now += ms

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        results: list[T] = []
        errors: list[Exception] = []
        for job in jobs:
            try:
                results.append(job())
            except Exception as error:  # noqa: BLE001 - the port's contract: join all, then raise
                errors.append(error)
        if errors:
            raise errors[0]
        return results


class ScriptedStore(MemoryStore):
    """A memory store that notes its commits, and answers the first of them as `script` says.

    A None in the script lets that commit through.
    """

    script: list[Outcome | None]
    commits: list[Commitment]

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        self.commits.append((spec, tuple(records), tuple(increments)))
        scripted = self.script.pop(0) if self.script else None
        return scripted or super().commit(spec, records, increments)


class PickyQueue(MemoryQueue):
    """A memory queue that notes delays, and refuses what its dead-letter queue does not take."""

    delays: list[tuple[str, int]]
    refuses: Callable[[Rejection], bool] | None = None

    def delay(self, receipts: Sequence[tuple[str, int]]) -> None:
        self.delays += receipts
        super().delay(receipts)

    def reject(self, rejections: Sequence[Rejection]) -> list[bool]:
        taken = [not (self.refuses and self.refuses(rejection)) for rejection in rejections]
        super().reject(
            [rejection for rejection, there in zip(rejections, taken, strict=True) if there]
        )
        return taken


SMALL = Settings(
    shards=4,
    stripes_min=8,
    buckets=4,
    gates=4,
    export_segments=2,
    settle_ms=0,
    visibility_ms=6 * MINUTE,
)


@dataclass
class Pipeline:
    """Settings, effects and memory ports; the use cases on them are made on request."""

    settings: Settings = SMALL
    effects: StillEffects = field(default_factory=StillEffects)

    def __post_init__(self) -> None:
        self.catalog = MemoryCatalog()
        self.store = ScriptedStore(self.effects, self.catalog)
        self.store.script, self.store.commits = [], []
        self.totals = MemoryTotals()
        self.queue = PickyQueue(self.effects, visibility_ms=self.settings.visibility_ms)
        self.queue.delays = []
        self.bucket = MemoryBucket()
        self.exports = MemoryExports(self.effects, self.store, self.bucket)
        self._numbers = count(1)

    def writer(self) -> Writer:
        ports = (self.store, self.catalog, self.queue, self.effects, self.totals)
        return Writer(self.settings, *ports)

    def roller(self) -> Roller:
        ports = (self.store, self.catalog, self.totals, self.queue, self.effects)
        return Roller(self.settings, *ports)

    def cleanup(self) -> Cleanup:
        ports = (self.store, self.catalog, self.totals, self.bucket, self.effects, self.exports)
        return Cleanup(self.settings, *ports)

    def dropper(self) -> Dropper:
        return Dropper(self.settings, self.store, self.catalog, self.bucket, self.effects)

    def compactor(self) -> Compactor:
        ports = (self.catalog, self.bucket, self.store.codec, self.effects)
        return Compactor(self.settings, *ports)

    def reader(self) -> PortReader:
        ports = (self.store, self.catalog, self.totals, self.effects)
        return PortReader(self.settings, *ports)

    def message(
        self, body: str | dict[str, Any], *, sent: int | None = None, receives: int = 1
    ) -> Message:
        """A delivery; a body that is no text is sent as JSON."""
        text = body if isinstance(body, str) else json.dumps(body)
        number = next(self._numbers)
        when = self.effects.now() if sent is None else sent
        return Message(f"message-{number}", text, when, receives, f"receipt-{number}")

    def write(self, *bodies: str | dict[str, Any]) -> BatchReport:
        """What a new writer makes of these bodies in one batch."""
        return self.writer().write([self.message(body) for body in bodies], TIME_LEFT)

    def spec(self, window: str = WINDOW) -> Spec:
        return self.catalog.specs([window])[window]

    def state(self, window: str = WINDOW) -> Window:
        state = self.catalog.window(window)
        assert state
        return state

    def move(self, status: Status, window: str = WINDOW, **changes: Any) -> Window:
        """Write a window's state as if its steps had been carried out."""
        state = self.state(window)
        times = {**state.times, status: self.effects.now()}
        return self.catalog.advance(replace(state, status=status, times=times, **changes))

    def tally(self, key: str, window: str = WINDOW) -> tuple[int, int]:
        """A key's events and amount in a window's table."""
        tally = self.store.tallies(self.spec(window), [key])[key]
        return tally.n, tally.amount

    def reasons(self) -> list[str | None]:
        """Why each dead letter was rejected."""
        return [letter.reason for letter in self.queue.dead_letters]


def opened(settings: Settings = SMALL) -> Pipeline:
    """A pipeline since six o'clock: windows 06 to 08 stand open, 09 and 10 are made."""
    pipeline = Pipeline(settings, StillEffects(NOW - 150 * MINUTE))
    pipeline.roller().run(TIME_LEFT)
    pipeline.effects.pass_by(150 * MINUTE)
    pipeline.roller().run(TIME_LEFT)
    pipeline.roller().run(TIME_LEFT)
    return pipeline


def spec_of(window: str = WINDOW, **changes: Any) -> Spec:
    """A spec like those of `opened()`."""
    start = window_start(window)
    spec = Spec(
        window=window,
        table=f"tallyroll-{window}",
        start=start,
        end=start + HOUR,
        shards=4,
        stripes_min=8,
        buckets=4,
        gates=4,
        suffix="calculated",
        accept_from=0,
        accept_until=start + 2 * HOUR,
        skew=5 * MINUTE,
    )
    return replace(spec, **changes)


def record_with(record_id: str = "e1", key: str = "k", **changes: Any) -> Record:
    """A record of one event of the window `WINDOW`."""
    record = Record(key, record_id, 1, NOW, 1, 1_000_000, b"digest", ((30, 1),))
    return replace(record, **changes)


def hour(number: int) -> str:
    """The id of the window of 20 November 2026 that starts at this hour, which may be over 23."""
    return window_id(START + (number - 8) * HOUR)
