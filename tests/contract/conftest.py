"""The contract's engines: in memory, moto in this process, DynamoDB Local, Cassandra."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from moto import mock_aws

from local.cassandra.node import Node
from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.memory import MemoryCatalog, MemoryStore, MemoryTotals
from tallyroll.adapters.memory.rows import MemoryRows
from tallyroll.adapters.rows.row_store import RowStore
from tallyroll.adapters.system import SystemEffects
from tallyroll.pipeline import Pipeline
from tallyroll.ports.effects import Effects
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.deviations import DEVIATIONS
from tests.contract.engines import Engine, SteadyEffects
from tests.harness.cassandra import connected, sent_within_subset

ENGINES = ("memory", "moto", pytest.param("dynamodb-local", marks=pytest.mark.engine))

ROW_ENGINES = ("rows", pytest.param("cassandra", marks=pytest.mark.cassandra))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect what an engine is known not to do as DynamoDB does."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            engine = str(item.callspec.params.get("engine", ""))
            if why := DEVIATIONS.get((engine, item.originalname)):
                item.add_marker(pytest.mark.xfail(reason=f"{engine}: {why}", strict=True))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that are marked `common` run on stores without transactions, too."""
    if "engine" in metafunc.fixturenames:
        common = metafunc.definition.get_closest_marker("common")
        engines = (*ENGINES, *ROW_ENGINES) if common else ENGINES
        metafunc.parametrize("engine", engines, indirect=True)


@pytest.fixture(scope="session")
def cassandra_rows(cassandra: Node) -> Iterator[CassandraRows]:
    """A keyspace on the node of this test process, whose tests share it and its permanent tables.

    Each statement that is sent has to be one that Keyspaces documents.
    """
    connection = connected(cassandra.port)
    sent_within_subset(connection.session)
    yield CassandraRows(connection, page_rows=7)
    connection.close()


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Each engine in turn, its permanent tables made."""
    if request.param == "memory":
        yield _in_memory()
    elif request.param == "rows":
        yield _on_rows()
    elif request.param == "cassandra":
        yield _on_cassandra(request.getfixturevalue("cassandra_rows"))
    elif request.param == "moto":
        with mock_aws():
            # moto loses writes under threads.
            yield _on_aws("moto", SteadyEffects())
    else:
        endpoint = request.getfixturevalue("dynamodb_endpoint")
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
        yield _on_aws("dynamodb-local", SystemEffects())


def _in_memory() -> Engine:
    effects = SteadyEffects()
    catalog = MemoryCatalog()
    store = MemoryStore(effects, catalog)
    return Engine("memory", "memory", effects, store, catalog, MemoryTotals())


def _on_rows() -> Engine:
    effects, catalog = SteadyEffects(), MemoryCatalog()
    store = RowStore(MemoryRows(effects, page_rows=7), catalog, effects)
    return Engine("rows", "rows", effects, store, catalog, MemoryTotals())


def _on_cassandra(rows: CassandraRows) -> Engine:
    effects, catalog = SystemEffects(), MemoryCatalog()
    prefix = f"t{uuid4().hex[:12]}"
    store = RowStore(rows, catalog, effects)
    return Engine("cassandra", prefix, effects, store, catalog, MemoryTotals())


def _on_aws(name: str, effects: Effects) -> Engine:
    settings = Settings(name=f"t{uuid4().hex[:12]}")
    resources = declare(settings)
    client = make_client("dynamodb")
    for table in resources.permanent:
        client.create_table(**table_request(table))
    made = Pipeline(settings, effects)
    return Engine(
        name=name,
        prefix=settings.name,
        effects=effects,
        store=made.store,
        catalog=made.catalog,
        totals=made.totals,
    )
