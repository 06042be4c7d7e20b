"""Proof before drop: an archive is complete if its files, records and tallies, the totals and the
window's sealed state all agree.

    {prefix}/progress/proof-00042.json        counts of some data files, from number 42 on
    {prefix}/progress/sums-{run}-0003.json.z  sums of the keys of partition 3, spilled by a run
    {prefix}/progress/compared-0003.json      result of comparing partition 3
    {prefix}/progress/items-{run}-0001.bin    digests of the items of partition 1, spilled by a run
    {prefix}/progress/repeated-0001.json      the digests of partition 1 that occur more than once

Each run continues where the notes end. Memory is bounded: keys and digests are partitioned by hash,
and one partition at a time is merged and compared. The archive must not change meanwhile: each note
holds a digest over the manifests and the keys and ETags of all data files.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

from tallyroll.archive.duplicates import (
    DIGESTS_HELD,
    digests_in,
    key_digest,
    repeated,
    repeats_named,
    split_digests,
)
from tallyroll.archive.layout import DataFile, prefix_of, progress_dir, proof_key
from tallyroll.archive.recount import FINDINGS_KEPT, Reading, Recount, keys_differing_from_totals
from tallyroll.archive.spill import Spills
from tallyroll.errors import Missing, ProofMismatch
from tallyroll.model.sharding import stable_hash
from tallyroll.model.specs import Spec
from tallyroll.model.states import Window
from tallyroll.model.windows import iso
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.items import ItemCodec
from tallyroll.ports.totals import Totals

SUMS_HELD = 100_000  # sums per key in memory, some 30 MB; more are spilled
PARTITION_KEYS = 25_000
PARTITION_ITEMS = 1_000_000  # 12 MB of digests
KEYS_TOO_MANY = 8  # a partition with 8 times its expected keys cannot be this window's
NOTE_EVERY_MS = 30_000  # a run that is killed loses at most this much reading
CLOCK_EVERY_ITEMS = 1_000


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of a whole archive: items, gates, and the sums over all keys by records."""

    items: int
    gates_shut: int
    gates_open: int
    keys: int
    events: int
    amount: int


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
        data_dir, digest = proof["dataDir"], proof["dataDigest"]
        proven = {name: proof[name] for name in _facts(window)}
    except Missing:
        raise ProofMismatch([f"not proven: there is no {key}"]) from None
    except (KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"proof malformed: {key}: {error!r}"]) from None
    if proven != _facts(window) or proof["items"] != window.attempt.items:
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


