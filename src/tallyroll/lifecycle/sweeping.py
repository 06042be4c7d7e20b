"""Sweeps the payloads that producers uploaded and nothing references.

A record marks the object that it references, in its own transaction. No reference is taken 30 days
after the upload, and its message has left the queue by the time at which the object is swept. So an
object without a mark can get none any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from tallyroll.limits import BATCH_GET_KEYS_MAX, SWEPT_AFTER_MS
from tallyroll.model.formats.references import DAY_MS, PAYLOADS_PREFIX, day_of
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects

DAYS_SWEPT = 8  # the days that are looked at: so cleanup may be away for a week
EVERY_MS = DAY_MS
DELETES_AT_ONCE = 16


def sweep(
    pipeline: str, bucket: ArchiveBucket, catalog: Catalog, effects: Effects, deadline: int
) -> int | None:
    """Delete the unreferenced objects of the days that are due. Returns how many, None if the
    deadline (ms) passed first. Raises StoreError.
    """
    swept = 0
    for keys in _batches(bucket, pipeline, effects.now()):
        if effects.now() >= deadline:
            return None
        marked = catalog.marked(keys)
        jobs: list[Callable[[], None]] = [
            partial(bucket.delete, key) for key in keys if key not in marked
        ]
        effects.together(jobs, DELETES_AT_ONCE)
        swept += len(jobs)
    return swept


def _batches(bucket: ArchiveBucket, pipeline: str, now: int) -> Iterator[list[str]]:
    last = now - SWEPT_AFTER_MS
    for ago in range(DAYS_SWEPT):
        day = day_of(last - ago * DAY_MS)
        keys: Iterable[str] = bucket.list(f"{PAYLOADS_PREFIX}/{pipeline}/{day}/")
        left = iter(keys)
        while batch := list(islice(left, BATCH_GET_KEYS_MAX)):
            yield batch
