"""A pipeline's keyspace on a node, with the tables that a deployment makes in Amazon Keyspaces."""

from __future__ import annotations

from local.cassandra.node import LOCALHOST
from tallyroll.adapters.cassandra.session import Endpoint, connect
from tallyroll.adapters.cassandra.tables import make_permanent
from tallyroll.adapters.system import SystemEffects

TIMEOUT_S = 60.0  # a node changes its schema slowly while the machine is busy


def make_keyspace(port: int, name: str) -> Endpoint:
    """Make a keyspace on the node at a port of this machine. Raises StoreError."""
    endpoint = Endpoint((LOCALHOST,), name, port=port, timeout_s=TIMEOUT_S)
    connection = connect(endpoint, SystemEffects())
    try:
        connection.session.execute(
            f"CREATE KEYSPACE {name} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}",
            timeout=TIMEOUT_S,
        )
        make_permanent(connection)
    finally:
        connection.close()
    return endpoint
