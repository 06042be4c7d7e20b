"""Parts of a proof: `compare`, what its counts must be, and what joins each tombstone to its
record, over several runs.

    {prefix}/progress/wanted-{run}-0001.bin     what tombstones want of records, by partition
    {prefix}/progress/joined-000-00042.json     tombstones joined by data files from number 42 on
    {prefix}/progress/packets-{run}-0003.json.z retracted packets in chunks, of partition 3
    {prefix}/progress/unpacked-0003.json        tombstones joined by the packets of partition 3

An archive with tombstones is read once more, in a pass for each 400,000 of them. No item occurs
twice in an archive, as another part proves. So all tombstones have their records if as many are
joined as there are.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from tallyroll.archive.duplicates import digests_in
from tallyroll.archive.joining import HALF, WANTED_HELD, Joining, wanted_by
from tallyroll.archive.layout import DataFile
from tallyroll.archive.notes import JoinedNote, ProofProgress, ReadNote, Spill, Spills, UnpackedNote
from tallyroll.archive.recount import ArchivePass
from tallyroll.errors import ProofMismatch, Refused
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.stored import whole
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec

PARTITION_PACKETS = 100  # retracted events; their packets have 256 KB each at the most
HELD_BYTES = 16_000_000  # of packets in memory; more are spilled
NOTE_EVERY_MS = 30_000  # a run that is killed loses at most this much reading
CLOCK_EVERY_ITEMS = 1_000


@dataclass
class TombstonesRead:
    """The tombstones in some data files: how many, those of events in packets among them, their
    amount, what they want of records, and what of that was spilled.
    """

    count: int = 0
    packed: int = 0
    amount: int = 0
    wanted: list[bytes] = field(default_factory=list)
    spills: list[Spill] = field(default_factory=list)

    def add(self, tombstone: Tombstone) -> None:
        """Add one."""
        self.count += 1
        self.packed += tombstone.index is not None
        self.amount += tombstone.amount
        self.wanted.append(wanted_by(tombstone))


@dataclass
class TombstoneProof:
    """One run's work on joining tombstones. What they want is in `partitions` parts."""

    reading: ArchivePass
    codec: ItemCodec
    progress: ProofProgress
    spills: Spills
    partitions: int
    effects: Effects
    deadline: int
    _loaded: tuple[range, Joining] | None = field(default=None, init=False)

    def findings(self, files: Sequence[DataFile], read: Sequence[ReadNote]) -> list[str] | None:
        """What is wrong with the tombstones of which the notes `read` tell; None if time ran
        out.
        """
        count = sum(note.tombstones for note in read)
        if not count:
            return []
        self._packets = -(-sum(note.packed for note in read) // PARTITION_PACKETS)
        self._wanted = [spill for note in read for spill in note.wanted]
        passes = min(self.partitions, -(-count // WANTED_HELD))
        joined: list[JoinedNote] = []
        for number in range(passes):
            first, end = (at * self.partitions // passes for at in (number, number + 1))
            notes = self.progress.by_files(
                JoinedNote,
                f"joined-{number:03d}",
                files,
                partial(self._read_some, range(first, end)),
            )
            if notes is None:
                return None
            joined += notes
        unpacked = self.progress.by_partition(
            UnpackedNote, "unpacked", self._packets, partial(self._unpack, joined)
        )
        if unpacked is None:
            return None
        found = sum(note.joined for note in joined) + sum(note.joined for note in unpacked)
        if found == count:
            return []
        what = "have no record with their shard, digest, events and amount"
        return [f"tombstones: {count - found:,} of {count:,} {what} (`archive verify` names them)"]

    def _joining(self, partitions: range) -> Joining:
        """What is wanted in these partitions, of which nothing is met yet."""
        if self._loaded is None or self._loaded[0] != partitions:
            bodies = (
                body for each in partitions for body in self.spills.bodies(self._wanted, each)
            )
            wanted = (digest for body in bodies for digest in digests_in(body))
            self._loaded = partitions, Joining(wanted)
        joining = self._loaded[1]
        joining.restart()
        return joining

    def _read_some(
        self, partitions: range, files: Sequence[DataFile], first: int
    ) -> JoinedNote | None:
        """Join the records in data files from number `first` on, as many as time and memory allow.
        Returns their note, or None if there was no time for one file.
        """
        joining = self._joining(partitions)
        packets = _Packets(self._packets)
        spilled: list[Spill] = []
        began, end = self.effects.now(), first
        for file in files[first:]:
            now = self.effects.now()
            if end > first and (spilled or now >= began + NOTE_EVERY_MS or now >= self.deadline):
                break
            for number, found in enumerate(self.reading.read(file)):
                if number % CLOCK_EVERY_ITEMS == 0 and self.effects.now() >= self.deadline:
                    return None
                if isinstance(found.holds, Record) and not (found.in_chunks and found.holds.packed):
                    joining.join(found.holds)
                elif self._packets and (wanted := joining.wanted_of(found.holds)):
                    packets.add(self.codec.encode(found.item).decode(), wanted)
                if packets.held >= HELD_BYTES:
                    spilled.append(self.spills.put("packets", packets.bodies(), "json.z"))
            end += 1
        if self.reading.findings.count:
            raise ProofMismatch(self.reading.findings.first)
        if packets.held:
            spilled.append(self.spills.put("packets", packets.bodies(), "json.z"))
        return JoinedNote(self.progress.identity, end, joining.joined, spilled)

    def _unpack(self, joined: Sequence[JoinedNote], partition: int) -> UnpackedNote:
        """Join the packets in one partition, put together from their chunks."""
        wanted: set[bytes] = set()
        records: list[Record] = []
        chunks = defaultdict[tuple[str, str], list[Chunk]](list)
        spills = (spill for note in joined for spill in note.packets)
        for body in self.spills.bodies(spills, partition):
            for row in zlib.decompress(body).decode().split("\n"):
                line, digests = json.loads(row)
                wanted.update(map(bytes.fromhex, digests))
                found = self.codec.parse(self.codec.decode(line.encode()))
                if isinstance(found, Chunk):
                    chunks[found.key, found.id].append(found)
                elif isinstance(found, Record):
                    records.append(found)
        joining = Joining(wanted)
        for record in records:
            with suppress(Refused):  # damaged, so its tombstones are not joined
                joining.join(whole(record, lambda key, name, _: chunks[key, name]))
        return UnpackedNote(self.progress.identity, joining.joined)


class _Packets:
    """Lines of packets in chunks, and of the chunks, in partitions by key and id."""

    def __init__(self, partitions: int) -> None:
        self._lines: list[list[str]] = [[] for _ in range(partitions)]
        self.held = 0
        """The bytes of all lines in memory."""

    def add(self, line: str, wanted: Sequence[bytes]) -> None:
        """Add a line, with what is wanted of its packet."""
        row = json.dumps([line, [digest.hex() for digest in wanted]])
        self.held += len(row)
        self._lines[int.from_bytes(wanted[0][:HALF]) % len(self._lines)].append(row)

    def bodies(self) -> list[bytes]:
        """The body of each partition; then nothing is in memory."""
        bodies = [
            zlib.compress("\n".join(rows).encode(), 1) if rows else b"" for rows in self._lines
        ]
        self._lines = [[] for _ in self._lines]
        self.held = 0
        return bodies


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of a whole archive: items, gates, and the sums over all keys by records, less what was
    `retracted` (events, amount).
    """

    items: int
    gates_shut: int
    gates_open: int
    keys: int
    events: int
    amount: int
    retracted: tuple[int, int] = (0, 0)


def compare(window: Window, spec: Spec, counted: Counted) -> list[str]:
    """Every difference between an archive's counts and its window's sealed state and spec."""
    findings = []
    if counted.gates_open or counted.gates_shut != spec.gates:
        findings.append(
            f"gates: {counted.gates_shut} shut and {counted.gates_open} open in the archive,"
            f" {spec.gates} shut expected: was it taken before the window was sealed?"
        )
    sealed = (window.keys, window.events, window.amount)
    by_records = (counted.keys, counted.events, counted.amount)
    if by_records != sealed:
        findings.append(f"(keys, events, amount) by records {by_records}, when sealed {sealed}")
    return findings
