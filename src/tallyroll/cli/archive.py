"""`tallyroll archive`: archives listed, verified, read and restored."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tallyroll import pipeline
from tallyroll.archive.inventory import Archive, best, find, named, pipeline_prefix
from tallyroll.archive.recount import ArchivedItem
from tallyroll.archive.verification import ArchiveReading, Verification, shut
from tallyroll.cli.screen import Screen
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.events import check_key
from tallyroll.model.items import Gate
from tallyroll.model.records import Record
from tallyroll.model.stored import event_line, events_of
from tallyroll.model.windows import iso, parse_instant, window_start
from tallyroll.operations.restore import check_table
from tallyroll.ports.bucket import ListedBucket
from tallyroll.ports.totals import Totals
from tallyroll.resources import declare
from tallyroll.settings import Settings

DIFFERENCES_TOLD = 5
TOLD_EVERY = 1_000
_UNITS = ("B", "KB", "MB", "GB", "TB")
_LISTED = ("window", "state", "items", "keys", "events", "sum", "size", "exported", "proven")
_VERIFIED = ("window", "proven", "verified", "items", "keys", "events", "sum")


class Desk:
    """What all commands of one run share: where archives are, and what is reached for them."""

    def __init__(self, arguments: Namespace, settings: Settings) -> None:
        self.settings = settings
        self.directory = arguments.dir
        if arguments.bucket:
            self.settings = replace(settings, bucket=arguments.bucket)
        self.made = pipeline.Pipeline(self.settings)
        self.bucket = self._bucket()

    def _bucket(self) -> ListedBucket:
        if self.directory is not None:
            path = Path(self.directory)
            if not path.is_dir():
                raise UsageError(f"directory {self.directory!r}: there is none")
            return pipeline.bucket_copy(path)
        if not self.settings.bucket:
            raise UsageError(
                "no bucket: give --bucket, or set TALLYROLL_BUCKET; or --dir for a copy of one"
            )
        return self.made.bucket

    def found(self, arguments: Namespace) -> list[Archive]:
        """The archives of the windows in the range that was asked for."""
        since, until = _instant(arguments.since), _instant(arguments.until)
        if since is not None and until is not None and since >= until:
            raise UsageError(f"since {iso(since)} is not before until {iso(until)}")
        prefix = pipeline_prefix(self.settings.name, since, until)
        return find(self.bucket, self.made.effects, prefix, since, until)

    def named(self, name: str) -> Archive:
        """The archive of a window id or prefix."""
        return named(self.bucket, self.made.effects, self.settings.name, name)

    def reading(self, archive: Archive, *, against_totals: bool) -> ArchiveReading:
        """A pass over an archive."""
        totals: Totals | None = self.made.totals if against_totals else None
        return ArchiveReading(self.bucket, archive, totals)


def list_archives(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll archive list`. Gives the exit status, 1 if a manifest or proof is malformed."""
    desk = Desk(arguments, settings)
    found = desk.found(arguments)
    if arguments.athena:
        return _athena(arguments.athena, desk, best(found), screen)
    shown = found if arguments.all else best(found)
    if screen.json:
        for archive in shown:
            screen.emit(archive_json(archive, desk.bucket.name))
    elif shown:
        rows = [_listed(archive) for archive in shown]
        screen.table((*_LISTED, "attempt", "problem"), rows)
    if not shown:
        screen.tell(f"no archives of {settings.name!r} in {desk.bucket.name!r}")
    return int(any(archive.problem for archive in shown))


