"""`tallyroll archive explain`: why an archive was not proven, record by record."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any

from cyclopts import Parameter

from tallyroll.archive.diff import Difference, differences, keys_differing_from_table
from tallyroll.archive.recount import Recount
from tallyroll.cli.archive.sources import OWN_BUCKET, WHICH, ArchiveAccess, ArchiveSource
from tallyroll.cli.arguments import Run
from tallyroll.cli.screen import Screen, number_of
from tallyroll.errors import Missing
from tallyroll.model.amounts import format_amount
from tallyroll.model.windows import table_name

SEGMENTS = 16  # of the table that is compared with its archive


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
