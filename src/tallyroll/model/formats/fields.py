"""The fields that identify and date an event: what is legal in them."""

from __future__ import annotations

import re
from typing import Any

from tallyroll import limits
from tallyroll.errors import Rejected
from tallyroll.model.amounts import shown
from tallyroll.reasons import Reason

_KEY_TEXT = f"a text of 1 to {limits.KEY_BYTES_MAX} bytes"
_ID_TEXT = f"a text of 1 to {limits.ID_BYTES_MAX} bytes"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")  # all of Unicode's category Cc


def check_key(key: Any) -> str:
    """`key`, if it is a legal key of an event. Raises Rejected (bad-key)."""
    if key is None:
        raise Rejected(Reason.BAD_KEY, f"key is missing: give {_KEY_TEXT}")
    if not isinstance(key, str) or not key:
        raise Rejected(Reason.BAD_KEY, f"key {shown(key)}: must be {_KEY_TEXT}")
    problem = _unfit(key, limits.KEY_BYTES_MAX)
    if key.startswith(limits.KEY_RESERVED_PREFIX):
        problem = f"must not start with {limits.KEY_RESERVED_PREFIX!r}, which is reserved"
    if problem:
        raise Rejected(Reason.BAD_KEY, f"key {shown(key)}: {problem}")
    return key


def check_id(record_id: Any) -> str | None:
    """`record_id`, if it is a legal id of an event, or None. Raises Rejected (bad-id)."""
    if record_id is None:
        return None
    if not isinstance(record_id, str) or not record_id:
        raise Rejected(Reason.BAD_ID, f"id {shown(record_id)}: must be {_ID_TEXT}, or left out")
    if problem := _unfit(record_id, limits.ID_BYTES_MAX):
        raise Rejected(Reason.BAD_ID, f"id {shown(record_id)}: {problem}")
    return record_id


def _unfit(text: str, bytes_max: int) -> str | None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "holds a lone surrogate, which is not text"
    if size > bytes_max:
        return f"has {size} bytes, over {bytes_max}"
    if _CONTROL.search(text):
        return "holds a control character"
    return None


def check_ts(ts: Any, name: str) -> int | None:
    """`ts`, if it is a legal time (ms), or None; `name` is what the producer calls it. Raises
    Rejected (bad-ts, ts-in-seconds).
    """
    if ts is None:
        return None
    if isinstance(ts, bool) or not isinstance(ts, int):
        raise Rejected(
            Reason.BAD_TS, f"{name} {shown(ts)}: must be a whole number of ms since the epoch"
        )
    if ts < 0:
        raise Rejected(Reason.BAD_TS, f"{name} {shown(ts)}: must not be negative")
    if ts < limits.TS_MS_MIN:
        raise Rejected(
            Reason.TS_IN_SECONDS, f"{name} {ts} looks like seconds: give ms since the epoch"
        )
    if ts > limits.TS_MS_MAX:
        raise Rejected(Reason.BAD_TS, f"{name} {shown(ts)} lies after the year 9999")
    return ts
