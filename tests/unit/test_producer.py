"""`tallyroll.Producer`, with its threads, on clients that stand in for boto3's."""

from __future__ import annotations

import json
from threading import Event as Signal
from typing import Any

import pytest

from tallyroll import Producer
from tallyroll.client.receipts import Delivery
from tallyroll.client.rules import group_of
from tallyroll.errors import BufferFull, NotSent, Rejected, UsageError
from tallyroll.limits import QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.events import Event, Packet, decode
from tallyroll.reasons import Reason
from tests.unit.standing_in import URL, Answer, StandIn, client_error, failing, lost_reply, taken


def test_events_without_ids_are_packed_by_key_and_own_ids_travel_alone() -> None:
    client = StandIn()
    with Producer(URL, client=client) as producer:
        receipts = [producer.send("a", ts=1_795_163_400_000 + n) for n in range(5)]
        receipts.append(producer.send("b", 2.5, {"x": 1}, ts=1_795_163_400_000))
        receipts.append(producer.send("a", id="own", ts=1_795_163_400_000))
    assert len(client.requests) == 1
    fields = [json.loads(body) for body in client.bodies]
    (packet,) = [each for each in fields if each["key"] == "a" and "events" in each]
    assert packet["events"] == [[n] for n in range(5)]
    assert [each["id"] for each in fields if "events" not in each] == ["own"]
    assert [each["events"] for each in fields if each["key"] == "b"] == [[[0, 2.5, {"x": 1}]]]
    assert [receipt.id for receipt in receipts[:5]] == [f"{packet['id']}:{n}" for n in range(5)]
    assert receipts[6].id == "own"
    assert receipts[0].result(0).events == 5


def test_a_request_has_at_most_ten_messages_and_a_mebibyte() -> None:
    client = StandIn()
    with Producer(URL, client=client, connections=1) as producer:
        for number in range(25):
            producer.send("small", id=f"s{number}")
        for number in range(12):
            producer.send("large", id=f"l{number}", payload="x" * 250_000)
    assert max(map(len, client.requests)) == 10
    sizes = [sum(len(entry["MessageBody"]) for entry in request) for request in client.requests]
    assert max(sizes) <= QUEUE_MESSAGE_BYTES_MAX
    assert len(client.bodies) == 37


@pytest.mark.parametrize(
    "trouble",
    [
        client_error("RequestThrottled"),
        client_error("InternalFailure"),
        lost_reply(),
        failing("InternalError", by_sender=False),
        failing("KMS.ThrottlingException", by_sender=True),
        lambda entries: {"Successful": []},
    ],
)
def test_what_the_queue_did_not_surely_take_is_sent_again_under_the_same_id(
    trouble: Answer | Exception,
) -> None:
    client = StandIn(trouble, trouble)
    with Producer(URL, client=client) as producer:
        receipt = producer.send("k")
        producer.flush()
        assert receipt.result(0).tries == 3
        assert producer.stats.retries == 2
    assert len(client.bodies) == 3
    assert len(set(client.bodies)) == 1


def test_an_own_id_without_a_time_has_one_content_however_often_it_is_sent() -> None:
    client = StandIn(lost_reply())
    with Producer(URL, client=client) as producer:
        producer.send("k", id="view-1")
        producer.flush()
        producer.send("k", id="view-1")
    assert len(client.bodies) == 3
    assert len(set(client.bodies)) == 1
    assert json.loads(client.bodies[0])["ts"]


def test_what_the_queue_refuses_is_reported_at_once() -> None:
    heard: list[Delivery] = []
    client = StandIn(failing("InvalidMessageContents", by_sender=True))
    producer = Producer(URL, client=client, on_delivery=heard.append)
    receipt = producer.send("k")
    with pytest.raises(NotSent, match=r"1 event not sent: .* InvalidMessageContents: why"):
        producer.flush()
    assert isinstance(receipt.exception(0), NotSent)
    assert [delivery.error for delivery in heard] == [receipt.exception(0)]
    producer.close()
    assert producer.stats.failed == 1

    missing = Producer(URL, client=StandIn(client_error("QueueDoesNotExist")))
    missing.send("k")
    with pytest.raises(NotSent, match="QueueDoesNotExist"):
        missing.close()


def test_a_message_is_given_up_after_its_time_and_may_have_been_taken() -> None:
    client = StandIn(*[lost_reply()] * 100)
    producer = Producer(URL, client=client, delivery_timeout_ms=1, linger_ms=0)
    receipt = producer.send("k")
    with pytest.raises(NotSent, match="given up after") as caught:
        producer.flush()
    assert caught.value.unknown
    assert receipt.done()
    producer.close()


