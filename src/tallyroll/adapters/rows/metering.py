"""What writes of single rows cost: a unit per KB of a row, conditional or not; and reads with
LOCAL_QUORUM.

Source: Amazon Keyspaces Developer Guide, "Read/write capacity modes" and "Quotas".
"""

from __future__ import annotations

from tallyroll.limits import PARTITION_WRITE_UNITS, READ_UNIT_BYTES, UNIT_BYTES, write_units
from tallyroll.model.formats.payloads import manifest_in
from tallyroll.model.items import sized
from tallyroll.model.records import Record
from tallyroll.model.tallies import ReadCost
from tallyroll.ports.store import Metering

ROW_BYTES_MAX = 1_000_000
ROWS_MAX = 100  # of one commit, after which a gate is read


class RowMetering(Metering):
    """Write units of rows and their chunks; a gate is only read."""

    def record_cost(self, record: Record) -> int:
        manifest = manifest_in(record.data, record.format)
        chunks = write_units(manifest.stored) + manifest.count if manifest else 0
        return write_units(sized(record).size) + chunks

    def shared_cost(self, increments: int) -> int:  # noqa: ARG002 - the port's
        return 0

    def likely_increments(self, cost: int, seconds: int) -> int:  # noqa: ARG002 - the port's
        return 0

    def total_cost(self, cost: int, increments: int) -> int:  # noqa: ARG002 - the port's
        return cost


METERING = RowMetering(
    elements_max=ROWS_MAX,
    bytes_max=4_000_000,
    element_bytes=0,
    shard_cost_max=PARTITION_WRITE_UNITS // 2,
    tallied=False,
)


def reading_of(rows: int, cost: int) -> ReadCost:
    """What one page of so many rows took, of which `record_cost` is known, so that their size is
    known up to a KB: a read unit for each 4 KB, and one for a page without rows.
    """
    return ReadCost(rows, -(-cost * UNIT_BYTES // READ_UNIT_BYTES) or 1)
