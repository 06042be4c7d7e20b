"""A bucket in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from tallyroll.errors import Missing, Refused
from tallyroll.limits import PART_BYTES_MIN

CHUNK_BYTES = 64 * 1024


class MemoryBucket:
    """Objects by key, and unfinished uploads."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self._objects: dict[str, bytes] = {}
        self._uploads: dict[tuple[str, str], dict[int, bytes]] = {}
        self.passing = set[str]()
        self._numbers = count(1)

    def put(self, key: str, body: bytes) -> None:
        self._objects[key] = body

    def put_once(self, key: str, body: bytes) -> bytes:
        if key not in self._objects:
            self.put(key, body)
            return body
        return self._objects[key]

    def start_upload(self, key: str) -> str:
        upload = f"upload-{next(self._numbers)}"
        self._uploads[key, upload] = {}
        return upload

    def put_part(self, key: str, upload: str, number: int, body: bytes) -> str:
        self._parts(key, upload)[number] = body
        return _stamp(body)

    def complete_upload(self, key: str, upload: str, receipts: Sequence[str]) -> None:
        parts = self._parts(key, upload)
        bodies = [parts.get(number, b"") for number in range(1, len(receipts) + 1)]
        if [_stamp(body) for body in bodies] != list(receipts):
            raise Refused(f"the parts of {key} are not as received", "InvalidPart")
        if any(len(body) < PART_BYTES_MIN for body in bodies[:-1]):
            raise Refused(f"a part of {key} is too small", "EntityTooSmall")
        del self._uploads[key, upload]
        self.put(key, b"".join(bodies))

    def abort_upload(self, key: str, upload: str) -> None:
        self._uploads.pop((key, upload), None)

    def uploads(self) -> list[str]:
        return [key for key, _ in self._uploads]

    def _parts(self, key: str, upload: str) -> dict[int, bytes]:
        try:
            return self._uploads[key, upload]
        except KeyError:
            raise Missing(f"upload {upload} of {key} is over", "NoSuchUpload") from None

    def get(self, key: str) -> bytes:
        try:
            return self._objects[key]
        except KeyError:
            raise Missing(f"there is no object {key}", "NoSuchKey") from None

    def get_range(self, key: str, first: int, size: int) -> bytes:
        return self.get(key)[first : first + size]

    def stream(self, key: str) -> Iterator[bytes]:
        body = self.get(key)
        for first in range(0, len(body), CHUNK_BYTES):
            yield body[first : first + CHUNK_BYTES]

    def delete(self, key: str) -> None:
        self._objects.pop(key, None)

    def let_pass(self, key: str) -> None:
        if key in self._objects:
            self.passing.add(key)

    def list(self, prefix: str, after: str = "") -> Iterable[str]:
        return sorted(key for key in self._objects if key.startswith(prefix) and key > after)

    def sizes(self, prefix: str) -> Iterable[tuple[str, int]]:
        return [(key, len(self._objects[key])) for key in self.list(prefix)]

    def stamps(self, prefix: str) -> Iterable[tuple[str, str]]:
        return [(key, _stamp(self._objects[key])) for key in self.list(prefix)]


def _stamp(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()
