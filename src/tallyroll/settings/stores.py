"""Where window tables are: the settings `store`, `keyspace` and `cassandra`."""

from __future__ import annotations

import re

from tallyroll.errors import SettingsError
from tallyroll.limits import KEYSPACES_NAME_MAX
from tallyroll.model.windows import KEYSPACES, STORES, TABLE_SUFFIX
from tallyroll.settings.texts import PREFIX

PORT_MAX = 65_535
KEYSPACE = re.compile(rf"[a-z][a-z0-9_]{{0,{KEYSPACES_NAME_MAX - 1}}}")
_NODE = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*):([0-9]{1,5})")


def check_stores(name: str, store: str, keyspace: str, cassandra: str) -> None:
    """Raise SettingsError for values of these settings that no pipeline can have."""
    if store not in STORES:
        raise SettingsError(f"{PREFIX}STORE {store!r}: must be {' or '.join(STORES)}")
    if keyspace and not KEYSPACE.fullmatch(keyspace):
        raise SettingsError(
            f"{PREFIX}KEYSPACE {keyspace!r}: give 1 to {KEYSPACES_NAME_MAX} lower-case letters,"
            " digits and underscores, a letter first"
        )
    if cassandra:
        node_of(cassandra)
    most = KEYSPACES_NAME_MAX - len(TABLE_SUFFIX)
    if store == KEYSPACES and len(name) > most:
        raise SettingsError(
            f"{PREFIX}NAME {name!r}: the tables of windows in Keyspaces are named"
            f" {name}{TABLE_SUFFIX}, and a name has at most {KEYSPACES_NAME_MAX} characters there:"
            f" give a name of at most {most}, or {PREFIX}STORE dynamodb"
        )


def node_of(cassandra: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`. Raises SettingsError."""
    found = _NODE.fullmatch(cassandra)
    if found is None or not 1 <= int(found[2]) <= PORT_MAX:
        raise SettingsError(
            f"{PREFIX}CASSANDRA {cassandra!r}: give HOST:PORT, such as 127.0.0.1:9042"
        )
    return found[1], int(found[2])


def keyspace_of(name: str, store: str, keyspace: str) -> str:
    """The keyspace of window tables; "" if the pipeline has none."""
    return keyspace or (name.replace("-", "_") if store == KEYSPACES else "")
