"""What the commands of `tallyroll archive` share: where archives are, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tallyroll.archive.inventory import Archive, find, named, pipeline_prefix
from tallyroll.archive.recount import ArchivedItem
from tallyroll.archive.verification import ArchiveReading, Verification
from tallyroll.cli.arguments import Run, exclusive
from tallyroll.cli.screen import Screen
from tallyroll.errors import UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.windows import iso
from tallyroll.ports.bucket import ListedBucket

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

DIFFERENCES_TOLD = 5
TOLD_EVERY = 1_000
_UNITS = ("B", "KB", "MB", "GB", "TB")
WHICH = "a window id, or an archive's prefix in the bucket"
_SOURCE = exclusive()


@Parameter(name="*")
@dataclass(frozen=True)
class Source:
    """The options that say where archives are."""

    bucket: Annotated[
        str | None,
        Parameter(metavar="BUCKET", group=_SOURCE, help="the bucket; TALLYROLL_BUCKET if left out"),
    ] = None
    directory: Annotated[
        str | None,
        Parameter(
            name="--dir",
            metavar="DIR",
            group=_SOURCE,
            help="a directory that the bucket was copied to, instead",
        ),
    ] = None


OWN_BUCKET = Source()


class Desk:
    """What all commands of one run share: where archives are, and what is reached for them."""

    def __init__(self, run: Run, source: Source) -> None:
        self.directory = source.directory
        self.settings = run.settings
        if source.bucket:
            self.settings = replace(run.settings, bucket=source.bucket)
        self.made: Pipeline = run.pipeline(self.settings)
        self.bucket = self._bucket()

    def _bucket(self) -> ListedBucket:
        if self.directory is not None:
            from tallyroll.pipeline import bucket_copy

            path = Path(self.directory)
            if not path.is_dir():
                raise UsageError(f"directory {self.directory!r}: there is none")
            return bucket_copy(path)
        if not self.settings.bucket:
            raise UsageError(
                "no bucket: give --bucket, or set TALLYROLL_BUCKET; or --dir for a copy of one"
            )
        return self.made.bucket

    def found(self, since: int | None, until: int | None) -> list[Archive]:
        """The archives of the windows in the range that was asked for."""
        if since is not None and until is not None and since >= until:
            raise UsageError(f"since {iso(since)} is not before until {iso(until)}")
        prefix = pipeline_prefix(self.settings.name, since, until)
        return find(self.bucket, self.made.effects, prefix, since, until)

    def named(self, name: str) -> Archive:
        """The archive of a window id or prefix."""
        return named(self.bucket, self.made.effects, self.settings.name, name)

    def reading(self, archive: Archive, *, against_totals: bool) -> ArchiveReading:
        """A pass over an archive."""
        return ArchiveReading(self.bucket, archive, self.made.totals if against_totals else None)


def watched(
    reading: ArchiveReading, archive: Archive, screen: Screen, doing: str
) -> Iterator[ArchivedItem]:
    """A pass over an archive with a progress bar."""
    with screen.progress() as bar:
        task = bar.add_task(f"{doing} {archive.place.window}", total=archive.items, done="")
        for number, found in enumerate(reading, 1):
            if number % TOLD_EVERY == 0:
                bar.update(task, completed=number, done=f"{number:,} items")
            yield found


def tell_differences(verification: Verification, screen: Screen) -> None:
    """Tell the first differences, and how many there are."""
    findings = verification.findings
    if not findings.count:
        return
    times = "1 difference" if findings.count == 1 else f"{findings.count:,} differences"
    screen.tell(f"{verification.archive.prefix}: {times}")
    for finding in findings.first[:DIFFERENCES_TOLD]:
        screen.tell(f"  {finding}")
    if findings.count > DIFFERENCES_TOLD:
        screen.tell(f"  and {findings.count - DIFFERENCES_TOLD:,} more")


def archive_json(archive: Archive, bucket: str) -> dict[str, Any]:
    """An archive as JSON: times as ISO 8601, the sum as a string of all its digits."""
    proof = archive.proof
    optional = {
        "exported": archive.exported_at,
        "items": archive.items,
        "proven": proof and proof.proven_at,
        "keys": proof and proof.keys,
        "events": proof and proof.events,
        "sum": proof and format_amount(proof.amount),
        "problem": archive.problem,
    }
    return {
        "window": archive.place.window,
        "state": state_of(archive),
        "pipeline": archive.place.pipeline,
        "attempt": archive.place.attempt,
        "bucket": bucket,
        "prefix": archive.prefix,
        "bytes": archive.size,
        **{name: value for name, value in optional.items() if value is not None},
    }


def state_of(archive: Archive) -> str:
    """Whether an archive is proven, complete, or not even that."""
    if archive.problem:
        return "damaged"
    if archive.proven:
        return "proven"
    return "complete" if archive.complete else "incomplete"


def verification_json(verification: Verification) -> dict[str, Any]:
    """A verification as JSON, with its first differences."""
    archive, counted, findings = verification.archive, verification.counted, verification.findings
    return {
        "window": archive.place.window,
        "prefix": archive.prefix,
        "proven": archive.proven,
        "items": counted.items,
        "keys": len(counted.records),
        "events": verification.events,
        "sum": format_amount(verification.amount),
        "differences": findings.count,
        "first": findings.first[:DIFFERENCES_TOLD],
    }


def archive_row(archive: Archive) -> tuple[str, ...]:
    """An archive as a row of a table."""
    proof = archive.proof
    return (
        archive.place.window,
        state_of(archive),
        "" if archive.items is None else f"{archive.items:,}",
        f"{proof.keys:,}" if proof else "",
        f"{proof.events:,}" if proof else "",
        format_amount(proof.amount) if proof else "",
        size_text(archive.size),
        (archive.exported_at or "")[:19],
        proof.proven_at[:19] if proof else "",
        archive.place.attempt,
        archive.problem or "",
    )


def verification_row(verification: Verification) -> tuple[str, ...]:
    """A verification as a row of a table."""
    counted, findings = verification.counted, verification.findings
    return (
        verification.archive.place.window,
        "yes" if verification.archive.proven else "no",
        "whole" if not findings.count else f"{findings.count:,} wrong",
        f"{counted.items:,}",
        f"{len(counted.records):,}",
        f"{verification.events:,}",
        format_amount(verification.amount),
    )


def size_text(size: int) -> str:
    """Bytes as people say them: `512 B`, `1.5 MB`."""
    number, unit = float(size), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{size} B"
