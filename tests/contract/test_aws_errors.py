"""What the adapters make of AWS's errors, which no emulator brings forth: replies are injected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from moto import mock_aws

from tallyroll.adapters.aws.client import response_of
from tallyroll.adapters.aws.create_requests import table_request
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.adapters.dynamodb.items import gate_key
from tallyroll.adapters.dynamodb.requests import DynamoTable
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.dynamodb.totals_table import DynamoTotals
from tallyroll.errors import (
    Missing,
    ProofMismatch,
    Refused,
    StateConflict,
    StoreError,
    Throttled,
    Unknown,
)
from tallyroll.model.records import increments_of
from tallyroll.model.states import Window
from tallyroll.model.totals import Total
from tallyroll.ports.backoff import BATCH_GET, GATE, REQUEST, TRANSACTION
from tallyroll.ports.paging import listed_tallies
from tallyroll.ports.store import Answer, Outcome, Verdict
from tallyroll.resources import declare
from tallyroll.settings import Settings
from tests.contract.engines import HOUR, START, WINDOW, Engine, record
from tests.contract.faults import Faults, cancelled_reply, error_reply, timeout

RESOURCES = declare(Settings())


@pytest.fixture
def faults() -> Any:
    with mock_aws():
        faults = Faults()
        for table in (RESOURCES.catalog, RESOURCES.totals):
            faults.client.create_table(**table_request(table))
        yield faults


@pytest.fixture
def store(faults: Faults) -> DynamoStore:
    return DynamoStore(faults.caller, faults.effects, Settings())


@pytest.fixture
def engine(faults: Faults, store: DynamoStore) -> Engine:
    catalog = DynamoCatalog(faults.caller, faults.effects, RESOURCES.catalog.name)
    totals = DynamoTotals(faults.caller, faults.effects, RESOURCES.totals.name)
    return Engine("moto", "tallyroll", faults.effects, store, catalog, totals)


@pytest.mark.parametrize(
    ("reply", "kind", "code"),
    [
        (error_reply("ThrottlingException"), Throttled, "ThrottlingException"),
        (
            error_reply("ProvisionedThroughputExceededException"),
            Throttled,
            "ProvisionedThroughputExceededException",
        ),
        (error_reply("RequestLimitExceeded"), Throttled, "RequestLimitExceeded"),
        (error_reply("LimitExceededException"), Throttled, "LimitExceededException"),
        (error_reply("SlowDown", 503), Throttled, "SlowDown"),
        (error_reply("Whatever", 429), Throttled, "Whatever"),
        (error_reply("InternalServerError", 500), Unknown, "InternalServerError"),
        (error_reply("ServiceUnavailable", 503), Unknown, "ServiceUnavailable"),
        ((502, {}), Unknown, "502"),
        (timeout(), Unknown, "ReadTimeoutError"),
        (EndpointConnectionError(endpoint_url="x"), Unknown, "EndpointConnectionError"),
        (error_reply("ResourceNotFoundException"), Missing, "ResourceNotFoundException"),
        (error_reply("AccessDeniedException"), Refused, "AccessDeniedException"),
        (error_reply("ExpiredTokenException"), Refused, "ExpiredTokenException"),
        (NoCredentialsError(), Refused, "NoCredentialsError"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_are_told_in_the_cores_words(
    faults: Faults, reply: Any, kind: type[StoreError], code: str
) -> None:
    faults.put(reply)
    with pytest.raises(StoreError) as caught:
        faults.caller.call("ListTables")
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert faults.seen == [("ListTables", code)]  # one attempt, seen


def test_one_attempt_whatever_the_environment_says(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("AWS_RETRY_MODE", "legacy")
    another, sent = Faults(), []

    def time_out(**_: Any) -> None:
        sent.append(1)
        raise timeout()

    another.client.meta.events.register("before-send.dynamodb", time_out)
    with pytest.raises(Unknown):
        another.caller.call("ListTables")
    assert len(sent) == len(another.seen) == 1


@pytest.mark.parametrize(
    ("code", "field"),
    [
        ("ThrottlingException", "throttlingReasons"),
        ("ProvisionedThroughputExceededException", "ThrottlingReasons"),
    ],
)
def test_throttles_keep_their_reasons(faults: Faults, code: str, field: str) -> None:
    reason = {"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn"}
    status, body = error_reply(code)
    faults.put((status, {**body, field: [reason]}))
    with pytest.raises(Throttled, match="TableWriteKeyRangeThroughputExceeded") as caught:
        faults.caller.call("PutItem", TableName="any", Item={})
    assert response_of(caught.value)[field] == [reason]


def test_reads_are_tried_four_times(faults: Faults) -> None:
    faults.put(
        timeout(), error_reply("ThrottlingException"), error_reply("InternalServerError", 500)
    )
    assert len(faults.caller.read("ListTables")["TableNames"]) == 2
    assert len(faults.seen) == REQUEST.tries
    assert len(faults.effects.slept) == REQUEST.tries - 1

    faults.put(*[timeout()] * REQUEST.tries)
    with pytest.raises(Unknown):
        faults.caller.read("ListTables")
    faults.put(error_reply("AccessDeniedException"))
    with pytest.raises(Refused):
        faults.caller.read("ListTables")


def _outcome(engine: Engine, faults: Faults, reply: Any, *keys: str) -> Outcome:
    spec = engine.spec()
    records = [record(spec, key, f"id-{index}") for index, key in enumerate(keys)]
    faults.put(reply)
    return engine.store.commit(spec, records, increments_of(records))


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (error_reply("ThrottlingException"), Verdict.THROTTLED),
        (error_reply("ProvisionedThroughputExceededException"), Verdict.THROTTLED),
        (error_reply("ResourceNotFoundException"), Verdict.GATE_MISSING),
        (error_reply("ValidationException"), Verdict.INVALID),
        (error_reply("SerializationException"), Verdict.INVALID),
        (error_reply("RequestEntityTooLargeException", 413), Verdict.INVALID),
        (error_reply("InternalServerError", 500), Verdict.UNKNOWN),
        (timeout(), Verdict.UNKNOWN),
        # No record is to be rejected for these:
        (error_reply("AccessDeniedException"), Verdict.UNKNOWN),
        (error_reply("ExpiredTokenException"), Verdict.UNKNOWN),
        (NoCredentialsError(), Verdict.UNKNOWN),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_commit_that_fails_as_a_whole(
    engine: Engine, faults: Faults, reply: Any, verdict: Verdict
) -> None:
    outcome = _outcome(engine, faults, reply, "a")
    assert outcome.verdict is verdict
    assert outcome.detail
    assert len(faults.seen) == 1


def test_reasons_answer_in_request_order(engine: Engine, faults: Faults) -> None:
    reply = cancelled_reply(
        "None",
        "TransactionConflict",
        "ThrottlingError",
        "ItemCollectionSizeLimitExceeded",
        "SomethingNew",
        "ProvisionedThroughputExceeded",
        "ValidationError",
    )
    outcome = _outcome(engine, faults, reply, "a", "a", "b", "b")
    assert outcome.verdict is Verdict.CANCELLED
    assert [element.answer for element in outcome.records] == [
        Answer.CONTENDED,
        Answer.THROTTLED,
        Answer.INVALID,
        Answer.THROTTLED,
    ]
    assert [element.answer for element in outcome.increments] == [Answer.THROTTLED, Answer.INVALID]
    assert outcome.increments[1].detail == "ValidationError: of ValidationError"


def test_a_conflict_on_the_gate_alone_leaves_all_fine(engine: Engine, faults: Faults) -> None:
    outcome = _outcome(engine, faults, cancelled_reply("TransactionConflict", "None", "None"), "a")
    assert outcome.verdict is Verdict.CANCELLED
    assert {element.answer for element in (*outcome.records, *outcome.increments)} == {Answer.FINE}


@pytest.mark.parametrize(
    "reply",
    [
        error_reply("TransactionConflictException"),
        error_reply("TransactionInProgressException"),
        error_reply("TransactionCanceledException"),
        cancelled_reply("TransactionConflict"),
    ],
    ids=["conflict", "in-progress", "no-reasons", "too-few-reasons"],
)
def test_a_cancellation_that_names_no_element_contends_them_all(
    engine: Engine, faults: Faults, reply: Any
) -> None:
    outcome = _outcome(engine, faults, reply, "a", "b")
    assert outcome.verdict is Verdict.CANCELLED
    assert [element.answer for element in outcome.records] == [Answer.CONTENDED] * 2
    assert [element.answer for element in outcome.increments] == [Answer.CONTENDED] * 2


def test_a_lost_reply_is_unknown_and_the_commit_stands(engine: Engine, faults: Faults) -> None:
    spec = engine.opened()
    mine = record(spec, "a", "x")
    faults.put(Faults.LOST)
    outcome = engine.store.commit(spec, [mine], increments_of([mine]))
    assert outcome.verdict is Verdict.UNKNOWN

    again = engine.store.commit(spec, [mine], increments_of([mine]))
    assert again.records[0].answer is Answer.DUPLICATE
    assert again.records[0].digest == mine.digest


def test_gates_in_conflict_are_shut_in_the_end(engine: Engine, faults: Faults) -> None:
    spec = engine.opened()
    conflict = error_reply("TransactionConflictException")
    faults.put(conflict, conflict, timeout(), None, conflict)
    engine.store.shut_gates(spec)
    mine = record(spec, "a", "x")
    for _ in range(10):
        assert engine.store.commit(spec, [mine], ()).verdict is Verdict.GATE_SHUT

    faults.put(*[conflict] * GATE.tries)
    with pytest.raises(Throttled):
        engine.store.shut_gates(spec)


def test_gates_are_opened_through_conflicts_and_lost_replies(
    engine: Engine, faults: Faults
) -> None:
    spec = engine.made()
    codes = ("None", "TransactionConflict", "None", "ThrottlingError")
    faults.put(cancelled_reply(*codes), error_reply("ThrottlingException"), Faults.LOST)
    engine.store.open_gates(spec)
    reply = faults.client.get_item(TableName=spec.table, Key=gate_key(3))
    assert reply["Item"]["open"] == {"BOOL": True}

    faults.put(*[cancelled_reply(*codes)] * TRANSACTION.tries)
    with pytest.raises(Throttled):
        engine.store.open_gates(spec)
    faults.put(cancelled_reply("None", "None", "ValidationError", "None"))
    with pytest.raises(Refused):
        engine.store.open_gates(spec)


def test_unprocessed_keys_are_asked_for_again(faults: Faults) -> None:
    table = RESOURCES.totals.name
    keys: list[Any] = [{"pk": {"S": "a"}, "sk": {"S": str(index)}} for index in range(3)]
    items = [{**key, "n": {"N": "1"}} for key in keys]
    for item in items:
        faults.client.put_item(TableName=table, Item=item)

    def left(*places: int) -> tuple[int, dict[str, Any]]:
        found = [items[place] for place in range(3) if place not in places]
        unprocessed = {table: {"Keys": [keys[place] for place in places], "ConsistentRead": True}}
        return 200, {"Responses": {table: found}, "UnprocessedKeys": unprocessed}

    faults.put(left(1, 2))
    found = DynamoTable(faults.caller, faults.effects, table).get_all(keys)
    assert sorted(item["sk"]["S"] for item in found) == ["0", "1", "2"]

    faults.put(*[left(0, 1, 2)] * BATCH_GET.tries)
    with pytest.raises(Throttled, match="3 keys"):
        DynamoTable(faults.caller, faults.effects, table).get_all(keys)


def test_a_bucket_goes_on_over_pages(engine: Engine, faults: Faults) -> None:
    spec = engine.opened()
    (increment,) = increments_of([record(spec, "a", "x")])
    for _ in range(8):
        engine.store.commit(spec, (), [increment])
    whole = [list(listed_tallies(engine.store, spec, n)) for n in range(1, spec.buckets + 1)]
    number, stripes = next((n, found) for n, found in enumerate(whole, 1) if len(found) > 1)
    items = faults.client.query(
        TableName=spec.table,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": f"~t.{number}"}},
    )["Items"]
    last = {name: items[0][name] for name in ("pk", "sk")}
    faults.put((200, {"Items": items[:1], "LastEvaluatedKey": last}))
    assert list(listed_tallies(engine.store, spec, number)) == stripes


def test_a_table_in_change_is_dropped_by_a_later_run(engine: Engine, faults: Faults) -> None:
    spec = engine.opened()
    busy = error_reply("ResourceInUseException")
    faults.put(None, busy)
    with pytest.raises(Throttled):
        engine.store.drop_table(spec.table)
    engine.store.drop_table(spec.table)
    faults.put(None, busy)
    with pytest.raises(Throttled):
        engine.store.drop_table(spec.table)
    engine.store.drop_table(spec.table)
    assert engine.store.describe_table(spec.table) is None


def test_a_table_being_deleted_is_left_alone(engine: Engine, faults: Faults) -> None:
    faults.put((200, {"Table": {"TableStatus": "DELETING", "TableArn": "arn"}}))
    engine.store.drop_table("any")
    assert [operation for operation, _ in faults.seen] == ["DescribeTable"]


def test_an_unheard_of_status_is_refused(engine: Engine, faults: Faults) -> None:
    faults.put((200, {"Table": {"TableStatus": "ARCHIVED", "TableArn": "arn"}}))
    with pytest.raises(Refused, match="ARCHIVED"):
        engine.store.describe_table("any")


def _window() -> Window:
    return Window(id=WINDOW, table="any", start=START, end=START + HOUR)


def test_a_creation_whose_reply_is_lost_was_ours(engine: Engine, faults: Faults) -> None:
    faults.put(None, Faults.LOST)  # the live pointer's read, the transaction
    assert engine.catalog.create(_window())
    assert not engine.catalog.create(_window())
    live = engine.catalog.live()
    assert live
    assert live.version == 1


def test_a_creation_that_did_not_arrive_is_not_ours(engine: Engine, faults: Faults) -> None:
    engine.catalog.create(replace(_window(), table="of another run"))
    faults.put(None, timeout())
    assert not engine.catalog.create(_window())


def test_a_creation_beside_another_is_tried_again(engine: Engine, faults: Faults) -> None:
    engine.catalog.create(replace(_window(), id="20261120T090000Z", start=START + HOUR))
    stale = {"Item": {"since": {"N": "0"}, "version": {"N": "77"}}}
    faults.put((200, stale), None, None, cancelled_reply("None", "TransactionConflict", "None"))
    assert engine.catalog.create(_window())
    assert (live := engine.catalog.live())
    assert (live.covers(START), live.version) == (True, 2)
    another = replace(_window(), id="20261120T100000Z")
    faults.put(*[None, cancelled_reply("TransactionConflict", "None", "None")] * TRANSACTION.tries)
    with pytest.raises(Throttled):
        engine.catalog.create(another)
    assert engine.catalog.window(another.id) is None


def test_an_advance_whose_reply_is_lost_stands(engine: Engine, faults: Faults) -> None:
    engine.catalog.create(_window())
    faults.put(Faults.LOST)
    assert engine.catalog.advance(_window()).version == 2
    faults.put(timeout(), error_reply("TransactionConflictException"))
    assert engine.catalog.advance(replace(_window(), version=2)).version == 3


def test_an_advance_lost_to_another_run_is_a_conflict(engine: Engine, faults: Faults) -> None:
    engine.catalog.create(_window())
    engine.catalog.advance(replace(_window(), table="of another run"))
    faults.put(timeout())
    with pytest.raises(StateConflict):
        engine.catalog.advance(_window())

    faults.put(*[timeout()] * TRANSACTION.tries)
    with pytest.raises(Unknown):
        engine.catalog.advance(replace(_window(), version=2))


def test_totals_are_put_through_conflicts_and_lost_replies(engine: Engine, faults: Faults) -> None:
    totals = [Total("a", WINDOW, 1, 1), Total("b", WINDOW, 2, 2)]
    faults.put(cancelled_reply("None", "TransactionConflict"), Faults.LOST)
    engine.totals.put(totals)
    assert len(engine.totals.of_window(WINDOW, ["a", "b"])) == 2

    with pytest.raises(ProofMismatch, match=r"'b'.*n 2, v 0\.000002 is stored, not n 3"):
        engine.totals.put([totals[0], replace(totals[1], n=3)])
