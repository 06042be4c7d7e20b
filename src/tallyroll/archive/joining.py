"""Joins retractions to the records of an archive, by digests.

What a retraction wants of its record takes 12 bytes: half of them are a digest of the record's key
and id, the others one of its shard, the event's index in a packet, its count and amount, and the
record's own digest. Sums alone would pass two wrong amounts that cancel each other out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from tallyroll.archive.duplicates import DIGEST_BYTES
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.items import Content
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.stored import events_of
from tallyroll.model.totals import Correction

HALF = DIGEST_BYTES // 2
WANTED_HELD = 400_000  # 5 MB in memory, and some 60 MB while they are sorted
_ANY_SHARD = "any"  # a correction does not know the shards of its records


def wanted_by(tombstone: Tombstone) -> bytes:
    """What a tombstone wants of its record."""
    name = _digest_of_name(tombstone.key, tombstone.id)
    return name + _of_tombstone(tombstone, str(tombstone.shard))


def wanted_by_correction(correction: Correction) -> Iterator[bytes]:
    """What a correction wants of the record under each of its keys."""
    of = correction
    content = _digest_of_content(_ANY_SHARD, of.index, of.n, of.amount, of.digest)
    return (_digest_of_name(key, of.id) + content for key in of.keys)


class Joining:
    """One pass over an archive's items: which of the digests in `wanted` the records meet."""

    def __init__(self, wanted: Iterable[bytes]) -> None:
        self._wanted = b"".join(sorted(wanted))
        self._count = len(self._wanted) // DIGEST_BYTES
        self._met = bytearray(self._count)
        self.joined = 0
        """How many are met so far, each counted once."""

    def restart(self) -> None:
        """Forget what was met."""
        self._met = bytearray(self._count)
        self.joined = 0

    def wanted_of(self, found: Content) -> list[bytes]:
        """What is wanted of a record, or of the record of a chunk."""
        if not isinstance(found, Record | Chunk):
            return []
        return [self._at(at) for at in self._places(found.key, found.id)]

    def join(self, record: Record) -> None:
        """Meet what a record has: one that is packed and not in chunks, or of one event."""
        places = self._places(record.key, record.id)
        if not places:
            return
        contents = set(_contents_of(record))
        for at in places:
            if not self._met[at] and self._at(at)[HALF:] in contents:
                self._met[at] = 1
                self.joined += 1

    def is_corrected(self, tombstone: Tombstone) -> bool:
        """Whether a correction wants the same event as a tombstone."""
        content = _of_tombstone(tombstone, _ANY_SHARD)
        places = self._places(tombstone.key, tombstone.id)
        return any(self._at(at)[HALF:] == content for at in places)

    def missing(self) -> Iterator[bytes]:
        """What no record has met."""
        return (self._at(at) for at in range(self._count) if not self._met[at])

    def _at(self, at: int) -> bytes:
        return self._wanted[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES]

    def _places(self, key: str, record_id: str) -> range:
        name = _digest_of_name(key, record_id)
        first = end = bisect_left(range(self._count), name, key=lambda at: self._at(at)[:HALF])
        while end < self._count and self._at(end)[:HALF] == name:
            end += 1
        return range(first, end)


def _digest_of_name(key: str, record_id: str) -> bytes:
    return blake2b(f"{len(key)} {key}{record_id}".encode(), digest_size=HALF).digest()


def _digest_of_content(shard: str, index: int | None, n: int, amount: int, digest: bytes) -> bytes:
    facts = f"{shard} {index} {n} {amount} ".encode()
    return blake2b(facts + digest, digest_size=DIGEST_BYTES - HALF).digest()


def _of_tombstone(of: Tombstone, shard: str) -> bytes:
    return _digest_of_content(shard, of.index, of.n, of.amount, of.digest)


def _contents_of(record: Record) -> Iterator[bytes]:
    """All that can be wanted of a record; nothing of a packet that cannot be unpacked."""
    sums: list[tuple[int | None, int, int]] = [(None, record.n, record.amount)]
    if record.packed:
        try:
            sums = [(event.index, 1, event.amount) for event in events_of(record)]
        except ValueError:
            return
    for index, n, amount in sums:
        for shard in (str(record.shard), _ANY_SHARD):
            yield _digest_of_content(shard, index, n, amount, record.digest)