def test_a_wrong_event_is_refused_and_the_others_are_not_touched() -> None:
    client = StandIn()
    deep: Any = []
    for _ in range(97):
        deep = [deep]
    with Producer(URL, client=client) as producer:
        producer.send("k", payload=deep[0])
        for fields, reason in (
            ({"key": ""}, Reason.BAD_KEY),
            ({"key": "k", "payload": deep}, Reason.BAD_PAYLOAD),
            ({"key": "k", "payload": "x" * 1_048_500}, Reason.ITEM_TOO_LARGE),
            ({"key": "k", "ts": 1_795_163_400}, Reason.TS_IN_SECONDS),
            ({"key": "k", "value": 10**18}, Reason.BAD_VALUE),
        ):
            with pytest.raises(Rejected) as caught:
                producer.send(**fields)
            assert caught.value.reason is reason
    (body,) = client.bodies
    assert isinstance(decode(body), Packet)
    assert producer.stats.accepted == 1


def test_a_full_buffer_raises_or_blocks_until_there_is_room() -> None:
    entered, go_on = Signal(), Signal()

    def slowly(entries: list[dict[str, Any]]) -> dict[str, Any]:
        entered.set()
        assert go_on.wait(60)
        return taken(entries)

    with Producer(URL, client=StandIn(slowly), buffer_bytes=1, when_full="raise") as producer:
        producer.send("a", id="1")
        with pytest.raises(BufferFull):
            producer.send("a", id="2")
        go_on.set()

    go_on.clear()
    entered.clear()
    client = StandIn(slowly)
    with Producer(URL, client=client, buffer_bytes=1, connections=1, linger_ms=0) as producer:
        producer.send("a", id="1")
        assert entered.wait(60)
        producer._limits.block_ms = 1
        with pytest.raises(BufferFull, match="after 1 ms"):
            producer.send("a", id="2")
        producer._limits.block_ms = None
        go_on.set()
        producer.send("a", id="3")
        assert producer.stats.blocked >= 1
    assert len(client.bodies) == 2


def test_a_flush_that_ends_early_says_so_and_the_rest_is_sent() -> None:
    go_on = Signal()

    def slowly(entries: list[dict[str, Any]]) -> dict[str, Any]:
        assert go_on.wait(60)
        return taken(entries)

    with Producer(URL, client=StandIn(slowly)) as producer:
        receipt = producer.send("k")
        with pytest.raises(TimeoutError, match="not confirmed yet, and still being sent: events 1"):
            producer.flush(0.01)
        with pytest.raises(TimeoutError):
            receipt.result(0.01)
        go_on.set()
    assert receipt.result(0).error is None
    with pytest.raises(UsageError, match="is closed"):
        producer.send("k")


def test_bulk_sends_take_keys_in_turn() -> None:
    client = StandIn()
    with Producer(URL, client=client, connections=1) as producer:
        events = [{"key": key, "id": f"{key}{n}"} for key in "abc" for n in range(20)]
        assert producer.send_all(events) == 60
    keys = [json.loads(body)["key"] for body in client.bodies]
    assert max(keys[:30].count(key) for key in "abc") <= 11
    assert sorted(keys) == sorted("abc" * 20)


def test_a_bulk_of_events_and_of_their_fields() -> None:
    client = StandIn()
    packet = {"key": "k", "id": "p1", "t0": 1_795_163_400_000, "events": [[0]]}
    with Producer(URL, client=client) as producer:
        assert producer.send_all([Event.of("k", id="1"), {"key": "k", "id": "2"}]) == 2
        with pytest.raises(UsageError, match="'p1' is a packet: send its events"):
            producer.send_all([packet])
    assert sorted(json.loads(body)["id"] for body in client.bodies) == ["1", "2"]


def test_each_message_has_its_keys_group_if_asked_for() -> None:
    client = StandIn()
    with Producer(URL, client=client, group_by_key=True) as producer:
        producer.send("k\u00fc")
    (request,) = client.requests
    assert [entry["MessageGroupId"] for entry in request] == [group_of("k\u00fc")]
    assert request[0]["MessageGroupId"].isascii()


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue_url": "votes"},
        {"queue_url": None},
        {"when_full": "drop"},
        {"linger_ms": -1},
        {"packet_events": 0},
        {"packet_bytes": 1_000_000},
        {"connections": 0},
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any]) -> None:
    arguments = {"queue_url": URL, "client": StandIn(), **wrong}
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Producer(arguments.pop("queue_url"), **arguments)
