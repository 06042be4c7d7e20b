"""Reading all members of a gzip stream in bounded memory.

A gzip file is a sequence of members, each with header, data and checksum; their contents are
concatenated (RFC 1952, 2.2). `cat a.gz b.gz` makes such a file, and so may any exporter that
compresses in parts. Zero bytes after the last member are padding, which gzip(1) and Python's `gzip`
ignore too. Anything else there is an error: it may be a member whose header is damaged.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from zlib import decompressobj

PART_BYTES_MAX = 1024 * 1024  # of one decompressed part: content may shrink a thousandfold
# At the end of a member zlib copies the rest of its input. With small inputs, even empty members of
# 20 bytes are read in linear time.
_FED_BYTES = 16 * 1024
_FIRST_BYTE = b"\x1f"  # begins every member [RFC 1952, 2.3.1]
_WITH_HEADER = 31  # zlib's `wbits`: the largest window, in the gzip format


def unzipped(chunks: Iterable[bytes], ends: list[int] | None = None) -> Iterator[bytes]:
    """The content of all members of a gzip file, in parts of at most 1 MiB; none is of two members.

    `chunks` are the file's bytes, cut anywhere. Appends to `ends` where each member ends in the
    file: when a part comes, it has those of all members before that of the part.

    Raises EOFError if the file has no member or ends within one, and zlib.error for damaged data
    and for anything but zero bytes after the last member. All content before the error is yielded
    first.
    """
    members = 0
    member = None
    padded = False
    size = 0
    for piece in _pieces(chunks):
        rest = piece
        size += len(piece)
        while rest:
            if member is None:
                if members:
                    data = rest.lstrip(b"\0")
                    padded = padded or len(data) < len(rest)
                    if not data:
                        break
                    if padded or data[:1] != _FIRST_BYTE:
                        problem = f"after part {members} of the gzip data comes other data"
                        raise zlib.error(f"{problem}: {data[:8]!r}")
                member = decompressobj(_WITH_HEADER)
            try:
                part = member.decompress(rest, PART_BYTES_MAX)
            except zlib.error as error:
                problem = f"part {members + 1} of the gzip data is damaged"
                raise zlib.error(f"{problem}: {error}") from None
            if part:
                yield part
            rest = member.unconsumed_tail
            if member.eof:
                rest, member = member.unused_data, None
                members += 1
                if ends is not None:
                    ends.append(size - len(rest))
    if member and (part := member.flush()):
        yield part
    if member or not members:
        raise EOFError(f"part {members + 1} of the gzip data is truncated")


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for first in range(0, len(chunk), _FED_BYTES):
            yield chunk[first : first + _FED_BYTES]
