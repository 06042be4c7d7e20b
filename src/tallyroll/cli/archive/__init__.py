"""`tallyroll archive`: archives listed, verified, read and restored. Each gives its exit status,
1 if there is any difference or a malformed manifest or proof.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from tallyroll.archive.inventory import Archive, best
from tallyroll.archive.verification import ArchiveReading
from tallyroll.cli.archive.compacting import compact
from tallyroll.cli.archive.explaining import explain
from tallyroll.cli.archive.querying import sql
from tallyroll.cli.archive.reading import read
from tallyroll.cli.archive.restoring import restore
from tallyroll.cli.archive.sources import (
    DIFFERENCES_TOLD,
    OWN_BUCKET,
    WHICH,
    ArchiveAccess,
    ArchiveSource,
)
from tallyroll.cli.arguments import STARTS_SINCE, STARTS_UNTIL, Run, exclusive
from tallyroll.cli.screen import Cell, Screen, known, number_of, size_text
from tallyroll.errors import UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.windows import iso, window_start

_LISTED = (
    *("window", "state", "items", "keys", "events", "sum", "size", "exported", "proven"),
    *("attempt", "format", "problem"),
)
_VERIFIED = (
    *("window", "proven", "verified", "items", "keys", "events", "sum"),
    *("retracted", "corrected"),
)
_SHOWN = exclusive()
_TOTALS = Parameter(help="compare with the totals table, too")

app = App(
    name="archive",
    help="""List, verify, read, restore archives.

All of it from the bucket alone: the tables may be long gone. An archive is
named by its window's id, or by its prefix in the bucket. Only `current` and
`previous` are looked up in the catalog.

