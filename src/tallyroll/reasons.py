"""The reasons for which a message is rejected; docs/reasons.md says what each means.

A new one is a value here, and `raise Rejected(Reason.X, detail)` where it is found.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a message was rejected: the dead-letter queue's attribute `tallyroll-reason`."""

    EMPTY_BODY = "empty-body"
    NOT_JSON = "not-json"
    NOT_AN_OBJECT = "not-an-object"
    UNKNOWN_VERSION = "unknown-version"
    BAD_ENVELOPE = "bad-envelope"
    BAD_COMPRESSION = "bad-compression"
    MAPPING_FAILED = "mapping-failed"
    BAD_KEY = "bad-key"
    BAD_ID = "bad-id"
    BAD_TS = "bad-ts"
    TS_IN_SECONDS = "ts-in-seconds"
    TS_REQUIRED = "ts-required"
    BAD_VALUE = "bad-value"
    BAD_PAYLOAD = "bad-payload"
    BAD_REFERENCE = "bad-reference"
    BAD_PACKET = "bad-packet"
    PACKET_EMPTY = "packet-empty"
    PACKET_MIXED_KEYS = "packet-mixed-keys"
    PACKET_MIXED_WINDOWS = "packet-mixed-windows"
    PACKET_OWN_IDS = "packet-own-ids"
    PACKET_TOO_LARGE = "packet-too-large"
    ITEM_TOO_LARGE = "item-too-large"
    TOO_FAR_AHEAD = "too-far-ahead"
    TOO_LATE = "too-late"
    NOT_OPEN_WHEN_SENT = "not-open-when-sent"
    WINDOW_SEALED = "window-sealed"
    ID_CONFLICT = "id-conflict"
    REFUSED_BY_STORE = "refused-by-store"
    CRASHES_WRITER = "crashes-writer"
    EXPIRING = "expiring"
    NOT_CLAIMED = "not-claimed"
    BAD_RETRACTION = "bad-retraction"
    RETRACTION_OFF = "retraction-off"
    RETRACTION_NOT_AUTHORIZED = "retraction-not-authorized"
    RETRACTION_UNPROVEN = "retraction-unproven"
    NOTHING_TO_RETRACT = "nothing-to-retract"
