"""Compares an archive with its table item by item, while the table exists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import chain, groupby
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple, Self

from tallyroll.archive.layout import ArchivedItem
from tallyroll.archive.recount import Recount
from tallyroll.archive.runs import SortedRuns
from tallyroll.model.items import StoredItem
from tallyroll.ports.store import ItemCodec

ROWS_HELD = 50_000  # in memory, some 30 MB
_SETS = ("SS", "NS", "BS")
IN_TABLE = inf  # sorts after all numbers of archived items


class DifferenceKind(StrEnum):
    """How an archive differs from its table."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    TWICE = "twice"


@dataclass(frozen=True, slots=True)
class Difference:
    """One item that differs, with its place in the archive (empty if missing there).

    `attributes` names those that differ, for the kind `different`.
    """

    kind: DifferenceKind
    pk: str
    sk: str
    attributes: tuple[str, ...] = ()
    place: str = ""


class _Row(NamedTuple):
    """An item as it is sorted. Each attribute has a short digest, since attributes may be long."""

    pk: str
    sk: str
    number: float
    place: str
    digests: str

    @classmethod
    def of(cls, item: StoredItem, number: float, place: str = "") -> Self:
        digests = {
            name: blake2b(_text(value).encode(), digest_size=8).hexdigest()
            for name, value in item.attributes.items()
        }
        return cls(item.pk, item.sk, number, place, json.dumps(digests))


def _text(value: Any) -> str:
    """The text of an attribute's value; a set has no order."""
    if isinstance(value, Mapping) and (kind := next(iter(value), "")) in _SETS:
        value = {kind: sorted(value[kind])}
    return json.dumps(value, sort_keys=True)


def differences(
    archive: Iterable[ArchivedItem],
    table: Iterable[list[StoredItem]],
    codec: ItemCodec,
    counted: Recount,
) -> Iterator[Difference]:
    """Read the archive, then the table's pages, in bounded memory; yield the differences by primary
    key. Counts the table's items into `counted`.
    """
    rows = SortedRuns[_Row](ROWS_HELD)
    for number, found in enumerate(archive):
        rows.add(_Row.of(found.item, number, f"{found.file} line {found.line}"))
    for item in chain.from_iterable(table):
        try:
            counted.add(codec.parse(item))
        except ValueError:
            counted.items += 1  # not an item of ours: reported as a difference
        rows.add(_Row.of(item, IN_TABLE))
    for _, same in groupby(rows.rows(), itemgetter(0, 1)):
        yield from _compared(list(same))


def _compared(rows: Sequence[_Row]) -> Iterator[Difference]:
    """The differences between the items of one primary key, those of the archive first."""
    pk, sk, *_ = last = rows[-1]
    archived = [row for row in rows if row.number != IN_TABLE]
    for row in archived[1:]:
        yield Difference(DifferenceKind.TWICE, pk, sk, place=row.place)
    if not archived:
        yield Difference(DifferenceKind.MISSING, pk, sk)
    elif last.number != IN_TABLE:
        yield Difference(DifferenceKind.EXTRA, pk, sk, place=archived[0].place)
    else:
        held, present = json.loads(archived[0].digests), json.loads(last.digests)
        names = sorted(held.keys() | present.keys())
        if changed := tuple(name for name in names if held.get(name) != present.get(name)):
            yield Difference(DifferenceKind.DIFFERENT, pk, sk, changed, archived[0].place)


def keys_differing_from_table(
    archive: Recount, table: Recount
) -> Iterator[tuple[str, dict[str, object]]]:
    """Each key whose (events, amount), less what was retracted, differ between records and tallies
    of both, with all four.
    """
    counts = (archive, table)
    for key in sorted({key for each in counts for sums in each.kinds.values() for key in sums}):
        found: dict[str, object] = {
            "archive records": archive.net(key),
            "archive tallies": archive.tallies.get(key),
            "table records": table.net(key),
            "table tallies": table.tallies.get(key),
        }
        if len(set(found.values())) > 1:
            yield key, found
