"""A connection to a cluster: statements prepared, sent to a replica, and tried again."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import BatchStatement, BatchType, tuple_factory

from tallyroll.adapters.cassandra import cql
from tallyroll.adapters.cassandra.chains import Chain, Step
from tallyroll.adapters.cassandra.failures import DRIVER_ERRORS, RETRIED, is_invalid, translated
from tallyroll.adapters.cassandra.options import TableOptions
from tallyroll.errors import Missing, Refused, StoreError
from tallyroll.model.windows import name_in_store
from tallyroll.ports.backoff import STATEMENT
from tallyroll.ports.effects import Effects

# No try begins later, and no statement of a chain. A writer has 15 s left when it sends its last
# commit, and the aggregator 29 s in all: a node that does not answer must not use them up.
TRIES_MS = 5_000
CHAIN_MS = 10_000
REQUESTS_AT_ONCE = 64  # of one connection; a node's own queue has more room
PREPARED_MAX = 1_000
PROTOCOL = 4  # the newest that Keyspaces speaks
SCHEMA_TIMEOUT_S = 60.0
RECONNECT_S, RECONNECT_S_MAX = 0.5, 10.0  # the driver's own would be ten minutes at most
PARTITIONER = "Murmur3Partitioner"
Answer = tuple[Any, ...]
NamedRow = dict[str, Any]
_TABLE = re.compile(rf"[A-Za-z0-9-]{{1,{cql.TABLE_NAME_MAX}}}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A cluster and the keyspace of one pipeline.

    `status_keyspace` is where tables have a status, `system_schema_mcs` on Amazon Keyspaces: there
    tables are made, changed and dropped asynchronously, and have `options`, which Apache Cassandra
    has not. Without it, a table that is there is active. With TLS, each node must have a
    certificate for the first of the hosts.
    """

    hosts: tuple[str, ...]
    keyspace: str
    port: int = 9042
    datacenter: str = "datacenter1"
    timeout_s: float = 10.0
    status_keyspace: str = ""
    options: TableOptions | None = None


