"""The bucket of archives and of large rejected bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from tallyroll.model.windows import WindowId

TAG_PASSING = "tallyroll-passing"
"""The tag of an object that is of no use once its window is proven; its value is `true`. A rule of
the bucket deletes such objects, which no function may do.
"""
PROGRESS = "progress"
TICKETS_PREFIX = "compacting"
"""Below it is a ticket for each window of whose archive the compactor is to make Parquet."""
# Whole, since a pipeline may have that name, too.
_NOTE = re.compile(rf"archive/[^/]+/date=[^/]+/hour=[^/]+/[^/]+/[^/]+/{PROGRESS}/.+")
_CORRECTED = re.compile(r"archive/[^/]+/corrected-[^/]+\.json")


def is_passing(key: str) -> bool:
    """Whether an object notes the progress of an export or a proof, and gets the tag for that."""
    return bool(_NOTE.fullmatch(key))


def is_archived(key: str) -> bool:
    """Whether an object is a part of an archive, and no note of its making or its corrections."""
    noted = is_passing(key) or _CORRECTED.fullmatch(key)
    return key.startswith("archive/") and not noted


def corrected_note(pipeline: str, month: str) -> str:
    """The key of the note of how far corrections are copied of a month's dropped windows."""
    return f"archive/{pipeline}/corrected-{month}.json"


def ticket_of(pipeline: str, window: WindowId) -> str:
    """The key of the ticket by which the compactor finds a window."""
    return f"{TICKETS_PREFIX}/{pipeline}/{window}"


class Bucket(Protocol):
    """A bucket of objects."""

    name: str

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""

    def get(self, key: str) -> bytes:
        """The body of a small object. Raises Missing."""

    def stream(self, key: str) -> Iterator[bytes]:
        """The body of an object, in chunks. Raises Missing."""

    def get_range(self, key: str, first: int, size: int) -> bytes:
        """Bytes of an object from number `first` on, `size` (1 or more) of them; fewer if the
        object ends before. Raises Missing.
        """

    def list(self, prefix: str, after: str = "") -> Iterable[str]:
        """The keys under a prefix, ascending; those after the key `after`, if it is given."""


class ArchiveBucket(Bucket, Protocol):
    """A bucket for archives, whose objects are never overwritten, and for producers' uploads."""

    def put_once(self, key: str, body: bytes) -> bytes:
        """Write an object unless its key exists; return the body that is stored afterwards."""

    def stamps(self, prefix: str) -> Iterable[tuple[str, str]]:
        """The keys under a prefix, ascending, each with a text that changes with the content."""

    def start_upload(self, key: str) -> str:
        """Begin an upload in parts; return its id. The object exists once it is completed."""

    def put_part(self, key: str, upload: str, number: int, body: bytes) -> str:
        """Write part `number`, from 1, of at least 5 MiB unless it is the last; return its receipt.
        Raises Missing if the upload was completed or aborted.
        """

    def complete_upload(self, key: str, upload: str, receipts: Sequence[str]) -> None:
        """Join the parts to the object. Raises Missing if the upload was completed or aborted."""

    def abort_upload(self, key: str, upload: str) -> None:
        """Delete the parts. Does nothing if the upload was completed or aborted."""

    def delete(self, key: str) -> None:
        """Delete a payload that a producer uploaded, or a ticket of the compactor, if it exists;
        nothing else is ever deleted.
        """


class ListedBucket(Bucket, Protocol):
    """A bucket that also reports the sizes of its objects."""

    def sizes(self, prefix: str) -> Iterable[tuple[str, int]]:
        """The keys under a prefix, ascending, each with its object's size in bytes."""


class PassingBucket(ArchiveBucket, ListedBucket, Protocol):
    """A bucket whose rule may delete archives that there are others for."""

    def let_pass(self, key: str) -> None:
        """Give an object the tag for which the bucket's rule deletes it, if the object exists."""
