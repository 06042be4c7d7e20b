"""`tallyroll archive explain`: why an archive was not proven, record by record."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from tallyroll.archive.diff import Difference, Explanation, keys_differing_from_table
from tallyroll.archive.inventory import Archive
from tallyroll.archive.recount import ArchivedItem
from tallyroll.archive.verification import ArchiveReading
from tallyroll.cli.archive import TOLD_EVERY, Desk
from tallyroll.cli.screen import Screen
from tallyroll.errors import Missing
from tallyroll.model.amounts import format_amount
from tallyroll.model.items import Item
from tallyroll.model.windows import table_name
from tallyroll.ports.store import Store
from tallyroll.settings import Settings

SEGMENTS = 16


def explain(arguments: Namespace, settings: Settings, screen: Screen) -> int:
    """`tallyroll archive explain`. Gives the exit status, 1 if there is any difference."""
    desk = Desk(arguments, settings)
    archive = desk.named(arguments.archive)
    table = table_name(archive.place.pipeline, archive.place.window)
    store = desk.made.store
    if store.describe_table(table) is None:
        raise Missing(f"the table {table} is gone: there is nothing to compare with", "NoTable")
    if state := desk.made.catalog.window(archive.place.window):
        screen.tell(f"{archive.place.window} is {state.status}: {state.problem or 'no problem'}")
    screen.tell(f"comparing {archive.prefix} with {table}")
    reading = desk.reading(archive, against_totals=True)
    told = count = 0
    with Explanation() as explanation:
        read = _watched(reading, archive, screen)
        for difference in explanation.differences(read, _pages(store, table)):
            count += 1
            if told < arguments.limit:
                told += 1
                _show(difference, screen)
        keys = list(keys_differing_from_table(reading.counted, explanation.table))
    for key, of in keys[: arguments.limit]:
        _show_key(key, of, screen)
    findings = reading.compared().findings
    for finding in findings.first[: arguments.limit]:
        screen.tell(f"  {finding}")
    screen.tell(
        f"{count:,} items differ ({told:,} shown), {len(keys):,} keys,"
        f" {findings.count:,} other differences"
    )
    return int(bool(count or keys or findings.count))


def _watched(reading: ArchiveReading, archive: Archive, screen: Screen) -> Iterator[ArchivedItem]:
    with screen.progress() as bar:
        task = bar.add_task(f"reading {archive.place.window}", total=archive.items, done="")
        for number, found in enumerate(reading, 1):
            if number % TOLD_EVERY == 0:
                bar.update(task, completed=number, done=f"{number:,} items")
            yield found


def _pages(store: Store, table: str) -> Iterator[list[Item]]:
    for segment in range(SEGMENTS):
        yield from store.scan(table, segment, SEGMENTS)


def _show(difference: Difference, screen: Screen) -> None:
    if screen.json:
        screen.emit(
            {
                "difference": str(difference.kind),
                "pk": difference.pk,
                "sk": difference.sk,
                "attributes": list(difference.attributes),
                "place": difference.place,
            }
        )
        return
    cells = [str(difference.kind), f"{difference.pk}/{difference.sk}"]
    cells += filter(None, (", ".join(difference.attributes), difference.place))
    sys.stdout.write("  ".join(cells) + "\n")


def _show_key(key: str, of: dict[str, Any], screen: Screen) -> None:
    said = {name: found and [found[0], format_amount(found[1])] for name, found in of.items()}
    if screen.json:
        screen.emit({"key": key, **said})
        return
    sums = ", ".join(
        f"{name} {found[0]:,} events, sum {found[1]}" if found else f"{name} none"
        for name, found in said.items()
    )
    sys.stdout.write(f"key {key!r}: {sums}\n")
