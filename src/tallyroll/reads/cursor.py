"""Cursors: opaque texts that say where a listing of events continues."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from tallyroll.errors import UsageError
from tallyroll.model.amounts import shown
from tallyroll.model.formats.json_texts import canonical
from tallyroll.model.windows import WindowId

CURSOR_VERSION = 1
_CHECK_BYTES = 6


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two events: after the record with this id ("": before all records), or, with
    an index, after that event within the packet with this id.
    """

    record_id: str = ""
    index: int | None = None


def cursor_of(window: WindowId, key: str, position: Position, *, packed: bool) -> str:
    """The cursor of a position."""
    fields = [CURSOR_VERSION, window, key, packed, position.record_id, position.index]
    body = canonical(fields).encode()
    return base64.urlsafe_b64encode(_check(body) + body).decode().rstrip("=")


def read_cursor(cursor: str, window: WindowId, key: str, *, packed: bool) -> Position:
    """The position of a cursor.

    Raises UsageError if it is malformed, of an unknown version, or belongs to another query.
    """
    fields = _cursor_fields(cursor)
    version = fields[0] if isinstance(fields, list) and fields else None
    if version != CURSOR_VERSION:
        raise UsageError(f"cursor of version {shown(version)}: begin again without it")
    match fields[1:]:
        case [its_window, its_key, its_packed, str(record_id), (int() | None) as index] if (
            index is None or index >= 0
        ):
            pass
        case _:
            raise _damaged(cursor)
    if (its_window, its_key, its_packed) != (window, key, packed):
        raise UsageError(
            f"the cursor belongs to key {its_key!r}, window {its_window}, packed"
            f" {str(its_packed).lower()}: ask with the same, or begin again without it"
        )
    return Position(record_id, index)


def _cursor_fields(cursor: str) -> Any:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        body = raw[_CHECK_BYTES:]
        whole = base64.urlsafe_b64encode(raw).decode() == padded
        if not whole or raw[:_CHECK_BYTES] != _check(body):
            raise ValueError
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _damaged(cursor) from None


def _damaged(cursor: str) -> UsageError:
    return UsageError(f"cursor {shown(cursor)}: is none, or damaged; give one as an answer gave it")


def _check(body: bytes) -> bytes:
    """A checksum against mistakes, not malice: a cursor gives no access beyond its query's."""
    return blake2b(body, digest_size=_CHECK_BYTES, person=b"cursor").digest()
