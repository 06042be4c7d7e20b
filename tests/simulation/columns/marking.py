"""The rare states of archives as Parquet."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.marks import MARKS

COLUMN_MARKS: Mapping[str, str] = {
    "column-proven": "an archive as Parquet is proven",
    "column-proven-again": "an archive as Parquet is proven by two runs",
    "column-made-twice": "two runs write the same object of an archive as Parquet",
    "column-let-pass": "an object of an archive in DynamoDB's layout gets the tag",
    "column-expired": "the bucket's rule deletes an object that has the tag",
    "column-late-copy": "corrections are copied beside an archive that has its Parquet",
    "column-run-dies": "a run of the compactor dies, or its time is over",
    "column-killed": "a window is parked, since runs were killed at it",
    "column-too-long": "a window is parked, since it takes longer than a run may",
    "column-disk-full": "a window is parked, since there was no room on disk",
    "column-by-hand": "an operator makes the Parquet of a window that was parked",
    "column-read": "a dropped window is read as Parquet while others expire",
    "column-read-in-vain": "a read of a dropped window fails, since its archive expires meanwhile",
    "column-packet": "events of a packet are in an archive as Parquet",
    "column-leaf": "events of a log are in an archive as Parquet",
    "column-chunks": "an event in chunks is in an archive as Parquet",
    "column-retracted": "an event that was retracted before the seal is in an archive as Parquet",
    "column-corrected": "an event that was retracted after the seal is in an archive as Parquet",
}
ALL_MARKS: Mapping[str, str] = {**MARKS, **COLUMN_MARKS}
