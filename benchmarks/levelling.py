"""How a write rate levels a burst: `python -m benchmarks.levelling`, a part of `make bench`.

Events arrive at a steady rate, and for fifteen seconds at ten times that. The project's own writers
count them, without and with `write_rate`, on a store and a queue in memory and a virtual clock. So
the result depends on no machine. The table has what arrives, what is written, and what waits in the
queue; `--write` draws it into `docs/levelling.svg`.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TypeVar

from benchmarks.tables import Rows, show
from tallyroll.adapters.memory import MemoryCatalog, MemoryQueue, MemoryStore
from tallyroll.ingest.cost import commit_cost
from tallyroll.ingest.writer import Writer
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.records import Increment, Record
from tallyroll.model.sharding import Chance
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.windows import Grid
from tallyroll.ports.store import Outcome
from tallyroll.settings import Settings

START = 1_795_163_400_000  # 2026-11-20T08:30:00Z
SECONDS = 120
CALM, BURST = 90, 900  # events a second
BURST_FROM, BURST_UNTIL = 15, 30  # seconds
RATE = 600  # write units a second
WRITERS, BATCH, KEYS, SHARDS = 8, 1_000, 4, 16
ARRIVAL_MS, COMMIT_MS, POLL_MS = 100, 20, 500
TIME_LEFT_MS = 60_000
SHOWN_EVERY = 5  # seconds, in the table
T = TypeVar("T")


class Course:
    """A virtual clock for threads, of which one runs at a time: the one that is due first."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._due: list[tuple[float, int, threading.Event]] = []
        self._numbers = count()
        self._threads: list[threading.Thread] = []

    def start(self, body: Callable[[], None]) -> None:
        """Let a thread run, from now on."""
        turn = self._turn(0)

        def run() -> None:
            turn.wait()
            body()
            self._next()

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def sleep(self, ms: float) -> None:
        """Let the others run for so long."""
        turn = self._turn(ms)
        self._next()
        turn.wait()

    def run(self) -> None:
        """Run all threads to their end."""
        self._next()
        for thread in self._threads:
            thread.join()

    def _turn(self, ms: float) -> threading.Event:
        turn = threading.Event()
        heappush(self._due, (self.now + ms, next(self._numbers), turn))
        return turn

    def _next(self) -> None:
        if self._due:
            due, _, turn = heappop(self._due)
            self.now = max(self.now, round(due))
            turn.set()


class Virtual:
    """The effects of one thread on a course; jobs run one after another."""

    def __init__(self, course: Course, seed: int) -> None:
        self.chance: Chance = Random(seed)
        self._course = course

    def now(self) -> int:
        """The virtual time."""
        return self._course.now

    def sleep(self, ms: float) -> None:
        """Let the others run."""
        self._course.sleep(ms)

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:  # noqa: ARG002
        """Run the jobs."""
        return [job() for job in jobs]


@dataclass
class Levelled:
    """What happened in each second: `arrived` events, write units `asked` of the table, messages in
    the queue at its end; and the receives of the message that was received most often.
    """

    arrived: Counter[int] = field(default_factory=Counter)
    asked: Counter[int] = field(default_factory=Counter)
    waiting: list[int] = field(default_factory=list)
    counted: int = 0
    lost: int = 0
    receives: int = 0

    @property
    def events(self) -> int:
        """All events."""
        return self.arrived.total()

    @property
    def drained(self) -> int:
        """The second from which on, after the burst, less than a second's events wait."""
        late = [second for second, left in enumerate(self.waiting) if left > CALM]
        return max([BURST_UNTIL, *late]) + 1


