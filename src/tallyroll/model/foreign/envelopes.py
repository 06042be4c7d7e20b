"""Unwraps the messages of SNS, EventBridge, S3 and CloudEvents.

SNS wraps any other message in a text, unless its subscription has raw delivery; that wrapping is
taken off first. The other three are told by the fields that their specifications require.

| envelope | id of its event | time | where an event of Tallyroll's own form is |
|---|---|---|---|
| SNS | MessageId | Timestamp | Message |
| EventBridge | id | time | detail |
| S3 | a digest of what S3 repeats in a redelivery | eventTime | nowhere |
| CloudEvents 1.0 | source/id | time | data, or data_base64 |

Sources: Amazon SNS Developer Guide, "HTTP/HTTPS notification JSON format"; Amazon EventBridge User
Guide, "Event structure"; Amazon S3 User Guide, "Event message structure"; CloudEvents 1.0.2, "JSON
Event Format".
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from tallyroll.errors import Rejected
from tallyroll.limits import ENVELOPES_MAX
from tallyroll.model.amounts import JsonFloat, shown
from tallyroll.model.events import Envelope, Event, parse
from tallyroll.model.foreign.times import read_time
from tallyroll.model.formats.fields import check_id
from tallyroll.model.formats.json_texts import canonical, load_json
from tallyroll.model.ids import uuid7_time
from tallyroll.reasons import Reason

ReadFloat = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """What an envelope holds.

    `document` is what a mapping reads: the EventBridge event, the record of the S3 notification,
    the CloudEvent, or the JSON object in the SNS notification. `own` is the value at the place of
    an event of Tallyroll's own form. `id` and `time` (RFC 3339) are the envelope's, for an event
    that has none itself; `timed` is what the time is called.
    """

    document: dict[str, Any]
    own: Any
    kind: str = "a message"
    id: str | None = None
    time: Any = None
    timed: str = ""

    @property
    def ts(self) -> int | None:
        """The envelope's time, ms. Raises Rejected if it is none."""
        if self.time is None:
            return None
        name = f"{self.timed} of {self.kind}"
        return read_time(_text(self.time, name), name)

    @property
    def holds_own(self) -> bool:
        """Whether it holds an event or packet of Tallyroll's own form."""
        return isinstance(self.own, dict) and "key" in self.own


def is_enveloped(fields: dict[str, Any]) -> bool:
    """Whether a JSON object is an envelope that `unwrap` knows."""
    return _is_sns(fields) or _unwrapper(fields) is not None


def unwrap(fields: dict[str, Any], read_float: ReadFloat) -> Unwrapped:
    """What a JSON object holds; `read_float` converts floats in JSON texts within it.

    Raises Rejected (bad-envelope) for an envelope that is not as its specification says.
    """
    message_id: str | None = None
    sent: str | None = None
    for _ in range(ENVELOPES_MAX + 1):
        if not _is_sns(fields):
            break
        message_id, sent = fields.get("MessageId"), fields.get("Timestamp")
        fields = _json_object(fields["Message"], read_float, "the Message of an SNS notification")
    else:
        raise _bad(f"SNS notifications are nested more than {ENVELOPES_MAX} deep")
    if unwrapper := _unwrapper(fields):
        return unwrapper(fields, read_float)
    if message_id is None:
        return Unwrapped(fields, fields)
    return Unwrapped(
        fields,
        fields,
        "an SNS notification",
        id=_text(message_id, "MessageId of the SNS notification"),
        time=sent,
        timed="Timestamp",
    )


def unwrapped_exactly(body: str) -> Unwrapped:
    """What a body holds, a JSON object, with its floats as they were written. Raises Rejected."""
    return unwrap(load_json(body), JsonFloat)


def own_event(unwrapped: Unwrapped) -> Envelope:
    """The event or packet of Tallyroll's own form in an envelope. Raises Rejected."""
    if not unwrapped.holds_own:
        raise Rejected(
            Reason.BAD_KEY,
            f"{unwrapped.kind} holds no field `key` where its event should be: name the field that"
            " is the key in the setting `mapping`",
        )
    return completed(parse(unwrapped.own), unwrapped)


def completed(envelope: Envelope, unwrapped: Unwrapped) -> Envelope:
    """An event with the id and the time of its envelope, where it has none itself. A UUIDv7 id has
    the time in it.
    """
    if not isinstance(envelope, Event):
        return envelope
    if envelope.ts is None and (envelope.id is None or uuid7_time(envelope.id) is None):
        envelope = replace(envelope, ts=unwrapped.ts)
    if envelope.id is None:
        envelope = replace(envelope, id=check_id(unwrapped.id))
    return envelope


