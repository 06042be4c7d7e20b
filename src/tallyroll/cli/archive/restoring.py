"""`tallyroll archive restore`: an archive as a table, by writes or by DynamoDB's import."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tallyroll.archive.inventory import Archive
from tallyroll.cli.archive.sources import OWN_BUCKET, WHICH, ArchiveAccess, ArchiveSource
from tallyroll.cli.arguments import Run
from tallyroll.cli.screen import Screen
from tallyroll.errors import UsageError
from tallyroll.resources import check_table, declare, identities_table


def restore(
    archive: Annotated[str, Parameter(help=WHICH)],
    /,
    *,
    table: Annotated[str, Parameter(metavar="TABLE")],
    native: bool = False,
    source: ArchiveSource = OWN_BUCKET,
    run: Run,
) -> int:
    """Restore an archive into a table.

    The table is a new one, for inspection: no writer writes there, for no window
    has that name and all its gates are shut. Ended early, the same command goes
    on. --native lets DynamoDB import the files itself (ImportTable, on AWS alone):
    no write units, but only for a proven archive in S3.

    For example:
      tallyroll archive restore 20261120T080000Z --table votes-inspected

    :param table: the new table's name
    :param native: by DynamoDB's own ImportTable
    """
    access, screen = ArchiveAccess(run, source), run.screen
    resources = declare(access.settings)
    check_table(
        table, [*(each.name for each in resources.permanent), identities_table(resources.name)]
    )
    found = access.named(archive)
    if native:
        return _restore_natively(table, found, access)
    maker = access.as_deployed().restore
    if maker.begin(table, found.prefix):
        screen.tell(f"going on with {table}, which was not restored whole")
    reading = access.reading(found, against_totals=False)
    maker.put(table, (each.item for each in access.watched(reading, found, "restoring")))
    verification = access.compared(reading)
    if verification.findings.count:
        screen.tell(f"{table} holds what could be read, and stays marked as not whole")
        return 1
    maker.end(table)
    return _restored(table, verification.counted.items, found, screen)


def _restore_natively(table: str, archive: Archive, access: ArchiveAccess) -> int:
    if access.directory is not None or archive.data_prefix is None or not archive.proven:
        raise UsageError(
            f"{archive.prefix}: --native takes the files as they are, so only a proven archive in"
            " S3 will do: restore it without --native"
        )
    made, screen = access.as_deployed(), access.screen
    maker = made.restore
    began = maker.start_import(table, access.bucket.name, archive.data_prefix)
    screen.tell(f"import {began.arn}: it goes on if this command is ended")
    with screen.progress("importing", archive.items) as bar:
        ended = maker.await_import(
            began, lambda items: bar(completed=items, done=f"{items:,} items", counted=items)
        )
    if ended.status == "COMPLETED":
        access.tag_imported(table, made)
    if ended.status == "COMPLETED" and not ended.errors and ended.imported == archive.items:
        return _restored(table, ended.imported, archive, screen)
    screen.tell(
        f"{ended.status}: {ended.imported:,} of {archive.items:,} items imported,"
        f" {ended.errors:,} refused {ended.problem}".rstrip()
    )
    return 1


def _restored(table: str, items: int, archive: Archive, screen: Screen) -> int:
    if screen.json:
        screen.emit({"table": table, "items": items, "archive": archive.prefix})
    else:
        screen.tell(f"{table} holds the {items:,} items of {archive.prefix}")
    return 0
