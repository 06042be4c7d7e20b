"""Cursors of events over a range, signed with the catalog's secret.

A cursor says which query it belongs to and where that goes on: no state is kept for it, so it
survives a restart. The signature lets no caller make one.
"""

from __future__ import annotations

import base64
import hmac
import json
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
    body = canonical(fields).encode()
    return base64.urlsafe_b64encode(_signature(secret, body) + body).decode().rstrip("=")


def read_range_cursor(cursor: str, secret: str) -> tuple[RangeQuery, RangePlace]:
    """The query and the place of a cursor. Raises UsageError if it is none of this pipeline."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, _signature(secret, body)):
            raise ValueError
        version, key, since, until, packed, window, record_id, index = _fields(body)
    except ValueError:
        raise UsageError(
            f"cursor {shown(cursor)}: is none of this pipeline for a range, or damaged; give one as"
            " an answer gave it, or begin again without it"
        ) from None
    if version != RANGE_VERSION:
        raise UsageError(f"cursor of version {shown(version)}: begin again without it")
    return RangeQuery(key, Span(since, until), packed), RangePlace(
        window, Position(record_id, index)
    )


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


def _fields(body: bytes) -> list[Any]:
    fields = json.loads(body)
    if not isinstance(fields, list):
        raise ValueError  # noqa: TRY004 - as for any other text
    return [fields[0], *([None] * 7)] if fields[0] != RANGE_VERSION else fields


def _signature(secret: str, body: bytes) -> bytes:
    return hmac.new(secret.encode(), body, sha256).digest()[:_SIGNATURE_BYTES]
