"""Tables on a cluster: makes, checks, describes and drops them, and notes what is true of them."""

from __future__ import annotations

from collections.abc import Mapping

from tallyroll.adapters.cassandra import cql
from tallyroll.adapters.cassandra.options import literal
from tallyroll.adapters.cassandra.session import Connection, cql_name
from tallyroll.errors import Missing, Refused, Throttled
from tallyroll.ports.table_listing import TableFacts, TableStatus

PERMANENT = (cql.CREATE_GATES, cql.CREATE_SEALS, cql.CREATE_TABLES)
GONE = "DELETED"  # a status of Amazon Keyspaces
TAG = "tag."  # begins the names of facts that are tags
_KEY = {("key", "partition_key", 0), ("shard", "partition_key", 1), ("id", "clustering", 0)}


def make_permanent(connection: Connection) -> None:
    """Make the tables of a keyspace that outlive windows, where they are absent."""
    for text in PERMANENT:
        connection.define(text)


class CassandraTables:
    """The window tables of a keyspace. A table's tags are rows of a permanent one, since Cassandra
    has no place for them; on Amazon Keyspaces they are the table's own, too.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._options = connection.endpoint.options

    def make_table(self, table: str, tags: Mapping[str, str], peak: int = 0) -> None:
        """Tags precede their table, so a table of this pipeline is never without. One that is there
        keeps its own.
        """
        if self.describe_table(table) is None:
            self._put_tags(table, tags)
            named = self._connection.quoted(table)
            if self._options is None:
                self._connection.define(cql.CREATE_WINDOW, table=named)
            else:
                made = self._options.new(tags, peak)
                self._connection.define(cql.CREATE_WINDOW_WITH, table=named, options=made)

    def describe_table(self, table: str) -> TableFacts | None:
        """There is no deletion protection. Raises Refused for a status that no pipeline causes."""
        endpoint = self._connection.endpoint
        names = (endpoint.keyspace, cql_name(table))
        if not endpoint.status_keyspace:
            there = self._connection.exists(table)
            return TableFacts(TableStatus.ACTIVE, protected=False) if there else None
        found = self._connection.run(cql.STATUS, "", *names)
        if found in ([], [(GONE,)]):
            return None
        [[status]] = found
        if status not in TableStatus.__members__:
            raise Refused(f"table {table} is in the status {status}", status)
        return TableFacts(TableStatus[status], protected=False)

    def check_table(self, table: str, tags: Mapping[str, str]) -> None:
        """Raise Refused for a table with other columns, without these tags, or with gates."""
        names = (self._connection.endpoint.keyspace, cql_name(table))
        found = self._connection.run(cql.COLUMNS, "", *names)
        if not found:
            raise self._missing(table)
        types = {name: kind for name, kind, _, _ in found}
        key = {(name, role, at) for name, _, role, at in found if role != "regular"}
        if types != cql.WINDOW_COLUMNS or key != _KEY:
            columns = ", ".join(f"{name} {kind}" for name, kind in sorted(types.items()))
            raise _not_ours(table, f"its columns are {columns}")
        there = self._tags(table)
        for name, value in tags.items():
            if there.get(name) != value:
                value_there = there.get(name, "absent")
                raise _not_ours(table, f"its tag {name} is {value_there!r}, not {value!r}")

    def recover_table(self, table: str) -> None:
        """Nothing is to be done: a table is made with its backups."""
        self._check_there(table)

    def reduce_capacity(self, table: str) -> None:
        """No effect on Apache Cassandra, where tables have no capacity of their own."""
        self._check_there(table)
        if self._options is not None:
            names = (self._connection.endpoint.keyspace, cql_name(table))
            found = self._connection.run(cql.PROPERTIES, "", *names)
            cold = self._options.cold(found[0][0] or {} if found else {})
            if cold:
                self._alter(cql.ALTER_WINDOW, table, options=cold)

    def tags(self, table: str) -> dict[str, str]:
        self._check_there(table)
        return self._tags(table)

    def tag_table(self, table: str, tags: Mapping[str, str]) -> None:
        """The service's own tags come first, since policies of IAM depend on them."""
        self._check_there(table)
        if self._options is not None:
            self._alter(cql.TAG_WINDOW, table, tags=literal(tags))
        self._put_tags(table, tags)

    def _alter(self, text: str, table: str, **names: str) -> None:
        """Change a table that is not being made or changed. Raises Throttled for another one."""
        self._check_unchanging(table, self.describe_table(table))
        self._connection.define(text, table=self._connection.quoted(table), **names)

    def drop_table(self, table: str) -> None:
        """Its tags go once it is gone, which may be at the next call."""
        facts = self.describe_table(table)
        self._check_unchanging(table, facts)
        if facts and facts.status is not TableStatus.DELETING:
            self._connection.define(cql.DROP_WINDOW, table=self._connection.quoted(table))
            facts = self.describe_table(table)
        if facts is None:
            for name in self._tags(table):
                self._connection.run(cql.DROP_FACT, "", table, TAG + name)

    def facts(self, table: str) -> dict[str, str]:
        """What is noted of a table, and outlives it unless it is a tag."""
        pages = self._connection.pages(cql.FACTS, "", (table,), cql.PAGE_ROWS)
        return {name: value for page in pages for name, value in page}

    def _tags(self, table: str) -> dict[str, str]:
        named = self.facts(table).items()
        return {name.removeprefix(TAG): value for name, value in named if name.startswith(TAG)}

    def _put_tags(self, table: str, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            self._connection.run(cql.PUT_FACT, "", table, TAG + name, value)

    def _check_unchanging(self, table: str, facts: TableFacts | None) -> None:
        if facts and facts.status in (TableStatus.CREATING, TableStatus.UPDATING):
            raise Throttled(f"table {table} is {facts.status}", facts.status.capitalize())

    def _check_there(self, table: str) -> None:
        if not self._connection.exists(table):
            raise self._missing(table)

    def _missing(self, table: str) -> Missing:
        return Missing(f"there is no table {table} in {self._connection.endpoint.keyspace}")


def _not_ours(table: str, why: str) -> Refused:
    return Refused(f"table {table} is no window table of this pipeline: {why}", "NotOurs")
