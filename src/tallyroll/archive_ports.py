"""The seams of archiving: a bucket whose objects are written once, and DynamoDB's own exports.

As with the other ports, every method may raise StoreError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tallyroll.ports import Bucket


class ArchiveBucket(Bucket, Protocol):
    """A bucket for archives: what once stands there is never written over."""

    def put_once(self, key: str, body: bytes) -> bytes:
        """Write an object if there is none under its key; give the one that stands."""
        ...

    def stamps(self, prefix: str) -> Iterable[tuple[str, str]]:
        """The keys under a prefix, ascending, each with a text that another content changes."""
        ...

    def start_upload(self, key: str) -> str:
        """Begin an object that is written in parts; give the upload's id. Nothing stands under the
        key before the upload is completed.
        """
        ...

    def put_part(self, key: str, upload: str, number: int, body: bytes) -> str:
        """Write part `number`, from 1, of at least 5 MiB unless it is the last; give its receipt.
        Raises Missing if the upload is over.
        """
        ...

    def complete_upload(self, key: str, upload: str, receipts: Sequence[str]) -> None:
        """Make the object of all its parts. Raises Missing if the upload is over: completed before,
        or aborted.
        """
        ...

    def abort_upload(self, key: str, upload: str) -> None:
        """Forget the parts; fine if the upload is over."""
        ...


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
