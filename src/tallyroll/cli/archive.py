"""`tallyroll archive`: archives listed, verified, read and restored. Each gives its exit status,
1 if there is any difference or a malformed manifest or proof.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter

from tallyroll.archive.inventory import Archive, best
from tallyroll.archive.recount import ArchivedItem
from tallyroll.archive.verification import ArchiveReading, Verification
from tallyroll.cli.archive_desk import (
    OWN_BUCKET,
    WHICH,
    Desk,
    Source,
    archive_json,
    archive_row,
    tell_differences,
    verification_json,
    verification_row,
    watched,
)
from tallyroll.cli.arguments import STARTS_SINCE, STARTS_UNTIL, Run, exclusive
from tallyroll.cli.explain import explain
from tallyroll.cli.screen import Screen
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.events import check_key
from tallyroll.model.items import Gate
from tallyroll.model.records import Record
from tallyroll.model.stored import event_line, events_of
from tallyroll.model.windows import iso, window_start
from tallyroll.operations.restore import check_table, shut
from tallyroll.resources import declare

_LISTED = ("window", "state", "items", "keys", "events", "sum", "size", "exported", "proven")
_VERIFIED = ("window", "proven", "verified", "items", "keys", "events", "sum")
_SHOWN = exclusive()
_TOTALS = Parameter(help="compare with the totals table, too")

app = App(
    name="archive",
    help="""List, verify, read, restore archives.

All of it from the bucket alone: the tables may be long gone. An archive is named by its window's
id, or by its prefix in the bucket.

