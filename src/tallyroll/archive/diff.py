"""Why an archive and its table do not agree, item by item; while the table lives."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from types import TracebackType
from typing import Self

from tallyroll.archive.recount import ArchivedItem, Recount
from tallyroll.model.items import Item, parse_item

COMMIT_EVERY = 10_000


class DifferenceKind(StrEnum):
    """How an archive differs from its table."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    TWICE = "twice"


@dataclass(frozen=True, slots=True)
class Difference:
    """One item that differs: missing from the archive, extra or twice in it, or different in these
    attributes; and where it stands in the archive, if it does.
    """

    kind: DifferenceKind
    pk: str
    sk: str
    attributes: tuple[str, ...] = ()
    place: str = ""


class Explanation:
    """Compares an archive with its table. What the archive holds is kept in a file that the system
    deletes, so that memory does not grow with the number of items; two numbers a key stay.
    """

    def __init__(self) -> None:
        self._held = sqlite3.connect("")  # a temporary file of SQLite's own
        self._held.execute(
            "CREATE TABLE held (pk TEXT, sk TEXT, digests TEXT, place TEXT,"
            " PRIMARY KEY (pk, sk)) WITHOUT ROWID"
        )
        self.table = Recount()
        """What the table holds, once all differences were taken."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()

    def differences(
        self, archive: Iterable[ArchivedItem], table: Iterable[list[Item]]
    ) -> Iterator[Difference]:
        """Read the archive, then the table's pages; every difference, as it is found."""
        yield from self._hold(archive)
        for page in table:
            for item in page:
                self._count(item)
                if difference := self._compared(item):
                    yield difference
        rows = self._held.execute("SELECT pk, sk, place FROM held ORDER BY pk, sk")
        for pk, sk, place in rows:
            yield Difference(DifferenceKind.EXTRA, pk, sk, place=place)

    def _hold(self, archive: Iterable[ArchivedItem]) -> Iterator[Difference]:
        for number, found in enumerate(archive):
            pk, sk = _primary(found.item)
            place = f"{found.file} line {found.line}"
            try:
                self._held.execute(
                    "INSERT INTO held VALUES (?, ?, ?, ?)",
                    (pk, sk, json.dumps(_digests(found.item)), place),
                )
            except sqlite3.IntegrityError:
                yield Difference(DifferenceKind.TWICE, pk, sk, place=place)
            if number % COMMIT_EVERY == 0:
                self._held.commit()
        self._held.commit()

    def _compared(self, item: Item) -> Difference | None:
        primary = _primary(item)
        query = "DELETE FROM held WHERE pk = ? AND sk = ? RETURNING digests, place"
        row = self._held.execute(query, primary).fetchone()
        if row is None:
            return Difference(DifferenceKind.MISSING, *primary)
        archived, stands = json.loads(row[0]), _digests(item)
        names = sorted(archived.keys() | stands.keys())
        changed = tuple(name for name in names if archived.get(name) != stands.get(name))
        return Difference(DifferenceKind.DIFFERENT, *primary, changed, row[1]) if changed else None

    def _count(self, item: Item) -> None:
        try:
            self.table.add(parse_item(item))
        except ValueError:
            self.table.items += 1  # none of ours: it is told where it differs


def keys_differing_from_table(
    archive: Recount, table: Recount
) -> Iterator[tuple[str, dict[str, object]]]:
    """Each key whose (events, amount) by records or tallies are not all the same, with them."""
    sums = {
        "archive records": archive.records,
        "archive tallies": archive.tallies,
        "table records": table.records,
        "table tallies": table.tallies,
    }
    for key in sorted({key for one in sums.values() for key in one}):
        of = {name: one.get(key) for name, one in sums.items()}
        if len(set(of.values())) > 1:
            yield key, dict(of)


def _primary(item: Item) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def _digests(item: Item) -> dict[str, str]:
    """A digest of each attribute: attributes may be long, and only their equality counts."""
    return {
        name: blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()
        for name, value in item.items()
    }
