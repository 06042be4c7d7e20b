"""What a window table is made with, and what it keeps when its window is cold."""

from __future__ import annotations

from tallyroll.limits import WARM_READ_UNITS_MIN, WARM_WRITE_UNITS_MIN
from tallyroll.ports.store import Capacity
from tallyroll.settings import Settings

HEADROOM = 1.5  # over the peak of the last windows


def hot_capacity(settings: Settings, peak: int) -> Capacity | None:
    """The capacity of a new table; `peak` are the write units a second of the last windows' peak.

    None: on demand as AWS gives it, which takes 4,000 write and 12,000 read units at once (DynamoDB
    Developer Guide, "DynamoDB on-demand capacity mode"). Warm throughput is charged for each table.
    """
    units = settings.provisioned
    if units:
        return Capacity(units["write"], units["read"], provisioned=True)
    followed = min(settings.warm_units_max, round(HEADROOM * peak))
    write = max(settings.warm_units, followed)
    if write <= WARM_WRITE_UNITS_MIN:
        return None
    return Capacity(write, WARM_READ_UNITS_MIN)


def cold_capacity(settings: Settings) -> Capacity:
    """The capacity of a provisioned table whose window is sealed: for its export and a few reads.

    One decrease a table: AWS allows few a day (DynamoDB Developer Guide, "Quotas").
    """
    units = settings.provisioned
    return Capacity(units["cold_write"], units["cold_read"], provisioned=True)
