"""Where rows lie: the tokens of their partitions, and the names of what lies beside them."""

from __future__ import annotations

import struct
from hashlib import blake2b

from cassandra.metadata import Murmur3Token

from tallyroll.model.records import Record

TOKEN_MIN = -(2**63)  # which no partition has
TOKEN_MAX = 2**63 - 1
_TOKEN_BITS = 64
STRIPES = "~t"
BUCKETS = "~b"
FOLDED = ("~f", -1, "f")
LIST = "l"  # the id of a part of a list
CHUNKS_OF_BLOCK = 16
Partition = tuple[str, int]


def token(key: str, shard: int) -> int:
    """The token of a partition by Murmur3, as Cassandra computes it of a key of two columns."""
    name = key.encode()
    packed = struct.pack(f">H{len(name)}sBHiB", len(name), name, 0, 4, shard, 0)
    hashed: int = Murmur3Token.hash_fn(packed)
    return hashed


def segment_of(key: str, shard: int, segments: int) -> int:
    """The segment, 0..segments-1, of a partition; `segments` is a power of 2."""
    return (token(key, shard) - TOKEN_MIN - 1) * segments >> _TOKEN_BITS


def tokens_of(segment: int, segments: int) -> tuple[int, int]:
    """The tokens of a segment: those above the first number, up to the second."""
    low, high = (TOKEN_MIN + (2**_TOKEN_BITS * at) // segments for at in (segment, segment + 1))
    return low, min(high, TOKEN_MAX)


def chunk_block(row: Record, number: int) -> Partition:
    """The partition of a chunk of a row."""
    return f"~c.{len(row.key)}.{row.key}#{row.id}", -1 - number // CHUNKS_OF_BLOCK


def chunk_prefix(row: Record) -> str:
    """What begins the ids of a row's chunks: another content of the same row has another prefix."""
    return blake2b(row.data or b"", digest_size=16).hexdigest()


def list_partition(segment: int, attempt: str, part: int) -> Partition:
    """The partition of a part of a list."""
    return f"~l.{segment}.{attempt}", -1 - part
