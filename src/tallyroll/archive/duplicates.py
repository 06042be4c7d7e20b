"""Finds items that occur twice in an archive, by digests of their primary keys, in bounded memory.

Sums alone do not show them: an archive that lacks one record and holds an equal one twice has the
correct counts and sums. Nor do they show leaves of logs that no writer can have put where they are,
which are found by rows of the same size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import merge

from tallyroll.archive.layout import ArchivedItem
from tallyroll.logs.proving import ROW_BYTES, row_of, wrong_places
from tallyroll.model.items import StoredItem
from tallyroll.model.records import Record
from tallyroll.model.stored import events_of

DIGEST_BYTES = 12  # 96 bits: among 10^10 items, two share a digest in one of 10^9 archives
DIGESTS_HELD = 500_000  # in memory, some 30 MB


def key_digest(item: StoredItem) -> bytes:
    """A digest of an item's primary key."""
    return blake2b(f"{len(item.pk)} {item.pk}{item.sk}".encode(), digest_size=DIGEST_BYTES).digest()


def digests_of(found: ArchivedItem) -> list[bytes]:
    """Digests of what may be in an archive once: of the item's primary key, and of the messages of
    plain events of logged keys, be they in a log or a record.
    """
    messages = _messages(found)
    texts = (f"message {len(key)} {key}{message}" for key, message in messages)
    own = [blake2b(text.encode(), digest_size=DIGEST_BYTES).digest() for text in texts]
    return [key_digest(found.item), *own]


def _names(found: ArchivedItem) -> list[str]:
    """What these digests are of."""
    messages = _messages(found)
    return [f"item {found.item}", *(f"the event of message {each!r}" for _, each in messages)]


def _messages(found: ArchivedItem) -> list[tuple[str, str]]:
    """The (key, message id) of each plain event of a logged key in an item."""
    record = found.holds
    if not isinstance(record, Record) or not (record.logged or record.plain):
        return []
    return [(record.key, each.message or record.id) for each in events_of(record)]


def leaves_of(found: ArchivedItem) -> list[bytes]:
    """The row of a leaf of a log; of another item none."""
    row = row_of(found.holds) if isinstance(found.holds, Record) else None
    return [row] if row else []


def split_digests(digests: Sequence[bytes], parts: int) -> list[bytes]:
    """Split sorted digests into `parts` equal ranges of the digest space; each range is joined."""
    bounds = [(-(-(part << 32) // parts)).to_bytes(4, "big") for part in range(1, parts)]
    ends = [*(bisect_left(digests, bound) for bound in bounds), len(digests)]
    return [b"".join(digests[first:end]) for first, end in zip([0, *ends[:-1]], ends, strict=True)]


def digests_in(body: bytes) -> Iterator[bytes]:
    """The digests in a body that joins them."""
    return (body[at : at + DIGEST_BYTES] for at in range(0, len(body), DIGEST_BYTES))


def repeated(runs: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """The digests that occur more than once in all sorted runs together, each once, ascending."""
    last = found = b""
    for digest in merge(*runs):
        if digest == last and digest != found:
            found = digest
            yield digest
        last = digest


def repeats_named(items: Iterable[ArchivedItem], digests: Collection[bytes]) -> list[str]:
    """One finding per digest: the name of what is repeated, and all its places; or of a misplaced
    leaf what is wrong with its place.

    `items` may be only a part of the archive; where it has fewer than two items of a digest, the
    finding names the digest.
    """
    places: dict[bytes, list[str]] = {digest: [] for digest in digests}
    names: dict[bytes, str] = {}
    for found in items:
        for digest, name in zip(digests_of(found), _names(found), strict=True):
            if digest in places:
                names[digest] = name
                places[digest].append(f"{found.file} line {found.line}")
        if isinstance(found.holds, Record):
            for row, fault in wrong_places(found.holds, places):
                names[row] = f"{found.file} line {found.line}: {fault}"
    return [
        names.get(digest, f"a leaf of a log is misplaced, its row is {digest.hex()}")
        if len(digest) > ROW_BYTES
        else f"{names[digest]} occurs more than once: {', '.join(at)}"
        if len(at) > 1
        else f"an item occurs more than once, its digest is {digest.hex()}"
        for digest, at in places.items()
    ]
