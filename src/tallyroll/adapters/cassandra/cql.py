"""All texts that are sent, within what Amazon Keyspaces documents.

No aggregates, indexes, views, ALLOW FILTERING, IN, TRUNCATE or conditions in batches. Batches are
unlogged, of inserts into one partition. A condition is on the row that the statement writes.

Sources: Amazon Keyspaces Developer Guide, "Supported Cassandra APIs, operations, functions, and
data types", "Functional differences", "Working with partitioners" (`token` in WHERE), "Quotas",
"CQL language reference", at Tables, and "Add tags to a table".
"""

from __future__ import annotations

from typing import Final

BATCH_STATEMENTS_MAX: Final = 30
TABLE_NAME_MAX: Final = 48  # characters
PAGE_ROWS: Final = 200
PERMANENT_NAMES: Final = ("gates", "seals", "tables")

WINDOW_COLUMNS: Final = {
    "key": "text",
    "shard": "int",
    "id": "text",
    "ts": "bigint",
    "n": "bigint",
    "v": "varint",
    "h": "blob",
    "data": "blob",
    "fmt": "text",
    "m": "text",
    "u": "bigint",
}

CREATE_WINDOW: Final = (
    "CREATE TABLE IF NOT EXISTS {table} (key text, shard int, id text, ts bigint, n bigint,"
    " v varint, h blob, data blob, fmt text, m text, u bigint, PRIMARY KEY ((key, shard), id))"
)
# What Amazon Keyspaces has besides: properties of its own, and tags. An ALTER TABLE changes one
# property. `options` has the texts of both.
CREATE_WINDOW_WITH: Final = CREATE_WINDOW + " WITH {options}"
ALTER_WINDOW: Final = "ALTER TABLE {table} WITH {options}"
TAG_WINDOW: Final = "ALTER TABLE {table} ADD TAGS {tags}"
DROP_WINDOW: Final = "DROP TABLE IF EXISTS {table}"
# CloudFormation, which makes these in a deployment, takes names of at least two letters.
CREATE_GATES: Final = (
    "CREATE TABLE IF NOT EXISTS {keyspace}.gates"
    " (tbl text, gate int, open boolean, PRIMARY KEY ((tbl, gate)))"
)
CREATE_SEALS: Final = (
    "CREATE TABLE IF NOT EXISTS {keyspace}.seals"
    " (tbl text, segment int, attempt text, listed bigint, parts int,"
    " PRIMARY KEY ((tbl, segment)))"
)
CREATE_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS {keyspace}.tables"
    " (tbl text, name text, value text, PRIMARY KEY ((tbl), name))"
)

PARTITIONER: Final = "SELECT partitioner FROM system.local"
EXISTS: Final = (
    "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?"
)
STATUS: Final = (
    "SELECT status FROM {status_keyspace}.tables WHERE keyspace_name = ? AND table_name = ?"
)
PROPERTIES: Final = (
    "SELECT custom_properties FROM {status_keyspace}.tables"
    " WHERE keyspace_name = ? AND table_name = ?"
)
COLUMNS: Final = (
    "SELECT column_name, type, kind, position FROM system_schema.columns"
    " WHERE keyspace_name = ? AND table_name = ?"
)

INSERT: Final = (
    "INSERT INTO {table} (key, shard, id, ts, n, v, h, m, u)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
)
INSERT_WITH_DATA: Final = (
    "INSERT INTO {table} (key, shard, id, ts, n, v, h, m, u, data, fmt)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
)
ROW: Final = (
    "SELECT key, shard, id, ts, n, v, h, data, fmt, m FROM {table}"
    " WHERE key = ? AND shard = ? AND id = ?"
)
ROWS: Final = (
    "SELECT key, shard, id, ts, n, v, h, data, fmt, m FROM {table} WHERE key = ? AND shard = ?"
)
ROWS_AFTER: Final = (
    "SELECT key, shard, id, ts, n, v, h, data, fmt, m FROM {table}"
    " WHERE key = ? AND shard = ? AND id > ?"
)
ROWS_BETWEEN: Final = (
    "SELECT key, shard, id, ts, n, v, h, data, fmt, m FROM {table}"
    " WHERE token(key, shard) > ? AND token(key, shard) <= ?"
)
SUMS: Final = "SELECT n, v, u, m FROM {table} WHERE key = ? AND shard = ?"

# What lies beside the rows.
PUT_DATA: Final = "INSERT INTO {table} (key, shard, id, n, data) VALUES (?, ?, ?, ?, ?)"
DATA: Final = "SELECT data FROM {table} WHERE key = ? AND shard = ? AND id = ?"
DATA_BETWEEN: Final = (
    "SELECT id, n, data FROM {table} WHERE key = ? AND shard = ? AND id >= ? AND id < ?"
)
PUT_STRIPE: Final = "INSERT INTO {table} (key, shard, id, n, v, u, m) VALUES (?, ?, ?, ?, ?, ?, ?)"
STRIPE: Final = "SELECT id, n, v, u, m FROM {table} WHERE key = ? AND shard = ? AND id = ?"
STRIPES: Final = "SELECT id, n, v, u, m FROM {table} WHERE key = ? AND shard = ?"
STRIPES_AFTER: Final = "SELECT id, n, v, u, m FROM {table} WHERE key = ? AND shard = ? AND id > ?"

GATE: Final = "SELECT open FROM {keyspace}.gates WHERE tbl = ? AND gate = ?"
PUT_GATE: Final = "INSERT INTO {keyspace}.gates (tbl, gate, open) VALUES (?, ?, ?) IF NOT EXISTS"
SHUT_GATE: Final = (
    "UPDATE {keyspace}.gates SET open = false WHERE tbl = ? AND gate = ? IF open = true"
)
SEAL: Final = "SELECT attempt, listed, parts FROM {keyspace}.seals WHERE tbl = ? AND segment = ?"
PUT_SEAL: Final = (
    "INSERT INTO {keyspace}.seals (tbl, segment, attempt, listed, parts)"
    " VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
)
FACTS: Final = "SELECT name, value FROM {keyspace}.tables WHERE tbl = ?"
PUT_FACT: Final = "INSERT INTO {keyspace}.tables (tbl, name, value) VALUES (?, ?, ?)"
DROP_FACT: Final = "DELETE FROM {keyspace}.tables WHERE tbl = ? AND name = ?"
