"""Items that stand twice in an archive, found by digests of their primary keys, in bounded memory.

Sums alone would not tell: an archive that lacks one record and holds an equal one twice has the
counts and sums of a whole one.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import merge
from typing import IO

from tallyroll.archive.recount import ArchivedItem
from tallyroll.model.items import Item

DIGEST_BYTES = 12  # 96 bits: of 10^10 items two different ones share a digest once in 10^9 archives
DIGESTS_HELD = 500_000  # before they are written as a run: some 30 MB
READ_DIGESTS = 512  # of each run at a time


def key_digest(item: Item) -> bytes:
    """What stands for an item's primary key."""
    pk, sk = item["pk"]["S"], item["sk"]["S"]
    return blake2b(f"{len(pk)} {pk}{sk}".encode(), digest_size=DIGEST_BYTES).digest()


def split_digests(digests: Sequence[bytes], parts: int) -> list[bytes]:
    """Sorted digests, joined, in so many parts: each has its share of all possible ones."""
    bounds = [(-(-(part << 32) // parts)).to_bytes(4, "big") for part in range(1, parts)]
    ends = [*(bisect_left(digests, bound) for bound in bounds), len(digests)]
    return [b"".join(digests[first:end]) for first, end in zip([0, *ends[:-1]], ends, strict=True)]


def digests_in(body: bytes) -> Iterator[bytes]:
    """The digests that were joined."""
    return (body[at : at + DIGEST_BYTES] for at in range(0, len(body), DIGEST_BYTES))


def repeated(runs: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """The digests, each once and ascending, that sorted runs hold more than once, all together."""
    last = told = b""
    for digest in merge(*runs):
        if digest == last and digest != told:
            told = digest
            yield digest
        last = digest


class Repeats:
    """Finds the repeated digests of any number; what memory does not hold is kept, in sorted runs,
    in a file that the system deletes.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._runs: list[tuple[int, int]] = []

    def add(self, digest: bytes) -> None:
        """Take in one item's digest."""
        self._held.append(digest)
        if len(self._held) >= DIGESTS_HELD:
            self._write()

    def found(self) -> Iterator[bytes]:
        """The digests that were added more than once, ascending; to be asked once, at the end."""
        self._held.sort()
        if self._file is None:
            yield from repeated([self._held])
            return
        with self._file as file:
            runs = (self._read(file, *run) for run in self._runs)
            yield from repeated([self._held, *runs])

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed at the end)
        self._held.sort()
        begin = self._file.tell()
        self._file.write(b"".join(self._held))
        self._held.clear()
        self._runs.append((begin, self._file.tell()))

    def _read(self, file: IO[bytes], at: int, end: int) -> Iterator[bytes]:
        while at < end:
            file.seek(at)
            some = file.read(min(READ_DIGESTS * DIGEST_BYTES, end - at))
            at += len(some)
            yield from digests_in(some)


def repeats_named(items: Iterable[ArchivedItem], digests: Collection[bytes]) -> list[str]:
    """A finding for each of these digests: which item of an archive it is and where it stands, as
    far as its items are given.
    """
    places: dict[bytes, list[str]] = {digest: [] for digest in digests}
    names: dict[bytes, str] = {}
    for found in items:
        digest = key_digest(found.item)
        if digest in places:
            names[digest] = f"{found.item['pk']['S']}/{found.item['sk']['S']}"
            places[digest].append(f"{found.file} line {found.line}")
    return [
        f"item {names[digest]} stands more than once: {', '.join(at)}"
        if len(at) > 1
        else f"an item stands more than once, its digest is {digest.hex()}"
        for digest, at in places.items()
    ]
