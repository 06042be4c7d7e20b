"""What a throttled commit was too much for, as DynamoDB says it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.dynamodb.throughput import Limit
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.records import increments_of
from tallyroll.model.states import Window
from tallyroll.ports.store import Answer, Outcome, Verdict
from tallyroll.settings import Settings
from tests.contract.engines import HOUR, START, WINDOW, record
from tests.contract.faults import Faults, cancelled_reply, error_reply

Commit = Callable[..., Outcome]


@pytest.fixture
def commit() -> Iterator[Commit]:
    """Commit a record of each key, to which DynamoDB gives this reply."""
    settings = Settings()
    window = Window(WINDOW, f"tallyroll-{WINDOW}", START, START + HOUR)
    spec = freeze(window, settings)
    with mock_aws():
        faults = Faults()
        store = DynamoStore(faults.caller, faults.effects, settings)

        def commit(reply: Any, *keys: str) -> Outcome:
            records = [record(spec, key, f"id-{index}") for index, key in enumerate(keys)]
            faults.put(reply)
            return store.commit(spec, records, increments_of(records))

        yield commit


@pytest.mark.parametrize(
    ("reason", "limit"),
    [
        ("TableWriteKeyRangeThroughputExceeded", Limit.KEY_RANGE),
        ("TableWriteProvisionedThroughputExceeded", Limit.PROVISIONED),
        ("TableWriteMaxOnDemandThroughputExceeded", Limit.ON_DEMAND_MAX),
        ("TableWriteAccountLimitExceeded", Limit.ACCOUNT),
        ("SomethingNew", Limit.OTHER),
    ],
)
def test_a_throttle_tells_what_it_was_too_much_for(
    commit: Commit, reason: str, limit: Limit
) -> None:
    status, body = error_reply("ThrottlingException")
    said = {**body, "throttlingReasons": [{"reason": reason, "resource": "arn"}]}
    assert commit((status, said), "a").limit is limit


def test_a_throttle_without_reasons_goes_by_its_code(commit: Commit) -> None:
    codes = ("ProvisionedThroughputExceededException", "RequestLimitExceeded")
    told = [commit(error_reply(code), "a").limit for code in codes]
    assert told == [Limit.PROVISIONED, Limit.OTHER]


def test_a_cancelled_transaction_tells_what_each_was_too_much_for(commit: Commit) -> None:
    reply = cancelled_reply("None", "ThrottlingError", "ProvisionedThroughputExceeded", "None")
    outcome = commit(reply, "a", "a")
    assert [one.limit for one in outcome.records] == [Limit.TABLE, Limit.PROVISIONED]
    assert outcome.limit is None


def test_a_throttle_of_the_gate_alone_is_one_too(commit: Commit) -> None:
    outcome = commit(cancelled_reply("ThrottlingError", "None", "None"), "a")
    assert (outcome.verdict, outcome.limit) == (Verdict.CANCELLED, Limit.TABLE)
    assert {element.answer for element in (*outcome.records, *outcome.increments)} == {Answer.FINE}


def test_a_conflict_of_the_gate_alone_is_told(commit: Commit) -> None:
    outcome = commit(cancelled_reply("TransactionConflict", "None", "None"), "a")
    assert (outcome.verdict, outcome.gate_contended) == (Verdict.CANCELLED, True)
    outcome = commit(cancelled_reply("None", "TransactionConflict", "None"), "a")
    assert (outcome.verdict, outcome.gate_contended) == (Verdict.CANCELLED, False)
