"""DynamoDB's native export of a sealed table: started once per attempt, then waited for."""

from __future__ import annotations

from tallyroll.errors import Refused
from tallyroll.model.states import Status, Window
from tallyroll.ports.exports import PointInTime

SEALED_FOR_MS = 5 * 60_000  # the exported state is this long after sealing, as clocks may differ
TOKEN_HOURS = 8  # DynamoDB API Reference, ExportTableToPointInTime, ClientToken
UNBEGUN_MS = (TOKEN_HOURS - 1) * 3_600_000
# The earliest restorable time moves with the clock once the recovery period is over. An attempt may
# wait UNBEGUN_MS for its export to begin, and its time must be restorable until then.
EARLIEST_MARGIN_MS = TOKEN_HOURS * 3_600_000
_SECOND_MS = 1_000


def time_to_export(window: Window, exports: PointInTime) -> int | None:
    """The time (ms) whose table state an attempt exports; None if DynamoDB cannot export the table.
    Raises Missing if the table does not exist.

    It is five minutes after sealing, which may still lie a few minutes in the future. If that time
    can no longer be restored, it is the earliest time that stays restorable while the attempt may
    wait. Both states are equal, since all gates were shut before.

    DynamoDB restores the last 35 days at most (DynamoDB Developer Guide, "Point-in-time backups for
    DynamoDB"), and a window may be kept longer, or cleanup may be delayed.
    """
    range_ms = exports.restorable(window.table)
    if range_ms is None:
        return None
    earliest, latest = range_ms
    staying = max(earliest, min(earliest + EARLIEST_MARGIN_MS, latest))
    wanted = max(window.times[Status.SEALED] + SEALED_FOR_MS, staying)
    return -(-wanted // _SECOND_MS) * _SECOND_MS


def begin(window: Window, exports: PointInTime, bucket: str, now: int) -> str | None:
    """Start the current attempt's export. Returns its ARN, or None if its time cannot be restored
    yet.

    The client token is the attempt's, so a call whose reply was lost can be repeated without a
    second export. DynamoDB may forget the token after 8 hours, so the attempt ends before that and
    the next one has a prefix of its own. Raises StoreError: Refused if this attempt cannot succeed.
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
