"""Compares an archive with its table item by item, while the table exists."""

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
from tallyroll.model.items import StoredItem
from tallyroll.ports.items import ItemCodec

COMMIT_EVERY = 10_000


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


class Explanation:
    """Compares an archive with its table.

    The archive's items are kept in a temporary file, so memory grows only with the number of keys.
    """

    def __init__(self, codec: ItemCodec) -> None:
        self._codec = codec
        self._held = sqlite3.connect("")  # a temporary file of SQLite's own
        self._held.execute(
            "CREATE TABLE held (pk TEXT, sk TEXT, digests TEXT, place TEXT,"
            " PRIMARY KEY (pk, sk)) WITHOUT ROWID"
        )
        self.table = Recount()
        """The table's counts, once all differences have been read."""

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
        self, archive: Iterable[ArchivedItem], table: Iterable[list[StoredItem]]
    ) -> Iterator[Difference]:
        """Read the archive, then the table's pages; yield each difference as it is found."""
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
            pk, sk = found.item.pk, found.item.sk
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

    def _compared(self, item: StoredItem) -> Difference | None:
        primary = (item.pk, item.sk)
        query = "DELETE FROM held WHERE pk = ? AND sk = ? RETURNING digests, place"
        row = self._held.execute(query, primary).fetchone()
        if row is None:
            return Difference(DifferenceKind.MISSING, *primary)
        archived, present = json.loads(row[0]), _digests(item)
        names = sorted(archived.keys() | present.keys())
        changed = tuple(name for name in names if archived.get(name) != present.get(name))
        return Difference(DifferenceKind.DIFFERENT, *primary, changed, row[1]) if changed else None

    def _count(self, item: StoredItem) -> None:
        try:
            self.table.add(self._codec.parse(item))
        except ValueError:
            self.table.items += 1  # not an item of ours: reported as a difference


def keys_differing_from_table(
    archive: Recount, table: Recount
) -> Iterator[tuple[str, dict[str, object]]]:
    """Each key whose (events, amount) differ between records and tallies of both, with all four."""
    sums = {
        "archive records": archive.records,
        "archive tallies": archive.tallies,
        "table records": table.records,
        "table tallies": table.tallies,
    }
    for key in sorted({key for one in sums.values() for key in one}):
        found: dict[str, object] = {name: one.get(key) for name, one in sums.items()}
        if len(set(found.values())) > 1:
            yield key, found


def _digests(item: StoredItem) -> dict[str, str]:
    """A short digest of each attribute, since attributes may be long."""
    return {
        name: blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()
        for name, value in item.attributes.items()
    }
