"""Finds archives in their bucket alone, without catalog or tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from os.path import commonprefix

from tallyroll.archive.indexed.entries import index_in
from tallyroll.archive.layout import (
    ArchiveId,
    alone_key,
    archive_of,
    find_summary,
    is_parquet,
    parquet_manifest_key,
    parse_prefix,
    prefix_of,
    proof_key,
    read_parquet_manifest,
    read_summary,
)
from tallyroll.errors import Missing, ProofMismatch, UsageError
from tallyroll.model.windows import WindowId, iso, window_start
from tallyroll.ports.bucket import Bucket, ListedBucket
from tallyroll.ports.effects import Effects

READS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Proof:
    """The contents of an archive's proof; `amount` in millionths. The `retracted` (events, amount)
    are not in the others. `index` has the digests of the index's partitions, if there is one.
    """

    proven_at: str
    items: int
    keys: int
    events: int
    amount: int
    retracted: tuple[int, int] = (0, 0)
    index: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Archive:
    """One attempt to archive a window, as its bucket shows it.

    `size` is the bytes of all its objects. `exported_at` and `items` are set if the export is
    complete, `proof` if the archive is proven, and `problem` if a manifest or the proof is invalid.
    It is `alone` if it is Parquet, and the archive that it was made of expires.
    """

    prefix: str
    place: ArchiveId
    size: int
    summary_key: str | None
    exported_at: str | None = None
    items: int | None = None
    proof: Proof | None = None
    problem: str | None = None
    alone: bool = False

    @property
    def complete(self) -> bool:
        """Whether the summary exists, which is written last."""
        return self.summary_key is not None

    @property
    def proven(self) -> bool:
        """Whether it has a proof."""
        return self.proof is not None

    @property
    def parquet(self) -> bool:
        """Whether its layout is Parquet, and not DynamoDB's."""
        return is_parquet(self.prefix)

    @property
    def data_prefix(self) -> str | None:
        """The prefix that holds the data files in DynamoDB's layout and nothing else."""
        if self.parquet:
            return None
        return self.summary_key and self.summary_key.rpartition("/")[0] + "/data/"


def pipeline_prefix(pipeline: str, since: int | None = None, until: int | None = None) -> str:
    """The longest prefix of all archives of a pipeline's windows in [since, until), ms."""
    root = f"archive/{pipeline}/"
    if since is None or until is None:
        return root
    return root + commonprefix([_date(since), _date(until)])  # noqa: RUF071 (by letters: a month)


def find(
    bucket: ListedBucket,
    effects: Effects,
    prefix: str,
    since: int | None = None,
    until: int | None = None,
) -> list[Archive]:
    """All archives under a prefix of windows that start in [since, until), by window and attempt.

    Costs one listing, and two small reads per archive.
    """
    found = []
    for name, objects in groupby(bucket.sizes(prefix), lambda each: archive_of(each[0])):
        place = parse_prefix(name)
        if place and _within(place.window, since, until):
            sizes = dict(objects)
            written, alone = _summary_in(name, sizes), alone_key(name) in sizes
            found.append(Archive(name, place, sum(sizes.values()), written, alone=alone))
    found.sort(key=lambda archive: (archive.place.window, archive.place.attempt))
    jobs = [partial(detailed, bucket, archive) for archive in found]
    return effects.together(jobs, READS_AT_ONCE)


def named(bucket: ListedBucket, effects: Effects, pipeline: str, name: str) -> Archive:
    """The archive under a prefix, or the best one of a window id: one in DynamoDB's layout, unless
    only one as Parquet is proven.

    Raises Missing if there is none, UsageError if `name` is neither.
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
    return preferred(best(found))


def preferred(of_window: Sequence[Archive]) -> Archive:
    """Of the best archives of a window the one in DynamoDB's layout, unless only the one as Parquet
    is proven.
    """
    return min(of_window, key=lambda each: not each.proven)


def detailed(bucket: Bucket, archive: Archive) -> Archive:
    """The archive with the contents of its summary and proof."""
    if not archive.complete:
        return archive
    read = read_parquet_manifest if archive.parquet else read_summary
    try:
        summary = read(bucket, archive.prefix)
        proof = read_proof(bucket, archive.prefix)
    except ProofMismatch as mismatch:
        return replace(archive, problem=str(mismatch))
    return replace(archive, exported_at=summary.exported_at, items=summary.items, proof=proof)


def read_proof(bucket: Bucket, prefix: str) -> Proof | None:
    """The proof of an archive, if there is one. Raises ProofMismatch if it is malformed."""
    key = proof_key(prefix)
    try:
        said = json.loads(bucket.get(key))
        gone = said.get("retracted", {"events": 0, "amountMillionths": 0})
        return Proof(
            proven_at=str(said["provenAt"]),
            items=int(said["items"]),
            keys=int(said["keys"]),
            events=int(said["events"]),
            amount=int(said["amountMillionths"]),
            retracted=(int(gone["events"]), int(gone["amountMillionths"])),
            index=index_in(said),
        )
    except Missing:
        return None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"proof malformed: {key}: {error!r}"]) from None


def best(archives: Sequence[Archive]) -> list[Archive]:
    """The best archive of each window and layout, DynamoDB's before Parquet: the last proven one,
    else the last complete one, else the last attempt. One as Parquet that is alone is its window's
    only one.
    """
    chosen: dict[tuple[str, WindowId, bool], Archive] = {}
    for archive in sorted(archives, key=attrgetter("alone", "proven", "complete", "place.attempt")):
        chosen[archive.place.pipeline, archive.place.window, archive.parquet] = archive
    for pipeline, window, _ in [name for name, archive in chosen.items() if archive.alone]:
        chosen.pop((pipeline, window, False), None)
    return [chosen[name] for name in sorted(chosen)]


def _summary_in(prefix: str, keys: Mapping[str, int]) -> str | None:
    """The key of what is written last of an archive that is complete, if it is there."""
    if is_parquet(prefix):
        return parquet_manifest_key(prefix) if parquet_manifest_key(prefix) in keys else None
    return find_summary(prefix, keys)


def _date(ms: int) -> str:
    return f"date={iso(ms)[:10]}"


def _within(window: WindowId, since: int | None, until: int | None) -> bool:
    try:
        start = window_start(window)
    except UsageError:
        return False
    return (since is None or since <= start) and (until is None or start < until)
