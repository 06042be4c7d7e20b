"""Times in texts: RFC 3339, the form of EventBridge, SNS, S3 and CloudEvents."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tallyroll import limits
from tallyroll.errors import Rejected
from tallyroll.model.amounts import shown
from tallyroll.reasons import Reason

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def read_time(text: str, name: str) -> int:
    """The time (ms) in an RFC 3339 text, cut to whole ms. Raises Rejected (bad-ts) with `name`."""
    try:
        if not _RFC_3339.fullmatch(text):
            raise ValueError(text)
        ts = (datetime.fromisoformat(text.upper()) - _EPOCH) // _MS
    except ValueError:
        raise Rejected(
            Reason.BAD_TS,
            f"{name} {shown(text)}: must be a time with its offset, as 2026-11-20T08:30:00Z",
        ) from None
    if not limits.TS_MS_MIN <= ts <= limits.TS_MS_MAX:
        raise Rejected(Reason.BAD_TS, f"{name} {shown(text)}: must lie from 1973 to 9999")
    return ts
