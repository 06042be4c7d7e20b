"""The seams of archiving: a bucket whose objects are written once, and DynamoDB's own exports.

As with the other ports, every method may raise StoreError.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ExportStatus(StrEnum):
    """How far an export is that DynamoDB carries out."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ExportState:
    """What is said of an export; `problem` is why it failed."""

    status: ExportStatus
    problem: str = ""


class PointInTime(Protocol):
    """DynamoDB's own exports of a table's state at a point in time."""

    def restorable(self, table: str) -> tuple[int, int] | None:
        """The earliest and latest time, ms, of which a state can be exported; None if point-in-time
        recovery is off. Raises Missing if the table is gone.
        """
        ...

    def start(self, table: str, bucket: str, prefix: str, at: int, token: str) -> str:
        """Begin to export the state at `at` (ms, a whole second) to below `prefix`; give the
        export's ARN.

        The same call with the same token gives the same export, for 8 hours. Raises Missing if the
        table is gone.
        """
        ...

    def state(self, arn: str) -> ExportState:
        """How far an export is. Raises Missing if it is not known, as after 90 days."""
        ...
