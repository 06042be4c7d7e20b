"""The index of an archive, as it is stored: in which gzip members the items of each event are.

    {prefix}/index/003-of-010

A partition has one line of JSON and then its entries, ascending, ten bytes each: six are a digest
of a key and a record's id, by which partitions divide entries, and four are a place, a data file
and one of its members by their numbers. The line has the names of all data files, each with the
lengths of its members. Equal archives have equal indexes, byte for byte.

A digest may be that of two events, so what is read must have key and id. An entry is there for each
member that has a record, a tombstone or a chunk of the name.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from tallyroll.archive.layout import NOWHERE, ArchivedItem, index_key
from tallyroll.errors import ProofMismatch
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.ports.bucket import Bucket

NAME_BYTES, PLACE_BYTES = 6, 4
ENTRY_BYTES = NAME_BYTES + PLACE_BYTES
PARTITION_ENTRIES = 20_000  # wanted: some 200 KB
PARTITIONS_MAX = 256
_MEMBER_BITS = 14
_MEMBERS_MAX = 1 << _MEMBER_BITS  # of one file
_FILES_MAX = 1 << 8 * PLACE_BYTES - _MEMBER_BITS
_VERSION = 1


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """A gzip member: the name of its data file, its first byte there, and its length."""

    file: str
    first: int
    length: int

    def __str__(self) -> str:
        return f"{self.file} from byte {self.first} on"


def name_digest(key: str, record_id: str) -> bytes:
    """The digest by which an index knows the items of a record's name."""
    return blake2b(f"{len(key)} {key}{record_id}".encode(), digest_size=NAME_BYTES).digest()


def entry_of(found: ArchivedItem, file: int) -> bytes | None:
    """The entry of an item in the data file of this number; b"" for one that needs none. None if no
    index can name its place.
    """
    holds = found.holds
    if not isinstance(holds, Record | Chunk | Tombstone):
        return b""
    if found.member == NOWHERE or found.member >= _MEMBERS_MAX or file >= _FILES_MAX:
        return None
    place = (file << _MEMBER_BITS | found.member).to_bytes(PLACE_BYTES)
    return name_digest(holds.key, holds.id) + place


def partitions_for(items: int) -> int:
    """How many partitions the index of so many items has."""
    return max(1, min(PARTITIONS_MAX, -(-items // PARTITION_ENTRIES)))


def partition_of(name: bytes, partitions: int) -> int:
    """The partition that has the entries of a digest; see `duplicates.split_digests`."""
    return int.from_bytes(name[:4]) * partitions >> 32


def encoded(files: Sequence[tuple[str, Sequence[int]]], entries: Iterable[bytes]) -> bytes:
    """A partition of these entries, ascending. Of each data file its name and the lengths of its
    members.
    """
    head = json.dumps({"version": _VERSION, "files": files}, separators=(",", ":"))
    return f"{head}\n".encode() + b"".join(entries)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that was read."""

    files: Sequence[tuple[str, Sequence[int]]]
    entries: bytes

    @classmethod
    def decoded(cls, key: str, body: bytes) -> Partition:
        """The partition that is stored under a key. Raises ProofMismatch if it is malformed."""
        try:
            head, entries = body.split(b"\n", 1)
            said = json.loads(head)
            if said["version"] != _VERSION:
                version = said["version"]
                raise ProofMismatch([f"{key}: version {version} is unknown to this release"])
            files = [(str(name), [int(one) for one in lengths]) for name, lengths in said["files"]]
            if len(entries) % ENTRY_BYTES:
                raise ValueError(f"{len(entries)} bytes of entries")
        except (KeyError, TypeError, ValueError) as error:
            raise ProofMismatch([f"index malformed: {key}: {error!r}"]) from None
        return cls(files, entries)

    def __len__(self) -> int:
        return len(self.entries) // ENTRY_BYTES

    def __iter__(self) -> Iterator[bytes]:
        return map(self._entry, range(len(self)))

    def _entry(self, number: int) -> bytes:
        return self.entries[number * ENTRY_BYTES : (number + 1) * ENTRY_BYTES]

    def places(self, name: bytes) -> list[MemberPlace]:
        """The members that have items of a digest. Raises ProofMismatch if there are none such."""
        found = []
        at = bisect_left(range(len(self)), name, key=self._entry)
        while at < len(self) and (entry := self._entry(at)).startswith(name):
            found.append(self._place(int.from_bytes(entry[NAME_BYTES:])))
            at += 1
        return found

    def _place(self, place: int) -> MemberPlace:
        file, member = place >> _MEMBER_BITS, place % _MEMBERS_MAX
        try:
            name, lengths = self.files[file]
            first, length = sum(lengths[:member]), lengths[member]
        except IndexError:
            raise ProofMismatch([f"index: there is no member {member} of file {file}"]) from None
        return MemberPlace(name, first, length)


def index_in(proof: Mapping[str, Any]) -> tuple[str, ...]:
    """The digests of the partitions of the index by an archive's proof; none if there is no index.
    Raises KeyError, TypeError and ValueError.
    """
    if "index" not in proof:
        return ()
    digests = tuple(map(str, proof["index"]["digests"]))
    if len(digests) != proof["index"]["partitions"] or not digests:
        raise ValueError(f"an index of {len(digests)} digests")
    return digests


def digest_of(body: bytes) -> str:
    """The digest of a partition, which a proof has."""
    return blake2b(body, digest_size=16).hexdigest()


def proven_partition(bucket: Bucket, prefix: str, digests: Sequence[str], number: int) -> Partition:
    """A partition of the index by the digests in its proof. Raises Missing, and ProofMismatch if it
    has changed.
    """
    key = index_key(prefix, number, len(digests))
    body = bucket.get(key)
    if digest_of(body) != digests[number]:
        raise ProofMismatch([f"index: {key}: changed since it was proven"])
    return Partition.decoded(key, body)


def lengths_of(ends: Sequence[int]) -> list[int]:
    """The lengths of members, by where they end."""
    return [end - begin for begin, end in pairwise([0, *ends])]
