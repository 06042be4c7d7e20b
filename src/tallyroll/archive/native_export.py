"""DynamoDB's native export of a sealed table: started once per attempt, then waited for."""

from __future__ import annotations

from tallyroll.errors import Refused
from tallyroll.model.states import Status, Window
from tallyroll.ports.exports import PointInTime

SEALED_FOR_MS = 5 * 60_000  # the exported state is this long after sealing, as clocks may differ
# DynamoDB may forget a client token after 8 hours (API Reference, ExportTableToPointInTime).
UNBEGUN_MS = 7 * 3_600_000
_SECOND_MS = 1_000


def time_to_export(window: Window, exports: PointInTime) -> int | None:
    """The time (ms) whose table state an attempt exports; None if DynamoDB cannot export the table.
    Raises Missing if the table does not exist.

    It is the latest restorable time, or five minutes after sealing if that is later. The state is
    that of sealing, since all gates were shut before.
    """
    range_ms = exports.restorable(window.table)
    if range_ms is None:
        return None
    earliest, latest = range_ms
    wanted = max(window.times[Status.SEALED] + SEALED_FOR_MS, earliest)
    return max(-(-wanted // _SECOND_MS), latest // _SECOND_MS) * _SECOND_MS


def begin(window: Window, exports: PointInTime, bucket: str, now: int) -> str | None:
    """Start the current attempt's export. Returns its ARN, or None if its time cannot be restored
    yet.

    The client token is the attempt's, so a call whose reply was lost can be repeated without a
    second export. The attempt ends before DynamoDB may forget the token, and the next one has a
    prefix of its own. Raises StoreError: Refused if this attempt cannot succeed.
    """
    if now >= window.times[Status.EXPORTING] + UNBEGUN_MS:
        raise Refused("it could not be begun for hours", "NotBegun")
    range_ms = exports.restorable(window.table)
    if range_ms is None:
        raise Refused(f"point-in-time recovery of {window.table} was switched off", "NoRecovery")
    attempt = window.attempt
    if range_ms[1] < attempt.export_at:
        return None
    token = f"tallyroll-{attempt.id}"
    return exports.start(window.table, bucket, attempt.archive, attempt.export_at, token)
