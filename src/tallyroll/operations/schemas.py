"""The message contract as JSON Schema (draft 2020-12), made from the code's own limits and reasons.

A schema has a version, which is in its `$id` and in the name of its file below `docs/schemas`.
docs/messages.md says what may change within a version, and what a schema cannot express.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tallyroll import limits
from tallyroll.errors import Absent, Archived, StoreError, UsageError
from tallyroll.model import dead_letters, retractions
from tallyroll.model.events import ENTRY_FIELDS_MAX, ENVELOPE_VERSION, REFERENCE, REFERRING_VERSION
from tallyroll.model.formats.compression import COMPRESSED_VERSION, FIELD
from tallyroll.reads.http import answer_error
from tallyroll.reasons import Reason

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
REJECTION_VERSION = PROBLEM_VERSION = 1
# The characters themselves, not their escapes: each engine of regular expressions reads them alike.
_CONTROL = "[\x00-\x1f\x7f-\x9f]"
_SPAN_MS = limits.TS_MS_MAX - limits.TS_MS_MIN
_WORDS = "^[a-z]+(-[a-z]+)*$"
_WINDOW = "^[0-9]{8}T[0-9]{6}Z$"
_MS = "^[0-9]{1,15}$"
_NO_REFERENCE: dict[str, Schema | bool] = {REFERENCE: {"type": "null"}}


def event() -> Schema:
    """One event: the body of a message."""
    return _object(
        "One event, the body of an SQS message. Other fields are ignored.",
        required=["key"],
        v=_version(),
        key=_key(),
        id=_optional(
            _text(limits.ID_BYTES_MAX, _CONTROL),
            "The event's identity within its key and window, or further, as the pipeline's"
            " `identity` says. Without it, the id of the queue's message stands in, which is safe"
            " against redelivery only.",
        ),
        ts=_optional(
            _instant(),
            "When it happened, ms since 1970. Without it, the time in a UUIDv7 id, else when the"
            " message was sent.",
        ),
        value=_optional(
            _number(),
            "What it adds to the sum, with at most"
            f" {limits.VALUE_DECIMALS_MAX} decimals; 1 if absent",
        ),
        payload={"description": "Any JSON, kept with the event"},
        events=False,
        **_NO_REFERENCE,
    )


def referring() -> Schema:
    """One event with an uploaded payload: the body of a message."""
    made = event()
    text = "The version of the message's format; releases that know no references refuse 2"
    versions = {"enum": [REFERRING_VERSION, ENVELOPE_VERSION], "description": text}
    reference = _object(
        "Where the payload is: its canonical JSON, in the pipeline's bucket, under its prefix"
        " payloads/NAME/DAY/. It is good for 30 days from its upload on.",
        required=["bucket", "key", "bytes", "sha256"],
        bucket={"type": "string"},
        key={"type": "string"},
        bytes={"type": "integer", "minimum": 0},
        sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"},
    )
    return {
        **made,
        "description": "One event whose payload is larger than a message, the body of an SQS"
        " message. Other fields are ignored.",
        "required": ["key", REFERENCE],
        "properties": {
            **made["properties"],
            "v": versions,
            REFERENCE: reference,
            "payload": {"type": "null"},
        },
    }


def packet() -> Schema:
    """Many events of one key and one window under one id: the body of a message."""
    entry = {
        "type": "array",
        "description": "[dt, value, payload]: dt in ms after t0; value and payload as of an event",
        "minItems": 1,
        "maxItems": ENTRY_FIELDS_MAX,
        "prefixItems": [
            {"type": "integer", "minimum": -_SPAN_MS, "maximum": _SPAN_MS},
            _optional(_number(), "1 if absent or null"),
            {"description": "Any JSON"},
        ],
    }
    return _object(
        "Many events of one key and one window, the body of an SQS message. They count all or none."
        " Other fields are ignored.",
        required=["key", "id", "t0", "events"],
        v=_version(),
        key=_key(),
        id=_text(limits.ID_BYTES_MAX, _CONTROL)
        | {"description": "The packet's identity, within the same as an event's"},
        t0=_instant() | {"description": "The ms since 1970 from which each dt counts"},
        events={"type": "array", "minItems": 1, "items": entry},
        **_NO_REFERENCE,
    )


def compressed() -> Schema:
    """A compressed packet: the body of a message."""
    return {
        **_object(
            "A packet, compressed. It counts as the packet does. It has no other fields.",
            required=["v", FIELD],
            v={"const": COMPRESSED_VERSION, "description": "The version of the message's format"},
            zlib={
                "type": "string",
                "description": "The JSON text of the packet as a zlib stream (RFC 1950) in base64",
                "pattern": "^[A-Za-z0-9+/]+={0,2}$",
            },
        ),
        "maxProperties": 2,
    }


FORMS: dict[str, Callable[[], Schema]] = {
    "event": event,
    "packet": packet,
    "compressed": compressed,
    "referring": referring,
}
"""The forms of a message. No message has two of them: only a packet has `events`, only a referring
event has a `payload_ref`, and only a compressed packet has nothing but `zlib`, which needs no key.
"""


def message() -> Schema:
    """The body of a message, in any of its forms."""
    return {
        "description": "What a producer sends to the queue: the body of one SQS message.",
        "type": "object",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in FORMS],
        "$defs": {name: make() for name, make in FORMS.items()},
    }


def retraction() -> Schema:
    """A message that takes an event back: the body of a message, an array."""
    which = {
        name: {"required": [name], "properties": {name: {"type": kind}}}
        for name, kind in (("window", "string"), ("ts", "integer"))
    }
    fields = {
        **_object(
            "Which event, who takes it back, and why. Give either its window or its time.",
            required=["key", "id"],
            key=_key() | {"description": "The event's key, or one of its keys"},
            keys=_optional(
                {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": limits.EVENT_KEYS_MAX,
                    "items": _key(),
                },
                "All keys of the event, `key` among them; needed only if an earlier release stored"
                " it",
            ),
            id=_text(limits.ID_BYTES_MAX, _CONTROL)
            | {"description": "The event's id, or its packet's, or that of its queue message"},
            index=_optional(
                {"type": "integer", "minimum": 0, "maximum": limits.EXPANDED_BYTES_MAX},
                "Its index in the packet, from 0",
            ),
            window=_optional(
                {"type": "string", "pattern": _WINDOW}, "The window in which it happened"
            ),
            ts=_optional(_instant(), "When it happened, ms since 1970"),
            by=_kept("Who takes it back: kept with the event, and not checked"),
            why=_kept("Why: kept with the event"),
        ),
        "additionalProperties": False,
        "oneOf": [*which.values()],
    }
    return {
        "description": "Takes an event back: the body of an SQS message, by itself, in no envelope."
        " An array, so that a release which does not know it refuses it.",
        "type": "array",
        "minItems": 3,
        "maxItems": 3,
        "prefixItems": [
            {"const": retractions.MARK},
            _version(retractions.VERSION),
            fields,
        ],
    }


def rejection() -> Schema:
    """A dead letter as the writer rejects it, and as ReceiveMessage of SQS gives it."""
    attributes = {
        dead_letters.ATTRIBUTE_REASON: _attribute(
            "Why it can never count, for machines. A later release may know further reasons.",
            anyOf=[{"enum": [str(reason) for reason in Reason]}, {"pattern": _WORDS}],
        ),
        dead_letters.ATTRIBUTE_DETAIL: _attribute("What is wrong with this message, for people"),
        dead_letters.ATTRIBUTE_MESSAGE_ID: _attribute("The original message's id"),
        dead_letters.ATTRIBUTE_SENT: _attribute(
            "When the original message was sent, ms since 1970", pattern=_MS
        ),
        dead_letters.ATTRIBUTE_WINDOW: _attribute(
            "The window in which it happened, if known", pattern=_WINDOW
        ),
        dead_letters.ATTRIBUTE_TARGET: _attribute(
            "The window to which it had been redriven, if it was", pattern=_WINDOW
        ),
        dead_letters.ATTRIBUTE_BODY: _attribute(
            "Where the body is, if not here. s3: Body is then a JSON object with the members"
            " bucket, key and bytes.",
            anyOf=[{"enum": [dead_letters.BODY_IN_BUCKET]}, {"pattern": _WORDS}],
        ),
    }
    always = list(attributes)[:4]
    return _object(
        "A message in the dead-letter queue that a writer rejected, as ReceiveMessage of SQS gives"
        " it. A message without these attributes was moved there by SQS itself.",
        required=["Body", "MessageAttributes"],
        Body={"type": "string", "description": "The body as its producer sent it"},
        MessageAttributes={"type": "object", "required": always, "properties": attributes},
    )


def problem() -> Schema:
    """An error of the HTTP API: a problem document (RFC 9457)."""
    errors = (UsageError(), Absent(), Archived("", ""), Exception(), StoreError(""))
    known = [(answer.status, answer.body["title"]) for answer in map(answer_error, errors)]
    kinds: list[Schema] = [
        {"properties": {"status": {"const": status}, "title": {"const": title}}}
        for status, title in known
    ]
    others = {"properties": {"status": {"not": {"enum": [status for status, _ in known]}}}}
    archived = answer_error(Archived("", "")).status
    return {
        **_object(
            "An error of the HTTP API (RFC 9457, application/problem+json). A later release may"
            " know further statuses.",
            required=["type", "title", "status", "detail"],
            type={"type": "string", "format": "uri-reference"},
            title={"type": "string", "description": "The same for all problems of a kind"},
            status={"type": "integer", "minimum": 400, "maximum": 599},
            detail={"type": "string", "description": "What is wrong, for people"},
            archive={"type": "string", "description": "The archive's prefix in the bucket"},
        ),
        "anyOf": [*kinds, others],
        "if": {"properties": {"status": {"const": archived}}, "required": ["status"]},
        "then": {"required": ["archive"]},
    }


SCHEMAS: dict[str, tuple[int, Callable[[], Schema]]] = {
    "event": (ENVELOPE_VERSION, event),
    "packet": (ENVELOPE_VERSION, packet),
    "compressed": (COMPRESSED_VERSION, compressed),
    "referring": (REFERRING_VERSION, referring),
    "message": (ENVELOPE_VERSION, message),
    "retraction": (retractions.VERSION, retraction),
    "rejection": (REJECTION_VERSION, rejection),
    "problem": (PROBLEM_VERSION, problem),
}
"""Each schema's version, and what makes it."""


