"""Reads lines, plain, gzip or Zstandard, from a file or stdin: one validated envelope per line of
JSON.
"""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, cast

from tallyroll.client.packing import queueable
from tallyroll.errors import Rejected, TallyrollError, UsageError
from tallyroll.limits import EVENT_MESSAGE_BYTES_MAX, PACKET_BYTES_MAX
from tallyroll.model.events import Envelope, Event, decode, message_body
from tallyroll.model.formats.gzip_members import unzipped
from tallyroll.model.formats.zstandard_frames import ZSTANDARD_MAGIC, DamagedZstandard, expanded
from tallyroll.reasons import Reason

LINE_BYTES_MAX = 4 * 1024 * 1024  # an event of 1 MiB takes less, if ASCII is not escaped
LINE_TOO_LONG = f"the line is over {LINE_BYTES_MAX >> 20} MiB"
CHUNK_BYTES = 64 * 1024
DIGEST_BYTES = 1024 * 1024
BYTES_OF_CHARACTER_MAX = 6  # of one that is escaped
_GZIP_MAGIC = b"\x1f\x8b"


class UnreadableInput(TallyrollError):
    """The input ended or failed within a line."""


class _Stream(io.RawIOBase):
    """A stream of what `take` gives, at most so many bytes; reads no further than it must."""

    def __init__(self, take: Callable[[int], bytes | memoryview]) -> None:
        self._take = take

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the bytes that are available; does not wait for a pipe to fill the buffer."""
        data = self._take(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class LineSource:
    """Lines of a file, or of stdin for None and "-". Raises UsageError if it cannot be opened.

    `position` is the number of bytes read, before decompression.
    """

    def __init__(self, file: str | None) -> None:
        self.name = "stdin" if file in (None, "-") else str(file)
        self.size: int | None = None
        self.position = 0
        self._file: BinaryIO | None = None
        if file is not None and (not file or Path(file).is_dir()):
            is_what = "is a directory" if file else "has no name"
            raise UsageError(f"file {file!r}: {is_what}: name a file, or - for stdin")
        try:
            if file in (None, "-"):
                below = sys.stdin.buffer
            else:
                path = Path(str(file))
                below = self._file = path.open("rb")
                self.size = path.stat().st_size or None
        except OSError as error:
            raise UsageError(f"file {self.name!r}: {error.strerror}") from None
        self._below = cast("io.BufferedIOBase", below)
        self._digested: tuple[int, int] | None = None

    @property
    def typed(self) -> bool:
        """Whether a person types the lines."""
        return self._file is None and sys.stdin.isatty()

    def digest(self, progressed: Callable[[int], object] = lambda _: None) -> str | None:
        """The hex digest of a file's bytes, read for it from the beginning; None for a stream,
        which can be read only once. `progressed` is called with the bytes read so far.

        Raises UnreadableInput.
        """
        if self._file is None or not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            return None
        self._digested = self._state()
        found, read = blake2b(digest_size=16), 0
        try:
            with Path(self.name).open("rb") as file:
                while part := file.read(DIGEST_BYTES):
                    found.update(part)
                    read += len(part)
                    progressed(read)
        except OSError as error:
            raise UnreadableInput(f"{self.name}: {error}") from error
        return found.hexdigest()

    @property
    def repeatable(self) -> bool:
        """Whether its digest was made."""
        return self._digested is not None

    @property
    def changed(self) -> bool:
        """Whether the file was changed after its digest was made."""
        return self._digested is not None and self._digested != self._state()

    def _state(self) -> tuple[int, int]:
        assert self._file
        state = os.fstat(self._file.fileno())
        return state.st_size, state.st_mtime_ns

    def close(self) -> None:
        """Close the file; stdin stays open."""
        if self._file:
            self._file.close()

    def _counted(self, most: int) -> bytes:
        data = self._below.read1(most)
        self.position += len(data)
        return data

    def lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Number, from 1, and bytes of each line that is not blank; None for one over 4 MiB.

        Raises UnreadableInput.
        """
        for number, line in self.all_lines():
            if line is None or line.strip():
                yield number, line

    def all_lines(self) -> Iterator[tuple[int, bytes | None]]:
        """The same with the blank lines."""
        number = 0
        try:
            buffered = io.BufferedReader(_Stream(self._counted))
            stream = _decompressed(buffered)
            while line := stream.readline(LINE_BYTES_MAX):
                number += 1
                whole = line.endswith(b"\n") or len(line) < LINE_BYTES_MAX
                rest = line
                while len(rest) == LINE_BYTES_MAX and not rest.endswith(b"\n"):
                    rest = stream.readline(LINE_BYTES_MAX)
                yield number, line if whole else None
        except (OSError, EOFError, zlib.error, DamagedZstandard) as error:
            place = f"after line {number}" if number else "in its first line"
            raise UnreadableInput(f"{self.name}, {place}: {error}") from error

    def objects(self) -> Iterator[Mapping[str, Any]]:
        """The JSON object of each line that is not blank. Raises UsageError for any other line, and
        UnreadableInput.
        """
        for number, line in self.lines():
            try:
                item = json.loads(line or b"")
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{self.name}, line {number}: {error}") from None
            if not isinstance(item, dict):
                raise UsageError(f"{self.name}, line {number}: not a JSON object")
            yield item


