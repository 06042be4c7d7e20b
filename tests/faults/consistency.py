"""Every read of DynamoDB asks for strong consistency: seen at the Caller in whatever test runs, and
at each call in the source, also where no test runs it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tallyroll.adapters.aws.client import Caller
from tests.faults.sites import CORE, DOOR, Site, site_now, sites_in, within

OF_ONE_TABLE = frozenset({"ExecuteStatement", "GetItem", "Query", "Scan"})
BATCHED = {"BatchExecuteStatement": "Statements", "BatchGetItem": "RequestItems"}
READS = OF_ONE_TABLE | BATCHED.keys()
CONSISTENT = "ConsistentRead"

EVENTUAL: Mapping[str, str] = {
    "adapters/dynamodb/requests.py:_get_batch_eventually BatchGetItem": (
        "a caller of the count asked for it, and its answer says so"
    ),
    "adapters/dynamodb/store.py:DynamoStore._query_eventually Query": (
        "of a log, whose newest leaf decides when the next one is put at its position"
    ),
}
"""The sites (`str(site)`) that may read what is out of date, and why that does no harm there."""


def asks_for_consistency(operation: str, params: Mapping[str, Any]) -> bool:
    """Whether a request that reads, each part of a batch, asks for strong consistency."""
    if operation in OF_ONE_TABLE:
        return params.get(CONSISTENT) is True
    asked = params[BATCHED[operation]]
    parts = asked.values() if isinstance(asked, Mapping) else asked
    return all(part.get(CONSISTENT) is True for part in parts)


@contextmanager
def watched(found: list[str]) -> Iterator[None]:
    """Meanwhile the eventual reads that the core makes through a Caller are added to `found`.

    They are not refused: the core could take that for an answer of AWS.
    """
    call = Caller.call

    def watching(self: Caller, operation: str, /, **params: Any) -> dict[str, Any]:
        if operation in READS and not asks_for_consistency(operation, params):
            site = site_now()
            if site and str(site) not in EVENTUAL:
                found.append(f"{site} does not ask for a consistent read: {params}")
        return call(self, operation, **params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Caller, "call", watching)
        yield


def eventual_sites() -> list[Site]:
    """The sites in the core's source at which a read is not surely consistent."""
    modules = [path for path in sorted(CORE.rglob("*.py")) if within(path) != DOOR]
    return [
        site
        for path in modules
        for site in eventual_in(path.read_text(encoding="utf-8"), within(path))
    ]


def eventual_in(source: str, file: str) -> list[Site]:
    """Those of one module: where the call does not say `ConsistentRead=True` itself, or, for a
    batch, any request in the same function does not.
    """
    tree = ast.parse(source)
    return [
        site
        for site in sites_in(source, file)
        if site.operation in READS and not _surely_consistent(tree, site)
    ]


def _surely_consistent(tree: ast.Module, site: Site) -> bool:
    if site.operation in OF_ONE_TABLE:
        return any(
            _is_true(keyword.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and _spans(node, site)
            for keyword in node.keywords
            if keyword.arg == CONSISTENT
        )
    requests = [
        dict(zip(map(_text, node.keys), node.values, strict=True))
        for body in ast.walk(tree)
        if isinstance(body, ast.FunctionDef) and body.name == site.function.rpartition(".")[2]
        for node in ast.walk(body)
        if isinstance(node, ast.Dict) and {"Keys", "Statement"} & set(map(_text, node.keys))
    ]
    return bool(requests) and all(_is_true(each.get(CONSISTENT)) for each in requests)


def _spans(node: ast.Call, site: Site) -> bool:
    return (node.lineno, node.end_lineno) == (site.first_line, site.last_line)


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _text(node: ast.expr | None) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""
