"""Data files in gzip members, of which each can be read by itself.

A gzip file is a sequence of members, whose contents are joined by every reader [RFC 1952, 2.2]. So
a file may be read whole as ever, and a member of it by its range of bytes.
"""

from __future__ import annotations

import base64
import hashlib
import zlib

MEMBER_BYTES = 256 * 1024  # of lines, after which a member ends
_WITH_HEADER = 31  # zlib's `wbits`: the gzip format; the header's modification time is zero


class DataFileWriter:
    """Makes one compressed data file in parts; equal items give equal bytes."""

    def __init__(self) -> None:
        self._compress = _member()
        self._text = 0
        self.waiting = bytearray()
        """The bytes of the next part so far."""
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.items = 0
        self.size = 0

    def add(self, line: bytes) -> None:
        """Add the line of one item."""
        if self._text >= MEMBER_BYTES:
            self._keep(self._compress.flush())
            self._compress, self._text = _member(), 0
        self._keep(self._compress.compress(line))
        self._text += len(line)
        self.items += 1

    def part(self, *, last: bool = False) -> bytes:
        """The next part; with `last`, the file's last one."""
        if last:
            self._keep(self._compress.flush())
        body = bytes(self.waiting)
        self._md5.update(body)
        self.waiting.clear()
        return body

    def _keep(self, compressed: bytes) -> None:
        self.waiting += compressed
        self.size += len(compressed)

    @property
    def md5(self) -> str:
        """The base64 MD5 of all parts so far."""
        return base64.b64encode(self._md5.digest()).decode()


def _member() -> zlib._Compress:
    return zlib.compressobj(6, zlib.DEFLATED, _WITH_HEADER)
