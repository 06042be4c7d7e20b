"""Each check finds the endpoint that breaks its rule, and finds no other."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.dynamodb.tools import trial
from tallyroll.operations.conform import stage as stage_module
from tallyroll.operations.conform.checks import CHECKS, Checked, Result, conform_to
from tallyroll.operations.conform.stage import Scale
from tallyroll.pipeline import inspection
from tallyroll.ports.backoff import Backoff
from tests.conform import doubles
from tests.conform.doubles import Double

pytestmark = pytest.mark.engine
# Small, and without a limit of time: what a double does does not depend on how fast the machine is.
SMALL = Scale(events=48, at_once=6, rounds=3, within_ms=600_000)
LOOKS = 3  # at what was written, and wrong in each: what a double hides, it hides from one look
# Each double, and the checks that must find it. A rule is needed, or it is not.
NEEDED: Mapping[type[Double], str] = {
    doubles.UnconditionalPuts: "conditions",
    doubles.UnconditionalUpdates: "conditions",
    doubles.UnconditionalTransactedPuts: "transactions",
    doubles.LeavesParts: "transactions",
    doubles.LosesUpdates: "transactions",
    doubles.ReversedReasons: "reasons",
    doubles.ReasonsWithoutItems: "reasons",
    doubles.NoReasons: "reasons",
    doubles.OnlyFirstReason: "reasons",
    doubles.StaleGets: "consistent-reads",
    doubles.StaleQueries: "consistent-reads",
    doubles.StaleScans: "consistent-reads",
    doubles.LacksKeys: "batch-get",
    doubles.StaleBatches: "batch-get",
    doubles.LosesPages: "listings",
    doubles.Utf16Order: "listings",
    doubles.LosesScanned: "listings",
    doubles.FoldsCase: "distinct-keys",
    doubles.Rounds: "numbers",
    doubles.IgnoresGates: "gates",
    doubles.ChecksGatesEarly: "gates",
}
NOT_NEEDED: Mapping[type[Double], str] = {
    doubles.IgnoresTokens: "request-tokens",
    doubles.SplitsLarge: "transaction-size",
    doubles.CutsItems: "item-size",
}
ITS_OWN = {"same-item-twice"}  # DynamoDB Local takes the second one for a duplicate of the first


def results(
    endpoint: str, patch: pytest.MonkeyPatch, double: type[Double] | None
) -> dict[str, Checked]:
    """The checks of DynamoDB Local, with a double before it."""
    shared, lock = dict[Any, Any](), threading.Lock()

    def made(service: str, **where: str) -> Any:
        client = make_client(service, **where)
        return double(client, shared, lock) if double else client

    patch.setattr(trial, "make_client", made)
    patch.setattr(stage_module, "CHECK", Backoff(LOOKS))
    stage = inspection.stage(endpoint, None, lambda _: None, lambda *_: None)
    stage.scale = SMALL
    try:
        stage.make()
        found = {each.check.name: each for each in conform_to(stage, lambda *_: None)}
    finally:
        stage.drop()
    assert len(found) == len(CHECKS)
    return found


def those(found: dict[str, Checked], result: Result) -> set[str]:
    return {name for name, checked in found.items() if checked.result is result}


def test_dynamodb_local_passes(dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = results(dynamodb_endpoint, monkeypatch, None)
    assert those(found, Result.PASSED) == {check.name for check in CHECKS} - ITS_OWN


@pytest.mark.proof
@pytest.mark.parametrize(("double", "check"), NEEDED.items())
def test_a_broken_rule_is_found_by_its_check(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, double: type[Double], check: str
) -> None:
    found = results(dynamodb_endpoint, monkeypatch, double)
    assert those(found, Result.FAILED) == {check}, found
    assert found[check].means == found[check].check.broken


@pytest.mark.parametrize(("double", "check"), NOT_NEEDED.items())
def test_another_rule_is_found_and_no_failure(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch, double: type[Double], check: str
) -> None:
    found = results(dynamodb_endpoint, monkeypatch, double)
    assert those(found, Result.FAILED) == set(), found
    assert those(found, Result.DIFFERS) == {check, *ITS_OWN}


def test_every_check_has_a_double() -> None:
    found = {*NEEDED.values(), *NOT_NEEDED.values(), *ITS_OWN}
    assert found == {check.name for check in CHECKS}
