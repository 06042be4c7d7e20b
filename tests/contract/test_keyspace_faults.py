"""A keyspace that is wrong, and a node that is down: what is told, and that nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from local.cassandra.node import LOCALHOST, Node
from tallyroll.adapters.cassandra.opened import open_rows
from tallyroll.adapters.cassandra.session import Endpoint, connect
from tallyroll.adapters.memory import MemoryStore
from tallyroll.adapters.routed import RoutedStore
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import Refused, StoreError
from tallyroll.model.windows import KEYSPACES
from tallyroll.settings import Settings
from tests.harness.both_stores import BothStores
from tests.harness.cassandra import new_keyspace
from tests.harness.pipeline import SMALL, TIME_LEFT


def on(port: int, keyspace: str) -> Settings:
    return replace(SMALL, store=KEYSPACES, keyspace=keyspace, cassandra=f"{LOCALHOST}:{port}")


@pytest.mark.cassandra
def test_a_keyspace_that_is_not_there_is_named_with_the_remedy(cassandra: Node) -> None:
    with pytest.raises(Refused, match=r"the keyspace elsewhere is not there.* TALLYROLL_KEYSPACE"):
        open_rows(on(cassandra.port, "elsewhere"), SystemEffects())


@pytest.mark.cassandra
def test_a_keyspace_that_lacks_a_permanent_table_is_named(cassandra: Node) -> None:
    endpoint = new_keyspace(cassandra.port)
    connection = connect(Endpoint((LOCALHOST,), endpoint.keyspace, cassandra.port), SystemEffects())
    open_rows(on(cassandra.port, endpoint.keyspace), SystemEffects())._connection.close()
    connection.session.execute(f"DROP TABLE {endpoint.keyspace}.seals", timeout=60.0)
    connection.close()
    with pytest.raises(Refused, match=f"{endpoint.keyspace} is not there, or has no table seals"):
        open_rows(on(cassandra.port, endpoint.keyspace), SystemEffects())


def test_while_no_node_answers_messages_are_handed_back() -> None:
    pipeline = BothStores(replace(SMALL, store=KEYSPACES))
    for _ in range(3):
        pipeline.roller().run(TIME_LEFT)
    settings = on(1, "votes")  # nothing listens on port 1
    tried: list[StoreError] = []

    def opened() -> RowStore:
        try:
            rows = open_rows(settings, pipeline.effects)
        except StoreError as error:
            tried.append(error)
            raise
        return RowStore(rows, pipeline.catalog, pipeline.effects)

    dynamodb = MemoryStore(pipeline.effects, pipeline.catalog)
    pipeline.store = RoutedStore(dynamodb, opened, pipeline.effects)
    report = pipeline.write({"key": "k", "id": "a"})
    assert len(report.failures) == 1
    assert report.rejected == {}
    assert tried
    assert f"CONNECT on {LOCALHOST}" in str(tried[0])
