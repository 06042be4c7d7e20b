"""`tallyroll archive sql`: a query over archives of either layout."""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tallyroll.archive.parquet.queries import ArchiveQueries, chosen
from tallyroll.cli.archive.sources import OWN_BUCKET, ArchiveAccess, ArchiveSource
from tallyroll.cli.arguments import STARTS_SINCE, STARTS_UNTIL, Run
from tallyroll.cli.screen import Cell, number_of
from tallyroll.errors import ProofMismatch, UsageError

_COPIES = "corrections are those of the copies: what was taken back later is among the events"


def sql(
    query: str,
    /,
    *,
    since: Annotated[int | None, STARTS_SINCE] = None,
    until: Annotated[int | None, STARTS_UNTIL] = None,
    as_csv: Annotated[bool, Parameter("--csv")] = False,
    against_totals: bool = False,
    source: ArchiveSource = OWN_BUCKET,
    run: Run,
) -> int:
    """Query archives by SQL.

    The table `events` has a row an event of the proven archives: key, id, ts (ms),
    window, value, payload (JSON text), n, packet, shard, digest, retracted,
    payload_ref. It is without retracted events, which `stored_events` has, too.
    Windows without a proven archive are left out, so all live ones.

    Archives are fetched; those as Parquet are read as they are, others converted.
    What was taken back since the windows were sealed is known by the totals table;
    with --dir, or if it is not reached, by the copy beside the archive, which may
    lack what came later. Needs tallyroll[load].

    For example:
      tallyroll archive sql "SELECT key, sum(value) FROM events GROUP BY key"
      tallyroll archive sql "FROM events WHERE key = 'a'" --since 2026-11-20 --csv

    :param query: SQL, as DuckDB takes it
    :param as_csv: print CSV, with the names of the columns
    :param against_totals: fail if the totals table is not reached; ask it with --dir, too
    """
    access, screen = ArchiveAccess(run, source), run.screen
    if as_csv and screen.json:
        raise UsageError("give --csv or --json, not both")
    found = chosen(access.found(since, until))
    if not found:
        access.tell_none()
        return 3
    with tempfile.TemporaryDirectory(prefix="tallyroll-") as folder:
        asked = against_totals or access.directory is None
        totals = access.made.totals if asked else None
        ports = access.bucket, access.made.codec, access.watched, totals
        tables = ArchiveQueries(Path(folder), *ports)
        for archive in found:
            try:
                tables.add(archive)
            except ProofMismatch as mismatch:
                screen.tell(f"{archive.prefix}: {mismatch}")
                return 1
        if tables.unreached and against_totals:
            raise tables.unreached
        columns, rows = tables.rows(query)
        if as_csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(map(_plain, rows))
        elif screen.json:
            names = _numbered(columns)
            for row in rows:
                screen.emit(dict(zip(names, _plain(row), strict=True)))
        else:
            screen.table(columns, (map(_cell, _plain(row)) for row in rows))
    first, last = found[0].place.window, found[-1].place.window
    windows = number_of(len(found), "window")
    screen.tell(f"of {windows}, {first} to {last}; those without a proven archive are left out")
    if tables.unreached or not totals:
        why = f"the totals table was not reached: {tables.unreached}" if tables.unreached else ""
        screen.tell(f"{_COPIES}{why and '; '}{why}")
    return 0


def _numbered(columns: Sequence[str]) -> list[str]:
    """The names, each once: a later one of the same name has a number, as `key_1`."""
    names: list[str] = []
    for column in columns:
        name, number = column, 0
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _plain(row: Iterable[Any]) -> list[Any]:
    """Values as JSON has them: decimals, times and what is no finite number as text, bytes in
    hexadecimal.
    """
    return [_value(value) for value in row]


def _cell(value: Any) -> Cell:
    """A value of `_plain` in a table."""
    return value if value is None or isinstance(value, str | int) else json.dumps(value)


def _value(value: Any) -> Any:
    match value:
        case float():
            return value if isfinite(value) else str(value)
        case None | bool() | int() | str():
            return value
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
        case list() | tuple():
            return _plain(value)
        case dict():
            return {str(name): _value(of) for name, of in value.items()}
        case _:
            return str(value)
