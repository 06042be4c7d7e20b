"""A bucket of objects: what the archive asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol


class Bucket(Protocol):
    """The bucket of archives and of rejected bodies too large for a queue."""

    name: str

    def put(self, key: str, body: bytes) -> None:
        """Write an object whole."""
        ...

    def get(self, key: str) -> bytes:
        """An object whole; for small ones. Raises Missing."""
        ...

    def stream(self, key: str) -> Iterator[bytes]:
        """An object in chunks. Raises Missing."""
        ...

    def list(self, prefix: str) -> Iterable[str]:
        """The keys under a prefix, ascending."""
        ...


class ArchiveBucket(Bucket, Protocol):
    """A bucket for archives: what once stands there is never written over."""

    def put_once(self, key: str, body: bytes) -> bytes:
        """Write an object if there is none under its key; give the one that stands."""
        ...

    def stamps(self, prefix: str) -> Iterable[tuple[str, str]]:
        """The keys under a prefix, ascending, each with a text that another content changes."""
        ...

    def start_upload(self, key: str) -> str:
        """Begin an object that is written in parts; give the upload's id. Nothing stands under the
        key before the upload is completed.
        """
        ...

    def put_part(self, key: str, upload: str, number: int, body: bytes) -> str:
        """Write part `number`, from 1, of at least 5 MiB unless it is the last; give its receipt.
        Raises Missing if the upload is over.
        """
        ...

    def complete_upload(self, key: str, upload: str, receipts: Sequence[str]) -> None:
        """Make the object of all its parts. Raises Missing if the upload is over: completed before,
        or aborted.
        """
        ...

    def abort_upload(self, key: str, upload: str) -> None:
        """Forget the parts; fine if the upload is over."""
        ...


class ListedBucket(Bucket, Protocol):
    """A bucket that also tells how large its objects are."""

    def sizes(self, prefix: str) -> Iterable[tuple[str, int]]:
        """The keys under a prefix, ascending, with the objects' bytes."""
        ...
