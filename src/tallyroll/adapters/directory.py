"""The bucket port on a directory, for archives copied from S3 under the same keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from tallyroll.errors import Missing, Refused

CHUNK_BYTES = 256 * 1024


class DirectoryBucket:
    """The files below a directory, by their paths."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.name = str(root)

    def put(self, key: str, body: bytes) -> None:
        self.fill(key, [body])

    def fill(self, key: str, chunks: Iterable[bytes]) -> None:
        """Write a file of these chunks. It is there once it is complete."""
        try:
            path = self._path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.part")
            with part.open("wb") as file:
                file.writelines(chunks)
            part.replace(path)
        except OSError as error:
            raise Refused(f"file {key!r} of {self.name!r}: {error.strerror}") from error

    def get(self, key: str) -> bytes:
        return b"".join(self.stream(key))

    def get_range(self, key: str, first: int, size: int) -> bytes:
        with self._opened(key) as file:
            file.seek(first)
            return file.read(size)

    def stream(self, key: str) -> Iterator[bytes]:
        with self._opened(key) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    @contextmanager
    def _opened(self, key: str) -> Iterator[BinaryIO]:
        try:
            with self._path(key).open("rb") as file:
                yield file
        except FileNotFoundError:
            raise Missing(f"there is no file {key!r} in {self.name!r}", "NoSuchKey") from None
        except OSError as error:
            raise Refused(f"file {key!r} of {self.name!r}: {error.strerror}") from error

    def list(self, prefix: str, after: str = "") -> Iterator[str]:
        return (key for key, _ in self.sizes(prefix) if key > after)

    def sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        files = (path for path in self._root.rglob("*") if path.is_file())
        keys = sorted((path.relative_to(self._root).as_posix(), path) for path in files)
        return ((key, path.stat().st_size) for key, path in keys if key.startswith(prefix))

    def _path(self, key: str) -> Path:
        # The key may come from a manifest that was tampered with.
        if key.startswith("/") or ".." in PurePosixPath(key).parts:
            raise Missing(f"key {key!r} leads out of {self.name!r}", "NoSuchKey")
        return self._root / key
