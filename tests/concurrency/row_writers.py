"""Writers of rows on Cassandra: their events, what they are told, and the troubles they have."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection as Pipe
from random import Random
from threading import Lock, get_ident

from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection, Endpoint, connect
from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import StoreError
from tallyroll.ingest.fates import Disposition
from tallyroll.ingest.transactions import plan, run
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tests.contract.engines import record

KEYS = 40
TIME_LEFT_MS = 240_000
COMMITS_AT_ONCE = 4
NAP_S_MAX = 0.03


class Trouble(StrEnum):
    """What happens to a writer at one of its commits."""

    NONE = "none"
    NAPS = "naps before the rows and before the look at the gate"
    DIES_MIDWAY = "dies when a half of the rows is stored"
    DIES_STORED = "dies before it looks at the gate"
    STOPS_BEFORE = "is stopped before its rows are sent"
    STOPS_STORED = "is stopped before it looks at the gate"


@dataclass(frozen=True)
class Batch:
    """Numbers of events to write; the trouble comes with the first commit."""

    numbers: tuple[int, ...]
    trouble: Trouble = Trouble.NONE


class State(StrEnum):
    """What a writer says of itself."""

    ASLEEP = "asleep"
    AWAKE = "awake"


@dataclass
class Told:
    """What a writer knows: of each event it wrote, whether it was acknowledged to count."""

    counted: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    conflicts: list[int] = field(default_factory=list)
    shut_out: list[int] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


class TroubledRows(CassandraRows):
    """Rows of a writer that has troubles, and says when it is stopped."""

    def __init__(self, connection: Connection, chance: Random, pipe: Pipe) -> None:
        super().__init__(connection)
        self._chance = chance
        self._pipe = pipe
        self._lock = Lock()
        self.trouble = Trouble.NONE

    def insert_all(self, table: str, rows: Sequence[Record]) -> list[bytes | StoreError | None]:
        with self._lock:
            trouble = self.trouble
            if trouble is not Trouble.NAPS:
                self.trouble = Trouble.NONE
            before, after = (self._chance.random() * NAP_S_MAX for _ in range(2))
        if trouble is Trouble.NAPS:
            time.sleep(before)
        if trouble is Trouble.DIES_MIDWAY:
            super().insert_all(table, rows[::2])
            _signal(signal.SIGKILL)
        if trouble is Trouble.STOPS_BEFORE:
            self._stop()
        answers = super().insert_all(table, rows)
        if trouble is Trouble.NAPS:
            time.sleep(after)
        if trouble is Trouble.DIES_STORED:
            _signal(signal.SIGKILL)
        if trouble is Trouble.STOPS_STORED:
            self._stop()
        return answers

    def _stop(self) -> None:
        self._pipe.send(State.ASLEEP)
        _signal(signal.SIGSTOP)
        self._pipe.send(State.AWAKE)


def _signal(number: signal.Signals) -> None:
    """Sent to this thread, since one to the process may strike another thread, and later."""
    signal.pthread_kill(get_ident(), number)


def event(spec: Spec, number: int) -> Record:
    """The event of a number, of the amount that `amount_of` gives. ~number has the same id as
    number, and another content.
    """
    amount = amount_of(number)
    digest = amount.to_bytes(16, "big")
    name = f"event-{max(number, ~number)}"
    return record(spec, key_of(number), name, amount=amount, digest=digest)


def key_of(number: int) -> str:
    """An event's key."""
    return f"key-{max(number, ~number) % KEYS}"


def amount_of(number: int) -> int:
    """An event's amount, so that sums show which events they are of."""
    return 10**6 + number


def number_of(found: Record) -> int:
    """The number of a stored event."""
    number = int(found.id.removeprefix("event-"))
    return number if found.amount == amount_of(number) else ~number


def store_on(rows: CassandraRows) -> RowStore:
    """A store on these rows, with a catalog of its own."""
    return RowStore(rows, MemoryCatalog(), SystemEffects())


def write(
    store: RowStore,
    spec: Spec,
    numbers: Sequence[int],
    told: Told,
    time_left_ms: int = TIME_LEFT_MS,
) -> None:
    """Write events as the writer does, and note what it is told."""
    records = {number: event(spec, number) for number in numbers}
    effects = SystemEffects()
    commits = plan(spec, records.values(), store.metering_of(spec.table))
    deadline = effects.now() + time_left_ms
    done = run(store, commits, effects, deadline, COMMITS_AT_ONCE)
    for number, each in records.items():
        fate = done.fates[spec.window, each.key, each.id]
        if fate.kind is Disposition.COUNTED:
            told.counted.append(number)
        elif fate.kind is Disposition.DUPLICATE:
            (told.duplicates if fate.digest == each.digest else told.conflicts).append(number)
        elif fate.kind is Disposition.SHUT_OUT:
            told.shut_out.append(number)
        else:
            told.others.append(f"{number}: {fate}")


def writer(endpoint: Endpoint, spec: Spec, pipe: Pipe, seed: str) -> None:
    """Write batches, and say what was told of each, until None comes."""
    connection = connect(endpoint, SystemEffects())
    rows = TroubledRows(connection, Random(seed), pipe)
    store = store_on(rows)
    while True:
        batch: Batch | None = pipe.recv()
        if batch is None:
            break
        rows.trouble, told = batch.trouble, Told()
        write(store, spec, batch.numbers, told)
        pipe.send(told)
    connection.close()
