"""Notes of exporter and proof on their progress, stored as JSON beside an archive, and spills: what
does not fit into memory, one body per partition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Protocol, TypeVar

from tallyroll.archive.layout import DataFile
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.ports.effects import Effects

PUTS_AT_ONCE = 16
CHANGED = "the archive changed while it was being proven"
A = TypeVar("A")


@dataclass(slots=True)
class Upload:
    """A data file as a multipart upload: its receipts, then its number of items and its MD5."""

    key: str
    upload: str
    parts: list[str]
    items: int = 0
    md5: str = ""


@dataclass(frozen=True, slots=True)
class SegmentNote:
    """The data files of a segment that was read to its end."""

    table: str
    segment: int
    segments: int
    files: list[Upload]


@dataclass(frozen=True, slots=True)
class Spill:
    """One body per partition, kept in the bucket; `digests` are those of the bodies, or ""."""

    name: str
    suffix: str
    digests: list[str]


@dataclass(frozen=True, slots=True)
class ReadNote:
    """Counts of the data files up to number `end`, and what was spilled of them: sums per key,
    sorted runs of the items' digests, and what tombstones want of records. `gates` are the numbers
    of shut and of open ones. Of the `tombstones`, `packed` are those of events in packets, and
    `taken` is the amount of all, as text.

    Releases that know no tombstones refuse every archive with one: in their notes there is none.
    """

    identity: str
    end: int
    items: int
    gates: list[int]
    spills: list[Spill]
    runs: list[Spill]
    tombstones: int = 0
    packed: int = 0
    taken: str = "0"
    wanted: list[Spill] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JoinedNote:
    """How many tombstones the records in the data files up to number `end` have joined; and what
    was spilled of retracted packets that are in chunks.
    """

    identity: str
    end: int
    joined: int
    packets: list[Spill]


@dataclass(frozen=True, slots=True)
class UnpackedNote:
    """How many tombstones one partition of the packets in chunks has joined."""

    identity: str
    joined: int


@dataclass(frozen=True, slots=True)
class ComparedNote:
    """One partition of the keys, compared: sums of its records (`amount` as text), findings."""

    identity: str
    keys: int
    events: int
    amount: str
    findings: list[str]


@dataclass(frozen=True, slots=True)
class RepeatedNote:
    """The digests of one partition of the items that occur more than once, hexadecimal."""

    identity: str
    repeated: list[str]


@dataclass(frozen=True, slots=True)
class EntriesNote:
    """What an index needs of the data files of a `ReadNote`: the lengths of their gzip members, how
    many entries there are, and where they were spilled. It has the name of that note's last run of
    digests, and is written before it. Without one, as of an earlier release, there is no index.
    """

    identity: str
    members: list[list[int]]
    entries: int
    spills: list[Spill]


@dataclass(frozen=True, slots=True)
class IndexedNote:
    """The digests of some partitions of the index that were written, and how many entries they
    have.
    """

    identity: str
    digests: list[str]
    entries: int


_LISTS = {"files": Upload, "spills": Spill, "runs": Spill, "wanted": Spill, "packets": Spill}
_OF_TOMBSTONES = ("tombstones", "packed", "taken", "wanted")


def note_body(
    note: (
        SegmentNote
        | ReadNote
        | JoinedNote
        | ComparedNote
        | RepeatedNote
        | UnpackedNote
        | EntriesNote
        | IndexedNote
    ),
) -> bytes:
    """A note as it is stored; without tombstones as a release that knows none can read it."""
    fields = asdict(note)
    if isinstance(note, ReadNote) and not note.tombstones:
        fields = {name: of for name, of in fields.items() if name not in _OF_TOMBSTONES}
    return json.dumps(fields).encode()


def parse_note(kind: type[A], key: str, body: bytes, identity: str | None = None) -> A:
    """The note of this kind that is stored under `key`. Raises ProofMismatch if it is damaged, or
    if it has not the identity of its proof.
    """
    try:
        fields: dict[str, Any] = json.loads(body)
        if identity is not None and fields["identity"] != identity:
            raise ProofMismatch([CHANGED])
        for name in fields.keys() & _LISTS:
            fields[name] = [_LISTS[name](**each) for each in fields[name]]
        return kind(**fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"note damaged: {key}: {error!r}"]) from None


class NotePlace(Protocol):
    """Where notes and spills are: a bucket, or the memory of one run."""

    def list(self, prefix: str) -> Iterable[str]:
        """The keys under a prefix, ascending."""

    def get(self, key: str) -> bytes:
        """The body of a key. Raises Missing."""

    def put(self, key: str, body: bytes) -> None:
        """Write a body."""

    def put_once(self, key: str, body: bytes) -> bytes:
        """Write a body unless its key exists; return the one that is there afterwards."""


class HeldNotes:
    """Notes and spills in memory, in the order in which they were written."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def list(self, prefix: str) -> Iterable[str]:
        """The keys under a prefix, ascending."""
        return sorted(key for key in self._bodies if key.startswith(prefix))

    def get(self, key: str) -> bytes:
        """The body of a key. Raises Missing."""
        if key not in self._bodies:
            raise Missing(f"no note {key}")
        return self._bodies[key]

    def put(self, key: str, body: bytes) -> None:
        """Write a body."""
        self._bodies[key] = body

    def put_once(self, key: str, body: bytes) -> bytes:
        """Write a body unless its key exists; return the one that is there afterwards."""
        return self._bodies.setdefault(key, body)

    def move_to(self, bucket: NotePlace) -> None:
        """Write all into a bucket, notes after the spills that they name."""
        for key, body in self._bodies.items():
            bucket.put_once(key, body)


