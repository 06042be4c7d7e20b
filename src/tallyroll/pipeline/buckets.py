"""Copies of buckets, and uploaded payloads. Only commands import it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.model.formats.references import Reference, verified

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline


def bucket_copy(directory: Path) -> DirectoryBucket:
    """A bucket's copy in a directory, under the same keys."""
    return DirectoryBucket(directory)


def payload(made: Pipeline, reference: Reference) -> str:
    """The JSON of an uploaded payload. Raises Missing, and Refused if another is there."""
    bucket = made.bucket
    if bucket.name != reference.bucket:
        bucket = made.bucket_named(reference.bucket)
    return verified(reference, bucket.get(reference.key))
