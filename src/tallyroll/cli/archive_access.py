"""What the commands of `tallyroll archive` share: where archives are, and how they are shown. And
`tallyroll archive explain`: why an archive was not proven, record by record.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tallyroll.archive.diff import Difference, differences, keys_differing_from_table
from tallyroll.archive.inventory import Archive, find, named, pipeline_prefix
from tallyroll.archive.layout import ArchivedItem, progress_dir
from tallyroll.archive.recount import Recount
from tallyroll.archive.verification import ArchiveReading
from tallyroll.cli.arguments import Run, exclusive
from tallyroll.cli.screen import Screen, number_of
from tallyroll.errors import Missing, StoreError, UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.windows import iso, table_name, window_start
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
            raise UsageError(f"since {iso(since)} is not before until {iso(until)}")
        prefix = pipeline_prefix(self.settings.name, since, until)
        return find(self.bucket, self.made.effects, prefix, since, until)

    def named(self, name: str) -> Archive:
        """The archive of a window (its id, current or previous) or under a prefix."""
        if "/" not in name:
            name = self.run.window(self.made, name)
        return named(self.bucket, self.made.effects, self.settings.name, name)

    def files_of(self, archive: Archive) -> Iterator[tuple[str, int]]:
        """The files of an archive that are its content or its proof, with their sizes."""
        for key, size in self.bucket.sizes(f"{archive.prefix}/"):
            if not key.startswith(progress_dir(archive.prefix)):
                yield key, size

    def reading(self, archive: Archive, *, against_totals: bool) -> ArchiveReading:
        """A pass over an archive."""
        totals = self.made.totals if against_totals else None
        return ArchiveReading(self.bucket, archive, self.made.codec, totals)

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


def explain(
    archive: Annotated[str, Parameter(help=WHICH)],
    /,
    *,
    limit: Annotated[int, Parameter(metavar="N")] = 100,
    source: ArchiveSource = OWN_BUCKET,
    run: Run,
) -> int:
    """Explain why an archive was not proven.

    The archive is compared with its window's table, item by item, while the table
    lives: which records are missing from it, extra in it or different, and the
    keys whose tallies disagree. It reads the whole table; what the archive holds
    is kept in a temporary file.

    For example:
      tallyroll archive explain 20261120T080000Z

    :param limit: show N differences of each kind (100)
    """
    access, screen = ArchiveAccess(run, source), run.screen
    found = access.named(archive)
    state = access.made.catalog.window(found.place.window)
    table = state.table if state else table_name(found.place.pipeline, found.place.window)
    store = access.made.store
    if store.describe_table(table) is None:
        raise Missing(f"the table {table} is gone: there is nothing to compare with", "NoTable")
    if state:
        problem = state.attempt.problem or "no problem"
        screen.tell(f"{found.place.window} is {state.status}: {problem}")
    screen.tell(f"comparing {found.prefix} with {table}")
    reading = access.reading(found, against_totals=True)
    read = access.watched(reading, found, "reading")
    scans = (store.scan(table, segment, SEGMENTS) for segment in range(SEGMENTS))
    pages = chain.from_iterable(scans)
    in_table = Recount()
    count = 0
    for difference in differences(read, pages, store.codec, in_table):
        count += 1
        if count <= limit:
            _show(difference, screen)
    keys = list(keys_differing_from_table(reading.counted, in_table))
    for key, of in keys[:limit]:
        _show_key(key, of, screen)
    findings = reading.compared().findings
    for finding in findings.first[:limit]:
        screen.tell(f"  {finding}")
    screen.tell(
        f"{count:,} items differ ({min(count, max(limit, 0)):,} shown), {len(keys):,} keys,"
        f" {number_of(findings.count, 'other difference')}"
    )
    return int(bool(count or keys or findings.count))


def _show(difference: Difference, screen: Screen) -> None:
    report = {
        "difference": difference.kind,
        "pk": difference.pk,
        "sk": difference.sk,
        "attributes": difference.attributes,
        "place": difference.place,
    }
    cells = (
        difference.kind,
        f"{difference.pk}/{difference.sk}",
        ", ".join(difference.attributes),
        difference.place,
    )
    screen.line(report, "  ".join(filter(None, cells)))


def _show_key(key: str, of: dict[str, Any], screen: Screen) -> None:
    said = {name: found and [found[0], format_amount(found[1])] for name, found in of.items()}
    sums = ", ".join(
        f"{name} {found[0]:,} events, sum {found[1]}" if found else f"{name} none"
        for name, found in said.items()
    )
    screen.line({"key": key, **said}, f"key {key!r}: {sums}")


def print_athena(table: str, access: ArchiveAccess, archives: Sequence[Archive]) -> int:
    """Print ALTER TABLE ADD PARTITION for the proven archives; nothing else is ever queried."""
    if access.directory is not None:
        raise UsageError("--athena needs the bucket, not a copy: Athena reads S3")
    proven = [archive for archive in archives if archive.proven]
    if not proven:
        access.screen.tell("no proven archives: nothing to add")
        return 0
    partitions = []
    for archive in proven:
        window = archive.place.window
        start = iso(window_start(window))
        columns = f"day='{start[:10]}', hour={int(start[11:13])}, window_id='{window}'"
        location = f"s3://{access.bucket.name}/{archive.data_prefix}"
        partitions.append(f"  PARTITION ({columns}) LOCATION '{location}'")
    sys.stdout.write(f"ALTER TABLE {table} ADD IF NOT EXISTS\n" + "\n".join(partitions) + ";\n")
    return 0
