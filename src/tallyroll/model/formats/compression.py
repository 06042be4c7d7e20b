"""Compressed message bodies: `{"v":2,"zlib":"..."}`, a zlib stream (RFC 1950) in base64.

SQS takes only text, so a body gets smaller only if its text shrinks by more than a quarter.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode

from tallyroll.errors import Rejected
from tallyroll.limits import EXPANDED_BYTES_MAX
from tallyroll.reasons import Reason

COMPRESSED_VERSION = 2
FIELD = "zlib"
# Of packets of 1,000 events (`python -m benchmarks.producing`): level 6 takes two to four times as
# long, and gives 7 to 9 % less. Level 1 gives 6 to 8 % more.
LEVEL = 3
_HEADER = zlib.compress(b"", LEVEL)[:2]
_HEAD, _TAIL = f'{{"v":{COMPRESSED_VERSION},"{FIELD}":"', '"}'


def may_be_compressed(body: str) -> bool:
    """Whether a body is worth a look: one without this text is not compressed.

    JSON can also write the field's name with escapes, as no producer of ours does.
    """
    return FIELD in body or "\\u" in body


def is_compressed(fields: object) -> bool:
    """Whether a body's fields are those of a compressed one, and no others."""
    return (
        isinstance(fields, dict)
        and len(fields) == 2
        and FIELD in fields
        and fields.get("v") == COMPRESSED_VERSION
    )


def expanded(stream: object) -> str:
    """The text of a compressed body's field. Raises Rejected (bad-compression), also if it has more
    than 1 MiB; no more than that is expanded.
    """
    if not isinstance(stream, str):
        raise _bad(f"{FIELD} must be a text in base64")
    try:
        data = b64decode(stream, validate=True)
    except (binascii.Error, ValueError):
        raise _bad(f"{FIELD} is not base64") from None
    expanding = zlib.decompressobj()
    try:
        text = expanding.decompress(data, EXPANDED_BYTES_MAX + 1)
    except zlib.error as error:
        raise _bad(f"{FIELD} is no zlib stream: {error}") from None
    if len(text) > EXPANDED_BYTES_MAX:
        raise _bad(f"{FIELD} expands to more than {EXPANDED_BYTES_MAX} bytes")
    if not expanding.eof or expanding.unused_data:
        raise _bad(f"{FIELD} is not one whole zlib stream")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise _bad(f"{FIELD} holds no UTF-8") from None


def _bad(detail: str) -> Rejected:
    return Rejected(Reason.BAD_COMPRESSION, detail)


class Compressor:
    """Compresses a text that grows, part by part, so that the size of its body is known before it
    is complete. It keeps no state of zlib's between the parts, which would take 256 KB.
    """

    def __init__(self) -> None:
        self.characters = 0
        self._raw = self._size = 0
        self._parts: list[bytes] = [_HEADER]
        self._checksum = 1

    @property
    def raw(self) -> int:
        """The bytes of the text so far."""
        return self._raw

    @property
    def size(self) -> int:
        """The bytes of the body so far."""
        return len(_HEAD) + len(_TAIL) + -(-(self._size + len(_HEADER) + 4) // 3) * 4

    def add(self, text: str) -> None:
        """Compress the next part."""
        self._add(text, zlib.Z_FULL_FLUSH)

    def body(self, rest: str) -> str:
        """The body, with the rest of the text."""
        self._add(rest, zlib.Z_FINISH)
        stream = b"".join([*self._parts, self._checksum.to_bytes(4, "big")])
        return _HEAD + b64encode(stream).decode() + _TAIL

    def _add(self, text: str, flush: int) -> None:
        data = text.encode()
        compress = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        part = compress.compress(data) + compress.flush(flush)
        self._parts.append(part)
        self._checksum = zlib.adler32(data, self._checksum)
        self.characters += len(text)
        self._raw += len(data)
        self._size += len(part)


def compressed(text: str) -> str:
    """The compressed body of a text."""
    return Compressor().body(text)
