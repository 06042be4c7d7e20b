"""`tallyroll archive read`: the events of one archive, or of those of a range of windows."""

from __future__ import annotations

import sys
from itertools import groupby
from operator import attrgetter
from typing import Annotated

from cyclopts import Parameter

from tallyroll.archive.chunked import Waiting
from tallyroll.archive.inventory import Archive, best, preferred
from tallyroll.archive.layout import ArchivedItem
from tallyroll.archive.retractions import RetractedEvents
from tallyroll.archive.verification import ArchiveReading
from tallyroll.cli.archive.sources import OWN_BUCKET, WHICH, ArchiveAccess, ArchiveSource
from tallyroll.cli.arguments import STARTS_SINCE, STARTS_UNTIL, Run
from tallyroll.cli.screen import number_of
from tallyroll.errors import Missing, ProofMismatch, UsageError
from tallyroll.model.amounts import format_amount
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.stored import event_line, events_of
from tallyroll.model.windows import iso
from tallyroll.reads.http import required_key

_Sums = tuple[int, int] | None
"""Events and amount of a key; None if it has neither."""


def read(
    archive: Annotated[str | None, Parameter("ARCHIVE", help=WHICH)] = None,
    /,
    *,
    since: Annotated[int | None, STARTS_SINCE] = None,
    until: Annotated[int | None, STARTS_UNTIL] = None,
    key: Annotated[str | None, Parameter(metavar="KEY")] = None,
    raw: bool = False,
    against_totals: Annotated[bool, Parameter(help="compare with the totals table, too")] = False,
    source: ArchiveSource = OWN_BUCKET,
    run: Run,
) -> int:
    """Print the events of an archive, or of a range.

    They are JSON Lines, as `tallyroll send` takes them, packets unpacked, and
    those with payloads in chunks last. Retracted events are left out: by the
    archive's tombstones, and by corrections as `verify` finds them. The archive is
    verified on the way: it was whole if the exit status is 0.

    With --since, --until or both, the archives of all windows that start there are
    read one after the other, by the windows' starts. Each must be proven: one that
    is not ends the command before the first event.

    For example:
      tallyroll archive read 20261120T080000Z --key candidate-7
      tallyroll archive read 20261120T080000Z --raw | gzip > window.json.gz
      tallyroll archive read --since 2026-11-20 --until 2026-11-21

    :param key: only this key's, and say how many its tallies count
    :param raw: the items as they stand, DynamoDB JSON, tallies too
    """
    if key is not None:
        required_key(key)
    ranged = since is not None or until is not None
    if (archive is not None) == ranged:
        raise UsageError("give an archive, or --since, --until or both")
    access = ArchiveAccess(run, source)
    chosen = _proven(access, since, until) if archive is None else [access.named(archive)]
    sums: dict[str, _Sums] = {"records": None, "tallies": None}
    differences = 0
    for each in chosen:
        read_one = _read(access, each, key, raw=raw, against_totals=against_totals)
        differences += read_one.findings.count
        if key is not None:
            sums["records"] = _added(sums["records"], read_one.counted.net(key))
            sums["tallies"] = _added(sums["tallies"], read_one.counted.tallies.get(key))
    if key is not None:
        run.screen.tell(_recount(key, sums["records"], sums["tallies"]))
    if ranged:
        first, last = chosen[0].place.window, chosen[-1].place.window
        windows = number_of(len(chosen), "window")
        run.screen.tell(f"of {windows}, {first} to {last}; those without an archive are left out")
    return int(bool(differences))


def _proven(access: ArchiveAccess, since: int | None, until: int | None) -> list[Archive]:
    """The archive of each window that starts in a range, by the windows' starts.

    Raises Missing if there is none, ProofMismatch if one is not proven.
    """
    found = best(access.found(since, until))
    by_window = groupby(found, attrgetter("place.window"))
    chosen = [preferred(list(of_window)) for _, of_window in by_window]
    if not chosen:
        bounds = [f"from {iso(since)}"] if since is not None else []
        bounds += [f"until {iso(until)}"] if until is not None else []
        raise Missing(
            f"there is no archive in {access.bucket.name!r} of a window of"
            f" {access.settings.name!r} that starts {' '.join(bounds)}: give a range that"
            " `tallyroll archive list` shows",
            "NoArchive",
        )
    if unproven := [each for each in chosen if not each.proven]:
        first, *others = unproven
        more = f" (the first of {len(unproven)} such windows)" if others else ""
        why = f", {first.problem}" if first.problem else ""
        said = f"window {first.place.window}: its archive is not proven{why}{more}: give a range"
        alone = f"tallyroll archive read {first.prefix}"
        raise ProofMismatch([f"{said} without it, or read it by itself: {alone}"])
    return chosen


def _read(
    access: ArchiveAccess, archive: Archive, key: str | None, *, raw: bool, against_totals: bool
) -> ArchiveReading:
    """Print what was asked for of one archive, and compare it."""
    reading = access.reading(archive, against_totals=against_totals)
    retracted = RetractedEvents() if raw else reading.retracted_events(key)
    with Waiting() as waiting:
        for found in reading:
            is_asked = key is None or getattr(found.holds, "key", None) == key
            if raw:
                if is_asked:
                    sys.stdout.write(access.made.codec.encode(found.item).decode())
            elif isinstance(found.holds, Chunk) or (is_asked and found.in_chunks):
                waiting.add(found)
            elif is_asked and isinstance(found.holds, Record):
                _write_events(found, found.holds, reading, retracted)
        for found, record in waiting.joined(reading.findings.add):
            _write_events(found, record, reading, retracted)
    return access.compared(reading)


def _write_events(
    found: ArchivedItem, record: Record, reading: ArchiveReading, retracted: RetractedEvents
) -> None:
    try:
        events = events_of(record)
    except ValueError as error:
        reading.findings.add(f"{found.file} line {found.line}: {error}")
        return
    kept = retracted.kept(record, events)
    sys.stdout.writelines(event_line(record.key, event) + "\n" for event in kept)


def _added(sums: _Sums, more: _Sums) -> _Sums:
    if sums is None or more is None:
        return sums or more
    return sums[0] + more[0], sums[1] + more[1]


def _recount(key: str, by_records: _Sums, by_tallies: _Sums) -> str:
    same = "the same" if by_records == by_tallies else _sum(by_tallies)
    return f"key {key!r}: {_sum(by_records)} by its records, {same} by its tally"


def _sum(found: _Sums) -> str:
    n, amount = found or (0, 0)
    return f"{n:,} events, sum {format_amount(amount)}"
