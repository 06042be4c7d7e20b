"""Exactness on a real node of Cassandra: processes that write while the window is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from local.cassandra.node import Node
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection
from tallyroll.ports.store import Verdict
from tests.concurrency.row_writers import KEYS, Told, event, store_on, write
from tests.concurrency.rows_night import DEATHS, STOPS, Night, agree, folded, opened
from tests.contract.engines import commit
from tests.harness.cassandra import connected
from tests.simulation.rows.planted import gate_read_before_the_rows_alone, stored_taken_for_listed

pytestmark = pytest.mark.cassandra
BULK = 20_000
LATE = 20


@pytest.fixture
def connection(cassandra: Node) -> Iterator[Connection]:
    made = connected(cassandra.port)
    yield made
    made.close()


def test_four_processes_write_while_the_window_is_closed(connection: Connection) -> None:
    """One of the seeds of `python -m tests.concurrency.rows_night`."""
    night = Night(connection, 1)
    there = night.judge(night.run())
    assert 0.3 * night.events < there < 0.9 * night.events
    assert (night.deaths, night.stops) == (2 * len(DEATHS), 3 * len(STOPS))


class ClosedMeanwhile(CassandraRows):
    """Rows of a commit that reads its first gate, and sends its rows when the window is folded."""

    close: Callable[[], object] | None = None

    def gate(self, table: str, number: int) -> bool | None:
        is_open = super().gate(table, number)
        if self.close:
            close, self.close = self.close, None
            close()
        return is_open


def late_commit(connection: Connection) -> tuple[Verdict, int, int]:
    """A commit that sleeps from its first look at the gate until the window is folded: its verdict,
    how many of its events a lookup gives, and how many are in the tallies.
    """
    store, spec = opened(connection, shards=4)
    rows = ClosedMeanwhile(connection)
    tallied: list[int] = []

    def close() -> None:
        store.shut_gates(spec)
        tallied.append(sum(tally.n for tally in folded(store, spec).values()))

    rows.close = close
    records = [event(spec, number) for number in range(LATE)]
    outcome = commit(store_on(rows), spec, *records)
    found = store.lookup(spec, [(each.key, each.id) for each in records])
    return outcome.verdict, len(found), tallied[0]


def test_rows_that_come_after_the_list_do_not_count(connection: Connection) -> None:
    assert late_commit(connection) == (Verdict.GATE_SHUT, 0, 0)


def test_a_gate_that_is_read_before_the_rows_alone_loses_events(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate_read_before_the_rows_alone(monkeypatch)
    assert late_commit(connection) == (Verdict.COMMITTED, 0, 0)


def test_rows_taken_for_listed_ones_are_no_longer_what_is_tallied(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_taken_for_listed(monkeypatch)
    assert late_commit(connection) == (Verdict.GATE_SHUT, LATE, 0)


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