class _Proof:
    """One run's work on a proof."""

    def __init__(
        self,
        window: Window,
        spec: Spec,
        codec: ItemCodec,
        bucket: ArchiveBucket,
        totals: Totals,
        effects: Effects,
        deadline: int,
    ) -> None:
        self._window = window
        self._spec = spec
        self._codec = codec
        self._bucket = bucket
        self._totals = totals
        self._effects = effects
        self._deadline = deadline
        self._prefix = window.attempt.archive
        self._progress = progress_dir(window.attempt.archive)
        self._reading = Reading(bucket, window.attempt.archive, codec)
        self._partitions = max(1, -(-(window.keys or 0) // PARTITION_KEYS))
        self._spills = Spills(bucket, self._progress, effects)

    def run(self) -> int | None:
        """See `prove`."""
        files = self._reading.files()
        self._raise_findings()
        self._item_partitions = max(1, -(-(self._reading.expected or 0) // PARTITION_ITEMS))
        self._identity = self._identified(files)
        notes = self._read_files(files)
        if notes is None:
            return None
        compared = self._by_partition("compared", self._partitions, self._compare, notes)
        items = self._by_partition("repeated", self._item_partitions, self._repeated, notes)
        if compared is None or items is None:
            return None
        counted = Counted(
            items=sum(note["items"] for note in notes),
            gates_shut=sum(note["gates"][0] for note in notes),
            gates_open=sum(note["gates"][1] for note in notes),
            keys=sum(note["keys"] for note in compared),
            events=sum(note["events"] for note in compared),
            amount=sum(int(note["amount"]) for note in compared),
        )
        findings = compare(self._window, self._spec, counted)
        findings += [finding for note in compared for finding in note["findings"]]
        if repeats := [digest for note in items for digest in note["repeated"]]:
            findings += self._named(repeats)
        if findings:
            raise ProofMismatch(findings)
        if self._identified(self._reading.files()) != self._identity:
            raise ProofMismatch(["the archive changed while it was being proven"])
        return self._write_proof(counted)

    def _identified(self, files: Sequence[DataFile]) -> str:
        """A digest that changes whenever the archive changes. Raises ProofMismatch if there are
        data files that no manifest lists.
        """
        listed = {file.key for file in files}
        stamps = list(self._bucket.stamps(self._reading.data_dir))
        if strays := [key for key, _ in stamps if key not in listed]:
            raise ProofMismatch([f"{key}: no manifest lists it" for key in strays])
        self._digest = _digest_of(stamps)
        manifest = [[file.key, file.items, file.md5] for file in files]
        partitions = [self._partitions, self._item_partitions]
        facts = json.dumps([manifest, self._digest, partitions, _facts(self._window)])
        return hashlib.sha256(facts.encode()).hexdigest()

    def _read_files(self, files: Sequence[DataFile]) -> list[dict[str, Any]] | None:
        """Read the data files that no note covers yet. Returns all notes, None if time ran out."""
        notes: list[dict[str, Any]] = []
        first = 0
        existing = frozenset(self._bucket.list(f"{self._progress}proof-"))
        while first < len(files) or not notes:
            key = f"{self._progress}proof-{first:05d}.json"
            if key in existing:
                note = self._noted(key, self._bucket.get(key))
            else:
                read = self._read_some(files, first)
                if read is None:
                    return None
                note = self._noted(key, self._bucket.put_once(key, json.dumps(read).encode()))
            notes.append(note)
            first = note["end"]
        return notes

    def _read_some(self, files: Sequence[DataFile], first: int) -> dict[str, Any] | None:
        """Read data files from number `first` on, as many as time and memory allow. Returns their
        note, or None if there was no time for one file.
        """
        counted = self._reading.counted = Recount()
        spills: list[dict[str, Any]] = []
        runs: list[dict[str, Any]] = []
        digests: list[bytes] = []
        began, end = self._effects.now(), first
        for file in files[first:]:
            now = self._effects.now()
            if end > first and (
                now >= began + NOTE_EVERY_MS or spills or runs or now >= self._deadline
            ):
                break
            for number, found in enumerate(self._reading.items_of(file)):
                if number % CLOCK_EVERY_ITEMS == 0 and self._effects.now() >= self._deadline:
                    return None
                if len(counted.records) + len(counted.tallies) >= SUMS_HELD:
                    spills.append(self._spill(counted))
                digests.append(key_digest(found.item))
                if len(digests) >= DIGESTS_HELD:
                    runs.append(self._spill_digests(digests))
            end += 1
        self._raise_findings()
        spills.append(self._spill(counted))
        runs.append(self._spill_digests(digests))
        return {
            "identity": self._identity,
            "end": end,
            "items": counted.items,
            "gates": [counted.gates_shut, counted.gates_open],
            "spills": spills,
            "runs": runs,
        }

    def _spill(self, counted: Recount) -> dict[str, Any]:
        """Move the sums in memory to the bucket, by partition."""
        lines: list[list[str]] = [[] for _ in range(self._partitions)]
        for kind, sums in (("r", counted.records), ("t", counted.tallies)):
            for key, (n, amount) in sums.items():
                line = json.dumps([kind, key, n, str(amount)])
                lines[stable_hash(key) % self._partitions].append(line)
            sums.clear()
        bodies = [zlib.compress("\n".join(part).encode(), 1) if part else b"" for part in lines]
        return self._spills.put("sums", bodies, "json.z")

    def _spill_digests(self, digests: list[bytes]) -> dict[str, Any]:
        """Move the digests in memory to the bucket, sorted, by partition."""
        digests.sort()
        bodies = split_digests(digests, self._item_partitions)
        digests.clear()
        return self._spills.put("items", bodies, "bin")

    def _by_partition(
        self,
        name: str,
        partitions: int,
        compare: Callable[[int, Sequence[dict[str, Any]]], dict[str, Any]],
        notes: Sequence[dict[str, Any]],
    ) -> list[dict[str, Any]] | None:
        """Compare each partition that has no note yet. Returns all notes, None if time ran out."""
        compared = []
        existing = frozenset(self._bucket.list(f"{self._progress}{name}-"))
        for partition in range(partitions):
            key = f"{self._progress}{name}-{partition:04d}.json"
            if key in existing:
                compared.append(self._noted(key, self._bucket.get(key)))
                continue
            if self._effects.now() >= self._deadline:
                return None
            note = json.dumps({"identity": self._identity, **compare(partition, notes)}).encode()
            compared.append(self._noted(key, self._bucket.put_once(key, note)))
        return compared

    def _compare(self, partition: int, notes: Sequence[dict[str, Any]]) -> dict[str, Any]:
        merged = Recount()
        sums = {"r": merged.records, "t": merged.tallies}
        for spill in (spill for note in notes for spill in note["spills"]):
            for kind, key, n, amount in self._spilled_sums(spill, partition):
                had = sums[kind].get(key, (0, 0))
                sums[kind][key] = (had[0] + n, had[1] + int(amount))
            if max(len(merged.records), len(merged.tallies)) > PARTITION_KEYS * KEYS_TOO_MANY:
                raise ProofMismatch([f"far more keys than the {self._window.keys} when sealed"])
        findings = keys_differing_from_totals(self._window.id, merged, self._totals)
        events, amount = merged.sums
        return {
            "keys": len(merged.records),
            "events": events,
            "amount": str(amount),
            "findings": list(islice(findings, FINDINGS_KEPT)),
        }

    def _spilled_sums(self, spill: dict[str, Any], partition: int) -> Iterator[list[Any]]:
        if body := self._spills.get(spill, partition):
            for line in zlib.decompress(body).decode().split("\n"):
                yield json.loads(line)

    def _repeated(self, partition: int, notes: Sequence[dict[str, Any]]) -> dict[str, Any]:
        bodies = [self._spills.get(run, partition) for note in notes for run in note["runs"]]
        found = islice(repeated(map(digests_in, bodies)), FINDINGS_KEPT)
        return {"repeated": [digest.hex() for digest in found]}

    def _named(self, repeats: Sequence[str]) -> list[str]:
        """Findings for items that occur more than once. Reads the archive once more, as long as
        time allows, to name them.
        """
        reading = takewhile(
            lambda _: self._effects.now() < self._deadline,
            Reading(self._bucket, self._prefix, self._codec),
        )
        return repeats_named(reading, [bytes.fromhex(digest) for digest in repeats[:FINDINGS_KEPT]])

    def _noted(self, key: str, body: bytes) -> dict[str, Any]:
        """A note of this or another run. Raises ProofMismatch if the archive has changed since."""
        try:
            note: dict[str, Any] = json.loads(body)
            if note["identity"] != self._identity:
                raise ProofMismatch(["the archive changed while it was being proven"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProofMismatch([f"note of a proof damaged: {key}: {error!r}"]) from None
        return note

    def _raise_findings(self) -> None:
        findings = self._reading.findings
        if findings.count:
            raise ProofMismatch(findings.first)

    def _write_proof(self, counted: Counted) -> int:
        key = proof_key(self._prefix)
        proof = {
            **_facts(self._window),
            "provenAt": iso(self._effects.now()),
            "items": counted.items,
            "dataDir": self._reading.data_dir,
            "dataDigest": self._digest,
            "archiveDigest": self._identity,
            "compared": "files with manifests; per key records with tallies and with totals;"
            " keys, events and amount with the window's state; gates with its spec; no item twice",
        }
        stored = json.loads(self._bucket.put_once(key, json.dumps(proof).encode()))
        if {**stored, "provenAt": ""} != {**proof, "provenAt": ""}:
            raise ProofMismatch([f"there is another proof under {key}"])
        return counted.items
