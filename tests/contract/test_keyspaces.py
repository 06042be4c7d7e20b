"""A node behind TLS and signatures, as Amazon Keyspaces is: who is let in, and whom we trust."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from local.cassandra import node
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection, Endpoint, connect
from tallyroll.adapters.cassandra.signing import auth_provider, tls_context
from tallyroll.adapters.system import SystemEffects
from tallyroll.errors import Refused, Unknown
from tests.contract.test_cassandra import row
from tests.harness.cassandra import new_keyspace
from tests.harness.keyspaces import Front, certificate

pytestmark = pytest.mark.cassandra
REGION = "eu-west-1"


@pytest.fixture(scope="module")
def endpoint(cassandra: node.Node) -> Endpoint:
    return new_keyspace(cassandra.port)


@pytest.fixture
def front(cassandra: node.Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    """Its certificate is for localhost, not for the address that the node goes by."""
    made = certificate(tmp_path, "localhost")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(made.path))
    with Front(cassandra.port, made, REGION, "right") as front:
        yield front


def connected(front: Front, endpoint: Endpoint, host: str, secret: str) -> Connection:
    session: Any = botocore.session.Session()
    session.set_credentials("me", secret)
    effects = SystemEffects()
    return connect(
        replace(endpoint, hosts=(host,), port=front.port, timeout_s=10.0),
        effects,
        auth_provider=auth_provider(session, REGION, effects),
        ssl_context=tls_context(session),
    )


def test_rows_go_through_signed_connections(front: Front, endpoint: Endpoint) -> None:
    made = connected(front, endpoint, "localhost", "right")
    rows = CassandraRows(made)
    rows.make_table("t-1", {"tallyroll": "n"})
    rows.insert("t-1", row("Ada", 1))
    found = rows.row("t-1", "Ada", 1, "id-001")
    made.close()
    assert found
    assert found.n == 1
    assert len(front.let_in) >= 2  # to be told of nodes, and to each node
    assert front.refused == []


def test_who_signs_wrongly_is_refused_for_good(front: Front, endpoint: Endpoint) -> None:
    with pytest.raises(Refused):
        connected(front, endpoint, "localhost", "wrong")
    assert front.let_in == []
    assert set(front.refused) == {"me"}


def test_a_certificate_of_another_name_is_not_trusted(front: Front, endpoint: Endpoint) -> None:
    with pytest.raises(Unknown):
        connected(front, endpoint, "127.0.0.1", "right")
    assert front.let_in == front.refused == []


def test_a_certificate_that_nobody_signed_is_not_trusted(
    front: Front, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE")
    with pytest.raises(Unknown):
        connected(front, endpoint, "localhost", "right")
    assert front.let_in == front.refused == []
