"""Sweeps the payloads that producers uploaded and nothing references.

A record marks the object that it references, in its own transaction. No reference is taken 30 days
after the upload, and its message has left the queue by the time at which the object is swept. So an
object without a mark can get none any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain, islice, takewhile

from tallyroll.errors import StoreError
from tallyroll.limits import BATCH_GET_KEYS_MAX, SWEPT_AFTER_MS
from tallyroll.model.formats.references import DAY_MS, PAYLOADS_PREFIX, day_of
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects

DAYS_SWEPT = 8  # the days that are looked at: so cleanup may be away for a week
EVERY_MS = DAY_MS
DELETES_AT_ONCE = 16
_END = "\uffff"  # after all keys


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep came: it began after the key `begun`, and looked last at the key `after`."""

    begun: str
    after: str


@dataclass(frozen=True, slots=True)
class Swept:
    """How a sweep ended: from where the next one is to go on, or None if it looked at all; and the
    error that stopped it, if one did.
    """

    left: SweepProgress | None
    error: StoreError | None = None


def sweep(
    pipeline: str,
    bucket: ArchiveBucket,
    catalog: Catalog,
    effects: Effects,
    deadline: int,
    progress: SweepProgress | None = None,
) -> Swept:
    """Delete the unreferenced objects of the days that are due, until all were looked at, the
    deadline (ms) has passed, or a call fails.
    """
    now = effects.now()
    if progress is None:
        begun = _anywhere(pipeline, now)
        progress = SweepProgress(begun, begun)
    try:
        for keys in _batches(bucket, _prefixes(pipeline, now), progress):
            if effects.now() >= deadline:
                return Swept(progress)
            marked = catalog.marked(keys)
            jobs: list[Callable[[], None]] = [
                partial(bucket.delete, key) for key in keys if key not in marked
            ]
            effects.together(jobs, DELETES_AT_ONCE)
            progress = SweepProgress(progress.begun, keys[-1])
    except StoreError as error:
        return Swept(progress, error)
    return Swept(None)


def _anywhere(pipeline: str, now: int) -> str:
    """A place among the keys that follows from the time: where a process begins that has not swept
    before. So processes that never finish look at all objects in the end.
    """
    chosen = blake2b(str(now).encode(), digest_size=8).hexdigest()
    return f"{_prefixes(pipeline, now)[int(chosen, 16) % DAYS_SWEPT]}{chosen}"


def _prefixes(pipeline: str, now: int) -> list[str]:
    """The prefixes of the days that are due, ascending."""
    last = now - SWEPT_AFTER_MS
    days = (day_of(last - ago * DAY_MS) for ago in reversed(range(DAYS_SWEPT)))
    return [f"{PAYLOADS_PREFIX}/{pipeline}/{day}/" for day in days]


def _batches(
    bucket: ArchiveBucket, prefixes: list[str], progress: SweepProgress
) -> Iterator[list[str]]:
    """The keys that are left: ascending to the last one, then from the first one to where the sweep
    began.
    """

    def between(low: str, high: str) -> Iterator[str]:
        for prefix in prefixes:
            if prefix <= high and (prefix > low or low.startswith(prefix)):
                yield from takewhile(lambda key: key <= high, bucket.list(prefix, after=low))

    begun, after = progress.begun, progress.after
    if after < begun:
        keys: Iterator[str] = between(after, begun)
    else:
        keys = chain(between(after, _END), between("", begun))
    while batch := list(islice(keys, BATCH_GET_KEYS_MAX)):
        yield batch
