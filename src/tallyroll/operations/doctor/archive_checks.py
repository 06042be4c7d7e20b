"""The doctor's checks of archives against their proofs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from tallyroll.archive.inventory import Archive, detailed
from tallyroll.archive.layout import (
    find_summary,
    parquet_manifest_key,
    parse_prefix,
    proof_key,
    superseded_by,
)
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.proof import check_place, check_proof
from tallyroll.archive.recount import ArchivePass
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import Missing, ProofMismatch, Refused
from tallyroll.lifecycle.health import PARQUET_LATE_MS
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import iso
from tallyroll.operations.doctor.checkup import (
    Checkup,
    Level,
    Sign,
    finding,
    finding_of,
    fine,
    warning,
)
from tallyroll.operations.doctor.deployment_checks import BUCKET_CALLS
from tallyroll.operations.doctor.policies import denials
from tallyroll.ports.bucket import ArchiveBucket, ticket_of

SIGNS_PER_WINDOW = 10
_DAY_MS = 86_400_000
_PROVEN = (Status.PROVEN, Status.DROPPING, Status.DROPPED)
_RESTORE = (
    "The bucket keeps what was overwritten or deleted for 90 days: restore the version that was"
    " proven (`aws s3api list-object-versions --bucket {bucket} --prefix {prefix}`)."
)


def _restore(case: Checkup, window: Window) -> str:
    prefix = window.attempt.archive or f"archive/{case.settings.name}/"
    return _RESTORE.format(bucket=case.settings.bucket or "BUCKET", prefix=prefix)


def bucket(case: Checkup) -> Iterator[Sign]:
    """The bucket exists, and can be read."""
    held = case.bucket
    if held is None:
        yield fine("no bucket is known")
        return
    try:
        next(iter(held.list(f"archive/{case.settings.name}/")), None)
        _read_one(case, held)
    except Missing:
        yield finding(
            f"there is no bucket {held.name}: nothing is archived, and no table is dropped",
            f"Was another one meant? `aws s3api head-bucket --bucket {held.name}` asks for it. A"
            " bucket of that name can be made again; archives that were in it are lost.",
        )
    except Refused as error:
        if error.code.startswith("KMS."):  # such as KMS.DisabledException
            yield finding(f"the bucket {held.name} cannot be read: {error}", _KEY)
        elif error.code.startswith(_DENIED):
            yield from _denied(case, held, error)
        else:
            raise
    yield fine(f"the bucket {held.name} can be listed and read")


def _read_one(case: Checkup, held: ArchiveBucket) -> None:
    """Read the newest proof: listing and reading are allowed by different permissions."""
    proven = [window for window in case.windows.values() if _kept(case, window)]
    for window in proven[-1:]:
        with suppress(Missing):  # which `archives` reports
            held.get(proof_key(window.attempt.archive))


_DENIED = ("AccessDenied", "Forbidden", "403")  # a reply without a body has no code of S3's
_KEY = (
    "`aws s3api get-bucket-encryption --bucket BUCKET` names its key, and"
    " `aws kms describe-key --key-id KEY` its state. Enable it again."
)


def _denied(case: Checkup, held: ArchiveBucket, error: Refused) -> Iterator[Sign]:
    """Who may not read the bucket: everybody, or this identity."""
    policy = case.stack.bucket_policy(held.name) if case.stack else ""
    denied = denials(policy, BUCKET_CALLS, ())
    if denied:
        yield finding(
            f"the bucket {held.name} cannot be read: its policy denies {', '.join(denied)} to"
            " everybody",
            f"`aws s3api get-bucket-policy --bucket {held.name}` shows the policy. Take that"
            f" statement out, by `aws s3api put-bucket-policy --bucket {held.name} --policy"
            " POLICY` with the others.",
        )
    else:
        yield Sign(
            Level.UNCHECKED,
            f"the bucket {held.name} could not be read: {error}",
            "Let this identity read it (AWS_PROFILE). If cleanup's log says the same, look at the"
            f" bucket's policy (`aws s3api get-bucket-policy --bucket {held.name}`).",
        )


def archives(case: Checkup) -> Iterator[Sign]:
    """Archives and proofs of proven and dropped windows are unchanged, and manifests agree.

    If `deep`, every archive is read to its end and verified.
    """
    proven = [each for each in case.windows.values() if _kept(case, each)]
    bucket = case.bucket
    if proven and bucket is None:
        text = f"archives of {len(proven):,} windows could not be looked at: no bucket is known"
        yield Sign(Level.UNCHECKED, text, "Give --bucket, or set TALLYROLL_BUCKET.")
        return
    if bucket:
        for signs in case.each(proven, partial(_unchanged, case, bucket)):
            yield from signs
        for window in proven if case.deep else ():
            yield from _verified(case, bucket, window)
    what = "complete by checksums and recount" if case.deep else "unchanged since their proof"
    yield fine(f"archives {what}: {len(proven):,}")


def _kept(case: Checkup, window: Window) -> bool:
    """Whether a window has an archive, which no rule of the bucket may have deleted."""
    days, proven = case.settings.archive_expire_days, window.times.get(Status.PROVEN, 0)
    expires = days and proven + (days - 1) * _DAY_MS  # its first objects are older than its proof
    return window.status in _PROVEN and not 0 < expires <= case.effects.now()


def _unchanged(case: Checkup, bucket: ArchiveBucket, window: Window) -> list[Sign]:
    alone = _alone(case, bucket, window)
    try:
        check_place(window, case.settings.name)
        if alone:
            alone.check_proof()
        else:
            check_proof(window, bucket)
    except ProofMismatch as mismatch:
        text = "; ".join(mismatch.findings)
        if window.status is Status.DROPPED and text.startswith("not proven"):
            text = f"DROPPED WITHOUT A PROOF: {text}"
        return [finding_of(window.id, text, _restore(case, window))]
    if case.deep or alone:  # then `_verified` reads the manifests, too, or they were read
        return []
    reading = ArchivePass(bucket, window.attempt.archive, case.store.codec)
    reading.files()
    return [finding_of(window.id, text, _restore(case, window)) for text in reading.findings.first]


def _alone(case: Checkup, bucket: ArchiveBucket, window: Window) -> ParquetItems | None:
    """What is read in the place of a dropped window's archive, if that expires."""
    dropped = window.status is Status.DROPPED
    prefix = superseded_by(bucket, window.attempt.archive) if dropped else None
    return ParquetItems(bucket, prefix, case.store.codec) if prefix else None


