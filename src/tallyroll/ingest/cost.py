"""The cost of a commit, computed from the request, since emulators report that of transactions
wrongly.

Source: DynamoDB Developer Guide, "Amazon DynamoDB Transactions": each action of a transactional
write takes two units per KB of its item, rounded up. A cancelled transaction takes as many units as
a successful one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tallyroll.model.items import weighed
from tallyroll.model.records import Increment, Record

GATE_UNITS = 2
TALLY_UNITS = 2  # a tally stays under 1 KB


@dataclass(slots=True)
class Cost:
    """Write units and store requests, for single events and for packets."""

    units_single: float = 0.0
    units_packed: float = 0.0
    requests_single: float = 0.0
    requests_packed: float = 0.0

    @property
    def units(self) -> float:
        """All write units."""
        return self.units_single + self.units_packed

    @property
    def requests(self) -> float:
        """All store requests."""
        return self.requests_single + self.requests_packed

    def __iadd__(self, other: Cost) -> Self:
        self.units_single += other.units_single
        self.units_packed += other.units_packed
        self.requests_single += other.requests_single
        self.requests_packed += other.requests_packed
        return self


def commit_cost(records: Sequence[Record], increments: Sequence[Increment]) -> Cost:
    """The cost of one attempt. The shared cost (gate, tallies, request) is divided evenly among the
    records.
    """
    shared_units = GATE_UNITS + TALLY_UNITS * len(increments)
    packed = sum(record.packed for record in records)
    share = packed / len(records)
    units = [weighed(record).units for record in records]
    units_packed = sum(unit for unit, record in zip(units, records, strict=True) if record.packed)
    return Cost(
        units_single=sum(units) - units_packed + shared_units * (1 - share),
        units_packed=units_packed + shared_units * share,
        requests_single=1 - share,
        requests_packed=share,
    )
