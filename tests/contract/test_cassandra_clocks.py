"""Processes whose clocks are an hour off: what they write is as visible as what others write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import uuid4

import pytest
from cassandra import cluster

from local.cassandra.node import Node
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import connect
from tallyroll.adapters.rows.statements import Seal
from tallyroll.adapters.system import SystemEffects
from tallyroll.model.records import Record
from tallyroll.model.tallies import Stripe, Tally
from tests.harness.cassandra import new_keyspace

pytestmark = pytest.mark.cassandra
HOUR_S = 3_600
TAGS = {"tallyroll": "here"}


def clock_off_by(seconds: int) -> Callable[[], Callable[[], int]]:
    """The driver's generator of timestamps (us), on a clock that is off."""
    return lambda: lambda: int((time.time() + seconds) * 1e6)


@pytest.fixture(params=[HOUR_S, -HOUR_S], ids=["ahead", "behind"])
def two(
    request: pytest.FixtureRequest, cassandra: Node, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[CassandraRows, CassandraRows]]:
    """The rows of one keyspace for two processes, the earlier of which has the later clock."""
    endpoint = new_keyspace(cassandra.port)
    right = connect(endpoint, SystemEffects())
    monkeypatch.setattr(cluster, "MonotonicTimestampGenerator", clock_off_by(request.param))
    off = connect(endpoint, SystemEffects())
    first, second = (off, right) if request.param > 0 else (right, off)
    yield CassandraRows(first), CassandraRows(second)
    right.close()
    off.close()


@pytest.fixture
def table(two: tuple[CassandraRows, CassandraRows]) -> str:
    name = f"t{uuid4().hex[:8]}-20261120T080000Z"
    two[0].make_table(name, TAGS)
    return name


def test_the_later_tag_counts(two: tuple[CassandraRows, CassandraRows], table: str) -> None:
    first, second = two
    first.tag_table(table, {"proven": "one"})
    second.tag_table(table, {"proven": "two"})
    assert first.tags(table) == {**TAGS, "proven": "two"}


def test_a_table_that_is_made_again_has_its_tags(
    two: tuple[CassandraRows, CassandraRows], table: str
) -> None:
    first, second = two
    first.drop_table(table)
    second.make_table(table, TAGS)
    assert first.tags(table) == second.tags(table) == TAGS


def test_rows_gates_and_seals_are_in_the_order_of_their_writes(
    two: tuple[CassandraRows, CassandraRows], table: str
) -> None:
    first, second = two
    row = Record("k", "id-1", 1, 1, 1, 10**6, b"d" * 16, ((5, 1),))
    assert first.insert(table, row) is None
    assert second.insert(table, replace(row, digest=b"other", amount=7)) == row.digest
    assert second.row(table, "k", 1, "id-1") == row
    assert first.open_gate(table, 1)
    second.shut_gate(table, 1)
    assert first.gate(table, 1) is False
    assert not first.open_gate(table, 1)
    seal = Seal("one", 1, 1)
    assert first.put_seal(table, 0, seal) == seal
    assert second.put_seal(table, 0, Seal("two", 1, 1)) == seal
    assert [(gate.number, gate.open) for gate in second.gates(table)] == [(1, False)]


def test_what_lies_beside_the_rows_is_the_last_that_was_put(
    two: tuple[CassandraRows, CassandraRows], table: str
) -> None:
    """Nobody puts another list or stripe in the place of one, but if so, it would be the last."""
    first, second = two
    for rows, value in ((first, 1), (second, 2)):
        rows.put_stripes(table, 1, [Stripe("k.1", Tally("k", value, 10**6))])
        rows.put_list(table, 0, "attempt", 0, bytes([value]) * 16)
        rows.put_folded(table)
    found = first.stripe(table, 1, "k.1")
    assert found
    assert found.n == 2
    assert first.list_part(table, 0, "attempt", 0) == bytes([2]) * 16
    assert second.folded(table)
