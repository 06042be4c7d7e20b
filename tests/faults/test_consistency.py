"""No read of DynamoDB may be eventual: what the checks see, and that they see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.model import OperationModel, Shape, StructureShape
from botocore.session import Session

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.dynamodb import requests, store
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.system import SystemEffects
from tallyroll.settings import Settings
from tests.faults.consistency import (
    CONSISTENT,
    EVENTUAL,
    READS,
    asks_for_consistency,
    eventual_in,
    eventual_sites,
)
from tests.faults.sites import CORE, all_sites


def test_every_read_in_the_source_asks_for_consistency() -> None:
    assert [str(site) for site in eventual_sites() if str(site) not in EVENTUAL] == []


def test_what_may_be_eventual_is_there_and_says_why() -> None:
    reads = {str(site) for site in all_sites() if site.operation in READS}
    assert EVENTUAL.keys() <= reads
    assert all(EVENTUAL.values())
    assert len(reads) >= 6, "the reads of the core are not found any more"


def test_the_reads_are_those_that_the_model_of_aws_knows() -> None:
    model = Session().get_service_model("dynamodb")
    known = {
        name for name in model.operation_names if _can_be_eventual(model.operation_model(name))
    }
    assert known == READS


def _can_be_eventual(operation: OperationModel) -> bool:
    return operation.input_shape is not None and _holds(operation.input_shape, 3)


def _holds(shape: Shape, depth: int) -> bool:
    """Whether a shape, or one in it, has the parameter."""
    if not depth:
        return False
    if isinstance(shape, StructureShape):
        members = shape.members.items()
        return any(name == CONSISTENT or _holds(each, depth - 1) for name, each in members)
    inner = getattr(shape, "value", None) or getattr(shape, "member", None)
    return isinstance(inner, Shape) and _holds(inner, depth - 1)


@pytest.mark.parametrize("module", sorted({each.file for each in all_sites()}))
def test_a_read_without_it_is_found_in_the_source(module: str) -> None:
    """Left out, or said to be eventual, at each place of the core that says it."""
    source = (CORE / module).read_text(encoding="utf-8")
    assert careless_in(source, module) == []
    for said in ("ConsistentRead=True", '"ConsistentRead": True'):
        for place in range(source.count(said)):
            parts = source.split(said)
            before, after = said.join(parts[: place + 1]), said.join(parts[place + 1 :])
            left_out = before + after.removeprefix(",").lstrip()
            assert careless_in(before + said.replace("True", "False") + after, module)
            assert careless_in(left_out, module)


def careless_in(source: str, module: str) -> list[str]:
    """The eventual reads of a module that nobody asked for."""
    return [str(site) for site in eventual_in(source, module) if str(site) not in EVENTUAL]


class _Silent:
    """A client whose tables are empty."""

    def query(self, **_: Any) -> dict[str, Any]:
        return {"Items": []}

    def get_item(self, **_: Any) -> dict[str, Any]:
        return {}

    def batch_get_item(self, **_: Any) -> dict[str, Any]:
        return {"Responses": {}}


@pytest.mark.parametrize("verb", ["get", "get_all", "query", "identities"])
def test_an_eventual_read_is_seen_at_the_caller(
    verb: str, eventual_reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = SystemEffects()
    caller = Caller(_Silent(), effects)
    reads: dict[str, Callable[[Any], Any]] = {
        "get": lambda module: module["DynamoTable"](caller, effects, "t").get({}),
        "get_all": lambda module: module["DynamoTable"](caller, effects, "t").get_all([{}]),
        "query": lambda module: [
            *module["DynamoTable"](caller, effects, "t").query("pk = :pk", {})
        ],
        "identities": lambda module: identities_by(module["DynamoTable"]),
    }

    def identities_by(table: Any) -> Any:
        monkeypatch.setattr(store, "DynamoTable", table)
        return DynamoStore(caller, effects, Settings()).identities(["name"])

    file = CORE / "adapters/dynamodb/requests.py"
    source = file.read_text(encoding="utf-8")
    careless = {**vars(requests)}
    changed = source.replace("ConsistentRead=True", "ConsistentRead=False")
    exec(compile(changed.replace(', "ConsistentRead": True', ""), file, "exec"), careless)
    reads[verb](vars(requests))
    assert eventual_reads == []
    reads[verb](careless)
    told = [*eventual_reads]
    eventual_reads.clear()
    assert len(told) == 1
    assert "does not ask for a consistent read" in told[0]


@pytest.mark.parametrize(
    ("operation", "params", "consistent"),
    [
        ("GetItem", {CONSISTENT: True}, True),
        ("GetItem", {CONSISTENT: False}, False),
        ("Query", {}, False),
        ("Scan", {"Limit": 1}, False),
        ("BatchGetItem", {"RequestItems": {"t": {"Keys": [], CONSISTENT: True}}}, True),
        ("BatchGetItem", {"RequestItems": {"t": {"Keys": []}}}, False),
        ("BatchGetItem", {"RequestItems": {"t": {CONSISTENT: True}, "u": {}}}, False),
        ("BatchExecuteStatement", {"Statements": [{CONSISTENT: True}, {}]}, False),
    ],
)
def test_what_asks_for_consistency(
    operation: str, params: dict[str, Any], consistent: bool
) -> None:
    assert asks_for_consistency(operation, params) is consistent