For example:
  tallyroll archive list""",
)


@app.command(name="list")
def list_archives(
    *,
    since: Annotated[int | None, STARTS_SINCE] = None,
    until: Annotated[int | None, STARTS_UNTIL] = None,
    every: Annotated[bool, Parameter("--all", group=_SHOWN)] = False,
    athena: Annotated[str | None, Parameter(metavar="TABLE", group=_SHOWN)] = None,
    parquet: bool = False,
    source: ArchiveSource = OWN_BUCKET,
    run: Run,
) -> int:
    """List archives.

    Of each window the one that counts (proven, else complete, else the last
    attempt), or every attempt.

    For example:
      tallyroll archive list --since 2026-11-01 --until 2026-12-01
      tallyroll archive list --athena votes    SQL that adds them to a table

    :param every: every attempt, also given-up ones
    :param athena: print the SQL that adds the proven ones to this table as partitions
    :param parquet: with --athena: add those as Parquet, in place of those in DynamoDB's layout
    """
    access = ArchiveAccess(run, source)
    found = access.found(since, until)
    if parquet and not athena:
        raise UsageError("--parquet goes with --athena")
    if athena:
        return _print_athena(athena, access, best(found), parquet=parquet)
    shown = found if every else best(found)
    bucket = access.bucket.name
    run.screen.show(_LISTED, shown, lambda archive: _archive_json(archive, bucket), _archive_words)
    if not shown:
        access.tell_none()
    return int(any(archive.problem for archive in shown))


@app.command
def verify(
    archives: Annotated[list[str] | None, Parameter("ARCHIVE", help=WHICH)] = None,
    /,
    *,
    since: Annotated[int | None, STARTS_SINCE] = None,
    until: Annotated[int | None, STARTS_UNTIL] = None,
    against_totals: Annotated[bool, _TOTALS] = False,
    source: ArchiveSource = OWN_BUCKET,
    run: Run,
) -> int:
    """Verify archives again.

    They are streamed once more: checksums, counts, every record recounted per key
    and compared with the tallies in the archive and with its proof. The first
    differences of each are told, with file and line, and all are counted. Without
    ARCHIVE: all, of each window the one that counts.

    Events and sum are without what was retracted before the window was sealed.
    What was retracted since is shown as corrected: by the copy beside the archive,
    or by the totals table. Each retraction must be of an event of the archive.

    For example:
      tallyroll archive verify --since 2026-11-20 --until 2026-11-21
      tallyroll archive verify 20261120T080000Z --against-totals
    """
    access, screen = ArchiveAccess(run, source), run.screen
    if archives and (since or until):
        raise UsageError("give archives, or --since and --until, not both")
    if archives:
        chosen = [access.named(name) for name in dict.fromkeys(archives)]
    else:
        chosen = best(access.found(since, until))
    done = []
    for archive in chosen:
        reading = access.reading(archive, against_totals=against_totals, indexed=True)
        for _ in access.watched(reading, archive, "verifying"):
            pass
        verification = access.compared(reading)
        done.append(verification)
        _tell_lacking(verification, screen)
        if screen.json:
            screen.emit(_verification_json(verification))
    if not done:
        access.tell_none()
    elif not screen.json:
        screen.show(_VERIFIED, done, _verification_json, _verification_words)
    return int(any(verification.findings.count for verification in done))


@app.command
def copy(
    directory: str,
    /,
    *,
    since: Annotated[int | None, STARTS_SINCE] = None,
    until: Annotated[int | None, STARTS_UNTIL] = None,
    source: ArchiveSource = OWN_BUCKET,
    run: Run,
) -> int:
    """Copy archives to a directory.

    Of each window the one that counts, under the bucket's keys: the other commands
    read it by --dir. Files that are there are left, so an interrupted copy goes on.

    For example:
      tallyroll archive copy votes-2026-11 --since 2026-11-01 --until 2026-12-01

    :param directory: where to; made if it is not there
    """
    from tallyroll.pipeline.buckets import bucket_copy

    access, target = ArchiveAccess(run, source), bucket_copy(Path(directory))
    chosen = best(access.found(since, until))
    if not chosen:
        access.tell_none()
    files = [file for archive in chosen for file in access.files_of(archive)]
    there = dict(target.sizes(""))
    copied, total = 0, sum(size for _, size in files)
    with run.screen.progress("copying", total) as bar:
        for key, size in files:
            if there.get(key) != size:
                target.fill(key, access.bucket.stream(key))
            copied += size
            bar(completed=copied, done=f"{size_text(copied)} of {size_text(total)}")
    report = {"archives": len(chosen), "files": len(files), "bytes": total}
    if run.screen.json:
        run.screen.emit(report)
    elif chosen:
        run.screen.table(tuple(report), [report.values()])
        run.screen.tell(f"verify the copy: tallyroll archive verify --dir {directory}")
    return 0


app.command(read)
app.command(restore)
app.command(explain)
app.command(compact)
app.command(sql)


def _print_athena(
    table: str, access: ArchiveAccess, archives: Sequence[Archive], *, parquet: bool
) -> int:
    """Print ALTER TABLE ADD PARTITION for the proven archives of a layout; nothing else is ever
    queried.
    """
    if access.directory is not None:
        raise UsageError("--athena needs the bucket, not a copy: Athena reads S3")
    proven = [archive for archive in archives if archive.proven and archive.parquet == parquet]
    if not proven:
        access.screen.tell("no proven archives: nothing to add")
        return 0
    partitions = []
    for archive in proven:
        window = archive.place.window
        start = iso(window_start(window))
        columns = f"day='{start[:10]}', hour={int(start[11:13])}, window_id='{window}'"
        files = f"{archive.prefix}/events/" if parquet else archive.data_prefix
        location = f"s3://{access.bucket.name}/{files}"
        partitions.append(f"  PARTITION ({columns}) LOCATION '{location}'")
    sys.stdout.write(f"ALTER TABLE {table} ADD IF NOT EXISTS\n" + "\n".join(partitions) + ";\n")
    return 0


def _archive_json(archive: Archive, bucket: str) -> dict[str, Any]:
    """An archive as JSON: times as ISO 8601, the sum as a string of all its digits."""
    proof = archive.proof
    return {
        "window": archive.place.window,
        "state": _state_of(archive),
        "pipeline": archive.place.pipeline,
        "attempt": archive.place.attempt,
        "bucket": bucket,
        "prefix": archive.prefix,
        "bytes": archive.size,
    } | known(
        exported=archive.exported_at,
        items=archive.items,
        proven=proof and proof.proven_at,
        keys=proof and proof.keys,
        events=proof and proof.events,
        sum=proof and format_amount(proof.amount),
        format="parquet" if archive.parquet else None,
        problem=archive.problem,
    )


def _archive_words(archive: Archive) -> dict[str, Cell]:
    return {
        "size": size_text(archive.size),
        "exported": archive.exported_at and archive.exported_at[:19],
        "proven": archive.proof.proven_at[:19] if archive.proof else "",
    }


def _state_of(archive: Archive) -> str:
    """Whether an archive is proven, complete, or not even that."""
    if archive.problem:
        return "damaged"
    if archive.proven:
        return "proven"
    return "complete" if archive.complete else "incomplete"


def _tell_lacking(verification: ArchiveReading, screen: Screen) -> None:
    """Tell which corrections the copy beside an archive lacks, which is no difference."""
    lacking = verification.retractions.lacking
    if lacking.count:
        times = number_of(lacking.count, "correction")
        screen.tell(f"{verification.archive.prefix}: {times} in the totals table alone")
    for event in lacking.first[:DIFFERENCES_TOLD]:
        screen.tell(f"  {event}")


def _verification_json(verification: ArchiveReading) -> dict[str, Any]:
    """A verification as JSON, with its first differences."""
    archive, counted, findings = verification.archive, verification.counted, verification.findings
    lacking = verification.retractions.lacking
    events, amount = counted.sums
    return {
        "window": archive.place.window,
        "prefix": archive.prefix,
        "proven": archive.proven,
        "items": counted.items,
        "keys": len(counted.records),
        "events": events,
        "sum": format_amount(amount),
        "differences": findings.count,
        "first": findings.first[:DIFFERENCES_TOLD],
    } | known(
        retracted=_sum_json(counted.taken),
        corrected=_sum_json(verification.retractions.corrected),
        not_in_copy=lacking.count or None,
    )


def _sum_json(found: tuple[int, int]) -> dict[str, Any] | None:
    return {"events": found[0], "sum": format_amount(found[1])} if any(found) else None


def _verification_words(verification: ArchiveReading) -> dict[str, Cell]:
    wrong = verification.findings.count
    gone = {
        "retracted": verification.counted.taken,
        "corrected": verification.retractions.corrected,
    }
    words = {name: f"{n:,} ({format_amount(of)})" for name, (n, of) in gone.items() if n}
    return {"verified": f"{wrong:,} wrong" if wrong else "whole", **words}
