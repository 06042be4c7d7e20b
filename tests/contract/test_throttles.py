"""What a throttled commit was too much for, as DynamoDB says it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.dynamodb.throughput import Limit
from tallyroll.lifecycle.state_machine import freeze
from tallyroll.model.events import decode
from tallyroll.model.messages import Message
from tallyroll.model.records import increments_of, record_of
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


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("ProvisionedThroughputExceededException", Limit.OTHER),
        ("ThrottlingException", Limit.OTHER),
        ("RequestLimitExceeded", Limit.ACCOUNT),
    ],
)
def test_a_throttle_without_reasons_is_of_an_unknown_limit(
    commit: Commit, code: str, limit: Limit
) -> None:
    """A hot partition of an on-demand table has the first code, too."""
    assert commit(error_reply(code), "a").limit is limit


def test_a_cancelled_transaction_tells_what_each_was_too_much_for(commit: Commit) -> None:
    reply = cancelled_reply("None", "ThrottlingError", "ProvisionedThroughputExceeded", "None")
    outcome = commit(reply, "a", "a")
    assert [one.limit for one in outcome.records] == [Limit.SCALING, Limit.PROVISIONED]
    assert outcome.limit is None


IDENTITIES = "arn:aws:dynamodb:us-east-1:123456789012:table/tallyroll-identities"
OTHERS = "arn:aws:dynamodb:us-east-1:123456789012:table/others-identities"


@pytest.fixture
def commit_identified() -> Iterator[Commit]:
    """Commit a record with an identity, to which DynamoDB gives this reply."""
    settings = Settings(identity="pipeline")
    window = Window(WINDOW, f"tallyroll-{WINDOW}", START, START + HOUR)
    spec = freeze(window, settings)
    body = json.dumps({"key": "a", "id": "1", "ts": START})
    told = record_of(decode(body), Message("m", body, START, 1, "r"), spec)
    assert len(told.identities) == 1
    with mock_aws():
        faults = Faults()
        store = DynamoStore(faults.caller, faults.effects, settings)

        def commit(reply: Any) -> Outcome:
            faults.put(reply)
            return store.commit(spec, [told], increments_of([told]))

        yield commit


@pytest.mark.parametrize("code", ["ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_throttled_identity_names_its_table_and_a_throttled_record_its_limit(
    commit_identified: Commit, code: str
) -> None:
    outcome = commit_identified(cancelled_reply("None", "None", code, "None"))
    [told] = outcome.records
    assert (told.answer, told.limit) == (Answer.THROTTLED, "identities")
    outcome = commit_identified(cancelled_reply("None", code, code, "None"))
    assert outcome.records[0].limit in (Limit.SCALING, Limit.PROVISIONED)


@pytest.mark.parametrize(
    ("resource", "limit"), [(IDENTITIES, Limit.IDENTITIES), (OTHERS, Limit.KEY_RANGE)]
)
def test_a_throttled_request_names_the_table_that_dynamodb_names(
    commit_identified: Commit, resource: str, limit: Limit
) -> None:
    status, body = error_reply("ThrottlingException")
    reason = "TableWriteKeyRangeThroughputExceeded"
    said = {**body, "throttlingReasons": [{"reason": reason, "resource": resource}]}
    outcome = commit_identified((status, said))
    assert (outcome.verdict, outcome.limit) == (Verdict.THROTTLED, limit)


def test_a_throttle_of_the_gate_alone_is_one_too(commit: Commit) -> None:
    outcome = commit(cancelled_reply("ThrottlingError", "None", "None"), "a")
    assert (outcome.verdict, outcome.limit) == (Verdict.CANCELLED, Limit.SCALING)
    assert {element.answer for element in (*outcome.records, *outcome.increments)} == {Answer.FINE}


def test_a_conflict_of_the_gate_alone_is_told(commit: Commit) -> None:
    outcome = commit(cancelled_reply("TransactionConflict", "None", "None"), "a")
    assert (outcome.verdict, outcome.gate_contended) == (Verdict.CANCELLED, True)
    outcome = commit(cancelled_reply("None", "TransactionConflict", "None"), "a")
    assert (outcome.verdict, outcome.gate_contended) == (Verdict.CANCELLED, False)
