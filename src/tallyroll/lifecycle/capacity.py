"""The capacity of a window table: when it is new, and after its window was sealed."""

from __future__ import annotations

from tallyroll.limits import WARM_READ_UNITS_MIN, WARM_WRITE_UNITS_MIN
from tallyroll.ports.store import Capacity
from tallyroll.settings import Settings

HEADROOM = 1.5  # over the peak of the last windows


def hot_capacity(settings: Settings, peak: int) -> Capacity | None:
    """The capacity of a new table; `peak` is that of the last windows, in write units a second.

    None: on demand with AWS's default, 4,000 write and 12,000 read units a second (DynamoDB
    Developer Guide, "DynamoDB on-demand capacity mode"). More warm throughput is charged for each
    table.
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
    """The capacity of a provisioned table whose window is sealed: enough for its export and a few
    reads.

    A table is decreased only once: AWS allows few decreases a day (DynamoDB Developer Guide,
    "Quotas").
    """
    units = settings.provisioned
    return Capacity(units["cold_write"], units["cold_read"], provisioned=True)
