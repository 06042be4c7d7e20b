"""Proof before drop: an archive is complete if its files, records and tallies, the totals and the
window's sealed state all agree.

    {prefix}/progress/proof-00042.json        counts of some data files, from number 42 on
    {prefix}/progress/sums-{run}-0003.json.z  sums of the keys of partition 3, spilled by a run
    {prefix}/progress/compared-0003.json      result of comparing partition 3
    {prefix}/progress/items-{run}-0001.bin    digests of the items of partition 1, spilled by a run
    {prefix}/progress/leaves-{run}-0001.bin   rows of the leaves of logs in the same way
    {prefix}/progress/repeated-0001.json      the digests of partition 1 that occur more than once,
                                              and the rows of leaves that are misplaced

Where events were retracted, `archive/proof_joining.py` joins tombstones to their records. Each run
continues where the notes end; those of a small archive stay in memory, if time allows. Memory is
bounded: one partition of keys, or of digests, is compared at a time. The archive must not change
meanwhile: each note holds a digest over the manifests and the keys and ETags of all data files.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import chain, islice, takewhile
from typing import Any

from tallyroll.archive.corrections import note_retracted
from tallyroll.archive.duplicates import (
    DIGESTS_HELD,
    digests_in,
    digests_of,
    leaves_of,
    repeated,
    repeats_named,
    split_digests,
)
from tallyroll.archive.indexed.making import IndexProof
from tallyroll.archive.layout import DataFile, prefix_of, progress_dir, proof_key
from tallyroll.archive.notes import (
    CHANGED,
    ComparedNote,
    HeldNotes,
    NotePlace,
    ProofProgress,
    ReadNote,
    RepeatedNote,
    Spill,
    Spills,
    noted,
)
from tallyroll.archive.proof_joining import Counted, TombstoneProof, TombstonesRead, compare
from tallyroll.archive.recount import (
    FINDINGS_KEPT,
    ArchivePass,
    Recount,
    keys_differing_from_totals,
)
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.logs.proving import misplaced, strange
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.sharding import stable_hash
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.windows import iso
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec
from tallyroll.ports.totals import Totals

SUMS_HELD = 100_000  # sums per key in memory, some 30 MB; more are spilled
PARTITION_KEYS = 25_000
PARTITION_ITEMS = 1_000_000  # 12 MB of digests
KEYS_TOO_MANY = 8  # a partition with 8 times its expected keys cannot be this window's
NOTE_EVERY_MS = 30_000  # a run that is killed loses at most this much reading
CLOCK_EVERY_ITEMS = 1_000
ITEMS, LEAVES = "items", "leaves"  # what runs are of
_OWN = ("provenAt", "index")  # what two proofs of one archive may say otherwise
HELD_ITEMS = 50_000  # of an archive in one data file that one run proves in seconds


def prove(
    window: Window,
    spec: Spec,
    codec: ItemCodec,
    bucket: ArchiveBucket,
    totals: Totals,
    effects: Effects,
    deadline: int,
) -> int | None:
    """Verify the current attempt's archive and write its proof; continue where the last run ended.

    Returns the number of items, or None if the deadline (ms) passed first. Raises ProofMismatch
    with all findings.
    """
    return _Proof(window, spec, codec, bucket, totals, effects, deadline).run()


def notes(bucket: ArchiveBucket, window: Window) -> int:
    """The number of progress notes of the current attempt: one per exported segment, per group of
    data files read, and per partition compared. Spilled sums and digests are not notes.
    """
    keys = bucket.list(progress_dir(window.attempt.archive))
    return sum(1 for key in keys if key.endswith(".json"))


def check_place(window: Window, pipeline: str) -> None:
    """Raise ProofMismatch unless the window's state names the archive of its own attempt."""
    attempt = window.attempt
    if attempt.archive != prefix_of(pipeline, window.id, attempt.id):
        raise ProofMismatch(
            [f"the state names the archive {attempt.archive!r}, not that of {attempt.id!r}"]
        )


