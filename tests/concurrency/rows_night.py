"""Writers on Cassandra that die, nap and are stopped, while their window is closed.

    python -m tests.concurrency.rows_night [--seeds 10] [--from 1] [--events 24000]

Starts a node, and judges one window for each seed. The status is 1 if one of them is not exact.

Four processes write batches, as a queue would hand them out: 5 % of the events come twice, some
batches are delivered again though they were answered, and a few ids have a second content. The
batch of a writer that was killed is done again by another. The window is closed in the middle: one
writer is stopped before it looks at the gate until all gates are shut, one before its rows are sent
until the window is folded. Two runs fold it at once. The others write on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from random import Random
from typing import Any
from uuid import uuid4

from local.cassandra import node
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection, Endpoint
from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.model.items import Gate
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.tallies import Tally
from tallyroll.ports.paging import listed_tallies
from tests.concurrency import row_writers
from tests.concurrency.row_writers import (
    KEYS,
    Batch,
    State,
    Told,
    Trouble,
    amount_of,
    event,
    key_of,
    number_of,
)
from tests.contract.engines import HOUR, START, WINDOW
from tests.harness.cassandra import connected

EVENTS = 24_000
WRITERS = 4
BATCH = 300
TWICE, CONFLICTING, AGAIN = 0.05, 0.003, 0.1
SEGMENTS = 3
WAIT_S = 300.0
TURN_S = 0.05
FOLDS = 2
DEATHS = (Trouble.DIES_MIDWAY, Trouble.DIES_STORED)
STOPS = (Trouble.STOPS_STORED, Trouble.STOPS_BEFORE)


def opened(connection: Connection, *, shards: int) -> tuple[RowStore, Spec]:
    """A store, and a window of it whose gates are open."""
    catalog = MemoryCatalog()
    store = RowStore(CassandraRows(connection), catalog, connection.effects)
    spec = Spec(
        window=WINDOW,
        table=f"c{uuid4().hex[:8]}-{WINDOW}",
        start=START,
        end=START + HOUR,
        shards=shards,
        stripes_min=shards,
        buckets=16,
        gates=8,
        suffix="calculated",
        accept_from=0,
        accept_until=START + 2 * HOUR,
        skew=300_000,
    )
    catalog.create(Window(spec.window, spec.table, spec.start, spec.end))
    store.make_table(spec.table, {})
    store.open_gates(spec)
    return store, spec


def folded(store: RowStore, spec: Spec) -> dict[str, Tally]:
    """Fold a window whose gates are shut; its tallies."""
    assert len(list(store.fold(spec, ""))) == 8
    return store.tallies(spec, [f"key-{number}" for number in range(KEYS)])


def scanned(store: RowStore, spec: Spec) -> list[int]:
    """The numbers of all records that a scan gives."""
    pages = (page for at in range(SEGMENTS) for page in store.scan(spec.table, at, SEGMENTS))
    found = [store.codec.parse(item) for page in pages for item in page]
    assert sum(isinstance(one, Gate) for one in found) == spec.gates
    return [number_of(one) for one in found if isinstance(one, Record)]


def agree(store: RowStore, spec: Spec, tallies: dict[str, Tally], numbers: set[int]) -> None:
    """Tallies, listed stripes and the scan have exactly these events."""
    n = Counter(map(key_of, numbers))
    amounts: Counter[str] = Counter()
    for number in numbers:
        amounts[key_of(number)] += amount_of(number)
    assert Counter({key: tally.n for key, tally in tallies.items()}) == n
    assert Counter({key: tally.amount for key, tally in tallies.items()}) == amounts
    listed: Counter[str] = Counter()
    for bucket in range(1, spec.buckets + 1):
        for tally in listed_tallies(store, spec, bucket):
            listed[tally.key] += tally.n
    assert listed == n
    found = scanned(store, spec)
    assert len(found) == len(numbers)
    assert set(found) == numbers


def batches_of(events: int, chance: Random) -> list[Batch]:
    """All events in batches, some of them twice and some with another content, too."""
    numbers = list(range(events))
    numbers += chance.sample(range(events), int(events * TWICE))
    numbers += [~number for number in chance.sample(range(events), int(events * CONFLICTING))]
    chance.shuffle(numbers)
    some = (numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH))
    # A writer hands an id to the store once.
    return [Batch(tuple({max(each, ~each): each for each in batch}.values())) for batch in some]


@dataclass
class Writer:
    """A process, and the batch it has."""

    process: Any
    pipe: Pipe
    batch: Batch | None = None
    asleep: Trouble | None = None


@dataclass
class Night:
    """One window, from its first event until it is folded and all batches are answered."""

    connection: Connection
    seed: int
    events: int = EVENTS
    told: list[Told] = field(default_factory=list)
    deaths: int = 0
    stops: int = 0

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.store, self.spec = opened(self.connection, shards=4)
        batches = batches_of(self.events, self.chance)
        self.close_at = len(batches) // 2
        for at in self.chance.sample(range(len(batches)), len(batches) // 3):
            batches[at] = replace(batches[at], trouble=Trouble.NAPS)
        early = self.chance.sample(range(self.close_at), 2 * len(DEATHS + STOPS))
        for at, trouble in zip(early, (DEATHS + STOPS) * 2, strict=True):
            batches[at] = replace(batches[at], trouble=trouble)
        for at, trouble in enumerate(STOPS):  # across the closing
            batches[self.close_at + at] = replace(batches[self.close_at + at], trouble=trouble)
        self.todo = deque(batches)
        self.given = 0
        self.writers: list[Writer] = []

    def run(self) -> dict[str, Tally]:
        """Let them write; the window's tallies."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([row_writers.__name__])
        self._context: Any = context
        try:
            self.writers = [self._started(f"{self.seed} {at}") for at in range(WRITERS)]
            with ThreadPoolExecutor(FOLDS) as pool:
                return self._run(pool)
        finally:
            for each in self.writers:
                each.process.kill()
                each.process.join()

    def _run(self, pool: ThreadPoolExecutor) -> dict[str, Tally]:
        until = time.monotonic() + WAIT_S
        shut: Future[None] | None = None
        folds: list[Future[dict[str, Tally]]] = []
        while self.todo or any(each.batch for each in self.writers):
            self._turn()
            asleep = [each for each in self.writers if each.asleep]
            names = [each.asleep for each in asleep]
            assert time.monotonic() < until, f"no end: {self.given} batches given, {names}"
            across = self.given > self.close_at  # then all that sleep do so across the closing
            if shut is None and across and len(asleep) == len(STOPS):
                shut = pool.submit(self.store.shut_gates, self.spec)
            if shut and shut.done() and not folds:
                shut.result()
                folds = [pool.submit(folded, self.store, self.spec) for _ in range(FOLDS)]
            for each in asleep:
                stored = each.asleep is Trouble.STOPS_STORED
                if not across or (folds and (stored or all(one.done() for one in folds))):
                    os.kill(each.process.pid, signal.SIGCONT)  # again until it says that it woke
        tallies = [each.result() for each in folds]
        assert tallies
        assert all(each == tallies[0] for each in tallies)
        return tallies[0]

    def _turn(self) -> None:
        """Hand out batches, and take what there is to hear."""
        for at, each in enumerate(self.writers):
            if each.batch is None and self.todo and not self._waits():
                each.batch = self.todo.popleft()
                self.given += 1
                each.pipe.send(each.batch)
            elif not each.process.is_alive() and not each.pipe.poll():
                self._died(at, each)
        for pipe in wait([each.pipe for each in self.writers], TURN_S):
            [writer] = [each for each in self.writers if each.pipe is pipe]
            try:
                self._heard(writer, writer.pipe.recv())
            except (EOFError, OSError):
                self._died(self.writers.index(writer), writer)

    def _waits(self) -> bool:
        """Whether the next batch is one to be stopped with across the closing, while a writer is to
        be stopped and woken before.
        """
        stopping = [
            each.batch for each in self.writers if each.batch and each.batch.trouble in STOPS
        ]
        return self.given == self.close_at and bool(stopping)

    def _heard(self, writer: Writer, said: State | Told) -> None:
        assert writer.batch
        if said is State.ASLEEP:
            writer.asleep = writer.batch.trouble
            self.stops += 1
        elif said is State.AWAKE:
            writer.asleep = None
        else:
            assert isinstance(said, Told)
            self.told.append(said)
            again = [int(one.partition(":")[0]) for one in said.others]
            if self.chance.random() < AGAIN:
                again = list(writer.batch.numbers)
            if again:
                self.todo.append(Batch(tuple(again)))
            writer.batch = None

    def _died(self, at: int, writer: Writer) -> None:
        """Another writer does its batch again."""
        assert writer.batch
        assert writer.batch.trouble in DEATHS
        writer.process.join()
        self.deaths += 1
        self.todo.append(replace(writer.batch, trouble=Trouble.NAPS))
        self.writers[at] = self._started(f"{self.seed} {at} {self.deaths}")

    def _started(self, seed: str) -> Writer:
        ours, theirs = self._context.Pipe()
        endpoint: Endpoint = self.connection.endpoint
        process = self._context.Process(
            target=row_writers.writer, args=(endpoint, self.spec, theirs, seed), daemon=True
        )
        process.start()
        theirs.close()
        return Writer(process, ours)

    def judge(self, tallies: dict[str, Tally]) -> int:
        """Check what was told against what is there; the number of events that count."""

        def all_of(name: str) -> Iterable[int]:
            return (number for each in self.told for number in getattr(each, name))

        counted = list(all_of("counted"))
        acknowledged = {*counted, *all_of("duplicates")}
        assert len(counted) == len(set(counted)), "an event was counted twice"
        assert not {~number for number in acknowledged} & acknowledged, "two contents count"
        names = {(each.key, each.id) for each in map(self._event, range(self.events))}
        found = self.store.lookup(self.spec, sorted(names))
        there = set(map(number_of, found.values()))
        assert acknowledged <= there, "an event was acknowledged, and does not count"
        conflicts = set(all_of("conflicts"))
        assert {~number for number in conflicts} <= there, "a conflict with nothing that counts"
        assert not conflicts & there
        assert there - acknowledged <= set(all_of("shut_out")), "an event counts untold"
        agree(self.store, self.spec, tallies, there)
        assert folded(self.store, self.spec) == tallies
        late = Told()
        row_writers.write(self.store, self.spec, range(0, self.events, 97), late)
        assert len(late.shut_out) == len(range(0, self.events, 97))
        return len(there)

    def _event(self, number: int) -> Record:
        return event(self.spec, number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds, and print what came of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.concurrency.rows_night")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--events", type=int, default=EVENTS)
    asked = parser.parse_args(arguments)
    failed = 0
    with node.start() as running:
        for seed in range(asked.first, asked.first + asked.seeds):
            connection = connected(running.port)
            night, began = Night(connection, seed, asked.events), time.monotonic()
            try:
                there = night.judge(night.run())
                result = f"exact: {there} of {asked.events} events count"
            except AssertionError as error:
                failed += 1
                result = f"WRONG: {error}"
            delivered = sum(
                len(each.counted) + len(each.duplicates) + len(each.conflicts) + len(each.shut_out)
                for each in night.told
            )
            print(  # noqa: T201
                f"seed {seed}: {result}; {delivered} answers, {night.deaths} writers killed,"
                f" {night.stops} stopped, {time.monotonic() - began:.0f} s",
                flush=True,
            )
            connection.close()
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
