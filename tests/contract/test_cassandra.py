"""What only a node of Cassandra shows: tokens, conditions, the life of a table, and its absence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from local.cassandra import node
from tallyroll.adapters.cassandra import cql
from tallyroll.adapters.cassandra.places import token
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection, Endpoint, connect
from tallyroll.adapters.rows.statements import SEGMENTS, Seal
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import Missing, Refused, StoreError, Throttled, Unknown
from tallyroll.model.records import Record
from tallyroll.ports.table_listing import TableStatus
from tests.harness.cassandra import connected, new_keyspace

pytestmark = pytest.mark.cassandra
TAGS = {"tallyroll": "here"}


@pytest.fixture(scope="module")
def connection(cassandra: node.Node) -> Iterator[Connection]:
    made = connected(cassandra.port)
    yield made
    made.close()


@pytest.fixture(scope="module")
def rows(connection: Connection) -> CassandraRows:
    return CassandraRows(connection, page_rows=7)


@pytest.fixture
def table(rows: CassandraRows) -> str:
    name = f"t{uuid4().hex[:8]}-20261120T080000Z"
    rows.make_table(name, TAGS)
    return name


def row(key: str, number: int, shard: int = 1) -> Record:
    return Record(key, f"id-{number:03}", shard, 1, 1, 10**6, b"d" * 16, ((5, 1),))


def test_tokens_are_those_of_the_server(rows: CassandraRows, connection: Connection) -> None:
    name = f"t{uuid4().hex[:8]}"
    rows.make_table(name, TAGS)
    for number in range(20):
        rows.insert(name, row(f"köy.{number}", 0, 1 + number % 3))
    text = f"SELECT key, shard, token(key, shard) FROM {connection.quoted(name)}"
    found = list(connection.session.execute(text))
    assert len(found) == 20
    assert all(token(key, shard) == hashed for key, shard, hashed in found)


def test_the_segments_list_each_row_once_and_nothing_beside_them(
    rows: CassandraRows, table: str
) -> None:
    """Also while a partition has more rows than a page, and with lists beside the rows."""
    put = [row(f"k{number % 5}", number, 1 + number % 2) for number in range(60)]
    for each in put:
        assert rows.insert(table, each) is None
    rows.put_list(table, 0, "attempt", 0, b"m" * 16)
    rows.put_folded(table)
    listed = {
        segment: [one for page in rows.listed(table, segment) for one in page]
        for segment in range(SEGMENTS)
    }
    assert Counter((one.key, one.id) for there in listed.values() for one in there) == Counter(
        (one.key, one.id) for one in put
    )
    for segment, there in listed.items():
        assert all(rows.segment(one.key, one.shard) == segment for one in there)
    scanned = [one for at in range(3) for page in rows.scan(table, at, 3) for one in page]
    assert sorted(scanned, key=lambda one: (one.key, one.id)) == sorted(
        put, key=lambda one: (one.key, one.id)
    )


def test_the_first_row_of_a_place_stays(rows: CassandraRows, table: str) -> None:
    first, second = row("a", 1), replace(row("a", 1), digest=b"other", amount=7)
    assert rows.insert(table, first) is None
    assert rows.insert(table, second) == first.digest
    assert rows.row(table, "a", 1, first.id) == first
    assert rows.tally(table, "a", 1).amount == first.amount


def test_the_first_seal_wins(rows: CassandraRows, table: str) -> None:
    assert rows.seal(table, 3) is None
    first, second = Seal("one", 5, 1), Seal("two", 4, 1)
    assert rows.put_seal(table, 3, first) == first
    assert rows.put_seal(table, 3, second) == first
    assert rows.seal(table, 3) == first


def test_gates_outlive_their_table_and_stay_shut(rows: CassandraRows, table: str) -> None:
    assert rows.open_gate(table, 1)
    assert rows.open_gate(table, 1)
    rows.shut_gate(table, 1)
    rows.shut_gate(table, 2)
    rows.shut_gate(table, 1)
    rows.drop_table(table)
    with pytest.raises(Missing):
        rows.open_gate(table, 1)
    rows.make_table(table, TAGS)
    assert not rows.open_gate(table, 1)
    assert not rows.open_gate(table, 2)
    assert [(gate.number, gate.open) for gate in rows.gates(table)] == [(1, False), (2, False)]
    with pytest.raises(Refused, match="with gates"):
        rows.check_table(table, TAGS)


def test_a_table_that_is_made_again_is_empty(rows: CassandraRows, table: str) -> None:
    """Its statements were prepared for the one before."""
    rows.insert(table, row("a", 1))
    assert rows.row(table, "a", 1, "id-001")
    rows.drop_table(table)
    for verb in (rows.tags, rows.recover_table, rows.reduce_capacity):
        with pytest.raises(Missing):
            verb(table)
    with pytest.raises(Missing):
        rows.insert(table, row("a", 1))
    with pytest.raises(Missing):
        rows.row(table, "a", 1, "id-001")
    with pytest.raises(Missing):
        list(rows.listed(table, 0))
    rows.make_table(table, TAGS)
    assert rows.row(table, "a", 1, "id-001") is None
    assert rows.insert(table, row("a", 1)) is None


def test_the_life_of_a_table(rows: CassandraRows, table: str) -> None:
    rows.check_table(table, TAGS)
    rows.make_table(table, {"tallyroll": "another"})
    assert rows.tags(table) == TAGS
    rows.tag_table(table, {"proven": "x"})
    assert rows.tags(table) == {**TAGS, "proven": "x"}
    rows.recover_table(table)
    rows.reduce_capacity(table)
    facts = rows.describe_table(table)
    assert facts
    assert (facts.status, facts.protected) == (TableStatus.ACTIVE, False)
    for tags in ({"tallyroll": "another"}, {"absent": "x"}):
        with pytest.raises(Refused, match="its tag"):
            rows.check_table(table, tags)
    rows.drop_table(table)
    rows.drop_table(table)
    assert rows.describe_table(table) is None
    assert rows.facts(table) == {}
    with pytest.raises(Missing):
        rows.check_table(table, TAGS)


def test_another_s_table_is_refused(rows: CassandraRows, connection: Connection) -> None:
    name = f"t{uuid4().hex[:8]}"
    connection.session.execute(f"CREATE TABLE {connection.quoted(name)} (id text PRIMARY KEY)")
    with pytest.raises(Refused, match="its columns are id text") as refused:
        rows.check_table(name, {})
    assert refused.value.code == "NotOurs"


def test_tables_that_are_made_and_dropped_asynchronously(connection: Connection) -> None:
    """A keyspace that says a table's status as `system_schema_mcs` does on Amazon Keyspaces."""
    told = f"mcs{uuid4().hex[:8]}"
    session = connection.session
    session.execute(
        f"CREATE KEYSPACE {told} WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(
        f"CREATE TABLE {told}.tables (keyspace_name text, table_name text, status text,"
        " PRIMARY KEY (keyspace_name, table_name))"
    )
    endpoint = replace(connection.endpoint, status_keyspace=told)
    made = connect(endpoint, SystemEffects())
    rows, name = CassandraRows(made), f"t{uuid4().hex[:8]}"

    def tell(status: str) -> None:
        session.execute(
            f"INSERT INTO {told}.tables (keyspace_name, table_name, status) VALUES (%s, %s, %s)",
            (endpoint.keyspace, name, status),
        )

    assert rows.describe_table(name) is None
    rows.make_table(name, TAGS)
    for status in (TableStatus.CREATING, TableStatus.UPDATING):
        tell(status.name)
        facts = rows.describe_table(name)
        assert facts
        assert facts.status is status
        with pytest.raises(Throttled):
            rows.drop_table(name)
    tell("DELETING")
    rows.drop_table(name)
    assert made.exists(name)
    assert rows.tags(name) == TAGS
    tell("ACTIVE")
    rows.drop_table(name)
    assert not made.exists(name)
    tell("DELETED")
    assert rows.describe_table(name) is None
    tell("INACCESSIBLE_ENCRYPTION_CREDENTIALS")
    with pytest.raises(Refused):
        rows.describe_table(name)
    made.close()