def check_proof(window: Window, bucket: ArchiveBucket) -> None:
    """Raise ProofMismatch unless the window's archive is proven and has not changed since.

    This is the last check before the table is dropped.
    """
    key = proof_key(window.attempt.archive)
    try:
        proof = json.loads(bucket.get(key))
        data_dir, digest, items = proof["dataDir"], proof["dataDigest"], proof["items"]
        proven = {name: proof[name] for name in _facts(window)}
    except Missing:
        raise ProofMismatch([f"not proven: there is no {key}"]) from None
    except (KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"proof malformed: {key}: {error!r}"]) from None
    if proven != _facts(window) or items != window.attempt.items:
        raise ProofMismatch(
            [f"proof of another state: {key}: {proven}, the state {_facts(window)}"]
        )
    if _digest_of(bucket.stamps(data_dir)) != digest:
        raise ProofMismatch([f"data files under {data_dir} changed since they were proven"])


def _facts(window: Window) -> dict[str, Any]:
    """The fields of a window's state that its proof repeats."""
    return {
        "window": window.id,
        "table": window.table,
        "attempt": window.attempt.id,
        "keys": window.keys,
        "events": window.events,
        "amountMillionths": str(window.amount),
    }


def _digest_of(stamps: Iterable[tuple[str, str]]) -> str:
    """A digest of keys and their ETags."""
    digest = hashlib.sha256()
    for key, stamp in stamps:
        digest.update(f"{key} {stamp}\n".encode())
    return digest.hexdigest()