def noted(bucket: NotePlace, progress: str) -> bool:
    """Whether a proof has notes in the bucket."""
    return any(True for _ in bucket.list(f"{progress}proof-"))


N = TypeVar("N", ReadNote, JoinedNote, ComparedNote, RepeatedNote, UnpackedNote, IndexedNote)
F = TypeVar("F", ReadNote, JoinedNote)


class ProofProgress:
    """The notes under one prefix of the proof with this `identity`; a run makes those that are
    missing until its `deadline` (ms).
    """

    def __init__(
        self, place: NotePlace, prefix: str, identity: str, effects: Effects, deadline: int
    ) -> None:
        self._place = place
        self._prefix = prefix
        self.identity = identity
        self._effects = effects
        self._deadline = deadline

    def by_files(
        self,
        kind: type[F],
        name: str,
        files: Sequence[DataFile],
        read: Callable[[Sequence[DataFile], int], F | None],
    ) -> list[F] | None:
        """Read the data files that no note covers yet. `read` gives the note of some files from a
        number on, or None without time for one file. Returns all notes, None if time ran out.
        """
        notes: list[F] = []
        first = 0
        existing = frozenset(self._place.list(f"{self._prefix}{name}-"))
        while first < len(files) or not notes:
            note = self._noted(kind, f"{name}-{first:05d}", existing, partial(read, files, first))
            if note is None:
                return None
            notes.append(note)
            first = note.end
        return notes

    def by_partition(
        self, kind: type[N], name: str, partitions: int, compare: Callable[[int], N]
    ) -> list[N] | None:
        """Compare each partition that has no note yet. Returns all notes, None if time ran out."""
        compared = []
        existing = frozenset(self._place.list(f"{self._prefix}{name}-"))
        for partition in range(partitions):
            note = self._noted(
                kind, f"{name}-{partition:04d}", existing, partial(compare, partition)
            )
            if note is None:
                return None
            compared.append(note)
        return compared

    def _noted(
        self, kind: type[N], name: str, existing: Collection[str], make: Callable[[], N | None]
    ) -> N | None:
        """A note of this or another run, made if it does not exist. None if time ran out."""
        key = f"{self._prefix}{name}.json"
        if key in existing:
            return parse_note(kind, key, self._place.get(key), self.identity)
        note = make() if self._effects.now() < self._deadline else None
        if note is None:
            return None
        body = self._place.put_once(key, note_body(note))
        return parse_note(kind, key, body, self.identity)


class Spills:
    """Writes the spills of one run, and reads those of all runs, under one prefix."""

    def __init__(self, place: NotePlace, progress: str, effects: Effects) -> None:
        self._place = place
        self._progress = progress
        self._effects = effects
        self._token = f"{effects.chance.getrandbits(48):012x}"
        self._spilled = 0

    def put(self, kind: str, bodies: Sequence[bytes], suffix: str) -> Spill:
        """Write one spill, one body per partition unless empty. Returns its entry for a note."""
        name, self._spilled = f"{kind}-{self._token}{self._spilled:04x}", self._spilled + 1
        spill = Spill(name, suffix, [_digest_of(body) if body else "" for body in bodies])
        jobs = [
            partial(self._place.put, self._key(spill, partition), body)
            for partition, body in enumerate(bodies)
            if body
        ]
        self._effects.together(jobs, PUTS_AT_ONCE)
        return spill

    def bodies(self, spills: Iterable[Spill], partition: int) -> Iterator[bytes]:
        """A partition's bodies of these spills. Raises ProofMismatch if one is missing or has
        changed.
        """
        for spill in spills:
            if not spill.digests[partition]:
                continue
            key = self._key(spill, partition)
            try:
                body = self._place.get(key)
            except Missing:
                raise ProofMismatch([f"{key}: missing"]) from None
            if _digest_of(body) != spill.digests[partition]:
                raise ProofMismatch([f"{key}: changed since it was written"])
            yield body

    def _key(self, spill: Spill, partition: int) -> str:
        return f"{self._progress}{spill.name}-{partition:04d}.{spill.suffix}"


def _digest_of(body: bytes) -> str:
    """A short digest: a note holds one for each partition of a spill."""
    return blake2b(body, digest_size=16).hexdigest()
