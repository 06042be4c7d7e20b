"""What every ledger promises: the first claim stands, and moves only as it was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.client import make_client
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.errors import Refused, Unknown
from tallyroll.model.ids import Identity
from tallyroll.model.retractions import Authorization
from tallyroll.model.windows import window_id
from tallyroll.ports.catalog import Claim
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import HOUR, START, WINDOW, Engine
from tests.contract.faults import Faults, error_reply, timeout

NEXT = window_id(START + HOUR)
LATER = window_id(START + 2 * HOUR)
EVENT: Identity = (WINDOW, "k", "e1")


def test_the_first_claim_stands(engine: Engine) -> None:
    assert engine.catalog.claims([EVENT]) == {}
    first = Claim(NEXT, START)
    assert engine.catalog.claim(EVENT, first) == first
    assert engine.catalog.claim(EVENT, Claim(LATER, START + 1)) == first
    assert engine.catalog.claims([EVENT]) == {EVENT: first}


def test_a_claim_moves_only_as_it_was_read(engine: Engine) -> None:
    first, second = Claim(NEXT, START), Claim(LATER, START + 1)
    engine.catalog.claim(EVENT, first)
    assert engine.catalog.move(EVENT, first, second) == second
    assert engine.catalog.move(EVENT, first, Claim(NEXT, START + 2)) == second
    assert engine.catalog.claim(EVENT, first) == second
    assert engine.catalog.claims([EVENT]) == {EVENT: second}


@pytest.mark.parametrize(
    "other",
    [
        (NEXT, "k", "e1"),
        (WINDOW, "k#e1", "e1"),
        (WINDOW, "k", "e1#"),
        (WINDOW, "#", "#"),
        (WINDOW, "käse 🧀" * 40, "ü" * 256),
        (WINDOW, "x" * 512, "y" * 512),
    ],
)
def test_claims_of_other_events_are_others(engine: Engine, other: Identity) -> None:
    mine, theirs = Claim(NEXT, START), Claim(LATER, START)
    engine.catalog.claim(EVENT, mine)
    assert engine.catalog.claim(other, theirs) == theirs
    assert engine.catalog.claims([other, EVENT]) == {EVENT: mine, other: theirs}


def test_more_claims_than_one_request_reads(engine: Engine) -> None:
    identities = [(WINDOW, "k", f"e{number}") for number in range(120)]
    for identity in identities[::2]:
        engine.catalog.claim(identity, Claim(NEXT, START))
    assert set(engine.catalog.claims(identities)) == set(identities[::2])
    assert engine.catalog.claims([]) == {}


def test_claims_are_no_windows(engine: Engine) -> None:
    engine.catalog.claim(EVENT, Claim(NEXT, START))
    assert engine.catalog.windows(0, START * 2) == []
    assert engine.catalog.window(WINDOW) is None


# --- on DynamoDB, when it fails


@pytest.fixture
def faults() -> Iterator[Faults]:
    with mock_aws():
        make_client("dynamodb").create_table(**table_request(declare(Settings()).catalog))
        yield Faults()


def _catalog(faults: Faults) -> DynamoCatalog:
    return DynamoCatalog(faults.caller, faults.effects, declare(Settings()).catalog.name)


def test_a_claim_whose_answer_is_lost_is_found(faults: Faults) -> None:
    first, second = Claim(NEXT, START), Claim(LATER, START)
    faults.put(Faults.LOST)
    assert _catalog(faults).claim(EVENT, first) == first
    faults.put(Faults.LOST)
    assert _catalog(faults).move(EVENT, first, second) == second
    puts = [code for operation, code in faults.seen if operation == "PutItem"]
    lost = ["ReadTimeoutError", "ConditionalCheckFailedException"]
    assert puts == [*lost, *lost]


def test_a_claim_that_is_refused_or_stays_unknown(faults: Faults) -> None:
    faults.put(error_reply("AccessDeniedException"))
    with pytest.raises(Refused):
        _catalog(faults).claim(EVENT, Claim(NEXT, START))
    faults.put(*[timeout()] * 4)
    with pytest.raises(Unknown):
        _catalog(faults).claim(EVENT, Claim(NEXT, START))
    faults.put(error_reply("ConditionalCheckFailedException"))
    with pytest.raises(Unknown, match="not there"):
        _catalog(faults).claim(EVENT, Claim(NEXT, START))
    assert _catalog(faults).claims([EVENT]) == {}


# --- authorized retractions

ORDERS = [
    Authorization((WINDOW, "k", "e1", None), "ann", "", START),
    Authorization((WINDOW, "k", "e1", 0), "bob", "twice", START + 1),
    Authorization((WINDOW, "k", "e1#0", None), "eve", "é", START + 2, ("a", "k")),
    Authorization((NEXT, "k#x", "e#1", 12), "ann", "", START, (), (1, -1_500_000, b"d" * 17)),
]


def test_authorizations_are_found_by_their_targets(engine: Engine) -> None:
    targets = [each.target for each in ORDERS]
    assert engine.catalog.authorizations(targets) == {}
    for each in ORDERS:
        engine.catalog.authorize(each)
    others = [(NEXT, "k", "e1", None), (WINDOW, "k", "e1", 1)]
    found = engine.catalog.authorizations([*targets, *others])
    assert found == {each.target: each for each in ORDERS}


def test_the_last_authorization_of_a_target_stands(engine: Engine) -> None:
    first = ORDERS[0]
    last = replace(first, by="bob", proven=(1, 10**6, b"d" * 17))
    for each in (first, last):
        engine.catalog.authorize(each)
    assert engine.catalog.authorizations([first.target]) == {first.target: last}
