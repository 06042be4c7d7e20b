"""Reads the items of single events from a proven archive, by its index.

That takes one object of the index, and the gzip members that it names. What is not found is not
there: the partition is the proven one, and each member that it names has an item of that digest.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from tallyroll.archive.indexed.entries import (
    MemberPlace,
    Partition,
    index_in,
    name_digest,
    partition_of,
    proven_partition,
)
from tallyroll.archive.layout import proof_key
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.items import Content
from tallyroll.model.records import Record, RecordName
from tallyroll.model.retractions import Tombstone
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.store import ItemCodec

PART_BYTES = 1024 * 1024  # of a member's text at once; ours have some 256 KB, others' may be large
_WITH_HEADER = 31
# What every exporter writes as it is, in JSON.
_PLAIN = re.compile(r"[\w .:,@#-]+", re.ASCII)


def needle_of(text: str) -> bytes:
    """What is in each line of a data file that has this text."""
    return max(_PLAIN.findall(text), key=len, default="").encode()


@dataclass
class IndexedArchive:
    """An archive whose proof has an index of these `digests`. It keeps what it has read."""

    bucket: Bucket
    prefix: str
    codec: ItemCodec
    data_dir: str
    digests: tuple[str, ...]
    _partitions: dict[int, Partition] = field(default_factory=dict)
    _items: dict[RecordName, list[Content]] = field(default_factory=dict)

    @classmethod
    def opened(cls, bucket: Bucket, prefix: str, codec: ItemCodec) -> Self | None:
        """The archive under a prefix; None if it has no proof or no index. Raises ProofMismatch."""
        key = proof_key(prefix)
        try:
            said = json.loads(bucket.get(key))
            digests, data_dir = index_in(said), str(said["dataDir"])
        except Missing:
            return None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProofMismatch([f"proof malformed: {key}: {error!r}"]) from None
        return cls(bucket, prefix, codec, data_dir, digests) if digests else None

    def items_of(self, key: str, record_id: str) -> list[Content]:
        """The record of this key and id, its tombstones and its chunks, as far as there are any.

        Raises ProofMismatch if the index or a data file is not the proven one; Missing if one is
        not there any more, as of an archive that expires.
        """
        name = (key, record_id)
        if name not in self._items:
            digest = name_digest(key, record_id)
            places = self._partition(partition_of(digest, len(self.digests))).places(digest)
            self._items[name] = [one for place in places for one in self._read(place, name)]
        return self._items[name]

    def _partition(self, number: int) -> Partition:
        if number not in self._partitions:
            found = proven_partition(self.bucket, self.prefix, self.digests, number)
            self._partitions[number] = found
        return self._partitions[number]

    def _read(self, place: MemberPlace, name: RecordName) -> list[Content]:
        """What a member has of a name."""
        body = self.bucket.get_range(self.data_dir + place.file, place.first, place.length)
        needle = max(map(needle_of, name), key=len)
        found = [each for each, of in self._named(body, place, needle) if of == name]
        if not found:
            digest = name_digest(*name)  # of another name, then
            if all(name_digest(*of) != digest for _, of in self._named(body, place, b"")):
                raise ProofMismatch([f"{place} lacks an item that the index has there"])
        return found

    def _named(
        self, body: bytes, place: MemberPlace, needle: bytes
    ) -> Iterator[tuple[Content, RecordName]]:
        for line in _lines_in(body, place):
            if not line or needle not in line:
                continue
            try:
                holds = self.codec.parse(self.codec.decode(line))
            except ValueError as error:
                raise ProofMismatch([f"{place}: {error}"]) from None
            if isinstance(holds, Record | Tombstone | Chunk):
                yield holds, (holds.key, holds.id)


def _lines_in(body: bytes, place: MemberPlace) -> Iterator[bytes]:
    """The lines of a gzip member. Raises ProofMismatch if it is none, or not of its length."""
    unzip = zlib.decompressobj(_WITH_HEADER)
    rest, text, left = b"", b"-", body
    while text and not unzip.eof:
        try:
            text = unzip.decompress(left, PART_BYTES)
        except zlib.error as error:
            raise ProofMismatch([f"{place}: {error}"]) from None
        left = unzip.unconsumed_tail
        *lines, rest = (rest + text).split(b"\n")
        yield from lines
    yield rest
    if not unzip.eof or unzip.unused_data or len(body) != place.length:
        raise ProofMismatch([f"{place}: it is no gzip member of its length"])
