"""A journal in a file that one process at a time may have open."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from tallyroll.errors import UsageError

NO_FILE = -1


class FileJournal:
    """The file at `path`, made if it is not there, and locked by `path`.lock until it is closed.

    Raises UsageError if another process has it open, or it cannot be opened. What is appended
    survives the end of the process, not that of the machine. After a fork it is the parent's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._torn = False
        self._file = self._lock = NO_FILE
        _open_journals.add(self)
        try:
            self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = self._open()
            except BaseException:
                self.leave()
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
        torn = self._torn
        rest = b"!\n" + data if torn else data  # a refused line that only lacks its end stays so
        try:
            _write(self._file, rest)
        except OSError:
            self._torn = True
            with suppress(OSError):
                os.ftruncate(self._file, length)
                self._torn = torn  # by an earlier call
            raise
        self._torn = False

    def replace(self, data: bytes) -> None:
        """Have these bytes in the place of all others, at once."""
        new = self._path.with_name(f"{self._path.name}.new")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        file = os.open(new, flags, 0o600)
        try:
            os.fchmod(file, 0o600)
            _write(file, data)
            os.fsync(file)
            new.replace(self._path)
        except BaseException:
            os.close(file)
            raise
        # A closed descriptor's number may become another file's: no line may go there.
        old, self._file = self._file, file
        self._torn = False
        os.close(old)

    def keep(self, data: bytes) -> None:
        """Add bytes to `path`.damaged, for repair by hand."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(f"{self._path}.damaged", flags, 0o600)
        try:
            _write(file, data)
            os.fsync(file)
        finally:
            os.close(file)

    def close(self) -> None:
        """Let another process open it."""
        if self._lock != NO_FILE:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # also of a child that has it open
        self.leave()

    def leave(self) -> None:
        """Close the files and leave the lock to the process that has it, if it is another one."""
        file, self._file = self._file, NO_FILE
        lock, self._lock = self._lock, NO_FILE
        for each in (file, lock):
            if each != NO_FILE:
                os.close(each)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


_open_journals: WeakSet[FileJournal] = WeakSet()


def _leave_all() -> None:
    """In a child: a lock lasts until every process has closed its file."""
    for journal in list(_open_journals):
        journal.leave()


os.register_at_fork(after_in_child=_leave_all)
