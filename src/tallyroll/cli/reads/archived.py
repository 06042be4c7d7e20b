"""What `tallyroll event KEY ID --archived` reads: dropped windows from their archives, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyroll.cli.archive.sources import ArchiveAccess, ArchiveSource
from tallyroll.cli.arguments import Run
from tallyroll.pipeline.archived_pages import ArchivedPages
from tallyroll.pipeline.archived_ranges import WholeRange
from tallyroll.reads.reader import PortReader

if TYPE_CHECKING:
    from tallyroll.pipeline import Pipeline

ARCHIVES_MS = 86_400_000  # as long as it takes


def with_archives(run: Run, bucket: str | None) -> tuple[Pipeline, PortReader]:
    """The pipeline with this bucket, and a reader of single events that also reads archives: whole
    and verified, in either layout, where there is no index.
    """
    access = ArchiveAccess(run, ArchiveSource(bucket=bucket))
    made = access.made
    ports = (made.catalog, made.totals, access.bucket, made.codec, made.effects)
    whole = WholeRange(made.reader, *ports, access.watched).event
    tables = (made.store, made.catalog, made.totals, made.effects)
    return made, PortReader(made.settings, *tables, archives=lambda: ArchivedPages(*ports, whole))
