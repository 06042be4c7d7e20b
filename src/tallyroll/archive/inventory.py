"""Archives found, verified and read from their bucket alone: no catalog, no tables.

Whatever was proven once can be proven again, by the same pass over the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from os.path import commonprefix

from tallyroll.archive.duplicates import Repeats, digest_of, repeats_named
from tallyroll.archive.layout import (
    DataFile,
    Place,
    find_summary,
    parse_prefix,
    prefix_of,
    proof_key,
    read_summary,
)
from tallyroll.archive.recount import (
    FINDINGS_KEPT,
    Findings,
    Found,
    Reading,
    Recount,
    differing_keys,
)
from tallyroll.errors import Missing, ProofMismatch, UsageError
from tallyroll.model.items import Gate, Item
from tallyroll.model.windows import WindowId, iso, window_start
from tallyroll.ports.bucket import Bucket, ListedBucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.totals import Totals

READS_AT_ONCE = 16
DEPTH = 6  # archive/PIPELINE/date=.../hour=.../WINDOW/ATTEMPT


@dataclass(frozen=True, slots=True)
class Archive:
    """One attempt to archive a window, as its bucket shows it.

    `size` is in bytes, all its objects together. `exported_at` and `items` stand if the export is
    complete, `proof` if the archive was proven; `problem` says what is wrong with a manifest.
    """

    prefix: str
    place: Place
    size: int
    summary_key: str | None
    exported_at: str | None = None
    items: int | None = None
    proof: Proof | None = None
    problem: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the summary stands, which is written last."""
        return self.summary_key is not None

    @property
    def proven(self) -> bool:
        """Whether a proof stands beside it."""
        return self.proof is not None

    @property
    def data_prefix(self) -> str | None:
        """Under which prefix the data files lie, and nothing else."""
        return self.summary_key and self.summary_key.rpartition("/")[0] + "/data/"


@dataclass(frozen=True, slots=True)
class Proof:
    """What the proof beside an archive says; `amount` in millionths."""

    proven_at: str
    items: int
    keys: int
    events: int
    amount: int


def pipeline_prefix(pipeline: str, since: int | None = None, until: int | None = None) -> str:
    """The longest prefix of all archives of a pipeline's windows in [since, until), ms."""
    root = f"archive/{pipeline}/"
    if since is None or until is None:
        return root
    return root + commonprefix([_date(since), _date(until)])  # noqa: RUF071 (of letters: a month)


def _date(ms: int) -> str:
    return f"date={iso(ms)[:10]}"


def find(
    bucket: ListedBucket,
    effects: Effects,
    prefix: str,
    since: int | None = None,
    until: int | None = None,
) -> list[Archive]:
    """All archives under a prefix, of windows that start in [since, until), by window and attempt;
    one listing and two small reads for each.
    """
    found = []
    for name, objects in groupby(bucket.sizes(prefix), lambda each: _archive_of(each[0])):
        place = parse_prefix(name)
        if place and _within(place.window, since, until):
            found.append(_listed(name, place, dict(objects)))
    found.sort(key=lambda archive: (archive.place.window, archive.place.attempt))
    jobs = [partial(detailed, bucket, archive) for archive in found]
    return effects.together(jobs, READS_AT_ONCE)


def named(bucket: ListedBucket, effects: Effects, pipeline: str, name: str) -> Archive:
    """The archive that a prefix names, or the best of the window whose id is given.

    Raises Missing if there is none, UsageError for what is neither.
    """
    if "/" in name:
        prefix = name.removeprefix(f"s3://{bucket.name}/").rstrip("/")
        if parse_prefix(prefix) is None:
            raise UsageError(
                f"archive {name!r}: give a window id such as 20261120T080000Z, or a prefix as"
                " `tallyroll archive list --json` shows it"
            )
        found = [each for each in find(bucket, effects, prefix) if each.prefix == prefix]
    else:
        window_start(name)
        prefix = prefix_of(pipeline, name, "")
        found = find(bucket, effects, prefix)
    if not found:
        raise Missing(f"there is no archive under {prefix!r} in {bucket.name!r}", "NoArchive")
    return best(found)[0]


def _archive_of(key: str) -> str:
    parts = key.split("/")
    return "/".join(parts[:DEPTH]) if len(parts) > DEPTH else ""


def _within(window: WindowId, since: int | None, until: int | None) -> bool:
    try:
        start = window_start(window)
    except UsageError:
        return False
    return (since is None or since <= start) and (until is None or start < until)


