"""Keyspaces on the tests' node of Cassandra, and what Amazon Keyspaces documents of CQL."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

from cassandra import ConsistencyLevel
from cassandra.query import BatchStatement, BatchType

from local.cassandra.keyspace import make_keyspace
from tallyroll.adapters.cassandra.session import Connection, Endpoint, connect
from tallyroll.adapters.system import SystemEffects

BATCH_MAX = 30
_NAME = r'\w+(\."?\w+"?)?'
_MARKS = r"\?(, \?)*"
_COLUMNS = r"\w+(, \w+)*"
_VALUE = r"(\?|true|false)"
_TOKEN = rf"token\({_COLUMNS}\)"
_TERM = rf"(\w+|{_TOKEN}) (=|<|<=|>|>=) {_VALUE}"
_TERMS = rf"{_TERM}( AND {_TERM})*"
_EQUAL = rf"\w+ = {_VALUE}"
_DEFINED = r"\w+ (text|int|bigint|boolean|blob|varint)"
# Properties and tags of Amazon Keyspaces, as in its examples of CREATE TABLE and ALTER TABLE.
_TEXT = r"'(?:[^']|'')*'"
_CAPACITY = (
    r"'capacity_mode': \{'throughput_mode': ('PAY_PER_REQUEST'"
    r"|'PROVISIONED', 'read_capacity_units': \d+, 'write_capacity_units': \d+)\}"
)
_WARM = r"'warm_throughput': \{'read_units_per_second': \d+, 'write_units_per_second': \d+\}"
_SECRET = (
    r"'encryption_specification': \{'encryption_type': 'CUSTOMER_MANAGED_KMS_KEY',"
    r" 'kms_key_identifier': 'arn:aws[a-z-]*:kms:[^']+'\}"
)
_BACKUPS = r"'point_in_time_recovery': \{'status': '(enabled|disabled)'\}"
_ONE = rf"({_CAPACITY}|{_WARM}|{_SECRET}|{_BACKUPS})"
_TAGS = rf"\{{{_TEXT}: {_TEXT}(, {_TEXT}: {_TEXT})*\}}"
_OPTIONS = rf"CUSTOM_PROPERTIES = \{{{_ONE}(, {_ONE})*\}} AND TAGS = {_TAGS}"
_KEY = rf"PRIMARY KEY \(\({_COLUMNS}\)(, \w+)*\)"
_COLUMN_LIST = rf"{_DEFINED}(, {_DEFINED})*, {_KEY}"
SUBSET = [
    re.compile(pattern)
    for pattern in (
        rf"SELECT {_COLUMNS} FROM {_NAME}( WHERE {_TERMS})?",
        rf"INSERT INTO {_NAME} \({_COLUMNS}\) VALUES \({_MARKS}\)( IF NOT EXISTS)?",
        rf"UPDATE {_NAME} SET {_EQUAL} WHERE {_EQUAL}( AND {_EQUAL})* IF {_EQUAL}",
        rf"DELETE FROM {_NAME} WHERE {_EQUAL}( AND {_EQUAL})*",
        rf"CREATE TABLE IF NOT EXISTS {_NAME} \({_COLUMN_LIST}\)( WITH {_OPTIONS})?",
        rf"ALTER TABLE {_NAME} WITH CUSTOM_PROPERTIES = \{{{_ONE}\}}",
        rf"ALTER TABLE {_NAME} ADD TAGS {_TAGS}",
        rf"DROP TABLE IF EXISTS {_NAME}",
    )
]
"""The statements of Amazon Keyspaces that the adapter may use, all of them documented in
"Supported Cassandra APIs, operations, functions, and data types", "CQL language reference", "Create
a new Amazon Keyspaces table with higher warm throughput" and "Add tags to a table".
"""


def within_subset(text: str) -> bool:
    """Whether a statement is one that Amazon Keyspaces documents."""
    return any(pattern.fullmatch(text) for pattern in SUBSET)


def sent_within_subset(session: Any) -> list[str]:
    """Fail for each request that a session sends beyond the subset; the texts of its statements."""
    sent: list[str] = []

    def check(future: Any) -> None:
        query, message = future.query, future.message
        if isinstance(query, BatchStatement):
            assert query.batch_type is BatchType.UNLOGGED
            texts = [prepared for _, prepared, _ in query._statements_and_parameters]
            assert len(texts) <= BATCH_MAX
            conditional = False
        else:
            text = getattr(query, "query_string", None) or query.prepared_statement.query_string
            assert within_subset(text), text
            conditional = " IF " in text
            sent.append(text)
        assert message.consistency_level == ConsistencyLevel.LOCAL_QUORUM
        assert not conditional or message.serial_consistency_level == ConsistencyLevel.LOCAL_SERIAL

    session.add_request_init_listener(check)
    return sent


def new_keyspace(port: int) -> Endpoint:
    """Make a keyspace of a new name on a node."""
    return make_keyspace(port, f"k{uuid4().hex[:12]}")


def connected(port: int) -> Connection:
    """A connection to a new keyspace, with its permanent tables."""
    return connect(new_keyspace(port), SystemEffects())
