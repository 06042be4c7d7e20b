"""Events in the envelopes of SNS, EventBridge, S3 and CloudEvents."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from tallyroll.errors import Rejected
from tallyroll.model.events import Event, Packet
from tallyroll.model.foreign.reading import read
from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW

MESSAGE_ID = "165545c9-2a5c-472c-8df2-7ff2be2b3b1b"
UUID7 = "019a9fe4-d740-7000-8000-000000000000"
OWN = {"key": "k", "value": 2}


def sns(message: object, **changes: Any) -> dict[str, Any]:
    fields = {
        "Type": "Notification",
        "MessageId": MESSAGE_ID,
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:plays",
        "Message": message if isinstance(message, str) else json.dumps(message),
        "Timestamp": "2026-11-20T08:30:00.250Z",
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def event_bridge(detail: object, **changes: Any) -> dict[str, Any]:
    fields = {
        "version": "0",
        "id": "17793124",
        "detail-type": "play",
        "source": "site.player",
        "time": "2026-11-20T08:30:00Z",
        "detail": detail,
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def cloud_event(data: object = ..., **changes: Any) -> dict[str, Any]:
    fields = {
        "specversion": "1.0",
        "id": "A234",
        "source": "/player",
        "type": "site.play",
        "time": "2026-11-20T09:30:00.25+01:00",
        "data": data,
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def s3_record(**changes: Any) -> dict[str, Any]:
    stored = {"key": "a+b.mp4", "size": 7, "sequencer": "0055AED6DCD90281E5", **changes}
    return {
        "eventSource": "aws:s3",
        "eventTime": "2026-11-20T08:30:00.250Z",
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "videos"}, "object": stored},
    }


def event_in(fields: object) -> Event:
    event = read(json.dumps(fields))
    assert isinstance(event, Event)
    return event


def in_base64(text: str) -> str:
    return b64encode(text.encode()).decode()


COUNTED = {
    "SNS": (sns(OWN), (MESSAGE_ID, NOW + 250)),
    "SNS with raw delivery": (OWN, (None, None)),
    "SNS in SNS": (sns(sns(OWN, MessageId="inner")), ("inner", NOW + 250)),
    "SNS without a time": (sns(OWN, Timestamp=...), (MESSAGE_ID, None)),
    "EventBridge": (event_bridge(OWN), ("17793124", NOW)),
    "EventBridge in SNS": (sns(event_bridge(OWN)), ("17793124", NOW)),
    "CloudEvents": (cloud_event(OWN), ("/player/A234", NOW + 250)),
    "CloudEvents in SNS": (sns(cloud_event(OWN)), ("/player/A234", NOW + 250)),
    "CloudEvents without a time": (cloud_event(OWN, time=...), ("/player/A234", None)),
    "CloudEvents in base64": (
        cloud_event(data_base64=in_base64(json.dumps(OWN))),
        ("/player/A234", NOW + 250),
    ),
    "CloudEvents in base64 of JSON by another name": (
        cloud_event(
            data_base64=in_base64(json.dumps(OWN)), datacontenttype="application/vnd.x+JSON"
        ),
        ("/player/A234", NOW + 250),
    ),
}


@pytest.mark.parametrize(("fields", "identity"), COUNTED.values(), ids=COUNTED.keys())
def test_an_event_has_the_id_and_the_time_of_its_envelope(
    fields: object, identity: tuple[str | None, int | None]
) -> None:
    record_id, ts = identity
    assert event_in(fields) == Event("k", record_id, ts, 2_000_000, None)


@pytest.mark.parametrize("envelope", [sns, event_bridge, cloud_event])
def test_an_events_own_id_and_time_come_first(envelope: Any) -> None:
    event = event_in(envelope({**OWN, "id": "own", "ts": NOW - 1}))
    assert (event.id, event.ts) == ("own", NOW - 1)


@pytest.mark.parametrize("envelope", [sns, event_bridge, cloud_event])
def test_the_time_in_a_uuid_comes_before_that_of_the_envelope(envelope: Any) -> None:
    assert event_in(envelope({**OWN, "id": UUID7})) == Event("k", UUID7, None, 2_000_000, None)


@pytest.mark.parametrize("envelope", [sns, event_bridge, cloud_event])
def test_a_packet_in_an_envelope_is_a_packet(envelope: Any) -> None:
    packet = {"v": 1, "id": "p", "key": "k", "t0": NOW, "events": [[0], [5, 2.5]]}
    expected = Packet("k", "p", NOW, ((0, 1_000_000, None), (5, 2_500_000, None)))
    assert read(json.dumps(envelope(packet))) == expected


@pytest.mark.parametrize("envelope", [sns, event_bridge, cloud_event])
def test_values_in_envelopes_are_exact(envelope: Any) -> None:
    number = "123456789012345678.123456"
    inner = f'{{"key": "k", "value": {number}}}'
    if envelope is sns:
        body = json.dumps(sns(inner))
    else:
        body = json.dumps(envelope("HERE")).replace('"HERE"', inner)
    event = read(body)
    assert isinstance(event, Event)
    assert event.amount == 123456789012345678123456


def test_an_event_with_a_field_key_is_never_taken_for_an_envelope() -> None:
    fields = {**cloud_event({"key": "other"}), "key": "k"}
    assert event_in(fields) == Event("k", "A234", None, 1_000_000, None)


def test_resends_of_one_notification_are_one_event() -> None:
    assert event_in(sns(OWN)) == event_in(sns(OWN, Signature="another"))


NOT_COUNTED: dict[str, tuple[object, Reason, str]] = {
    "SNS around no JSON": (sns("hello"), Reason.BAD_ENVELOPE, "Message of an SNS notification is"),
    "SNS around a list": (sns([OWN]), Reason.BAD_ENVELOPE, "is not a JSON object"),
    "SNS three deep": (sns(sns(sns(OWN))), Reason.BAD_ENVELOPE, "more than 2 deep"),
    "SNS without an id": (sns(OWN, MessageId=7), Reason.BAD_ENVELOPE, "is 7: must be a text"),
    "SNS around nothing known": (sns({"a": 1}), Reason.BAD_KEY, "an SNS notification holds no"),
    "SNS of a wrong time": (sns(OWN, Timestamp="yesterday"), Reason.BAD_TS, "'yesterday'"),
    "SNS around a wrong event": (sns({"key": 7}), Reason.BAD_KEY, "key 7"),
    "EventBridge without a key": (event_bridge({}), Reason.BAD_KEY, "an EventBridge event holds"),
    "EventBridge of a text": (event_bridge("k"), Reason.BAD_KEY, "an EventBridge event holds"),
    "EventBridge without an id": (event_bridge(OWN, id=...), Reason.BAD_ENVELOPE, "is null"),
    "EventBridge of seconds": (event_bridge(OWN, time=1763625600), Reason.BAD_ENVELOPE, "1763625"),
    "CloudEvents without a key": (cloud_event({}), Reason.BAD_KEY, "a CloudEvent holds no"),
    "CloudEvents without data": (cloud_event(), Reason.BAD_KEY, "a CloudEvent holds no"),
    "CloudEvents 2.0": (cloud_event(OWN, specversion="2.0"), Reason.BAD_ENVELOPE, "'2.0'"),
    "CloudEvents without an id": (cloud_event(OWN, id=""), Reason.BAD_ENVELOPE, "''"),
    "CloudEvents of no source": (cloud_event(OWN, source=None), Reason.BAD_ENVELOPE, "null"),
    "CloudEvents of a long id": (cloud_event(OWN, id="i" * 600), Reason.BAD_ID, "has 608 bytes"),
    "CloudEvents of no base64": (cloud_event(data_base64="!"), Reason.BAD_ENVELOPE, "'!'"),
    "CloudEvents of a number in base64": (cloud_event(data_base64=7), Reason.BAD_ENVELOPE, "7"),
    "CloudEvents of bytes": (cloud_event(data_base64="/w=="), Reason.BAD_ENVELOPE, "'/w=='"),
    "CloudEvents of no JSON": (
        cloud_event(data_base64=in_base64("hello")),
        Reason.BAD_ENVELOPE,
        "data_base64 of a CloudEvent is not JSON",
    ),
    "CloudEvents of an image": (
        cloud_event(data_base64=in_base64("PNG"), datacontenttype="image/png"),
        Reason.BAD_KEY,
        "a CloudEvent holds no",
    ),
    "S3 without a mapping": (
        {"Records": [s3_record()]},
        Reason.BAD_KEY,
        "an S3 notification holds",
    ),
    "two records of S3": ({"Records": [s3_record()] * 2}, Reason.BAD_ENVELOPE, "has 2 records"),
    "S3's test event": ({"Service": "Amazon S3", "Event": "s3:TestEvent"}, Reason.BAD_KEY, "key"),
    "a number of S3 that no double holds": (
        {"Records": [s3_record(versionId=float("inf"))]},
        Reason.BAD_ENVELOPE,
        "the S3 notification holds a number too large for JSON's doubles",
    ),
    "no records": ({"Records": []}, Reason.BAD_KEY, "key is missing"),
    "another service's records": ({"Records": [{}]}, Reason.BAD_KEY, "key is missing"),
    "a base64 body": (None, Reason.NOT_JSON, "Expecting value"),
}


@pytest.mark.parametrize(
    ("fields", "reason", "detail"), NOT_COUNTED.values(), ids=NOT_COUNTED.keys()
)
def test_what_is_rejected(fields: object, reason: Reason, detail: str) -> None:
    body = in_base64(json.dumps(OWN)) if fields is None else json.dumps(fields)
    body = body.replace("Infinity", "1e400")
    with pytest.raises(Rejected) as rejected:
        read(body)
    assert rejected.value.reason is reason
    assert detail in rejected.value.detail


@pytest.mark.parametrize(
    "body", ['"a"', "[]", '{"key": "k", "v": 2}', '{"key": 7}', "{}", '{"v": 2}', "nonsense", ""]
)
def test_other_bodies_are_rejected_as_ever(body: str) -> None:
    with pytest.raises(Rejected) as rejected:
        read(body)
    assert rejected.value.reason is not Reason.BAD_ENVELOPE


TIMES = {
    "2026-11-20T08:30:00Z": NOW,
    "2026-11-20t08:30:00z": NOW,
    "2026-11-20 08:30:00Z": NOW,
    "2026-11-20T08:30:00.9999Z": NOW + 999,
    "2026-11-20T08:30:00.123456789Z": NOW + 123,
    "2026-11-20T00:00:00-08:30": NOW,
    "2026-11-20T08:30:00": None,
    "2026-11-20": None,
    "20261120T083000Z": None,
    "2026-11-20T08:30:60Z": None,
    "2026-13-20T08:30:00Z": None,
    "2026-11-20T08:30:00+25:00": None,
    "0001-01-01T00:00:00+23:59": None,
    "9999-12-31T23:59:59-23:59": None,
    "\u0662026-11-20T08:30:00Z": None,
    "": None,
}


@pytest.mark.parametrize(("text", "ts"), TIMES.items())
def test_times_in_texts(text: str, ts: int | None) -> None:
    fields = cloud_event(OWN, time=text)
    if ts is not None:
        assert event_in(fields).ts == ts
        return
    with pytest.raises(Rejected) as rejected:
        read(json.dumps(fields))
    assert rejected.value.reason is (Reason.BAD_TS if text else Reason.BAD_ENVELOPE)