def _is_sns(fields: dict[str, Any]) -> bool:
    return (
        fields.get("Type") == "Notification"
        and "TopicArn" in fields
        and isinstance(fields.get("Message"), str)
    )


def _unwrapper(fields: dict[str, Any]) -> Callable[[dict[str, Any], ReadFloat], Unwrapped] | None:
    if "detail-type" in fields and "detail" in fields and "source" in fields:
        return _event_bridge
    if "specversion" in fields and "source" in fields and "type" in fields:
        return _cloud_event
    records = fields.get("Records")
    if isinstance(records, list) and records and _is_s3(records[0]):
        return _s3
    return None


def _is_s3(record: Any) -> bool:
    return isinstance(record, dict) and record.get("eventSource") == "aws:s3"


def _event_bridge(fields: dict[str, Any], _read_float: ReadFloat) -> Unwrapped:
    return Unwrapped(
        fields,
        fields["detail"],
        "an EventBridge event",
        id=_text(fields.get("id"), "id of the EventBridge event"),
        time=fields.get("time"),
        timed="time",
    )


def _cloud_event(fields: dict[str, Any], read_float: ReadFloat) -> Unwrapped:
    version = fields["specversion"]
    if not isinstance(version, str) or not version.startswith("1."):
        raise _bad(f"specversion {shown(version)} of the CloudEvent: this writer knows 1.0")
    given = _text(fields.get("id"), "id of the CloudEvent")
    source = _text(fields["source"], "source of the CloudEvent")
    content = fields.get("datacontenttype")
    if "data_base64" in fields and (content is None or "json" in str(content).lower()):
        data = _json_in_base64(fields["data_base64"], read_float)
        fields = {**fields, "data": data}
    return Unwrapped(
        fields,
        fields.get("data"),
        "a CloudEvent",
        id=f"{source}/{given}",
        time=fields.get("time"),
        timed="time",
    )


def _s3(fields: dict[str, Any], _read_float: ReadFloat) -> Unwrapped:
    records = fields["Records"]
    if len(records) > 1:
        raise _bad(
            f"the S3 notification has {len(records)} records, and a message is one event: send each"
            " record in a notification of its own"
        )
    record: dict[str, Any] = records[0]
    return Unwrapped(
        record,
        None,
        "an S3 notification",
        id=_s3_id(record),
        time=record.get("eventTime"),
        timed="eventTime",
    )


def _s3_id(record: dict[str, Any]) -> str | None:
    """An id by what two deliveries of one S3 event have in common; None without a sequencer, which
    S3 gives to events of creation and deletion.
    """
    try:
        stored = record["s3"]["object"]
        parts = [record["s3"]["bucket"]["name"], stored["key"], stored["sequencer"]]
    except (KeyError, TypeError):
        return None
    parts += [stored.get("versionId"), record.get("eventName")]
    return f"s3-{blake2b(_encoded(parts), digest_size=16).hexdigest()}"


def _encoded(value: Any) -> bytes:
    try:
        return canonical(value).encode(errors="surrogatepass")
    except ValueError:
        raise _bad("the S3 notification holds a number too large for JSON's doubles") from None


def _json_in_base64(given: Any, read_float: ReadFloat) -> Any:
    try:
        text = b64decode(given, validate=True).decode()
    except (ValueError, TypeError):
        raise _bad(f"data_base64 {shown(given)} of the CloudEvent is no base64 of UTF-8") from None
    return _json(text, read_float, "the data_base64 of a CloudEvent")


def _json_object(text: str, read_float: ReadFloat, what: str) -> dict[str, Any]:
    fields = _json(text, read_float, what)
    if not isinstance(fields, dict):
        raise _bad(f"{what} is not a JSON object: {shown(fields)}")
    return fields


def _json(text: str, read_float: ReadFloat, what: str) -> Any:
    try:
        return load_json(text, read_float)
    except Rejected as error:
        raise _bad(f"{what} is not JSON: {error.detail}") from None


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise _bad(f"{name} is {shown(value)}: must be a text")
    return value


def _bad(detail: str) -> Rejected:
    return Rejected(Reason.BAD_ENVELOPE, detail)