class MeteredStore(MemoryStore):
    """A store that notes when it was asked for how much; each transaction takes 20 ms."""

    course: Course
    levelled: Levelled

    def commit(
        self, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        """Commit."""
        second = (self.course.now - START) // 1_000
        metering = self.metering_of(spec.table)
        self.levelled.asked[second] += round(commit_cost(records, increments, metering).total)
        self.course.sleep(COMMIT_MS)
        return super().commit(spec, records, increments)


def levelled(write_rate: int) -> Levelled:
    """Let the writers count the burst, at this rate; 0: as fast as they can."""
    settings = Settings(shards=SHARDS, write_rate=write_rate)
    course, found = Course(START), Levelled()
    effects = Virtual(course, 0)
    catalog = MemoryCatalog()
    store = MeteredStore(effects, catalog)
    store.course, store.levelled = course, found
    spec = _open(settings, catalog, store)
    queue = MemoryQueue(effects)
    course.start(partial(_produce, course, queue, found))
    course.start(partial(_watch, course, queue, found))
    for number in range(WRITERS):
        writer = Writer(settings, store, catalog, queue, Virtual(course, number + 1))
        course.start(partial(_write, course, queue, writer, found))
    course.run()
    keys = [_key(number) for number in range(KEYS)]
    found.counted = sum(tally.n for tally in store.tallies(spec, keys).values())
    found.lost = len(queue.dead_letters)
    return found


def _open(settings: Settings, catalog: MemoryCatalog, store: MemoryStore) -> Spec:
    grid = Grid.of(settings.window_seconds)
    span = grid.at(START)
    catalog.found(Calendar(grid, span.start))
    window = Window(span.id, f"{settings.name}-{span.id}", span.start, span.end)
    catalog.create(window)
    store.make_table(window.table, {})
    spec = catalog.put_spec(freeze(window, settings))
    store.open_gates(spec)
    catalog.advance(replace(window, status=Status.OPEN))
    return spec


def _key(number: int) -> str:
    return f"key-{number % KEYS}"


def _second(course: Course) -> int:
    return (course.now - START) // 1_000


def _produce(course: Course, queue: MemoryQueue, found: Levelled) -> None:
    numbers = count()
    while (second := _second(course)) < SECONDS:
        rate = BURST if BURST_FROM <= second < BURST_UNTIL else CALM
        for _ in range(rate * ARRIVAL_MS // 1_000):
            number = next(numbers)
            queue.send(json.dumps({"key": _key(number), "id": f"e-{number}", "ts": course.now}))
            found.arrived[second] += 1
        course.sleep(ARRIVAL_MS)


def _watch(course: Course, queue: MemoryQueue, found: Levelled) -> None:
    while _second(course) < SECONDS:
        course.sleep(1_000)
        found.waiting.append(len(queue))


def _write(course: Course, queue: MemoryQueue, writer: Writer, found: Levelled) -> None:
    """What Lambda does: hand batches to a writer, and delete what it finished."""
    while _second(course) < SECONDS or len(queue):
        batch = queue.receive(BATCH)
        if not batch:
            course.sleep(POLL_MS)
            continue
        found.receives = max(found.receives, *(message.receives for message in batch))
        back = set(writer.write(batch, TIME_LEFT_MS).failures)
        for message in batch:
            if message.id not in back:
                queue.delete(message.receipt)


def shown(without: Levelled, with_rate: Levelled) -> Rows:
    """Both courses, every five seconds."""
    rows: Rows = [
        ("from, s", "events/s", "units/s", "queue", f"units/s at {RATE}", f"queue at {RATE}")
    ]
    for since in range(0, SECONDS, SHOWN_EVERY):
        span = range(since, since + SHOWN_EVERY)
        row = [str(since), f"{sum(with_rate.arrived[at] for at in span) / SHOWN_EVERY:,.0f}"]
        for each in (without, with_rate):
            row.append(f"{sum(each.asked[at] for at in span) / SHOWN_EVERY:,.0f}")
            row.append(f"{each.waiting[span[-1]]:,}")
        rows.append(tuple(row))
    return rows


def main() -> int:
    """Print the table; the status is 1 if an event was lost or the rate exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="draw docs/levelling.svg")
    asked, _ = parser.parse_known_args()
    without, with_rate = levelled(0), levelled(RATE)
    show(
        f"{CALM} events a second, and {BURST} from {BURST_FROM} to {BURST_UNTIL} s: write units a"
        " second, and messages in the queue",
        shown(without, with_rate),
        f"{with_rate.counted:,} of {with_rate.events:,} events counted; at most"
        f" {max(with_rate.asked.values()):,} units in a second, without the rate"
        f" {max(without.asked.values()):,}; received at most {with_rate.receives} times",
        left=0,
    )
    if asked.write:
        from benchmarks.levelling_chart import FILE, drawn  # noqa: PLC0415 - it imports this

        FILE.write_text(drawn(without, with_rate), encoding="utf-8")
    return 0 if with_rate.counted == with_rate.events and not with_rate.lost else 1


if __name__ == "__main__":
    raise SystemExit(main())
