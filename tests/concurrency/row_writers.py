"""Writers of rows on Cassandra, each a process of its own, and a window that is closed meanwhile.

The main process and its writers meet at barriers, so nothing here depends on how fast they are:

1. Each writer commits its first events. All of them are acknowledged.
2. One commit of each is held when its rows are stored, before it looks at the gate again; another
   one when it found a gate open, before its rows are stored. Then the gates are shut, while the
   writers go on with their last events.
3. The gates are shut: the first held commit goes on. The window is folded: so does the second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from random import Random
from typing import TYPE_CHECKING

from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Endpoint, connect
from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.adapters.rows.store import RowStore
from tallyroll.adapters.system import SystemEffects
from tallyroll.ingest.transactions import Disposition, plan, run
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Verdict
from tests.contract.engines import commit, record

if TYPE_CHECKING:
    from collections.abc import Callable

WRITERS = 4
KEYS = 40
WAIT_S = 120.0
TIME_LEFT_MS = 240_000
HELD = 100  # events of a commit that is held
COMMITS_AT_ONCE = 4


@dataclass(frozen=True)
class Work:
    """The numbers of the events of one writer; every delivery of a number is the same event."""

    first: Sequence[int]
    sleeping: Sequence[int]  # its rows are stored before the gates are shut
    late: Sequence[int]  # its rows are stored after the window is folded
    last: Sequence[int]


@dataclass(frozen=True)
class Stage:
    """Where the processes meet."""

    begun: Barrier
    held: Barrier
    shut: Event
    folded: Event
    told: Queue[Told]


@dataclass
class Told:
    """What a writer knows: of each event it wrote, whether it was acknowledged to count."""

    counted: list[int] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    shut_out: list[int] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


class HeldRows(CassandraRows):
    """Rows of one commit, which waits where the test says: after it read its first gate, or before
    it reads its second one.
    """

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None
    reads = 0

    def gate(self, table: str, number: int) -> bool | None:
        self.reads += 1
        if self.reads == 2 and self.after:
            self.after()
        is_open = super().gate(table, number)
        if self.reads == 1 and self.before:
            self.before()
        return is_open


def event(spec: Spec, number: int) -> Record:
    """The event of a number, of the amount that `amount_of` gives."""
    return record(spec, f"key-{number % KEYS}", f"event-{number}", amount=amount_of(number))


def amount_of(number: int) -> int:
    """An event's amount, so that sums show which events they are of."""
    return 10**6 + number


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
            told.duplicates.append(number)
        elif fate.kind is Disposition.SHUT_OUT:
            told.shut_out.append(number)
        else:
            told.others.append(f"{number}: {fate}")


def writer(endpoint: Endpoint, spec: Spec, work: Work, stage: Stage, seed: int) -> None:
    """One writer, from its first event to its last."""
    told = Told()
    connection = connect(endpoint, SystemEffects())
    store = store_on(CassandraRows(connection))
    stage.begun.wait(WAIT_S)
    write(store, spec, work.first, told)
    sleeping, late = HeldRows(connection), HeldRows(connection)

    def sleep() -> None:
        stage.held.wait(WAIT_S)
        assert stage.shut.wait(WAIT_S)

    def come_late() -> None:
        stage.held.wait(WAIT_S)
        assert stage.folded.wait(WAIT_S)

    sleeping.after, late.before = sleep, come_late
    numbers = list(work.last)
    Random(seed).shuffle(numbers)
    with ThreadPoolExecutor(2) as pool:
        ends = [
            pool.submit(commit, store_on(held), spec, *(event(spec, number) for number in some))
            for held, some in ((sleeping, work.sleeping), (late, work.late))
        ]
        stage.held.wait(WAIT_S)
        write(store, spec, numbers, told)
        for end in ends:
            outcome = end.result()
            if outcome.verdict is not Verdict.GATE_SHUT:
                told.others.append(f"held: {outcome.verdict}")
    stage.told.put(told)
    connection.close()
