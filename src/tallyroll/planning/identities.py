"""What ids take that stay taken beyond their windows: each is an item of a table of its own, put in
the transaction of its record. Names of items are hashes, so no key is hot there.

Sources: [warm] DynamoDB Developer Guide, "Understanding DynamoDB warm throughput"; [ttl] the same,
"Using time to live (TTL) in DynamoDB": deletions take no write units.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tallyroll.limits import (
    IDENTITY_COPIES_DAYS,
    IDENTITY_UNITS,
    PARTITION_WRITE_UNITS,
    WARM_UNITS_MAX,
    WARM_WRITE_UNITS_MIN,
)
from tallyroll.planning import prices
from tallyroll.planning.load import PeakLoad
from tallyroll.settings import Settings

HEADROOM = 1.25  # of warm throughput over the peak
ITEM_BYTES = 124  # of an item, with a key of ten bytes; a test compares
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class IdentityLoad:
    """What the table of identities takes, of all windows together.

    each: write units an event
    units: write units a second at the peak
    warm_units: its warm throughput for that; 0: what a new table has is enough
    days: how long an item stays, which is the least that an id stays taken and what its copies need
    items: how many there are at once, after so many days at the mean rate
    """

    each: float
    units: float
    warm_units: int
    days: int
    items: float

    @property
    def stored_gb(self) -> float:
        """GB at once, as they are billed."""
        return self.items * (ITEM_BYTES + prices.ITEM_OVERHEAD_BYTES) / prices.GB


def identities_of(load: PeakLoad, settings: Settings) -> IdentityLoad | None:
    """What identities take of a load, each message of which has an id of its own; None if ids count
    once in their windows.
    """
    if not settings.remembers_ids:
        return None
    units = load.messages_per_second * IDENTITY_UNITS
    warm = ceil(units * HEADROOM / PARTITION_WRITE_UNITS) * PARTITION_WRITE_UNITS
    days = settings.identity_days + IDENTITY_COPIES_DAYS
    return IdentityLoad(
        each=IDENTITY_UNITS / load.events_each,
        units=units,
        warm_units=min(WARM_UNITS_MAX, warm) if units > WARM_WRITE_UNITS_MIN else 0,
        days=days,
        items=load.mean / load.events_each * days * DAY_SECONDS,
    )
