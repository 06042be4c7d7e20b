"""A journal in a file that one process at a time may have open."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tallyroll.errors import UsageError


class FileJournal:
    """The file at `path`, made if it is not there, and locked by `path`.lock until it is closed.

    Raises UsageError if another process has it open, or it cannot be opened. What is appended
    survives the end of the process, not that of the machine.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._torn = False
        try:
            self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = self._open()
            except BaseException:
                os.close(self._lock)
                raise
        except BlockingIOError:
            raise UsageError(
                f"spool {str(path)!r}: another producer has it open; give each its own file"
            ) from None
        except OSError as error:
            raise UsageError(f"spool {str(path)!r}: {error.strerror}") from None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def read(self) -> bytes:
        """All its bytes."""
        return self._path.read_bytes()

    def append(self, data: bytes) -> None:
        """Add bytes at its end. If it raises, it has taken none of them."""
        length = os.fstat(self._file).st_size
        rest = memoryview(b"\n" + data if self._torn else data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            self._torn = True
            with suppress(OSError):
                os.ftruncate(self._file, length)
                self._torn = False
            raise
        self._torn = False

    def replace(self, data: bytes) -> None:
        """Have these bytes in the place of all others, at once."""
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        os.close(self._file)
        self._file = self._open()

    def close(self) -> None:
        """Let another process open it."""
        os.close(self._file)
        os.close(self._lock)