def verify(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll archive verify`. Gives the exit status, 1 if there is any difference."""
    desk = Desk(arguments, settings)
    if arguments.archives and (arguments.since or arguments.until):
        raise UsageError("give archives, or --since and --until, not both")
    if arguments.archives:
        archives = [desk.named(name) for name in dict.fromkeys(arguments.archives)]
    else:
        archives = best(desk.found(arguments))
    done = []
    for archive in archives:
        reading = desk.reading(archive, against_totals=arguments.against_totals)
        for _ in _watched(reading, archive, screen, "verifying"):
            pass
        verification = reading.compared()
        done.append(verification)
        if screen.json:
            screen.emit(verification_json(verification))
        _tell_differences(verification, screen)
    if not screen.json and done:
        screen.table(_VERIFIED, [_verified(verification) for verification in done])
    if not done:
        screen.tell(f"no archives of {settings.name!r} in {desk.bucket.name!r}")
    return int(any(verification.findings.count for verification in done))


def read(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll archive read`. Gives the exit status, 1 if there is any difference."""
    key = arguments.key
    if key is not None:
        _check_key(key)
    desk = Desk(arguments, settings)
    archive = desk.named(arguments.archive)
    reading = desk.reading(archive, against_totals=arguments.against_totals)
    for found in reading:
        if key is not None and (isinstance(found.holds, Gate) or found.holds.key != key):
            continue
        if arguments.raw:
            line = json.dumps({"Item": found.item}, ensure_ascii=False, separators=(",", ":"))
            sys.stdout.write(line + "\n")
        elif isinstance(found.holds, Record):
            _write_events(found, found.holds, reading)
    verification = reading.compared()
    _tell_differences(verification, screen)
    if key is not None:
        _tell_recount(key, verification, screen)
    return int(bool(verification.findings.count))


def restore(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll archive restore`. Gives the exit status, 1 if there is any difference."""
    desk = Desk(arguments, settings)
    resources = declare(settings)
    check_table(arguments.table, (resources.catalog.name, resources.totals.name))
    archive = desk.named(arguments.archive)
    if arguments.native:
        return _restore_natively(arguments.table, archive, desk, screen)
    maker, table = desk.made.restore, arguments.table
    if maker.begin(table, archive.prefix):
        screen.tell(f"going on with {table}, which was not restored whole")
    reading = desk.reading(archive, against_totals=False)
    items = (shut(found) for found in _watched(reading, archive, screen, "restoring"))
    maker.put(table, items)
    verification = reading.compared()
    _tell_differences(verification, screen)
    if verification.findings.count:
        screen.tell(f"{table} holds what could be read, and stays marked as not whole")
        return 1
    maker.end(table)
    _tell_restored(table, verification.counted.items, archive, screen)
    return 0


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


def _watched(
    reading: ArchiveReading, archive: Archive, screen: Screen, doing: str
) -> Iterator[ArchivedItem]:
    """A pass over an archive with a progress bar."""
    with screen.progress() as bar:
        task = bar.add_task(f"{doing} {archive.place.window}", total=archive.items, done="")
        for number, found in enumerate(reading, 1):
            if number % TOLD_EVERY == 0:
                bar.update(task, completed=number, done=f"{number:,} items")
            yield found


def _write_events(found: ArchivedItem, record: Record, reading: ArchiveReading) -> None:
    try:
        events = events_of(record)
    except ValueError as error:
        reading.findings.add(f"{found.file} line {found.line}: {error}")
        return
    sys.stdout.writelines(event_line(record.key, event) + "\n" for event in events)


def _tell_differences(verification: Verification, screen: Screen) -> None:
    findings = verification.findings
    if not findings.count:
        return
    times = "1 difference" if findings.count == 1 else f"{findings.count:,} differences"
    screen.tell(f"{verification.archive.prefix}: {times}")
    for finding in findings.first[:DIFFERENCES_TOLD]:
        screen.tell(f"  {finding}")
    if findings.count > DIFFERENCES_TOLD:
        screen.tell(f"  and {findings.count - DIFFERENCES_TOLD:,} more")


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


def _listed(archive: Archive) -> tuple[str, ...]:
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


def _verified(verification: Verification) -> tuple[str, ...]:
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


def _check_key(key: str) -> None:
    try:
        check_key(key)
    except Rejected as rejected:
        raise UsageError(rejected.detail) from None


def _instant(text: str | None) -> int | None:
    return None if text is None else parse_instant(text)
