"""Cursors of events and keys over a range, signed with the catalog's secret.

A cursor says which query it belongs to and where that goes on: no state is kept for it, so it
survives a restart. The signature lets no caller make one.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from tallyroll.errors import Missing, UsageError
from tallyroll.model.amounts import shown
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.states import Calendar
from tallyroll.model.windows import Span, iso
from tallyroll.reads.cursor import Position

RANGE_VERSION = "r1"
KEYS_VERSION = "k1"
NO_SECRET = "NoSecret"  # noqa: S105 - a code
_SIGNATURE_BYTES = 16
BEGIN = Position()


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """The events of `key` in a span of windows."""

    key: str
    span: Span
    packed: bool = False


@dataclass(frozen=True, slots=True)
class KeysQuery:
    """The keys that begin with `prefix` in a span of windows."""

    span: Span
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class RangePlace:
    """A position within the window that starts at `window` (ms)."""

    window: int
    position: Position = BEGIN


def secret_of(calendar: Calendar) -> str:
    """The secret with which cursors are signed. Raises Missing."""
    if not calendar.secret:
        raise Missing(
            "this pipeline has no secret yet with which cursors are signed: its roller puts it at"
            " its first run of this release, within minutes; then ask again",
            NO_SECRET,
        )
    return calendar.secret


def range_cursor(secret: str, query: RangeQuery, place: RangePlace) -> str:
    """The cursor of a place."""
    at = (place.window, place.position.record_id, place.position.index)
    span = query.span
    fields = [RANGE_VERSION, query.key, span.start, span.end, query.packed, *at]
    return _signed(secret, fields)


def keys_cursor(secret: str, query: KeysQuery, last: str) -> str:
    """The cursor behind the key `last`; "": at the beginning."""
    return _signed(secret, [KEYS_VERSION, query.span.start, query.span.end, query.prefix, last])


def read_range_cursor(cursor: str, secret: str) -> tuple[RangeQuery, RangePlace]:
    """The query and the place of a cursor. Raises UsageError if it is none of this pipeline."""
    key, since, until, packed, *at = _fields(cursor, secret, RANGE_VERSION)
    window, record_id, index = at
    return RangeQuery(key, Span(since, until), packed), RangePlace(
        window, Position(record_id, index)
    )


def read_keys_cursor(cursor: str, secret: str) -> tuple[KeysQuery, str]:
    """The query of a cursor, and the key that it goes on behind. Raises UsageError if it is none
    of this pipeline.
    """
    since, until, prefix, last = _fields(cursor, secret, KEYS_VERSION)
    return KeysQuery(Span(since, until), prefix), last


def check_query(asked: RangeQuery, its: RangeQuery, since: int | None, until: int | None) -> None:
    """Raise UsageError unless a cursor belongs to what is asked: `since` and `until` may be left
    out.
    """
    given = Span(
        its.span.start if since is None else since, its.span.end if until is None else until
    )
    if replace(asked, span=given) != its:
        raise UsageError(
            f"the cursor belongs to key {its.key!r}, since {iso(its.span.start)}, until"
            f" {iso(its.span.end)}, packed {str(its.packed).lower()}: ask with the same, or begin"
            " again without it"
        )


def check_keys_query(
    asked: KeysQuery, its: KeysQuery, since: int | None, until: int | None
) -> None:
    """Raise UsageError unless a cursor belongs to what is asked: `since` and `until` may be left
    out.
    """
    given = Span(
        its.span.start if since is None else since, its.span.end if until is None else until
    )
    if replace(asked, span=given) != its:
        raise UsageError(
            f"the cursor belongs to keys since {iso(its.span.start)}, until {iso(its.span.end)},"
            f" with the prefix {its.prefix!r}: ask with the same, or begin again without it"
        )


def _signed(secret: str, fields: Sequence[Any]) -> str:
    body = canonical(fields).encode()
    return base64.urlsafe_b64encode(_signature(secret, body) + body).decode().rstrip("=")


def _fields(cursor: str, secret: str, version: str) -> list[Any]:
    """What a cursor says behind its version."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, _signature(secret, body)):
            raise ValueError
        fields: list[Any] = json.loads(body)
        its = fields.pop(0)
    except ValueError:
        raise UsageError(
            f"cursor {shown(cursor)}: is none of this pipeline for a range, or damaged; give one as"
            " an answer gave it, or begin again without it"
        ) from None
    if its != version:
        raise UsageError(f"cursor of version {shown(its)}: begin again without it")
    return fields


def _signature(secret: str, body: bytes) -> bytes:
    return hmac.new(secret.encode(), body, sha256).digest()[:_SIGNATURE_BYTES]
