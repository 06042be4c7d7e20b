"""How payloads are stored: inline, compressed, or in chunks beside their record.

    json                    the payload's canonical JSON
    json+zlib               the same, compressed
    packet1+zlib            the events of a packet
    log1+zlib               message ids, then the events of a leaf of a log; log1e ends its slot
    chunks1:{one of these}  a manifest; the bytes of that format are in chunks

The format is written into each record, so reading needs no setting. The digest of an event is that
of its payload as it was sent, so no threshold decides whether an event is a duplicate.

The chunks of a record lie on the shards after its own, and are written in its transaction. A
manifest has the sum of its chunks' digests. A proof adds up these sums by key, in any order.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from tallyroll.errors import Refused
from tallyroll.limits import SAVED_BYTES_MIN
from tallyroll.model.formats.json_texts import canonical

FORMAT_JSON = "json"
FORMAT_DEFLATED = "json+zlib"
FORMAT_PACKET = "packet1+zlib"
CHUNKED = "chunks1:"  # begins the format of a record whose data is a manifest
FORMAT_LOG = "log1+zlib"
FORMAT_LOG_END = "log1e+zlib"  # no leaf of its slot follows
LOGS = frozenset({FORMAT_LOG, FORMAT_LOG_END})
PACKETS = frozenset({FORMAT_PACKET, CHUNKED + FORMAT_PACKET}) | LOGS
DAMAGED = "DamagedPayload"

# Begins each manifest. It is no UTF-8, so that releases without chunks, which take the data of an
# unknown format for JSON, fail instead of showing the manifest as the payload.
_NO_TEXT = b"\xff"
_SUM_BYTES = 16
_SUMS = 1 << 8 * _SUM_BYTES


@dataclass(frozen=True, slots=True)
class PayloadLayout:
    """The sizes, in bytes, over which payloads are compressed and stored in chunks, and the size
    of a chunk.
    """

    compress_over: int = 4_096
    chunk_over: int = 65_536
    chunk_bytes: int = 12_288


LAYOUT = PayloadLayout()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the data of the record `id` of `key`; `number` counts from 0."""

    key: str
    id: str
    number: int
    shard: int
    data: bytes

    @property
    def name(self) -> str:
        """The chunk's name on its shard."""
        return f"{self.id}#{self.number:04d}"

    @property
    def size(self) -> int:
        """The bytes of its item."""
        named = len(f"{self.key}.{self.shard}".encode()) + len(self.name.encode())
        return len("pkskc#data") + named + len(self.data)

    @property
    def digest(self) -> int:
        """A digest of its name and data, below 2^128."""
        digest = blake2b(f"{self.name}\0".encode(), digest_size=_SUM_BYTES)
        digest.update(self.data)
        return int.from_bytes(digest.digest(), "big")


@dataclass(frozen=True, slots=True)
class ChunkManifest:
    """What a record says of its chunks: the key under which they lie, how many they are, the bytes
    of their data joined and once expanded, and the sum of their digests modulo 2^128.

    All records of an event of several keys have the manifest of its first key.
    """

    key: str
    count: int
    stored: int
    expanded: int
    sum: int

    def encode(self) -> bytes:
        """The manifest as the data of a record."""
        parts = [self.key, self.count, self.stored, self.expanded, f"{self.sum:032x}"]
        return _NO_TEXT + canonical(parts).encode()


def manifest_in(data: bytes | None, form: str | None) -> ChunkManifest | None:
    """The manifest in a record's data; None if the data is not in chunks. Raises ValueError."""
    if form is None or not form.startswith(CHUNKED):
        return None
    if data is None or not data.startswith(_NO_TEXT):
        raise ValueError("the manifest of its chunks is damaged")
    try:
        key, count, stored, expanded, total = json.loads(data[1:])
        return ChunkManifest(key, int(count), int(stored), int(expanded), int(total, 16))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the manifest of its chunks is damaged: {error}") from None


def deflated(data: bytes, layout: PayloadLayout) -> tuple[bytes, str]:
    """The data of a payload and its format: compressed, if the payload is over the threshold and
    that saves a KB.
    """
    if len(data) > layout.compress_over:
        smaller = zlib.compress(data)
        if len(smaller) + SAVED_BYTES_MIN <= len(data):
            return smaller, FORMAT_DEFLATED
    return data, FORMAT_JSON


def inflated(data: bytes, form: str | None) -> str:
    """The text of a payload. Raises ValueError for damaged data and for an unknown format."""
    if form == FORMAT_DEFLATED:
        try:
            data = zlib.decompress(data)
        except zlib.error as error:
            raise ValueError(str(error)) from None
    elif form != FORMAT_JSON:
        raise ValueError(f"its format {form!r} is unknown to this release")
    return data.decode()


def summed(digests: Iterable[int]) -> int:
    """The sum of digests modulo 2^128."""
    return sum(digests) % _SUMS


def chunk_count(size: int, layout: PayloadLayout, most: int) -> int:
    """Into how many chunks so many bytes are divided, at most `most`."""
    return max(1, min(most, size // layout.chunk_bytes))


def divided(data: bytes, count: int) -> Sequence[bytes]:
    """The data in `count` parts that differ by at most one byte."""
    size = len(data)
    return [data[size * at // count : size * (at + 1) // count] for at in range(count)]


def joined(manifest: ChunkManifest, chunks: Iterable[Chunk]) -> bytes:
    """The data of a record from its chunks, in any order. Raises Refused if they are not those of
    the manifest.
    """
    found = {chunk.number: chunk for chunk in chunks}
    if missing := [number for number in range(manifest.count) if number not in found]:
        raise _damaged(f"chunk {missing[0]} of {manifest.count} is missing")
    data = b"".join(found[number].data for number in range(manifest.count))
    total = summed(found[number].digest for number in range(manifest.count))
    if (len(data), total) != (manifest.stored, manifest.sum):
        raise _damaged(f"its {manifest.count} chunks are not those that were written")
    return data


def _damaged(why: str) -> Refused:
    return Refused(why, DAMAGED)