class Connection:
    """Sends the texts of `cql`. Raises StoreError; after Unknown, a write may still be done."""

    def __init__(self, cluster: Any, session: Any, endpoint: Endpoint, effects: Effects) -> None:
        self.endpoint = endpoint
        self.session = session
        self.effects = effects
        self._cluster = cluster
        self._prepared: dict[tuple[str, str], Any] = {}
        self._room = BoundedSemaphore(REQUESTS_AT_ONCE)

    def close(self) -> None:
        """Close all connections to the cluster."""
        self._cluster.shutdown()

    def once(self, text: str, table: str, *values: Any) -> tuple[Sequence[str], list[Answer]]:
        """Send a statement once; the names of the answer's columns, and its first page."""
        result = self._page(text, table, values, None, None)
        return result.column_names or (), result.current_rows or []

    def run(self, text: str, table: str, *values: Any) -> list[Answer]:
        """`once`, tried again for five seconds while Throttled or Unknown; the rows alone."""
        return self.read(text, table, values)[0]

    def condition(self, text: str, table: str, *values: Any) -> NamedRow:
        """Send a conditional write that may be repeated; `[applied]`, and the row that is there if
        it was not.
        """
        names, [row] = self._again(lambda: self.once(text, table, *values))
        return dict(zip(names, row, strict=True))

    def read(
        self,
        text: str,
        table: str,
        values: Sequence[Any],
        rows: int | None = None,
        state: bytes | None = None,
    ) -> tuple[list[Answer], bytes | None]:
        """One page of at most `rows`, and the state that the next one is asked for with, if any."""
        result = self._again(lambda: self._page(text, table, values, rows, state))
        return result.current_rows or [], result.paging_state

    def pages(
        self, text: str, table: str, values: Sequence[Any], rows: int
    ) -> Iterator[list[Answer]]:
        """All rows, in pages of at most `rows`. A page may be empty, and not the last."""
        state: bytes | None = None
        while True:
            page, state = self.read(text, table, values, rows, state)
            yield page
            if state is None:
                return

    def gathered(
        self, text: str, table: str, many: Iterable[Sequence[Any]], rows: int | None = None
    ) -> Iterator[tuple[Sequence[Any], list[Answer]]]:
        """Send a statement with each of these values, side by side; yield the values with each page
        of their answer, until all are read. For what may be repeated.
        """
        waiting = [(values, None) for values in many]
        while waiting:
            now, waiting = waiting[:REQUESTS_AT_ONCE], waiting[REQUESTS_AT_ONCE:]
            sent = [(each, self._sent_if(text, table, *each, rows)) for each in now]
            for (values, state), future in sent:
                result = self._awaited(text, table, values, state, rows, future)
                yield values, result.current_rows or []
                if result.paging_state is not None:
                    waiting.append((values, result.paging_state))

    def chained(
        self, table: str, chains: Sequence[Sequence[tuple[str, Sequence[Any]]]]
    ) -> list[list[NamedRow | StoreError]]:
        """Send the statements of each chain one after the other, once, and the chains side by side.
        For each statement, the first row of its answer, or its error: Throttled if it was not sent,
        since one before it in its chain failed, or they took ten seconds.
        """
        until = self.effects.now() + CHAIN_MS
        bound = [
            [self._bound_in(text, table, values) for text, values in chain] for chain in chains
        ]
        sent = [
            Chain(self.session, each, self._room.release, lambda: self.effects.now() >= until)
            for each in bound
        ]
        for chain in sent:
            self._room.acquire()
            chain.begin()
        return [
            [
                self._answered(table, text, step)
                for (text, _), step in zip(of, chain.wait(), strict=True)
            ]
            for of, chain in zip(chains, sent, strict=True)
        ]

    def _bound_in(self, text: str, table: str, values: Sequence[Any]) -> Any:
        with self._translated(text, table):
            return self._bound(text, table, values, None)

    def _answered(self, table: str, text: str, step: Step) -> NamedRow | StoreError:
        try:
            with self._translated(text, table):
                result = step()
        except StoreError as error:
            return error
        return dict(zip(result.column_names, result.current_rows[0], strict=True))

    def batched(self, text: str, table: str, many: Sequence[Sequence[Any]]) -> None:
        """Insert rows of one partition, in unlogged batches."""
        for first in range(0, len(many), cql.BATCH_STATEMENTS_MAX):
            some = many[first : first + cql.BATCH_STATEMENTS_MAX]
            self._again(lambda some=some: self._batch(text, table, some))

    def define(self, text: str, **names: str) -> None:
        """Send a statement that changes the schema, which is never prepared."""
        named = text.format(keyspace=self.endpoint.keyspace, **names)
        self._again(lambda: self._define(named))

    def _define(self, text: str) -> None:
        with self._translated(text, ""):
            self.session.execute(text, timeout=SCHEMA_TIMEOUT_S)

    def quoted(self, table: str) -> str:
        """A window table as CQL names it."""
        return f'{self.endpoint.keyspace}."{cql_name(table)}"'

    def exists(self, table: str) -> bool:
        """Whether the table is in the schema."""
        names = (self.endpoint.keyspace, cql_name(table))
        return bool(self.run(cql.EXISTS, "", *names))

    def _batch(self, text: str, table: str, many: Sequence[Sequence[Any]]) -> None:
        with self._translated(text, table):
            batch = BatchStatement(BatchType.UNLOGGED)
            prepared = self._statement(text, table)
            for values in many:
                batch.add(prepared, values)
            self._send(batch, None).result()

    def _page(
        self, text: str, table: str, values: Sequence[Any], rows: int | None, state: bytes | None
    ) -> Any:
        with self._translated(text, table):
            return self._send(self._bound(text, table, values, rows), state).result()

    def _sent_if(
        self, text: str, table: str, values: Sequence[Any], state: bytes | None, rows: int | None
    ) -> Any:
        """The future of an answer; None if it could not be sent."""
        try:
            with self._translated(text, table):
                return self._send(self._bound(text, table, values, rows), state)
        except RETRIED:
            return None

    def _awaited(
        self,
        text: str,
        table: str,
        values: Sequence[Any],
        state: bytes | None,
        rows: int | None,
        future: Any,
    ) -> Any:
        """The answer of a future, which is asked for again if it failed."""
        try:
            if future is not None:
                with self._translated(text, table):
                    return future.result()
        except RETRIED:
            pass
        return self._again(lambda: self._page(text, table, values, rows, state))

    def _send(self, bound: Any, state: bytes | None) -> Any:
        """Wait for room, and send."""
        self._room.acquire()
        try:
            future = self.session.execute_async(bound, paging_state=state)
        except BaseException:
            self._room.release()
            raise
        future.add_callbacks(lambda _: self._room.release(), lambda _: self._room.release())
        return future

    def _bound(self, text: str, table: str, values: Sequence[Any], rows: int | None) -> Any:
        bound = self._statement(text, table).bind(values)
        if rows is not None:
            bound.fetch_size = rows
        return bound

    def _statement(self, text: str, table: str) -> Any:
        prepared = self._prepared.get((text, table))
        if prepared is None:
            if len(self._prepared) >= PREPARED_MAX:
                self._prepared.clear()  # of windows that are long gone, mostly; threads share it
            named = text.format(
                keyspace=self.endpoint.keyspace,
                status_keyspace=self.endpoint.status_keyspace,
                table=self.quoted(table) if table else "",
            )
            prepared = self._prepared[text, table] = self.session.prepare(named)
        return prepared

    def _again(self, attempt: Any) -> Any:
        last: StoreError | None = None
        until = self.effects.now() + TRIES_MS
        for _ in STATEMENT.attempts(self.effects):
            if last and self.effects.now() >= until:
                break
            try:
                return attempt()
            except RETRIED as error:
                last = error
        assert last
        raise last

    @contextmanager
    def _translated(self, text: str, table: str) -> Iterator[None]:
        """Raise StoreError for what the driver raises: Missing for an invalid statement whose table
        is not in the schema. No error's text is read.
        """
        try:
            yield
        except DRIVER_ERRORS as error:
            if table and is_invalid(error) and not self.exists(table):
                raise Missing(f"there is no table {table}", type(error).__name__) from error
            raise translated(error, text, table or f"keyspace {self.endpoint.keyspace}") from error


