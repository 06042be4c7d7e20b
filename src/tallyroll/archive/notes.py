"""Notes of exporter and proof on their progress, stored as JSON beside an archive."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from tallyroll.errors import ProofMismatch

CHANGED = "the archive changed while it was being proven"
N = TypeVar("N")


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


_LISTS = {"files": Upload, "spills": Spill, "runs": Spill, "wanted": Spill, "packets": Spill}
_OF_TOMBSTONES = ("tombstones", "packed", "taken", "wanted")


def note_body(
    note: SegmentNote | ReadNote | JoinedNote | ComparedNote | RepeatedNote | UnpackedNote,
) -> bytes:
    """A note as it is stored; without tombstones as a release that knows none can read it."""
    fields = asdict(note)
    if isinstance(note, ReadNote) and not note.tombstones:
        fields = {name: of for name, of in fields.items() if name not in _OF_TOMBSTONES}
    return json.dumps(fields).encode()


def parse_note(kind: type[N], key: str, body: bytes, identity: str | None = None) -> N:
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
