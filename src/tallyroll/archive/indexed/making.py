"""The part of a proof that makes the archive's index, over several runs.

    {prefix}/progress/entries-{run}-0003.bin    entries of partition 3, spilled by a run
    {prefix}/progress/members-{run}.json.z      members of data files, and what was spilled
    {prefix}/progress/indexed-0000.json         digests of 16 partitions that were written
    {prefix}/index/003-of-010                   a partition, see `indexed/entries.py`

An archive of up to 2 MiB has no index, since it is as well read whole. None has one either of which
a gzip member is large, or has only a part of a line, as those of other exporters may.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import merge

from tallyroll.archive.duplicates import split_digests
from tallyroll.archive.indexed.entries import (
    ENTRY_BYTES,
    Partition,
    digest_of,
    encoded,
    entry_of,
    lengths_of,
    partitions_for,
)
from tallyroll.archive.layout import ArchivedItem, DataFile, index_key
from tallyroll.archive.notes import (
    EntriesNote,
    IndexedNote,
    NotePlace,
    ProofProgress,
    ReadNote,
    Spill,
    Spills,
    note_body,
    parse_note,
)
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.effects import Effects

INDEXED_OVER = 2 * 1024 * 1024  # compressed bytes of an archive
MEMBER_BYTES_MAX = 4 * 1024 * 1024  # compressed; ours have some 55 KB
ENTRIES_HELD = 250_000  # in memory, some 15 MB
GROUP = 16  # partitions of a note, which are made side by side
PUTS_AT_ONCE = 4  # the largest have 4 MB each for 10^8 items


@dataclass
class EntriesRead:
    """The entries of the items in some data files, from number `file` on."""

    spills: Spills
    partitions: int
    file: int
    members: list[list[int]] = field(default_factory=list)
    spilled: list[Spill] = field(default_factory=list)
    count: int = 0
    possible: bool = True
    """Whether an index can name the places of all items so far."""
    _held: list[bytes] = field(default_factory=list)
    _seen: set[bytes] = field(default_factory=set)  # in one member
    _member: int = 0

    def add(self, found: ArchivedItem) -> None:
        """Add an item of the current file."""
        entry = entry_of(found, self.file)
        if not entry:
            self.possible = self.possible and entry is not None
            return
        if found.member != self._member:
            self._seen.clear()
            self._member = found.member
        if entry in self._seen:
            return
        self._seen.add(entry)
        self._held.append(entry)
        if len(self._held) >= ENTRIES_HELD:
            self._spill()

    def end_file(self, ends: Sequence[int]) -> None:
        """Go on to the next file; the members of this one end there."""
        lengths = lengths_of(ends)
        self.possible = self.possible and max(lengths, default=0) <= MEMBER_BYTES_MAX
        self.members.append(lengths)
        self.file += 1
        self._seen.clear()

    def note(self, identity: str) -> EntriesNote | None:
        """The note of all that was added; None if there can be no index."""
        if self._held:
            self._spill()
        if not self.possible:
            return None
        return EntriesNote(identity, self.members, self.count, self.spilled)

    def _spill(self) -> None:
        if self.possible:
            self._held.sort()
            self.count += len(self._held)
            bodies = split_digests(self._held, self.partitions)
            self.spilled.append(self.spills.put("entries", bodies, "bin"))
        self._held.clear()


@dataclass
class IndexProof:
    """One run's work on the index of an archive of about so many `items`; notes are in `place`."""

    bucket: ArchiveBucket
    prefix: str
    progress: ProofProgress
    place: NotePlace
    progress_dir: str
    spills: Spills
    effects: Effects
    items: int

    def __post_init__(self) -> None:
        self.partitions = partitions_for(self.items)

    def entries(self, first: int) -> EntriesRead:
        """What takes the entries of data files from number `first` on."""
        return EntriesRead(self.spills, self.partitions, first)

    def keep(self, entries: EntriesRead, run: Spill, *, whole: bool) -> None:
        """Write the note of some data files, of whose digests this was the last `run`; of a small
        archive that was read as a whole there is none, and so no index.
        """
        size = sum(map(sum, entries.members))
        if whole and not entries.spilled and size <= INDEXED_OVER:
            return
        if note := entries.note(self.progress.identity):
            self.place.put(self._key_of(run), zlib.compress(note_body(note)))

    def _key_of(self, run: Spill) -> str:
        return f"{self.progress_dir}members-{run.name.partition('-')[2]}.json.z"

    def index(self, files: Sequence[DataFile], read: Sequence[ReadNote]) -> list[str] | None:
        """Write the index of these data files, which the notes cover, and give the digests of its
        partitions: none, if there is no index. None if time ran out.
        """
        notes = self._noted(read)
        members = [lengths for note in notes for lengths in note.members]
        if len(members) != len(files) or sum(map(sum, members)) <= INDEXED_OVER:
            return []
        names = (file.key.rpartition("/")[2] for file in files)
        listed = list(zip(names, members, strict=True))
        spills = [spill for note in notes for spill in note.spills]
        made = self.progress.by_partition(
            IndexedNote,
            "indexed",
            -(-self.partitions // GROUP),
            partial(self._group, listed, spills),
        )
        if made is None:
            return None
        found, noted = (sum(note.entries for note in some) for some in (made, notes))
        if found != noted:
            raise ProofMismatch(
                [f"index: {found:,} entries were written, {noted:,} are of the items"]
            )
        return [digest for note in made for digest in note.digests]

    def _noted(self, read: Sequence[ReadNote]) -> list[EntriesNote]:
        """The notes of what was read; nothing if one is missing, or of other partitions."""
        found = []
        for each in read:
            key = self._key_of(each.runs[-1])
            try:
                body = zlib.decompress(self.place.get(key))
            except Missing:
                return []
            except zlib.error as error:
                raise ProofMismatch([f"note damaged: {key}: {error}"]) from None
            note = parse_note(EntriesNote, key, body, self.progress.identity)
            if any(len(spill.digests) != self.partitions for spill in note.spills):
                return []
            found.append(note)
        return found

    def _group(
        self,
        files: Sequence[tuple[str, Sequence[int]]],
        spills: Sequence[Spill],
        group: int,
    ) -> IndexedNote:
        first = group * GROUP
        numbers = range(first, min(first + GROUP, self.partitions))
        jobs = [partial(self._put, files, spills, number) for number in numbers]
        made = self.effects.together(jobs, PUTS_AT_ONCE)
        digests = [digest for digest, _ in made]
        return IndexedNote(self.progress.identity, digests, sum(count for _, count in made))

    def _put(
        self, files: Sequence[tuple[str, Sequence[int]]], spills: Sequence[Spill], partition: int
    ) -> tuple[str, int]:
        """Write a partition; its digest, and how many entries stand there."""
        runs = map(_entries_in, self.spills.bodies(spills, partition))
        body = encoded(files, merge(*runs))
        key = index_key(self.prefix, partition, self.partitions)
        if self.bucket.put_once(key, body) != body:
            raise ProofMismatch([f"there is another index under {key}"])
        return digest_of(body), len(Partition.decoded(key, body))


def _entries_in(body: bytes) -> Iterable[bytes]:
    return (body[at : at + ENTRY_BYTES] for at in range(0, len(body), ENTRY_BYTES))
