"""DynamoDB's own exports of tables to the bucket."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ExportStatus(StrEnum):
    """The status of an export."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ExportState:
    """The state of an export; `problem` is why it failed."""

    status: ExportStatus
    problem: str = ""


class PointInTime(Protocol):
    """Exports of a table's state at a point in time."""

    def restorable(self, table: str) -> tuple[int, int] | None:
        """The earliest and latest time (ms) whose state can be exported; None if point-in-time
        recovery is off. Raises Missing if the table does not exist.
        """

    def start(self, table: str, bucket: str, prefix: str, at: int, token: str) -> str:
        """Begin to export the state at `at` (ms, a whole second) under `prefix`; return the
        export's ARN. For 8 hours, the same call with the same token returns the same export.
        Raises Missing if the table does not exist.
        """

    def state(self, arn: str) -> ExportState:
        """An export's state. Raises Missing if it is unknown, as after 90 days."""
