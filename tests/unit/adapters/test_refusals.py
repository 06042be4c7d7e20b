"""What the adapters do when AWS refuses or answers nothing: clients that answer as a test says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tallyroll.adapters.aws.client import Caller
from tallyroll.adapters.aws.cloudwatch import QueueMetrics
from tallyroll.adapters.aws.s3 import S3Bucket
from tallyroll.adapters.aws.sqs import SqsQueue, SqsSender, in_batches
from tallyroll.adapters.dynamodb.catalog import DynamoCatalog
from tallyroll.adapters.dynamodb.items import gate_item, record_item
from tallyroll.adapters.dynamodb.requests import recovery_of, tags_of
from tallyroll.adapters.dynamodb.store import DynamoStore
from tallyroll.adapters.memory import MemoryBucket, MemoryCatalog, MemoryStore
from tallyroll.errors import Missing, Refused, Throttled, Unknown
from tallyroll.limits import PART_BYTES_MIN, QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.messages import Message, Rejection
from tallyroll.model.records import increments_of
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Grid
from tallyroll.ports.backoff import QUEUE_REQUEST
from tallyroll.ports.store import Verdict
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tests.harness.pipeline import MINUTE, NOW, WINDOW, StillEffects, record_with, spec_of

DENIED = "AccessDeniedException"
Answer = Callable[[dict[str, Any]], Any]


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "AnOperation")


class Scripted:
    """A client whose operations answer by these functions of their parameters, or fail."""

    def __init__(self, **answers: Answer | Exception) -> None:
        self._answers = answers
        self.calls: list[str] = []

    def __getattr__(self, method: str) -> Any:
        def call(**params: Any) -> Any:
            self.calls.append(method)
            answer = self._answers[method]
            if isinstance(answer, Exception):
                raise answer
            return answer(params)

        return call


@pytest.fixture
def effects() -> StillEffects:
    return StillEffects()


def store_on(client: Scripted, effects: StillEffects) -> DynamoStore:
    return DynamoStore(Caller(client, effects), effects, Settings())


# --- CloudWatch


def metrics_of(client: Scripted, effects: StillEffects, **more: str) -> QueueMetrics:
    caller = Caller(client, effects)
    return QueueMetrics(caller, effects, queue="events", period_ms=MINUTE, pipeline="votes", **more)


def test_without_a_writer_there_are_no_invocations(effects: StillEffects) -> None:
    client = Scripted()
    assert metrics_of(client, effects).invocations(NOW - MINUTE) == ()
    assert client.calls == []


def test_what_writers_counted_is_read_by_periods_in_their_order(effects: StillEffects) -> None:
    asked: list[dict[str, Any]] = []

    def statistics(params: dict[str, Any]) -> Any:
        asked.append(params)
        times = [datetime.fromtimestamp((NOW - ms) / 1000, UTC) for ms in (MINUTE, 2 * MINUTE)]
        return {"Datapoints": [{"Timestamp": at, "Sum": 7.0 + n} for n, at in enumerate(times)]}

    metrics = metrics_of(Scripted(get_metric_statistics=statistics), effects)
    assert metrics.counted(NOW - 10 * MINUTE) == ((NOW - 2 * MINUTE, 8), (NOW - MINUTE, 7))
    (params,) = asked
    assert (params["Namespace"], params["MetricName"]) == ("Tallyroll", "EventsCounted")
    assert {"Name": "pipeline", "Value": "votes"} in params["Dimensions"]
    assert metrics.counted(NOW) == ()


# --- S3


def test_a_put_that_is_denied_is_not_taken_for_one_that_came_second(effects: StillEffects) -> None:
    client = Scripted(put_object=refusal("AccessDenied"), get_object=refusal("NoSuchKey"))
    with pytest.raises(Refused, match="PutObject: AccessDenied: no"):
        S3Bucket(Caller(client, effects), effects, "archives").put_once("key", b"mine")
    assert client.calls == ["put_object"]


# --- SQS


def test_a_letter_that_sqs_refuses_in_every_form_is_not_sent(effects: StillEffects) -> None:
    """Neither with its body nor with a pointer to it: the message is handed back."""
    bodies: list[str] = []

    def refuse(params: dict[str, Any]) -> Any:
        bodies.extend(entry["MessageBody"] for entry in params["Entries"])
        failed = {"Code": "InvalidMessageContents", "Message": "no", "SenderFault": True}
        return {"Failed": [{"Id": entry["Id"], **failed} for entry in params["Entries"]]}

    caller, bucket = Caller(Scripted(send_message_batch=refuse), effects), MemoryBucket()
    queue = SqsQueue(
        caller,
        effects,
        queue_url="events",
        dead_letters_url="dead",
        bucket=bucket,
        metrics=QueueMetrics(caller, effects, queue="events", period_ms=MINUTE),
    )
    message = Message("m", "no JSON", NOW, 1, "r")
    assert queue.reject([Rejection(message, Reason.NOT_JSON, "no JSON", WINDOW)]) == [False]
    assert len(bodies) == 2
    assert bodies[0] == "no JSON"
    (key,) = bucket.list("")
    assert bucket.get(key) == b"no JSON"


def test_a_request_that_stays_throttled_is_told_with_its_reason(effects: StillEffects) -> None:
    client = Scripted(send_message_batch=refusal("RequestThrottled"))
    (failure,) = SqsSender(Caller(client, effects), effects, "events").send(["body"])
    assert (failure.index, failure.body) == (0, "body")
    assert "RequestThrottled" in failure.detail
    assert len(client.calls) == QUEUE_REQUEST.tries


def test_no_letters_make_no_batch() -> None:
    assert list(in_batches([])) == []


def test_a_body_over_the_limit_is_not_even_tried(effects: StillEffects) -> None:
    client = Scripted()
    bodies = ["x" * (QUEUE_MESSAGE_BYTES_MAX + 1)]
    (failure,) = SqsSender(Caller(client, effects), effects, "events").send(bodies)
    assert failure.detail == "empty, over 1 MiB, or with a character that SQS does not take"
    assert client.calls == []


# --- DynamoDB


def test_an_item_that_vanishes_after_it_was_put_is_an_unknown_outcome(
    effects: StillEffects,
) -> None:
    client = Scripted(put_item=lambda _: {}, get_item=lambda _: {})
    catalog = DynamoCatalog(Caller(client, effects), effects, "catalog")
    with pytest.raises(Unknown, match="was put and is not there"):
        catalog.found(Calendar(Grid.of(3600), NOW))


def test_tags_and_backups_that_may_not_be_read_are_not_taken_for_none(
    effects: StillEffects,
) -> None:
    for code in (DENIED, "UnknownOperationException"):
        client = Scripted(
            list_tags_of_resource=refusal(code), describe_continuous_backups=refusal(code)
        )
        for look in (tags_of, recovery_of):
            if code == DENIED:
                with pytest.raises(Refused, match=DENIED):
                    look(Caller(client, effects), "table")
            else:
                assert look(Caller(client, effects), "table") is None


def test_a_gate_that_may_not_be_shut_is_not_tried_again(effects: StillEffects) -> None:
    client = Scripted(update_item=refusal(DENIED))
    with pytest.raises(Refused, match=DENIED):
        store_on(client, effects).shut_gates(spec_of(gates=1))
    assert client.calls == ["update_item"]


def test_an_item_of_another_kind_is_refused_by_its_key(effects: StillEffects) -> None:
    spec = spec_of()
    client = Scripted(
        batch_get_item=lambda _: {"Responses": {spec.table: [gate_item(1)]}},
        query=lambda _: {"Items": [record_item(record_with())]},
    )
    store = store_on(client, effects)
    with pytest.raises(Refused, match="is not a record") as caught:
        store.lookup(spec, [("k", "e1")])
    assert caught.value.code == "NotARecord"
    with pytest.raises(Refused, match="is not a tally") as caught:
        list(store.stripes(spec, 1, "", 10))
    assert caught.value.code == "NotATally"


# --- in memory, as AWS


def test_an_upload_in_memory_has_the_rules_of_s3() -> None:
    bucket = MemoryBucket()
    upload = bucket.start_upload("key")
    small = [bucket.put_part("key", upload, number, b"x") for number in (1, 2)]
    with pytest.raises(Refused, match="a part of key is too small"):
        bucket.complete_upload("key", upload, small)
    first = bucket.put_part("key", upload, 1, b"x" * PART_BYTES_MIN)
    with pytest.raises(Refused, match="the parts of key are not as received"):
        bucket.complete_upload("key", upload, [first, "another"])
    bucket.complete_upload("key", upload, [first, small[1]])
    assert bucket.get("key") == b"x" * (PART_BYTES_MIN + 1)


def test_a_table_in_memory_that_is_being_made_takes_nothing(effects: StillEffects) -> None:
    store = MemoryStore(effects, MemoryCatalog(), creating_ms=5_000)
    store.make_table("table", {})
    with pytest.raises(Throttled, match="table table is being made"):
        store.drop_table("table")
    with pytest.raises(Missing, match="there is no table table"):
        store.items("table")
    effects.pass_by(5_000)
    assert store.items("table") == {}
    store.drop_table("table")


def test_a_transaction_in_memory_names_a_tally_once(effects: StillEffects) -> None:
    store, spec = MemoryStore(effects, MemoryCatalog()), spec_of()
    store.make_table(spec.table, {})
    records = [record_with()]
    outcome = store.commit(spec, records, increments_of(records) * 2)
    assert outcome.verdict is Verdict.INVALID
    assert outcome.detail == "a transaction adds to a tally twice"