def schema_of(name: str) -> Schema:
    """The schema of this name of SCHEMAS, with its `$id`."""
    version, make = SCHEMAS[name]
    head = {"$schema": DRAFT, "$id": f"urn:tallyroll:{name}:{version}", "title": name}
    return {**head, **make()}


def file_name(name: str) -> str:
    """The name of a schema's file: `event.v1.json`."""
    return f"{name}.v{SCHEMAS[name][0]}.json"


def schema_text(name: str) -> str:
    """A schema as its file has it."""
    return json.dumps(schema_of(name), indent=2) + "\n"


def _object(text: str, required: list[str], **properties: Schema | bool) -> Schema:
    return {"description": text, "type": "object", "required": required, "properties": properties}


def _version(version: int = ENVELOPE_VERSION) -> Schema:
    return {"const": version, "description": "The version of the message's format"}


def _key() -> Schema:
    unfit = f"^{limits.KEY_RESERVED_PREFIX}|{_CONTROL}"
    text = f"What is counted: 1 to {limits.KEY_BYTES_MAX} bytes of UTF-8"
    return _text(limits.KEY_BYTES_MAX, unfit) | {"description": text}


def _text(most: int, unfit: str) -> Schema:
    """A text. `most` is a number of bytes, and a schema counts characters, of which none is less
    than a byte.
    """
    return {"type": "string", "minLength": 1, "maxLength": most, "not": {"pattern": unfit}}


def _kept(text: str) -> Schema:
    return {"type": "string", "maxLength": limits.WHY_BYTES_MAX, "description": text}


def _instant() -> Schema:
    return {"type": "integer", "minimum": limits.TS_MS_MIN, "maximum": limits.TS_MS_MAX}


def _number() -> Schema:
    """A value. The bound itself is refused by the writer, but it is also what some legal values are
    rounded to where a number is a double. So is `multipleOf`, which few validators compute exactly.
    """
    return {"type": "number", "minimum": -limits.VALUE_BOUND, "maximum": limits.VALUE_BOUND}


def _optional(schema: Schema, text: str) -> Schema:
    return {"anyOf": [{"type": "null"}, schema], "description": text}


def _attribute(text: str, **rules: Any) -> Schema:
    """A message attribute of SQS that holds a string."""
    return {
        "description": text,
        "type": "object",
        "required": ["DataType", "StringValue"],
        "properties": {"DataType": {"const": "String"}, "StringValue": {"type": "string", **rules}},
    }
