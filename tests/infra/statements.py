"""Which statements of CQL a function's code can send, read off its source.

`calls` finds the verbs of the store that a function uses. From there on a method is followed to all
methods of that name in the packages of Keyspaces, so what is found is what may be sent, or more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tallyroll.adapters.cassandra import cql
from tallyroll.ports.store import Store
from tests.infra.calls import CORE, Body, Trace
from tests.infra.grants import Grants

PACKAGES = ("rows", "cassandra")
VERBS = frozenset(name for name in dir(Store) if not name.startswith("_"))
# What stores windows, whichever way: its verbs are those of every store.
STORES = ("adapters.dynamodb.store.", "adapters.dynamodb.tables.", "adapters.routed.")
ACTION_OF = {
    "SELECT": "Select",
    "INSERT": "Modify",
    "UPDATE": "Modify",
    "DELETE": "Modify",
    "CREATE": "Create",
    "ALTER": "Alter",
    "DROP": "Drop",
}
_PLACE = re.compile(r"(?:FROM|INTO|UPDATE|TABLE(?: IF(?: NOT)? EXISTS)?) \{?(\w+)\}?(?:\.(\w+))?")


def verbs_of(function: str) -> frozenset[str]:
    """The verbs of the store that a function uses."""
    reached = (place for place in Trace(function).reached if place.owner.startswith(STORES))
    return VERBS & {place.name for place in reached}


def needed(verbs: frozenset[str]) -> Grants:
    """The grants that these verbs need: on which tables, and which action."""
    bodies, wanted, seen = _bodies(), set(verbs), set[str]()
    found: set[str] = set()
    while wanted - seen:
        name = (wanted - seen).pop()
        seen.add(name)
        for body in bodies.get(name, ()):
            for text, used in _names(body):
                (found if text else wanted).add(used)
    return {grant for name in found for grant in _grants(name, vars(cql)[name])}


def _grants(name: str, text: str) -> Iterator[tuple[str, str]]:
    verb, place = text.partition(" ")[0], _PLACE.search(text)
    assert place, text
    keyspace, table = place.groups()
    where = "windows" if keyspace == "table" else table if keyspace == "keyspace" else "system"
    yield where, f"cassandra:{ACTION_OF[verb]}"
    # Tags need an action of their own, besides. Source: Service Authorization Reference, "Actions,
    # resources, and condition keys for Amazon Keyspaces", at TagResource and CreateTable.
    if name in ("CREATE_WINDOW_WITH", "TAG_WINDOW"):
        yield where, "cassandra:TagResource"


def _names(body: Body) -> Iterator[tuple[bool, str]]:
    """What a body names: texts (True), and methods or functions that it may call."""
    for node in ast.walk(body):
        if isinstance(node, ast.Attribute):
            text = isinstance(node.value, ast.Name) and node.value.id == "cql"
            if not text or isinstance(vars(cql)[node.attr], str):
                yield text, node.attr
        elif isinstance(node, ast.Name):
            yield False, node.id


@cache
def _bodies() -> dict[str, list[Body]]:
    """All methods and functions of these packages, by their names."""
    found: dict[str, list[Body]] = {}
    for package in PACKAGES:
        for path in sorted((CORE / "adapters" / package).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    found.setdefault(node.name, []).append(node)
    return found
