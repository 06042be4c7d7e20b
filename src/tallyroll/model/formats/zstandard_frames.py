"""Reading all frames of a Zstandard stream in bounded memory.

A file is a sequence of frames, whose contents are concatenated, and of frames to skip (RFC 8878,
3.1). Python has Zstandard from 3.14 on; before that the package `backports.zstd` gives the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from tallyroll.errors import UsageError

ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"
PART_BYTES_MAX = 1024 * 1024  # of one decompressed part: content may shrink a thousandfold
MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


class DamagedZstandard(Exception):
    """The data is no Zstandard, or ends within a frame."""


def expanded(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of all frames, in parts of at most 1 MiB. `chunks` are the file's bytes, cut
    anywhere. All content before an error is yielded first.

    Raises DamagedZstandard, and UsageError if this Python has no Zstandard.
    """
    module = _module()
    frames, frame = 0, None
    for chunk in chunks:
        rest = chunk
        while rest or (frame and not frame.needs_input):
            frame = frame or module.ZstdDecompressor()
            try:
                part = frame.decompress(rest, PART_BYTES_MAX)
            except module.ZstdError as error:
                raise DamagedZstandard(f"in frame {frames + 1}: {error}") from None
            if part:
                yield part
            rest = b""
            if frame.eof:
                rest, frame = frame.unused_data, None
                frames += 1
    if frame or not frames:
        raise DamagedZstandard(f"the file is truncated in frame {frames + 1}")


def _module() -> Any:
    try:
        return import_module(MODULE)
    except ImportError:
        raise UsageError(
            "Zstandard needs Python 3.14 or backports.zstd: pip install 'tallyroll[load]'"
        ) from None