def test_another_partitioner_is_refused(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "SELECT release_version FROM system.local"  # it ends in no partitioner's name
    monkeypatch.setattr(cql, "PARTITIONER", other)
    with pytest.raises(Refused) as refused:
        connect(connection.endpoint, SystemEffects())
    assert refused.value.code == "WrongPartitioner"


def test_a_keyspace_that_is_not_there(connection: Connection) -> None:
    made = connect(replace(connection.endpoint, keyspace="nowhere"), SystemEffects())
    rows = CassandraRows(made)
    assert rows.describe_table("t-1") is None
    with pytest.raises(Missing):
        rows.row("t-1", "a", 1, "x")
    with pytest.raises(StoreError):
        rows.make_table("t-1", TAGS)
    made.close()


def test_nobody_answers() -> None:
    endpoint = Endpoint((node.LOCALHOST,), "k", port=1, timeout_s=5.0)
    with pytest.raises(Unknown, match="CONNECT on 127"):
        connect(endpoint, SystemEffects())


def test_a_node_that_dies_leaves_outcomes_unknown() -> None:
    with node.start() as own:
        made = connect(replace(new_keyspace(own.port), timeout_s=2.0), SystemEffects())
        rows = CassandraRows(made)
        rows.make_table("t-1", TAGS)
        assert rows.insert("t-1", row("a", 1)) is None
        own.kill()
        with pytest.raises(Unknown):
            rows.insert("t-1", row("a", 2))
        with pytest.raises(Unknown):
            rows.tally("t-1", "a", 2)
        made.close()
