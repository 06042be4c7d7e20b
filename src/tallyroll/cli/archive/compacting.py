"""`tallyroll archive compact`: archives in DynamoDB's layout become Parquet, which is proven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from tallyroll.archive.inventory import Archive, best
from tallyroll.archive.layout import source_of
from tallyroll.archive.parquet.compaction import Compaction
from tallyroll.archive.parquet.files import DUCKDB
from tallyroll.cli.archive.sources import (
    DIFFERENCES_TOLD,
    OWN_BUCKET,
    WHICH,
    ArchiveAccess,
    ArchiveSource,
)
from tallyroll.cli.arguments import STARTS_SINCE, STARTS_UNTIL, Run
from tallyroll.cli.screen import Screen, number_of, size_text
from tallyroll.errors import ProofMismatch, Refused, UsageError
from tallyroll.model.amounts import format_amount

_COLUMNS = ("window", "result", "items", "keys", "events", "sum", "was", "bytes", "prefix")


def compact(
    archives: Annotated[list[str] | None, Parameter("ARCHIVE", help=WHICH)] = None,
    /,
    *,
    since: Annotated[int | None, STARTS_SINCE] = None,
    until: Annotated[int | None, STARTS_UNTIL] = None,
    against_totals: Annotated[bool, Parameter(help="compare with the totals table, too")] = False,
    source: ArchiveSource = OWN_BUCKET,
    run: Run,
) -> int:
    """Make Parquet of archives.

    Each proven archive in DynamoDB's layout gets one as Parquet beside it: a row an
    event, sorted by key, and a second file with what a restore needs besides. It is
    read back from the bucket, and proven only if it gives the same items and every
    key's records agree with its tallies. The archive that it is made of stays.

    Without ARCHIVE: all that have none yet. Ended early, the same command goes on
    with the first window that is not proven. Needs tallyroll[load].

    For example:
      tallyroll archive compact --since 2026-11-01 --until 2026-12-01
    """
    access, screen = ArchiveAccess(run, source), run.screen
    if archives and (since or until):
        raise UsageError("give archives, or --since and --until, not both")
    if archives:
        found = [access.beside(name) for name in dict.fromkeys(archives)]
    else:
        found = [access.found(since, until)]
    done = []
    totals = access.made.totals if against_totals else None
    watched = access.watched
    work = Compaction(access.bucket, access.made.codec, access.made.effects, watched, totals)
    failed = 0
    for archive, parquet in (pair for some in found for pair in _pairs(some)):
        if not (archives or archive.proven):
            continue
        try:
            made = parquet or work.compact(archive)
        except ProofMismatch as mismatch:
            failed += 1
            _tell(archive, mismatch, screen)
            continue
        except Refused as refused:
            if refused.code != DUCKDB:
                raise
            failed += 1
            screen.tell(f"{archive.prefix}: no Parquet was proven: {refused}")
            continue
        result = "proven" if parquet is None else "was proven"
        done.append(_json(archive, made, result))
        if screen.json:
            screen.emit(done[-1])
    if not done and not failed:
        screen.tell("no proven archives in DynamoDB's layout: nothing to do")
    elif not screen.json:
        screen.show(_COLUMNS, done, lambda row: row, _words)
    return int(bool(failed))


def _pairs(found: Sequence[Archive]) -> list[tuple[Archive, Archive | None]]:
    """Each archive in DynamoDB's layout that counts, with its proven one as Parquet."""
    there = {source_of(each.prefix): each for each in found if each.parquet and each.proven}
    return [(each, there.get(each.prefix)) for each in best(found) if not each.parquet]


def _tell(archive: Archive, mismatch: ProofMismatch, screen: Screen) -> None:
    times = number_of(len(mismatch.findings), "difference")
    screen.tell(f"{archive.prefix}: no Parquet was proven: {times}")
    for finding in mismatch.findings[:DIFFERENCES_TOLD]:
        screen.tell(f"  {finding}")


def _json(archive: Archive, made: Archive, result: str) -> dict[str, Any]:
    proof = made.proof
    assert proof
    return {
        "window": archive.place.window,
        "result": result,
        "items": proof.items,
        "keys": proof.keys,
        "events": proof.events,
        "sum": format_amount(proof.amount),
        "was": archive.size,
        "bytes": made.size,
        "prefix": made.prefix,
    }


def _words(row: dict[str, Any]) -> dict[str, str]:
    return {"was": size_text(row["was"]), "bytes": size_text(row["bytes"])}
