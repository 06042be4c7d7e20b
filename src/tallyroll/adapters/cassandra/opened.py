"""The window tables of one pipeline, on the cluster that its settings name."""

from __future__ import annotations

from botocore.session import get_session

from tallyroll.adapters.aws.client import region
from tallyroll.adapters.cassandra import cql
from tallyroll.adapters.cassandra.amazon import endpoint_in
from tallyroll.adapters.cassandra.rows import CassandraRows
from tallyroll.adapters.cassandra.session import Connection, Endpoint, connect
from tallyroll.adapters.cassandra.signing import auth_provider, tls_context
from tallyroll.errors import Refused, StoreError
from tallyroll.ports.effects import Effects
from tallyroll.settings import Settings


def open_rows(settings: Settings, effects: Effects) -> CassandraRows:
    """Connect to Amazon Keyspaces in the Region of the AWS environment, or to the node that takes
    its place. Raises StoreError; Refused if the keyspace lacks the permanent tables.
    """
    connection = _connected(settings, effects)
    try:
        _check_permanent(connection)
    except StoreError:
        connection.close()
        raise
    return CassandraRows(connection)


def _connected(settings: Settings, effects: Effects) -> Connection:
    keyspace = settings.window_keyspace
    if settings.cassandra:
        host, _, port = settings.cassandra.rpartition(":")
        return connect(Endpoint((host,), keyspace, port=int(port)), effects)
    session, here = get_session(), region()
    return connect(
        endpoint_in(session, here, keyspace, settings),
        effects,
        auth_provider=auth_provider(session, here, effects),
        ssl_context=tls_context(session),
    )


def _check_permanent(connection: Connection) -> None:
    keyspace = connection.endpoint.keyspace
    for table in cql.PERMANENT_NAMES:
        if not connection.run(cql.EXISTS, "", keyspace, table):
            raise Refused(
                f"the keyspace {keyspace} is not there, or has no table {table}: set"
                " TALLYROLL_KEYSPACE to the one that was deployed, or deploy with"
                " tallyroll:keyspace",
                "NoKeyspace",
            )