For example:
  tallyroll archive list""",
)


@app.command(name="list")
def list_archives(
    *,
    since: Annotated[int | None, STARTS_SINCE] = None,
    until: Annotated[int | None, STARTS_UNTIL] = None,
    every: Annotated[
        bool, Parameter("--all", group=_SHOWN, help="every attempt, also given-up ones")
    ] = False,
    athena: Annotated[
        str | None,
        Parameter(
            metavar="TABLE",
            group=_SHOWN,
            help="print the SQL that adds the proven ones to this table as partitions",
        ),
    ] = None,
    source: Source = OWN_BUCKET,
    run: Run,
) -> int:
    """List archives.

    Of each window the one that counts (proven, else complete, else the last
    attempt), or every attempt.

    For example:
      tallyroll archive list --since 2026-11-01 --until 2026-12-01
      tallyroll archive list --athena votes    SQL that adds the proven ones to an Athena table
    """
    desk, screen = Desk(run, source), run.screen
    found = desk.found(since, until)
    if athena:
        return _athena(athena, desk, best(found), screen)
    shown = found if every else best(found)
    if screen.json:
        for archive in shown:
            screen.emit(archive_json(archive, desk.bucket.name))
    elif shown:
        rows = [archive_row(archive) for archive in shown]
        screen.table((*_LISTED, "attempt", "problem"), rows)
    if not shown:
        screen.tell(f"no archives of {desk.settings.name!r} in {desk.bucket.name!r}")
    return int(any(archive.problem for archive in shown))


@app.command
def verify(
    archives: Annotated[list[str] | None, Parameter("ARCHIVE", help=WHICH)] = None,
    /,
    *,
    since: Annotated[int | None, STARTS_SINCE] = None,
    until: Annotated[int | None, STARTS_UNTIL] = None,
    against_totals: Annotated[bool, _TOTALS] = False,
    source: Source = OWN_BUCKET,
    run: Run,
) -> int:
    """Verify archives again.

    They are streamed once more: checksums, counts, every record recounted per key
    and compared with the tallies in the archive and with its proof. The first
    differences of each are told, with file and line, and all are counted. Without
    ARCHIVE: all, of each window the one that counts.

    For example:
      tallyroll archive verify --since 2026-11-20 --until 2026-11-21
      tallyroll archive verify 20261120T080000Z --against-totals
    """
    desk, screen = Desk(run, source), run.screen
    if archives and (since or until):
        raise UsageError("give archives, or --since and --until, not both")
    if archives:
        chosen = [desk.named(name) for name in dict.fromkeys(archives)]
    else:
        chosen = best(desk.found(since, until))
    done = []
    for archive in chosen:
        reading = desk.reading(archive, against_totals=against_totals)
        for _ in watched(reading, archive, screen, "verifying"):
            pass
        verification = reading.compared()
        done.append(verification)
        if screen.json:
            screen.emit(verification_json(verification))
        tell_differences(verification, screen)
    if not screen.json and done:
        screen.table(_VERIFIED, [verification_row(verification) for verification in done])
    if not done:
        screen.tell(f"no archives of {desk.settings.name!r} in {desk.bucket.name!r}")
    return int(any(verification.findings.count for verification in done))


@app.command
def read(
    archive: Annotated[str, Parameter(help=WHICH)],
    /,
    *,
    key: Annotated[
        str | None,
        Parameter(metavar="KEY", help="only this key's, and say how many its tally counts"),
    ] = None,
    raw: Annotated[
        bool, Parameter(help="the items as they stand, DynamoDB JSON, tallies too")
    ] = False,
    against_totals: Annotated[bool, _TOTALS] = False,
    source: Source = OWN_BUCKET,
    run: Run,
) -> int:
    """Print an archive's events.

    They are JSON Lines, as `tallyroll send` takes them, packets unpacked. The
    archive is verified on the way: it was whole if the exit status is 0.

    For example:
      tallyroll archive read 20261120T080000Z --key candidate-7
      tallyroll archive read 20261120T080000Z --raw | gzip > window.json.gz
    """
    if key is not None:
        _check_key(key)
    desk, screen = Desk(run, source), run.screen
    reading = desk.reading(desk.named(archive), against_totals=against_totals)
    for found in reading:
        if key is not None and (isinstance(found.holds, Gate) or found.holds.key != key):
            continue
        if raw:
            line = json.dumps({"Item": found.item}, ensure_ascii=False, separators=(",", ":"))
            sys.stdout.write(line + "\n")
        elif isinstance(found.holds, Record):
            _write_events(found, found.holds, reading)
    verification = reading.compared()
    tell_differences(verification, screen)
    if key is not None:
        _tell_recount(key, verification, screen)
    return int(bool(verification.findings.count))


@app.command
def restore(
    archive: Annotated[str, Parameter(help=WHICH)],
    /,
    *,
    table: Annotated[str, Parameter(metavar="TABLE", help="the new table's name")],
    native: Annotated[bool, Parameter(help="by DynamoDB's own ImportTable")] = False,
    source: Source = OWN_BUCKET,
    run: Run,
) -> int:
    """Restore an archive into a table.

    The table is a new one, for inspection: no writer writes there, for no window
    has that name and all its gates are shut. Ended early, the same command goes
    on. --native lets DynamoDB import the files itself (ImportTable, on AWS alone):
    no write units, but only for a proven archive in S3.

    For example:
      tallyroll archive restore 20261120T080000Z --table votes-inspected
    """
    desk, screen = Desk(run, source), run.screen
    resources = declare(desk.settings)
    check_table(table, (resources.catalog.name, resources.totals.name))
    found = desk.named(archive)
    if native:
        return _restore_natively(table, found, desk, screen)
    maker = desk.made.restore
    if maker.begin(table, found.prefix):
        screen.tell(f"going on with {table}, which was not restored whole")
    reading = desk.reading(found, against_totals=False)
    items = (shut(item) for item in watched(reading, found, screen, "restoring"))
    maker.put(table, items)
    verification = reading.compared()
    tell_differences(verification, screen)
    if verification.findings.count:
        screen.tell(f"{table} holds what could be read, and stays marked as not whole")
        return 1
    maker.end(table)
    _tell_restored(table, verification.counted.items, found, screen)
    return 0


app.command(explain)


def _restore_natively(table: str, archive: Archive, desk: Desk, screen: Screen) -> int:
    if desk.directory is not None or archive.data_prefix is None or not archive.proven:
        raise UsageError(
            f"{archive.prefix}: --native takes the files as they are, so only a proven archive in"
            " S3 will do: restore it without --native"
        )
    maker = desk.made.restore
    began = maker.start_import(table, desk.bucket.name, archive.data_prefix)
    screen.tell(f"import {began.arn}: it goes on if this command is ended")
    with screen.progress() as bar:
        task = bar.add_task("importing", total=archive.items, done="")
        ended = maker.await_import(
            began, lambda items: bar.update(task, completed=items, done=f"{items:,} items")
        )
    if ended.status == "COMPLETED" and not ended.errors and ended.imported == archive.items:
        _tell_restored(table, ended.imported, archive, screen)
        return 0
    screen.tell(
        f"{ended.status}: {ended.imported:,} of {archive.items:,} items imported,"
        f" {ended.errors:,} refused {ended.problem}".rstrip()
    )
    return 1


def _tell_restored(table: str, items: int, archive: Archive, screen: Screen) -> None:
    if screen.json:
        screen.emit({"table": table, "items": items, "archive": archive.prefix})
    else:
        screen.tell(f"{table} holds the {items:,} items of {archive.prefix}")


def _write_events(found: ArchivedItem, record: Record, reading: ArchiveReading) -> None:
    try:
        events = events_of(record)
    except ValueError as error:
        reading.findings.add(f"{found.file} line {found.line}: {error}")
        return
    sys.stdout.writelines(event_line(record.key, event) + "\n" for event in events)


def _tell_recount(key: str, verification: Verification, screen: Screen) -> None:
    by_records = verification.counted.records.get(key)
    by_tallies = verification.counted.tallies.get(key)
    same = "the same" if by_records == by_tallies else _sum(by_tallies)
    screen.tell(f"key {key!r}: {_sum(by_records)} by its records, {same} by its tally")


def _sum(found: tuple[int, int] | None) -> str:
    n, amount = found or (0, 0)
    return f"{n:,} events, sum {format_amount(amount)}"


def _athena(table: str, desk: Desk, archives: Sequence[Archive], screen: Screen) -> int:
    """Print ALTER TABLE ADD PARTITION for the proven archives; nothing else is ever queried."""
    if desk.directory is not None:
        raise UsageError("--athena needs the bucket, not a copy: Athena reads S3")
    proven = [archive for archive in archives if archive.proven]
    if not proven:
        screen.tell("no proven archives: nothing to add")
        return 0
    partitions = []
    for archive in proven:
        window = archive.place.window
        start = iso(window_start(window))
        columns = f"day='{start[:10]}', hour={int(start[11:13])}, window_id='{window}'"
        location = f"s3://{desk.bucket.name}/{archive.data_prefix}"
        partitions.append(f"  PARTITION ({columns}) LOCATION '{location}'")
    sys.stdout.write(f"ALTER TABLE {table} ADD IF NOT EXISTS\n" + "\n".join(partitions) + ";\n")
    return 0


def _check_key(key: str) -> None:
    try:
        check_key(key)
    except Rejected as rejected:
        raise UsageError(rejected.detail) from None