def _verified(case: Checkup, bucket: ArchiveBucket, window: Window) -> Iterator[Sign]:
    prefix = window.attempt.archive
    place = parse_prefix(prefix)
    if place is None:  # reported by `_unchanged`
        return
    summary = find_summary(prefix, bucket.list(f"{prefix}/AWSDynamoDB/"))
    if source := _alone(case, bucket, window):
        prefix = source.prefix
        summary = parquet_manifest_key(prefix)
    archive = detailed(bucket, Archive(prefix, place, 0, summary))
    codec, totals = case.store.codec, case.totals
    reading = ArchiveReading(bucket, archive, codec, totals, source, indexed=True)
    findings = reading.verified().findings
    for text in findings.first[:SIGNS_PER_WINDOW]:
        yield finding_of(window.id, text, _restore(case, window))


def parquet(case: Checkup) -> Iterator[Sign]:
    """Dropped windows get their Parquet in time, if the pipeline makes any."""
    bucket, waiting = case.bucket, 0
    if bucket is None or not case.settings.compacts:
        yield fine("no Parquet is made")
        return
    for ticket in bucket.list(ticket_of(case.settings.name, "")):
        window = case.catalog.window(ticket.rpartition("/")[2])
        since = window.times.get(Status.DROPPED) if window else None
        if window is None or since is None or case.effects.now() - since < PARQUET_LATE_MS:
            continue
        waiting += 1
        if waiting <= SIGNS_PER_WINDOW:
            yield warning(
                f"{window.id}: dropped at {iso(since)}, and no Parquet was proven; its archive in"
                " DynamoDB's layout stays",
                "The compactor's log says why. `tallyroll archive compact` makes it by hand.",
            )
    yield fine(f"dropped windows that wait for their Parquet too long: {waiting}")