def _listed(prefix: str, place: Place, objects: dict[str, int]) -> Archive:
    return Archive(
        prefix=prefix,
        place=place,
        size=sum(objects.values()),
        summary_key=find_summary(prefix, objects),
    )


def detailed(bucket: Bucket, archive: Archive) -> Archive:
    """The archive with what its summary and its proof say."""
    if not archive.complete:
        return archive
    try:
        summary = read_summary(bucket, archive.prefix)
        proof = read_proof(bucket, archive.prefix)
    except ProofMismatch as mismatch:
        return replace(archive, problem=str(mismatch))
    return replace(
        archive,
        exported_at=summary.exported_at,
        items=summary.items,
        proof=proof,
    )


def read_proof(bucket: Bucket, prefix: str) -> Proof | None:
    """The proof beside an archive, if it was proven. Raises ProofMismatch if it is malformed."""
    key = proof_key(prefix)
    try:
        said = json.loads(bucket.get(key))
        return Proof(
            proven_at=str(said["provenAt"]),
            items=int(said["items"]),
            keys=int(said["keys"]),
            events=int(said["events"]),
            amount=int(said["amountMillionths"]),
        )
    except Missing:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"proof malformed: {key}: {error!r}"]) from None


def best(archives: Sequence[Archive]) -> list[Archive]:
    """The one archive of each window that counts: the last that is proven, else the last complete
    one, else the last attempt.
    """
    chosen: dict[tuple[str, WindowId], Archive] = {}
    for archive in sorted(archives, key=_rank):
        chosen[archive.place.pipeline, archive.place.window] = archive
    return [chosen[name] for name in sorted(chosen)]


def _rank(archive: Archive) -> tuple[bool, bool, str]:
    return archive.proven, archive.complete, archive.place.attempt


@dataclass(frozen=True, slots=True)
class Verification:
    """What another pass over an archive found, and of how many differences."""

    archive: Archive
    counted: Recount
    findings: Findings

    @property
    def events(self) -> int:
        """The events by the archive's records."""
        return sum(n for n, _ in self.counted.records.values())

    @property
    def amount(self) -> int:
        """Their sum, millionths."""
        return sum(amount for _, amount in self.counted.records.values())


class ArchiveReading(Reading):
    """One pass over an archive that ends with everything that can be compared."""

    def __init__(self, bucket: Bucket, archive: Archive, totals: Totals | None = None) -> None:
        super().__init__(bucket, archive.prefix)
        self._archive = archive
        self._totals = totals
        self._repeats = Repeats()

    def items_of(self, file: DataFile) -> Iterator[Found]:
        """Stream those of one data file."""
        for found in super().items_of(file):
            self._repeats.add(digest_of(found.item))
            yield found

    def verified(self) -> Verification:
        """Read what is left, then compare: files with manifests, records with tallies, with the
        proof if there is one, and with the totals if they are given; no item may stand twice, for
        which an archive where one does is read once more. Raises StoreError if the
        bucket or the totals fail.
        """
        for _ in self:
            pass
        return self.compared()

    def compared(self) -> Verification:
        """The comparisons of an archive that was read to its end."""
        if self.expected is not None:
            for finding in self._differences():
                self.findings.add(finding)
        return Verification(self._archive, self.counted, self.findings)

    def _differences(self) -> Iterator[str]:
        counted = self.counted
        if counted.gates_open or not counted.gates_shut:
            yield (
                f"gates: {counted.gates_shut} shut and {counted.gates_open} open, all must be shut:"
                " was it exported before the window was sealed?"
            )
        yield from differing_keys(self._archive.place.window, counted, self._totals)
        repeats = self._repeats.found()
        if first := list(islice(repeats, FINDINGS_KEPT)):
            yield from repeats_named(Reading(self._bucket, self._prefix), first)
        yield from (f"an item stands more than once, its digest is {one.hex()}" for one in repeats)
        if self._archive.problem:
            yield self._archive.problem
        if proof := self._archive.proof:
            said = (proof.items, proof.keys, proof.events, proof.amount)
            sums = counted.records.values()
            found = (
                counted.items,
                len(sums),
                sum(n for n, _ in sums),
                sum(amount for _, amount in sums),
            )
            if said != found:
                yield f"(items, keys, events, amount) {found}, when proven {said}"


def shut(found: Found) -> Item:
    """The item as it may stand in a restored table: a gate never open, so that no writer could
    write there, whatever the archive holds.
    """
    if isinstance(found.holds, Gate):
        return {**found.item, "open": {"BOOL": False}}
    return found.item
