"""Where the commands of `tallyroll archive` find archives, and how they read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tallyroll.archive.inventory import Archive, find, named, pipeline_prefix
from tallyroll.archive.layout import ArchivedItem, progress_dir
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.verification import ArchiveReading
from tallyroll.cli.arguments import Run, exclusive
from tallyroll.cli.screen import number_of
from tallyroll.errors import StoreError, UsageError
from tallyroll.model.windows import iso
from tallyroll.operations.deployed import deployed
from tallyroll.ports.bucket import ListedBucket

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

DIFFERENCES_TOLD = 5
SEGMENTS = 16  # of the table that is compared with its archive
TOLD_EVERY = 1_000
WHICH = "a window id, current, previous, or an archive's prefix in the bucket"
_SOURCE = exclusive()


@Parameter(name="*")
@dataclass(frozen=True)
class ArchiveSource:
    """The options that say where archives are.

    :param bucket: the bucket; TALLYROLL_BUCKET if left out
    :param directory: a directory that the bucket was copied to, instead
    """

    bucket: Annotated[str | None, Parameter(metavar="BUCKET", group=_SOURCE)] = None
    directory: Annotated[str | None, Parameter("--dir", metavar="DIR", group=_SOURCE)] = None


OWN_BUCKET = ArchiveSource()


class ArchiveAccess:
    """What all commands of one run share: where archives are, and what is reached for them."""

    def __init__(self, run: Run, source: ArchiveSource) -> None:
        self.run = run
        self.screen = run.screen
        self.directory = source.directory
        self.settings = run.settings
        if source.bucket:
            self.settings = replace(run.settings, bucket=source.bucket)
        self.made = run.pipeline(self.settings)
        self.bucket = self._bucket()

    def _bucket(self) -> ListedBucket:
        if self.directory is not None:
            from tallyroll.pipeline.buckets import bucket_copy

            path = Path(self.directory)
            if not path.is_dir():
                raise UsageError(f"directory {self.directory!r}: there is none")
            return bucket_copy(path)
        if not self.settings.bucket:
            raise UsageError(
                "no bucket: give --bucket, or set TALLYROLL_BUCKET; or --dir for a copy of one"
            )
        return self.made.bucket

    def as_deployed(self) -> Pipeline:
        """The pipeline, which makes tables with the deployment's tags and its KMS key."""
        there = deployed(self.settings, self.made.deployment, self.screen.tell).settings
        given = replace(self.settings, tags=there.tags, kms_key=there.kms_key)
        return self.run.pipeline(given)

    def tag_imported(self, table: str, made: Pipeline) -> None:
        """Give a table the pipeline's tags, since an import makes tables without any. The table is
        good also if that fails.
        """
        try:
            if made.settings.tags:
                made.store.tag_table(table, made.settings.tags)
        except StoreError as error:
            self.screen.tell(f"{table} has no tags, give it some by TagResource: {error}")

    def found(self, since: int | None, until: int | None) -> list[Archive]:
        """The archives of the windows in the range that was asked for."""
        if since is not None and until is not None and since >= until:
            bounds = f"since {iso(since)} is not before until {iso(until)}"
            raise UsageError(f"{bounds}: give an earlier since, or a later until")
        prefix = pipeline_prefix(self.settings.name, since, until)
        return find(self.bucket, self.made.effects, prefix, since, until)

    def named(self, name: str) -> Archive:
        """The archive of a window (its id, current or previous) or under a prefix."""
        if "/" not in name:
            name = self.run.window(self.made, name)
        return named(self.bucket, self.made.effects, self.settings.name, name)

    def beside(self, name: str) -> list[Archive]:
        """The archive of a window or under a prefix, and those as Parquet beside it."""
        archive = self.named(name)
        return find(self.bucket, self.made.effects, archive.prefix)

    def files_of(self, archive: Archive) -> Iterator[tuple[str, int]]:
        """The files of an archive that are its content or its proof, with their sizes."""
        for key, size in self.bucket.sizes(f"{archive.prefix}/"):
            if not key.startswith(progress_dir(archive.prefix)):
                yield key, size

    def reading(
        self, archive: Archive, *, against_totals: bool, indexed: bool = False
    ) -> ArchiveReading:
        """A pass over an archive."""
        totals = self.made.totals if against_totals else None
        codec = self.made.codec
        source = ParquetItems(self.bucket, archive.prefix, codec) if archive.parquet else None
        return ArchiveReading(self.bucket, archive, codec, totals, source, indexed=indexed)

    def watched(
        self, reading: ArchiveReading, archive: Archive, doing: str
    ) -> Iterator[ArchivedItem]:
        """A pass over an archive with a progress bar."""
        with self.screen.progress(f"{doing} {archive.place.window}", archive.items) as bar:
            for number, found in enumerate(reading, 1):
                if number % TOLD_EVERY == 0:
                    bar(completed=number, done=f"{number:,} items", counted=number)
                yield found

    def compared(self, reading: ArchiveReading) -> ArchiveReading:
        """Compare an archive that has been read; tell the first differences, and how many."""
        verification = reading.compared()
        findings, tell = verification.findings, self.screen.tell
        if findings.count:
            times = number_of(findings.count, "difference")
            tell(f"{verification.archive.prefix}: {times}")
        for finding in findings.first[:DIFFERENCES_TOLD]:
            tell(f"  {finding}")
        if findings.count > DIFFERENCES_TOLD:
            tell(f"  and {findings.count - DIFFERENCES_TOLD:,} more")
        return verification

    def tell_none(self) -> None:
        """Tell that there are no archives."""
        self.screen.tell(f"no archives of {self.settings.name!r} in {self.bucket.name!r}")
