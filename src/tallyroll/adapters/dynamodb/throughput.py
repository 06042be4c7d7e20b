"""DynamoDB's throughput: what writes cost, which limits they can exceed, and what tables are given.

Costs are computed from the requests, since emulators report those of transactions wrongly. Sources:
DynamoDB Developer Guide, "Amazon DynamoDB Transactions", "DynamoDB on-demand capacity mode" and
"Quotas".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from tallyroll.limits import (
    ACTION_UNITS,
    ELEMENT_BYTES_MAX,
    ELEMENTS_MAX,
    PARTITION_WRITE_UNITS,
    TRANSACTION_BYTES_PLANNED,
    WARM_READ_UNITS_MIN,
    WARM_WRITE_UNITS_MIN,
    record_units,
    shared_units,
)
from tallyroll.model.items import sized, tombstone_bytes
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.ports.store import LIMIT_OF_IDENTITIES, Metering
from tallyroll.settings import Settings

HEADROOM = 1.5  # of warm throughput over the peak of the last windows


class Limit(StrEnum):
    """The limit that a throttled write exceeded, as far as DynamoDB reported it."""

    KEY_RANGE = "key-range"  # throughput of one partition: a hot shard
    # An on-demand table that grows, or a hot shard in it: a cancelled transaction names neither.
    SCALING = "scaling"
    PROVISIONED = "provisioned"  # a table's provisioned capacity
    ON_DEMAND_MAX = "on-demand-max"  # the configured maximum of an on-demand table
    ACCOUNT = "account"  # the account's quota
    IDENTITIES = LIMIT_OF_IDENTITIES  # any of these, of the table of identities
    OTHER = "other"  # no reason was given


OF_KEY = (Limit.KEY_RANGE,)
OF_TABLE = (Limit.PROVISIONED, Limit.ON_DEMAND_MAX, Limit.ACCOUNT)
"""The limits of which it is known what they bound: one partition, so a key; or the whole table."""


class TransactionMetering(Metering):
    """Write units of transactions. A cancelled one takes as many as a successful one."""

    def record_cost(self, record: Record) -> int:
        units = record_units(record.size or sized(record).size)
        if record.attachments:
            units += sum(record_units(each.size) for each in record.attachments)
        return units

    def identities_cost(self, record: Record) -> int:
        return sum(record_units(each.size) for each in record.identities)

    def tombstone_cost(self, tombstone: Tombstone) -> int:
        return record_units(tombstone_bytes(tombstone))

    def shared_cost(self, increments: int) -> int:
        return shared_units(increments, 1)

    def likely_increments(self, cost: int, seconds: int) -> int:
        """One transaction per record, up to one a second, and full transactions beyond that."""
        records = -(-cost // ACTION_UNITS)
        full = -(-records // (self.elements_max - 1))
        return min(records, full + seconds)

    def total_cost(self, cost: int, increments: int) -> int:
        """With a gate for each full transaction."""
        gates = -(-(cost // ACTION_UNITS + increments) // self.elements_max)
        return cost + shared_units(increments, gates)


METERING = TransactionMetering(
    elements_max=ELEMENTS_MAX,
    bytes_max=TRANSACTION_BYTES_PLANNED,
    element_bytes=ELEMENT_BYTES_MAX,
    # Half of a partition's throughput. The other half is for shorter peaks, for shards that share
    # a partition, and for growth until the next window.
    shard_cost_max=PARTITION_WRITE_UNITS // 2,
)


def costs_by_key(records: Iterable[Record]) -> Counter[str]:
    """What storing each key's records costs, for its tally."""
    costs: Counter[str] = Counter()
    for record in records:
        costs[record.key] += METERING.record_cost(record)
    return costs


def costs_by_stripe(tombstones: Iterable[Tombstone]) -> Counter[tuple[str, int]]:
    """What storing tombstones costs, for the stripes, (key, number), that they take from."""
    costs: Counter[tuple[str, int]] = Counter()
    for each in tombstones:
        costs[each.key, each.stripe] += METERING.tombstone_cost(each)
    return costs


def new_throughput(settings: Settings, peak: int) -> dict[str, Any]:
    """CreateTable's parameters for the throughput of a new table; `peak` is that of the last
    windows, in write units a second.

    Without any it is on demand with AWS's default, 4,000 write and 12,000 read units a second. More
    warm throughput is charged for each table.
    """
    if settings.provisioned:
        return {
            "BillingMode": "PROVISIONED",
            "ProvisionedThroughput": _provisioned(settings, "write", "read"),
        }
    warm = warm_units(settings, peak)
    if not warm:
        return {}
    units = {"WriteUnitsPerSecond": warm, "ReadUnitsPerSecond": WARM_READ_UNITS_MIN}
    return {"WarmThroughput": units}


def warm_units(settings: Settings, peak: int) -> int:
    """The warm throughput of a new table on demand, in write units a second; 0: AWS's default."""
    warm = max(settings.warm_units, min(settings.warm_units_max, round(HEADROOM * peak)))
    return warm if warm > WARM_WRITE_UNITS_MIN else 0


def cold_throughput(settings: Settings) -> dict[str, int]:
    """The provisioned throughput of a table whose window is sealed: enough for its export and a few
    reads.

    A table is decreased only once: AWS allows few decreases a day.
    """
    return _provisioned(settings, "cold_write", "cold_read")


def _provisioned(settings: Settings, write: str, read: str) -> dict[str, int]:
    units = settings.provisioned
    return {"WriteCapacityUnits": units[write], "ReadCapacityUnits": units[read]}
