"""What packing saves: an estimate of DynamoDB's write units, from what is sent.

It takes full batches of the writer and no conflicts, as `make costs` does.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Self

from tallyroll.limits import ELEMENTS_MAX, IDENTITY_UNITS, record_units, shared_units

BATCH_RECORDS = 980
ITEM_BYTES = 150  # of a record's item, beside its key and its data


@dataclass(slots=True)
class Writes:
    """Records that are written in the order in which they are added: their number of events and
    their write units, `with_ids` if their ids stay taken beyond the window.
    """

    events: int = 0
    with_ids: bool = False
    _units: int = 0
    _records: int = 0
    _tallies: set[tuple[int, str]] = field(default_factory=set)

    def add(self, window: int, key: str, size: int, events: int = 1) -> None:
        """Add a record of a key in the window that starts then (ms), with so many bytes of data."""
        self.events += events
        self._units += record_units(ITEM_BYTES + len(key) + size) + self.with_ids * IDENTITY_UNITS
        self._records += 1
        self._tallies.add((window, key))
        if self._records == BATCH_RECORDS:
            self._units += self._shared
            self._records = 0
            self._tallies.clear()

    @property
    def _shared(self) -> int:
        """The units of the tallies and gates of the batch."""
        elements = self._records * (1 + self.with_ids) + len(self._tallies)
        windows = len({window for window, _ in self._tallies})
        transactions = max(-(-elements // ELEMENTS_MAX), windows)
        return shared_units(max(len(self._tallies), transactions), transactions)

    @property
    def each(self) -> float:
        """Write units an event."""
        return (self._units + self._shared) / self.events if self.events else 0.0


@dataclass(slots=True)
class Savings:
    """What the packets that were sent take, and what events take of which each is sent alone."""

    packets: int = 0
    packed: Writes = field(default_factory=Writes)
    alone: Writes = field(default_factory=Writes)

    @classmethod
    def estimated(cls, *, with_ids: bool) -> Self:
        """Of nothing yet; `with_ids` if ids stay taken beyond their windows."""
        return cls(packed=Writes(with_ids=with_ids), alone=Writes(with_ids=with_ids))

    def add_packet(self, window: int, key: str, body: str, events: int) -> None:
        """Add a packet. Records hold packets compressed."""
        self.packets += 1
        self.packed.add(window, key, len(zlib.compress(body.encode())), events)
