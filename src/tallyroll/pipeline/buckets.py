"""Copies of buckets. Only commands import it."""

from __future__ import annotations

from pathlib import Path

from tallyroll.adapters.directory import DirectoryBucket


def bucket_copy(directory: Path) -> DirectoryBucket:
    """A bucket's copy in a directory, under the same keys."""
    return DirectoryBucket(directory)
