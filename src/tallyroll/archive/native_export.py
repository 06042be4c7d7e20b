"""DynamoDB's own export of a sealed table: begun once per attempt, then waited for."""

from __future__ import annotations

from tallyroll.errors import Refused
from tallyroll.model.states import Status, Window
from tallyroll.ports.exports import PointInTime

SEALED_FOR_MS = 5 * 60_000  # the exported state is that long after sealing: clocks may differ
TOKEN_HOURS = 8  # DynamoDB API Reference, ExportTableToPointInTime, ClientToken
UNBEGUN_MS = (TOKEN_HOURS - 1) * 3_600_000
# The earliest restorable time moves with the clock once the recovery period is over. An attempt may
# wait UNBEGUN_MS for its export to begin, and its time must be restorable until then.
EARLIEST_MARGIN_MS = TOKEN_HOURS * 3_600_000
_SECOND_MS = 1_000


def time_to_export(window: Window, exports: PointInTime) -> int | None:
    """The time, ms, of the table's state that an attempt shall take; None if DynamoDB cannot export
    this table. Raises Missing if the table is gone.

    It is five minutes after sealing. Where that can no longer be restored, it is the earliest time
    that stays restorable for as long as the attempt may wait. DynamoDB exports from the last 35
    days at the most (DynamoDB Developer Guide, "Point-in-time backups for DynamoDB"), and a window
    may be kept longer, or cleanup may come late. The two states are the same: all gates were shut
    before.

    It may lie a few minutes ahead of what can be restored yet.
    """
    range_ms = exports.restorable(window.table)
    if range_ms is None:
        return None
    earliest, latest = range_ms
    staying = max(earliest, min(earliest + EARLIEST_MARGIN_MS, latest))
    wanted = max(window.times[Status.SEALED] + SEALED_FOR_MS, staying)
    return -(-wanted // _SECOND_MS) * _SECOND_MS


def begin(window: Window, exports: PointInTime, bucket: str, now: int) -> str | None:
    """Begin the current attempt's export, give its ARN; None if its time cannot be restored yet.

    The token is the attempt's, so that a call whose reply was lost is repeated without a second
    export; before it may be forgotten, only another attempt under a prefix of its own is safe.
    Raises StoreError: Refused if nothing can come of this attempt.
    """
    assert window.archive
    assert window.attempt
    assert window.export_at is not None
    if now >= window.times[Status.EXPORTING] + UNBEGUN_MS:
        raise Refused("it could not be begun for hours", "NotBegun")
    range_ms = exports.restorable(window.table)
    if range_ms is None:
        raise Refused(f"point-in-time recovery of {window.table} was switched off", "NoRecovery")
    if range_ms[1] < window.export_at:
        return None
    return exports.start(
        window.table, bucket, window.archive, window.export_at, f"tallyroll-{window.attempt}"
    )