def connect(
    endpoint: Endpoint,
    effects: Effects,
    *,
    auth_provider: Any = None,
    ssl_context: ssl.SSLContext | None = None,
) -> Connection:
    """Connect to a cluster, for which the driver's `auth_provider` and a TLS context may be given.

    Raises Refused if its partitions have no tokens by Murmur3, since segments depend on them.
    """
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(endpoint.datacenter)),
        retry_policy=FallthroughRetryPolicy(),  # this module's tries are the only ones
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=endpoint.timeout_s,
        row_factory=tuple_factory,
    )
    cluster = Cluster(
        endpoint.hosts,
        port=endpoint.port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        protocol_version=PROTOCOL,
        auth_provider=auth_provider,
        ssl_context=ssl_context,
        # Nodes are known by their addresses, which no certificate names.
        ssl_options={"server_hostname": endpoint.hosts[0]} if ssl_context else None,
        connect_timeout=endpoint.timeout_s,
        control_connection_timeout=endpoint.timeout_s,
        reconnection_policy=ExponentialReconnectionPolicy(RECONNECT_S, RECONNECT_S_MAX),
        schema_event_refresh_window=-1,  # other clients' tables change no routing
    )
    try:
        session = cluster.connect()
        session.use_client_timestamp = False  # the order of writes must not be that of our clocks
        [[partitioner]] = session.execute(cql.PARTITIONER)
        if not partitioner.endswith(PARTITIONER):
            why = f"the cluster's partitioner is {partitioner}: set it to {PARTITIONER}"
            raise Refused(why, "WrongPartitioner")
    except DRIVER_ERRORS as error:
        cluster.shutdown()
        raise translated(error, "CONNECT", ", ".join(endpoint.hosts)) from error
    except Refused:
        cluster.shutdown()
        raise
    return Connection(cluster, session, endpoint, effects)


def cql_name(table: str) -> str:
    """The name of a table in CQL, which allows letters, digits and underscores, and 48 of them.

    Raises Refused for a name that CQL does not allow, or that another table could have.
    """
    name = name_in_store(table)
    if _TABLE.fullmatch(name) is None:
        raise Refused(
            f"table {name!r} needs a name of letters, digits and hyphens, at most"
            f" {cql.TABLE_NAME_MAX} of them",
            "BadTableName",
        )
    return name.replace("-", "_")