@dataclass
class _Proof:
    """One run's work on a proof."""

    window: Window
    spec: Spec
    codec: ItemCodec
    bucket: ArchiveBucket
    totals: Totals
    effects: Effects
    deadline: int

    def __post_init__(self) -> None:
        self.prefix = self.window.attempt.archive
        self.progress = progress_dir(self.prefix)
        self.reading = ArchivePass(self.bucket, self.prefix, self.codec)
        self.partitions = max(1, -(-(self.window.keys or 0) // PARTITION_KEYS))

    def run(self) -> int | None:
        """See `prove`."""
        files = self.reading.files()
        self._raise_findings()
        digests = max(self.reading.expected or 0, (self.spec.logs and self.window.events) or 0)
        self.item_partitions = max(1, -(-digests // PARTITION_ITEMS))
        self.identity = self._identified(files)
        small = len(files) == 1 and files[0].items <= HELD_ITEMS
        held = HeldNotes() if small and not noted(self.bucket, self.progress) else None
        items = self._run(files, held or self.bucket)
        if held and items is None:
            held.move_to(self.bucket)
        return items

    def _run(self, files: Sequence[DataFile], place: NotePlace) -> int | None:
        self.spills = Spills(place, self.progress, self.effects)
        progress = ProofProgress(place, self.progress, self.identity, self.effects, self.deadline)
        items = self.reading.expected or 0
        at = (self.bucket, self.prefix, progress, place, self.progress)
        self.indexing = IndexProof(*at, self.spills, self.effects, items)
        read = progress.by_files(ReadNote, "proof", files, self._read_some)
        if read is None:
            return None
        compared = progress.by_partition(
            ComparedNote, "compared", self.partitions, partial(self._compare, read)
        )
        once = progress.by_partition(
            RepeatedNote, "repeated", self.item_partitions, partial(self._repeated, read)
        )
        joining = TombstoneProof(
            ArchivePass(self.bucket, self.prefix, self.codec),
            self.codec,
            progress,
            self.spills,
            self.item_partitions,
            self.effects,
            self.deadline,
        )
        unjoined = joining.findings(files, read)
        if compared is None or once is None or unjoined is None:
            return None
        counted = Counted(
            items=sum(note.items for note in read),
            gates_shut=sum(note.gates[0] for note in read),
            gates_open=sum(note.gates[1] for note in read),
            keys=sum(note.keys for note in compared),
            events=sum(note.events for note in compared),
            amount=sum(int(note.amount) for note in compared),
            retracted=(
                sum(note.tombstones for note in read),
                sum(int(note.taken) for note in read),
            ),
        )
        findings = compare(self.window, self.spec, counted) + unjoined
        findings += [finding for note in compared for finding in note.findings]
        if repeats := [digest for note in once for digest in note.repeated]:
            findings += self._named(repeats)
        if findings:
            raise ProofMismatch(findings)
        if self._identified(self.reading.files()) != self.identity:
            raise ProofMismatch([CHANGED])
        index = self.indexing.index(files, read)
        return None if index is None else self._write_proof(counted, index)

    def _identified(self, files: Sequence[DataFile]) -> str:
        """A digest that changes whenever the archive changes. Raises ProofMismatch if there are
        data files that no manifest lists.
        """
        listed = {file.key for file in files}
        stamps = list(self.bucket.stamps(self.reading.data_dir))
        if strays := [key for key, _ in stamps if key not in listed]:
            raise ProofMismatch([f"{key}: no manifest lists it" for key in strays])
        self.digest = _digest_of(stamps)
        manifest = [[file.key, file.items, file.md5] for file in files]
        partitions = [self.partitions, self.item_partitions]
        facts = json.dumps([manifest, self.digest, partitions, _facts(self.window)])
        return hashlib.sha256(facts.encode()).hexdigest()

    def _read_some(self, files: Sequence[DataFile], first: int) -> ReadNote | None:
        """Read data files from number `first` on, as many as time and memory allow. Returns their
        note, or None if there was no time for one file.
        """
        counted = self.reading.counted = Recount()
        spills: list[Spill] = []
        runs: list[Spill] = []
        digests: list[bytes] = []
        leaves: list[bytes] = []  # never more than digests
        stones = TombstonesRead()
        entries = self.indexing.entries(first)
        began, end = self.effects.now(), first
        for file in files[first:]:
            spilled = spills or runs or entries.spilled
            due = min(began + NOTE_EVERY_MS, self.deadline)
            if end > first and (spilled or self.effects.now() >= due):
                break
            for number, found in enumerate(self.reading.items_of(file)):
                if number % CLOCK_EVERY_ITEMS == 0 and self.effects.now() >= self.deadline:
                    return None
                if counted.held >= SUMS_HELD:
                    spills.append(self._spill(counted))
                digests += digests_of(found)
                leaves += leaves_of(found)
                if isinstance(found.holds, Record) and (what := strange(self.spec, found.holds)):
                    self.reading.findings.add(f"{file.key} line {found.line}: {what}")
                entries.add(found)
                if isinstance(found.holds, Tombstone):
                    stones.add(found.holds)
                if len(digests) >= DIGESTS_HELD:
                    runs += self._spill_items(digests, leaves)
                if len(stones.wanted) >= DIGESTS_HELD:
                    stones.spills.append(self._spill_digests("wanted", stones.wanted))
            entries.end_file(self.reading.ends)
            end += 1
        self._raise_findings()
        spills.append(self._spill(counted))
        runs += self._spill_items(digests, leaves)
        if stones.wanted:
            stones.spills.append(self._spill_digests("wanted", stones.wanted))
        self.indexing.keep(entries, runs[-1], whole=not first and end == len(files))
        gates = [counted.gates_shut, counted.gates_open]
        of_stones = (stones.count, stones.packed, str(stones.amount), stones.spills)
        return ReadNote(self.identity, end, counted.items, gates, spills, runs, *of_stones)

    def _spill(self, counted: Recount) -> Spill:
        """Move the sums in memory to the bucket, by partition."""
        lines: list[list[str]] = [[] for _ in range(self.partitions)]
        for kind, sums in counted.kinds.items():
            for key, (n, amount) in sums.items():
                line = json.dumps([kind, key, n, str(amount)])
                lines[stable_hash(key) % self.partitions].append(line)
            sums.clear()
        bodies = [zlib.compress("\n".join(part).encode(), 1) if part else b"" for part in lines]
        return self.spills.put("sums", bodies, "json.z")

    def _spill_items(self, digests: list[bytes], leaves: list[bytes]) -> list[Spill]:
        rows = [self._spill_digests(LEAVES, leaves)] if leaves else []
        return [*rows, self._spill_digests(ITEMS, digests)]

    def _spill_digests(self, kind: str, digests: list[bytes]) -> Spill:
        """Move the digests in memory to the bucket, sorted, by partition."""
        digests.sort()
        bodies = split_digests(digests, self.item_partitions)
        digests.clear()
        return self.spills.put(kind, bodies, "bin")

    def _compare(self, read: Sequence[ReadNote], partition: int) -> ComparedNote:
        merged = Recount()
        sums = merged.kinds
        spills = (spill for note in read for spill in note.spills)
        for body in self.spills.bodies(spills, partition):
            for line in zlib.decompress(body).decode().split("\n"):
                kind, key, n, amount = json.loads(line)
                had = sums[kind].get(key, (0, 0))
                sums[kind][key] = (had[0] + n, had[1] + int(amount))
            if max(map(len, sums.values())) > PARTITION_KEYS * KEYS_TOO_MANY:
                raise ProofMismatch([f"far more keys than the {self.window.keys} when sealed"])
        findings = keys_differing_from_totals(self.window.id, merged, self.totals)
        events, amount = merged.sums
        kept = list(islice(findings, FINDINGS_KEPT))
        if not kept:
            note_retracted(self.totals, self.window.id, merged.retracted)
        return ComparedNote(self.identity, len(merged.records), events, str(amount), kept)

    def _repeated(self, read: Sequence[ReadNote], partition: int) -> RepeatedNote:
        items, leaves = (self._rows(read, kind, partition) for kind in (ITEMS, LEAVES))
        found = chain(repeated(items), misplaced(merge(*leaves)))
        return RepeatedNote(self.identity, [each.hex() for each in islice(found, FINDINGS_KEPT)])

    def _rows(
        self, read: Sequence[ReadNote], kind: str, partition: int
    ) -> Iterable[Iterator[bytes]]:
        runs = (run for note in read for run in note.runs if run.name.startswith(f"{kind}-"))
        return map(digests_in, self.spills.bodies(runs, partition))

    def _named(self, repeats: Sequence[str]) -> list[str]:
        """Findings for items that occur more than once. Reads the archive once more, as long as
        time allows, to name them.
        """
        reading = takewhile(
            lambda _: self.effects.now() < self.deadline,
            ArchivePass(self.bucket, self.prefix, self.codec).uncounted(),
        )
        return repeats_named(reading, [bytes.fromhex(digest) for digest in repeats[:FINDINGS_KEPT]])

    def _raise_findings(self) -> None:
        findings = self.reading.findings
        if findings.count:
            raise ProofMismatch(findings.first)

    def _write_proof(self, counted: Counted, index: Sequence[str]) -> int:
        key = proof_key(self.prefix)
        proof = {
            **_facts(self.window),
            "provenAt": iso(self.effects.now()),
            "items": counted.items,
            "dataDir": self.reading.data_dir,
            "dataDigest": self.digest,
            "archiveDigest": self.identity,
            "compared": "files with manifests; per key records with tallies and with totals;"
            " keys, events and amount with the window's state; gates with its spec; no item twice",
        }
        if any(counted.retracted):
            events, amount = counted.retracted
            proof["retracted"] = {"events": events, "amountMillionths": str(amount)}
            proof["compared"] += "; tombstones with their records, and with what was retracted"
        if index:
            proof["index"] = {"partitions": len(index), "digests": index}
        stored = json.loads(self.bucket.put_once(key, json.dumps(proof).encode()))
        # An earlier release makes no index.
        if {**stored, **dict.fromkeys(_OWN)} != {**proof, **dict.fromkeys(_OWN)}:
            raise ProofMismatch([f"there is another proof under {key}"])
        return counted.items
