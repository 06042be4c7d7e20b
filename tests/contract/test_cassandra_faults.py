"""Faults of a real node, met by commits: nothing that was acknowledged is lost, nothing counted
twice, and what is unknown is looked up later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from local.cassandra.node import Node
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection, connect
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import Missing, StoreError
from tallyroll.model.records import Record
from tallyroll.model.specs import Spec
from tallyroll.ports.store import Answer, Verdict
from tests.concurrency.row_writers import Told, event, store_on, write
from tests.concurrency.rows_night import agree, folded, opened
from tests.contract.engines import commit
from tests.harness.cassandra import connected
from tests.harness.relay import Relay

pytestmark = pytest.mark.cassandra
TIMEOUT_S = 1.0
EVENTS = 200
SOME = 20
FIRST = EVENTS + 7  # of key-7


class Interrupted(CassandraRows):
    """Rows whose inserts are sent between `before` and `after`."""

    before: Callable[[], object] = staticmethod(lambda: None)
    after: Callable[[], object] = staticmethod(lambda: None)

    def insert_all(self, table: str, rows: Sequence[Record]) -> list[bytes | StoreError | None]:
        self.before()
        answers = super().insert_all(table, rows)
        self.after()
        return answers


@dataclass
class Scene:
    """A window, its store beside the relay, and what a writer has whose requests go through it."""

    relay: Relay
    store: RowStore
    spec: Spec
    rows: Interrupted
    behind: Connection

    def some(self) -> list[Record]:
        return [event(self.spec, number) for number in range(SOME)]

    def deliver(self, numbers: Sequence[int] = range(EVENTS)) -> Told:
        """Write until all is acknowledged, as a queue would deliver it."""
        told, left = Told(), list(numbers)
        for _ in range(20):
            write(store_on(self.rows), self.spec, left, told)
            left = sorted(set(left) - {*told.counted, *told.duplicates})
            if not left:
                return told
            told.others.clear()
        raise AssertionError(f"not acknowledged: {left}")

    def judge(self, numbers: Sequence[int] = range(EVENTS)) -> None:
        """Close the window: it has exactly these events."""
        self.store.shut_gates(self.spec)
        agree(self.store, self.spec, folded(self.store, self.spec), {*numbers, FIRST})


def check(told: Told, known: Iterable[int]) -> None:
    """Every event is acknowledged once, as a duplicate if it is `known`, or if the node of a busy
    machine did not answer in time when it was delivered first.
    """
    assert {*known} <= {*told.duplicates}
    assert sorted([*told.counted, *told.duplicates]) == list(range(EVENTS))


@pytest.fixture
def scene(cassandra: Node) -> Iterator[Scene]:
    direct = connected(cassandra.port)
    store, spec = opened(direct, shards=4)
    with Relay(cassandra.port) as relay:
        endpoint = replace(direct.endpoint, port=relay.port, timeout_s=TIMEOUT_S)
        behind = connect(endpoint, SystemEffects())
        scene = Scene(relay, store, spec, Interrupted(behind), behind)
        scene.deliver([FIRST])  # so that all statements are prepared
        yield scene
        behind.close()
    direct.close()


def test_a_node_that_is_down_before_a_commit(scene: Scene) -> None:
    scene.relay.cut()
    outcome = commit(store_on(scene.rows), scene.spec, *scene.some())
    assert outcome.verdict is Verdict.UNKNOWN
    assert scene.store.tallies(scene.spec, ["key-0"])["key-0"].n == 0
    scene.relay.mend()
    check(scene.deliver(), known=())
    scene.judge()


def test_a_node_that_goes_down_when_the_rows_are_stored(scene: Scene) -> None:
    """The gate is not seen, so nothing is acknowledged; all is there at the next delivery."""
    scene.rows.after = scene.relay.cut
    outcome = commit(store_on(scene.rows), scene.spec, *scene.some())
    assert outcome.verdict is Verdict.UNKNOWN
    scene.rows.after = lambda: None
    scene.relay.mend()
    check(scene.deliver(), known=range(SOME))
    scene.judge()


def test_a_node_that_answers_inserts_too_late(scene: Scene) -> None:
    """What was sent is unknown, and done; the rest of each partition was not sent."""
    scene.rows.before, scene.rows.after = scene.relay.withhold, scene.relay.answer
    two = [event(scene.spec, number) for number in (0, 1, 40, 80, 120, 160)]
    outcome = commit(store_on(scene.rows), scene.spec, *two)
    assert outcome.verdict is Verdict.BY_RECORD
    answers = [element.answer for element in outcome.records]
    assert set(answers) == {Answer.UNKNOWN, Answer.THROTTLED}
    scene.rows.before = scene.rows.after = lambda: None
    told = scene.deliver()
    unknown = [
        number
        for number, answer in zip((0, 1, 40, 80, 120, 160), answers, strict=True)
        if answer is Answer.UNKNOWN
    ]
    check(told, known=unknown)
    scene.judge()


def test_a_node_that_is_slow_for_long(scene: Scene) -> None:
    """No answer at all, while the writer tries and tries; then all come at once."""
    scene.relay.withhold()
    told = Told()
    write(store_on(scene.rows), scene.spec, range(SOME), told, time_left_ms=1)
    assert told.counted == told.duplicates == []
    scene.relay.answer()
    scene.deliver()
    scene.judge()


def test_a_window_that_is_closed_while_a_writer_s_node_is_slow(scene: Scene) -> None:
    """Its rows are stored, its look at the gate is answered too late: all of them count, since the
    list has them, and the writer learns that later.
    """
    scene.rows.after = scene.relay.withhold
    outcome = commit(store_on(scene.rows), scene.spec, *scene.some())
    assert outcome.verdict is Verdict.UNKNOWN
    scene.store.shut_gates(scene.spec)
    tallies = folded(scene.store, scene.spec)
    scene.rows.after = lambda: None
    scene.relay.answer()
    again = commit(store_on(scene.rows), scene.spec, *scene.some())
    assert again.verdict is Verdict.GATE_SHUT
    found = store_on(scene.rows).lookup(scene.spec, [(one.key, one.id) for one in scene.some()])
    assert len(found) == SOME
    agree(scene.store, scene.spec, tallies, {*range(SOME), FIRST})


def test_writers_that_contend_for_one_partition(scene: Scene) -> None:
    """Four deliver the same events of one key on one shard, in different orders."""
    spec, numbers = replace(scene.spec, shards=1), range(0, EVENTS * 40, 40)
    told = [Told() for _ in range(4)]
    threads = [
        threading.Thread(
            target=write,
            args=(store_on(scene.rows), spec, list(numbers)[:: 1 - 2 * (at % 2)], each),
        )
        for at, each in enumerate(told)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = [number for each in told for number in each.counted]
    assert len(counted) == len(set(counted))
    for each in told:
        assert {*each.counted, *each.duplicates} == set(numbers)
        assert each.others == []
    scene.store.shut_gates(spec)
    tallies = folded(scene.store, spec)
    assert tallies["key-0"].n == EVENTS


def test_a_table_that_is_gone(scene: Scene) -> None:
    """Its gates are still open, as if it were dropped by hand."""
    store = store_on(scene.rows)
    assert commit(store, scene.spec, *scene.some()).verdict is Verdict.COMMITTED
    scene.store.drop_table(scene.spec.table)
    outcome = commit(store, scene.spec, *scene.some())
    assert outcome.verdict is Verdict.GATE_MISSING
    assert "no table" in outcome.detail
    with pytest.raises(Missing):
        store.tallies(scene.spec, ["key-0"])
    with pytest.raises(Missing):
        store.lookup(scene.spec, [("key-0", "event-0")])


def test_a_wrong_keyspace(scene: Scene) -> None:
    """No window's gate is taken for missing: that could mean that the window is dropped."""
    made = connect(replace(scene.behind.endpoint, keyspace="nowhere"), SystemEffects())
    outcome = commit(store_on(CassandraRows(made)), scene.spec, *scene.some())
    assert outcome.verdict is Verdict.UNKNOWN
    assert "keyspace nowhere" in outcome.detail
    made.close()
