"""Exactness on a real node of Cassandra: processes that write while the window is closed."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest

from local.cassandra.node import Node
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection
from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.adapters.rows.store import RowStore
from tallyroll.model.items import Gate
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.tallies import Tally
from tallyroll.ports.paging import listed_tallies
from tests.concurrency import row_writers
from tests.concurrency.row_writers import (
    HELD,
    KEYS,
    WAIT_S,
    WRITERS,
    Stage,
    Told,
    Work,
    amount_of,
    event,
    write,
)
from tests.contract.engines import HOUR, START, WINDOW
from tests.harness.cassandra import connected

pytestmark = pytest.mark.cassandra
EVENTS = 24_000
TWICE = EVENTS // 20
BULK = 20_000
SEGMENTS = 3


@pytest.fixture
def connection(cassandra: Node) -> Iterator[Connection]:
    made = connected(cassandra.port)
    yield made
    made.close()


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
    return [int(one.id.removeprefix("event-")) for one in found if isinstance(one, Record)]


def agree(store: RowStore, spec: Spec, tallies: dict[str, Tally], numbers: set[int]) -> None:
    """Tallies, listed stripes and the scan have exactly these events."""
    n = Counter(f"key-{number % KEYS}" for number in numbers)
    amounts: Counter[str] = Counter()
    for number in numbers:
        amounts[f"key-{number % KEYS}"] += amount_of(number)
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


def works() -> list[Work]:
    """24,000 events for four writers; 5 % of them are another writer's, too."""
    share = EVENTS // WRITERS
    first, again = share * 2 // 3, TWICE // WRITERS
    made = []
    for at in range(WRITERS):
        begin, other = at * share, (at + 1) % WRITERS * share
        own = range(begin, begin + share)
        held = first + HELD
        twice = [
            *range(other, other + again // 2),
            *range(other + share - again // 2, other + share),
        ]
        made.append(
            Work(
                first=[*own[:first], *twice[: again // 2]],
                sleeping=own[first:held],
                late=own[held : held + HELD],
                last=[*own[held + HELD :], *twice[again // 2 :]],
            )
        )
    return made


def test_four_processes_write_while_the_window_is_closed(connection: Connection) -> None:
    store, spec = opened(connection, shards=4)
    context = multiprocessing.get_context("spawn")
    stage = Stage(
        context.Barrier(WRITERS + 1),
        context.Barrier(3 * WRITERS + 1),
        context.Event(),
        context.Event(),
        context.Queue(),
    )
    all_work = works()
    processes = [
        context.Process(target=row_writers.writer, args=(connection.endpoint, *each), daemon=True)
        for each in ((spec, work, stage, seed) for seed, work in enumerate(all_work))
    ]
    for process in processes:
        process.start()
    stage.begun.wait(WAIT_S)
    stage.held.wait(WAIT_S)  # the writers go on at once, and so does the closing
    store.shut_gates(spec)
    stage.shut.set()
    tallies = folded(store, spec)
    stage.folded.set()
    told: list[Told] = [stage.told.get(timeout=WAIT_S) for _ in processes]
    for process in processes:
        process.join(WAIT_S)
        assert process.exitcode == 0
    assert [one for each in told for one in each.others] == []

    first = {number for work in all_work for number in work.first}
    sleeping = {number for work in all_work for number in work.sleeping}
    late = {number for work in all_work for number in work.late}
    counted = [number for each in told for number in each.counted]
    acknowledged = {*counted, *(number for each in told for number in each.duplicates)}
    shut_out = {number for each in told for number in each.shut_out}
    assert len(counted) == len(set(counted)), "an event was counted twice"
    assert first <= acknowledged

    asked = {(each.key, each.id) for each in (event(spec, n) for n in range(EVENTS))}
    there = {int(name.removeprefix("event-")) for _, name in store.lookup(spec, list(asked))}
    assert acknowledged | sleeping <= there
    assert there <= acknowledged | sleeping | shut_out
    assert not there & late, "a row that came after the listing counts"
    agree(store, spec, tallies, there)
    again = Told()
    write(store, spec, sorted(late)[:HELD], again)
    assert len(again.shut_out) == HELD


def test_twenty_thousand_events_of_few_keys(connection: Connection) -> None:
    store, spec = opened(connection, shards=16)
    told = Told()
    write(store, spec, range(BULK), told)
    assert sorted(told.counted) == list(range(BULK))
    live = store.tallies(spec, [f"key-{number}" for number in range(KEYS)])
    write(store, spec, range(0, BULK, 20), told)
    assert sorted(told.duplicates) == list(range(0, BULK, 20))
    store.shut_gates(spec)
    tallies = folded(store, spec)
    assert tallies == live
    agree(store, spec, tallies, set(range(BULK)))
