"""Payloads that are too large for a message: the producer uploads them and sends references."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from tallyroll import Pipeline, Producer
from tallyroll import pipeline as wiring
from tallyroll.adapters.aws.client import LateClient, make_client
from tallyroll.errors import Missing, Rejected, UsageError
from tallyroll.limits import EVENT_MESSAGE_BYTES_MAX
from tallyroll.model.events import Event, Packet, decode
from tallyroll.model.formats.references import check_reference
from tallyroll.pipeline.buckets import payload
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tests.harness.payloads import noise
from tests.harness.pipeline import NOW
from tests.unit.standing_in import URL, StandIn

LARGE = noise(1_200_000)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = make_client("s3")
        client.create_bucket(Bucket="archive")
        yield client


def made(client: StandIn | None, *, bucket: str = "archive", pipeline: str = "votes") -> Producer:
    return Producer(URL, client=client, bucket=bucket, pipeline=pipeline, delivery_timeout_ms=5_000)


def objects(s3: Any) -> dict[str, bytes]:
    listed = s3.list_objects_v2(Bucket="archive").get("Contents", ())
    return {
        one["Key"]: s3.get_object(Bucket="archive", Key=one["Key"])["Body"].read() for one in listed
    }


def test_a_payload_that_no_message_holds_is_uploaded(s3: Any) -> None:
    client = StandIn()
    with made(client) as producer:
        receipts = [
            producer.send("k", 2, payload=LARGE, id="e1", ts=NOW),
            producer.send("k", payload=LARGE, ts=NOW),
            producer.send("k", payload="small", ts=NOW),
        ]
        producer.flush()
        assert all(receipt.done() for receipt in receipts)
    envelopes = [decode(body) for body in client.bodies]
    singles = [each for each in envelopes if isinstance(each, Event)]
    [packet] = [each for each in envelopes if isinstance(each, Packet)]
    assert len(packet.entries) == 1
    assert {each.id for each in singles} == {receipt.id for receipt in receipts[:2]}
    body = json.dumps(LARGE).encode()
    for event in singles:
        assert event.reference
        assert event.reference.sha256 == hashlib.sha256(body).hexdigest()
        assert event.reference.size == len(body)
        assert objects(s3)[event.reference.key] == body
        assert event.payload is None
        for settings in (Settings(), Settings(bucket="archive")):
            assert payload(Pipeline(settings), event.reference) == body.decode()
        check_reference(event.reference, "archive", "votes", producer._effects.now())
    assert len(objects(s3)) == 2


def test_asyncio_and_bulks_upload_too(s3: Any) -> None:
    client = StandIn()

    async def send() -> None:
        async with made(client, pipeline="polls") as producer:
            receipt = await producer.asend("k", payload=LARGE, id="e1")
            await producer.aflush()
            assert receipt.done()

    asyncio.run(send())
    with made(client) as producer:
        producer.send_all([{"key": "k", "payload": LARGE, "id": "e2"}])
    assert [key.split("/")[1] for key in objects(s3)] == ["polls", "votes"]
    assert len(client.bodies) == 2


def test_only_what_does_not_fit_is_uploaded(s3: Any) -> None:
    client = StandIn()
    with made(client) as producer:
        text = "x" * (EVENT_MESSAGE_BYTES_MAX - 72)
        producer.send("k", payload=text, id="e1", ts=NOW)
        producer.send("k", payload=text + "xxxxxxxxxxxxxx", id="e2", ts=NOW)
    fits, refers = client.bodies
    assert EVENT_MESSAGE_BYTES_MAX - 20 < len(fits) <= EVENT_MESSAGE_BYTES_MAX
    assert len(refers) < 1_000


@pytest.mark.parametrize("given", [{}, {"ts": NOW}, {"id": "e1"}])
def test_the_id_and_the_time_that_an_event_gets_have_room(s3: Any, given: dict[str, Any]) -> None:
    """An event has neither yet when its message is measured."""
    client = StandIn()
    with made(client) as producer:
        for spare in range(20, 140, 3):
            producer.send("k", payload="x" * (EVENT_MESSAGE_BYTES_MAX - spare), **given)
    assert len(client.bodies) == len(range(20, 140, 3))
    referring = [body for body in client.bodies if len(body) < 1_000]
    assert 0 < len(referring) == len(objects(s3)) < len(client.bodies)
    assert max(map(len, client.bodies)) > EVENT_MESSAGE_BYTES_MAX - 8


def test_without_a_bucket_it_is_refused(s3: Any) -> None:
    with Producer(URL, client=StandIn()) as producer, pytest.raises(Rejected) as rejected:
        producer.send("k", payload=LARGE)
    assert rejected.value.reason is Reason.ITEM_TOO_LARGE


def test_what_could_not_be_uploaded_is_not_accepted(s3: Any) -> None:
    with made(StandIn(), bucket="other") as producer:
        with pytest.raises(Missing):
            producer.send("k", payload=LARGE, id="e1")
        assert producer.stats.accepted == 0


def test_the_pipelines_name_must_be_known() -> None:
    with pytest.raises(UsageError, match="give the pipeline's name, too"):
        Producer(URL, bucket="archive")
    for name in ("Votes", "votes/2", "../votes"):
        with pytest.raises(UsageError, match="lower-case letters, digits and hyphens"):
            Producer(URL, bucket="archive", pipeline=name)
    with Producer(f"{URL}-events", client=StandIn(), bucket="archive") as producer:
        assert producer._uploads
        assert producer._uploads.pipeline == "votes"


def test_a_child_makes_connections_of_its_own(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sqs = StandIn()
    monkeypatch.setattr(
        wiring, "LateClient", lambda name, region: sqs if name == "sqs" else LateClient(name)
    )
    with made(None) as producer:
        before = producer._uploads
        producer.after_fork()
        assert producer._uploads is not before
        producer.send("k", payload=LARGE, id="e1")
    assert len(objects(s3)) == 1