def _decompressed(below: io.BufferedReader[Any]) -> io.BufferedReader[Any]:
    """The content of a stream, which is plain, gzip or Zstandard by its first bytes."""
    head = below.peek(len(ZSTANDARD_MAGIC))
    if head and _GZIP_MAGIC.startswith(head[:2]):
        return _joined(unzipped(iter(lambda: below.read1(CHUNK_BYTES), b"")))
    if head and ZSTANDARD_MAGIC.startswith(head[:4]):
        return _joined(expanded(iter(lambda: below.read1(CHUNK_BYTES), b"")))
    return below


def _joined(parts: Iterator[bytes]) -> io.BufferedReader[Any]:
    """A stream of these parts."""
    rest = memoryview(b"")

    def take(most: int) -> memoryview:
        nonlocal rest
        part = rest or memoryview(next(parts, b""))
        rest = part[most:]
        return part[:most]

    return io.BufferedReader(_Stream(take), CHUNK_BYTES)


def envelope_of(
    line: bytes | None, decoded: Callable[[str], Envelope] = decode
) -> tuple[Envelope, str]:
    """A line's envelope and its text. Raises Rejected if no writer would ever count it."""
    if line is None:
        raise Rejected(Reason.ITEM_TOO_LARGE, LINE_TOO_LONG)
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise Rejected(Reason.NOT_JSON, f"not UTF-8 at byte {error.start}") from None
    envelope = decoded(text)
    size = len(text.encode())
    if isinstance(envelope, Event):
        check_size(envelope)
    elif size > PACKET_BYTES_MAX:
        raise Rejected(Reason.PACKET_TOO_LARGE, f"{size} bytes, over {PACKET_BYTES_MAX}")
    return envelope, text


def check_size(event: Event) -> None:
    """Raise Rejected (item-too-large) if the event's message is larger than a queue takes."""
    if not fits(event):
        raise Rejected(
            Reason.ITEM_TOO_LARGE,
            f"{_size(event)} bytes, over {EVENT_MESSAGE_BYTES_MAX} in a message: send a smaller"
            " payload",
        )


def fits(event: Event) -> bool:
    """Whether a queue takes the event's message."""
    few = len(event.payload or "") * BYTES_OF_CHARACTER_MAX < EVENT_MESSAGE_BYTES_MAX // 2
    return few or _size(event) <= EVENT_MESSAGE_BYTES_MAX


def _size(event: Event) -> int:
    return len(queueable(message_body(event)).encode())
