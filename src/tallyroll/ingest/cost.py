"""The cost of commits, shared out among single events, packets and leaves of logs, and the sizes of
the items of events and packets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Self

from tallyroll.model.records import Increment, Record
from tallyroll.ports.store import Metering

SIZES_KEPT = 64  # of a batch, evenly spread; its metric takes at most 100 values in one record


@dataclass(slots=True)
class ItemSizes:
    """Some of the sizes, in bytes, of the items that a batch stored, leaves of logs left out."""

    some: list[int] = field(default_factory=list)

    def add(self, records: Sequence[Record]) -> None:
        """Add those of stored records, and of what is beside them."""
        sizes = [record.size for record in records]
        for record in records:
            if record.attachments:
                sizes += [each.size for each in record.attachments]
        room = SIZES_KEPT - len(self.some)
        if room and sizes:
            self.some += sizes[:: -(-len(sizes) // room)]


@dataclass(slots=True)
class LogCounts:
    """How a batch's entries were logged. It counts the leaves that were put, their entries, the
    positions that were lost to other writers, and the slots that were read, ended, or found full.
    """

    leaves: int = 0
    entries: int = 0
    lost: int = 0
    slots: int = 0
    ended: int = 0
    full: int = 0

    def add(self, other: LogCounts) -> None:
        """Add those of other entries."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True)
class WriteCost:
    """What writes cost in the store's measure, and requests to it, for single events, for packets,
    and for leaves of logs.
    """

    single: float = 0.0
    packed: float = 0.0
    requests_single: float = 0.0
    requests_packed: float = 0.0
    logged: float = 0.0
    requests_logged: float = 0.0

    @property
    def total(self) -> float:
        """The cost of all writes."""
        return self.single + self.packed + self.logged

    @property
    def requests(self) -> float:
        """All requests."""
        return self.requests_single + self.requests_packed + self.requests_logged

    def __iadd__(self, other: WriteCost) -> Self:
        self.single += other.single
        self.packed += other.packed
        self.requests_single += other.requests_single
        self.requests_packed += other.requests_packed
        self.logged += other.logged
        self.requests_logged += other.requests_logged
        return self


def commit_cost(
    records: Sequence[Record], increments: Sequence[Increment], metering: Metering
) -> WriteCost:
    """The cost of one attempt. What records share (the request, for instance) is divided evenly
    among them. Leaves of logs are in commits of their own.
    """
    shared = metering.shared_cost(len(increments))
    if records[0].logged:
        return WriteCost(logged=shared + sum(map(metering.record_cost, records)), requests_logged=1)
    share = sum(record.packed for record in records) / len(records)
    costs = [
        (record.packed, metering.record_cost(record) + metering.identities_cost(record))
        for record in records
    ]
    packed = sum(cost for is_packed, cost in costs if is_packed)
    return WriteCost(
        single=sum(cost for _, cost in costs) - packed + shared * (1 - share),
        packed=packed + shared * share,
        requests_single=1 - share,
        requests_packed=share,
    )
