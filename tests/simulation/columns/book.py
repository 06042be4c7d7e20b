"""The oracle's book of archives as Parquet: what is proven, what is let pass, what is read."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.archive.inventory import Archive, best, find
from tallyroll.archive.layout import is_parquet, parse_prefix, source_of
from tallyroll.archive.parquet.queries import ArchiveQueries
from tallyroll.archive.parquet.source import ParquetItems
from tallyroll.archive.verification import ArchiveReading
from tallyroll.model.states import Status, Window
from tallyroll.ports.bucket import is_passing
from tests.harness.pipeline import StillEffects
from tests.simulation import holdings
from tests.simulation.columns.connected import Cursor
from tests.simulation.holdings import MICROS, archive_items, told
from tests.simulation.retraction_book import CORRECTIONS

if TYPE_CHECKING:
    from tests.simulation.columns.watched import ColumnBucket
    from tests.simulation.pipeline import System

Row = tuple[str, str, int | None, int, bool]
"""Key, record and index of an event, its amount, and whether it was retracted before the seal."""
DEPTH = 6
ALONE, MANIFEST, PROOF = "/alone.json", "/manifest.json", "/proof.json"
_ROWS = (
    "SELECT key, ifnull(packet, id),"
    " if(packet IS NULL, NULL, CAST(substr(id, length(packet) + 2) AS INTEGER)),"
    f" CAST(value * {MICROS} AS BIGINT), retracted FROM read_parquet(?)"
)


def archive_of(key: str) -> str:
    """The prefix of the archive to which an object belongs, or "" if it is of none."""
    prefix = "/".join(key.split("/")[:DEPTH])
    return prefix if parse_prefix(prefix) else ""


class ColumnBook:
    """Checks that what is proven is what was archived, that nothing may expire before, and that
    what is read in the end is what was counted.
    """

    def __init__(self, system: System, bucket: ColumnBucket) -> None:
        self._system = system
        self._bucket = bucket
        self._fail = system.world.fail
        self._copied: dict[str, dict[str, bytes]] = {}
        self.proven: dict[str, str] = {}
        """Sources by the Parquet that was proven to be them."""

    # --- what is written

    def on_put(self, key: str, body: bytes, before: bytes | None) -> None:
        """Check what is written of an archive as Parquet, before it is."""
        prefix = archive_of(key)
        if not is_parquet(prefix) or key == prefix + ALONE:
            return
        if key == prefix + PROOF:
            self._on_proof(prefix)
        elif before is not None and before != body:
            self._fail(f"parquet: {key} is made otherwise than before")
        elif before is not None:
            self._system.marks.hit("column-made-twice")

    def _on_proof(self, prefix: str) -> None:
        source, window = source_of(prefix), self._window(prefix)
        if window is None or window.status is not Status.DROPPED:
            self._fail(f"parquet: {prefix} is proven, the window is not dropped: {window}")
            return
        kept = ParquetItems(self._bucket, prefix, CODEC)
        archive = next(each for each in self._found(source) if each.prefix == prefix)
        reading = ArchiveReading(self._bucket, archive, CODEC, None, kept)
        items = [found.item.attributes for found in reading]
        archived = archive_items(self._bucket.whole(), window)
        if reading.findings.count or told(items) != told(archived):
            self._fail(f"parquet: {prefix} is proven, and is not what was archived")
        rows = [*self._rows(prefix)]
        self._check_rows(window, rows)
        self._mark(window, rows, items)
        self._system.marks.hit("column-proven-again" if prefix in self.proven else "column-proven")
        self.proven[prefix] = source
        self._copied.setdefault(prefix, self._bucket.under(source + CORRECTIONS))

    def _mark(self, window: Window, rows: Iterable[Row], items: Iterable[Any]) -> None:
        """Count what there is in it."""
        corrected = [
            name for name in self._system.oracle.retractions.corrections if name[0] == window.id
        ]
        places = [record for _, record, index, *_ in rows if index is not None]
        for name, met in (
            ("packet", any(not each.startswith("~log.") for each in places)),
            ("leaf", any(each.startswith("~log.") for each in places)),
            ("chunks", any(each["sk"]["S"].startswith("c#") for each in items)),
            ("retracted", any(gone for *_, gone in rows)),
            ("corrected", bool(corrected)),
        ):
            if met:
                self._system.marks.hit(f"column-{name}")

    def _rows(self, prefix: str) -> Iterator[Row]:
        """The rows of events, read without the core."""
        with tempfile.NamedTemporaryFile() as file, Cursor() as cursor:
            for body in self._bucket.under(f"{prefix}/events/").values():
                Path(file.name).write_bytes(body)
                yield from cursor.execute(_ROWS, [file.name]).fetchall()

    def _check_rows(self, window: Window, rows: list[Row]) -> None:
        there, true = sorted(rows, key=repr), sorted(self._true_rows(window.id), key=repr)
        if there != true:
            more = [row for row in there if row not in true]
            less = [row for row in true if row not in there]
            what = f"{len(there)} rows, of which {more} should not be, and {less} are missing"
            self._fail(f"parquet: {window.id} has as Parquet {what}")

    def _true_rows(self, window: str) -> Iterator[Row]:
        """The rows that a window must have, by what counted and what was taken back of it."""
        book = self._system.oracle.retractions
        stones = {name for name, one in book.retracted.items() if one.how == "tombstone"}
        for (of, key, record), counted in book.counted.items():
            if of != window:
                continue
            events: Iterable[tuple[int | None, int]] = enumerate(counted.amounts)
            if not counted.amounts:
                events = [(None, counted.record.amount)]
            for index, amount in events:
                yield key, record, index, amount, (of, key, record, index) in stones

    # --- what may expire

    def on_let_pass(self, key: str) -> None:
        """Check that there is what shall be read in the place of an object that may expire."""
        source = archive_of(key)
        window = self._window(source) if source and not is_parquet(source) else None
        if window is None or window.attempt.archive != source or is_passing(key):
            self._fail(f"parquet: {key} is let pass, and is no part of a window's archive")
            return
        alone = [
            each.removesuffix(ALONE)
            for each in self._bucket.list(f"{source}.parquet.")
            if each.endswith(ALONE)
        ]
        if not alone:
            self._fail(f"parquet: {key} is let pass, and nothing is noted to be read in its place")
        for prefix in alone:
            if lacks := self._lacks(prefix, key):
                self._fail(f"parquet: {key} is let pass, and {prefix} {lacks}")

    def _lacks(self, prefix: str, key: str) -> str:
        """What an archive as Parquet lacks so that this object may expire."""
        if prefix not in self.proven or prefix + PROOF not in self._bucket.list(prefix):
            return "is not proven"
        manifest = self._bucket.get(prefix + MANIFEST)
        proof = json.loads(self._bucket.get(prefix + PROOF))
        if proof["manifestDigest"] != hashlib.sha256(manifest).hexdigest():
            return "has another manifest than was proven"
        said = json.loads(manifest)
        for file in said["events"] + said["rest"]:
            found = self._bucket.under(f"{prefix}/{file['name']}").values()
            if [hashlib.sha256(body).hexdigest() for body in found] != [file["sha256"]]:
                return f"lacks {file['name']}"
        wanted = dict(self._copied.get(prefix, {}))
        if CORRECTIONS in key:
            wanted[key] = self._bucket.get(key)
        there = self._lines_of(prefix)
        for each, body in wanted.items():
            if lost := [line for line in body.splitlines() if line not in there]:
                return f"lacks {lost} of {each}"
        return ""

    def _lines_of(self, prefix: str) -> list[bytes]:
        """The corrections beside an archive; fails if one is twice in a file."""
        files = [body.splitlines() for body in self._bucket.under(prefix + CORRECTIONS).values()]
        if twice := [lines for lines in files if len({*lines}) < len(lines)]:
            self._fail(f"parquet: a correction is beside {prefix} twice: {twice}")
        return [line for lines in files for line in lines]

    # --- what is read

    def read(self, window: Window, archive: Archive, totals: Any) -> list[Any]:
        """The items of an archive, as commands read it; fails unless it is whole."""
        source = ParquetItems(self._bucket, archive.prefix, CODEC) if archive.parquet else None
        reading = ArchiveReading(self._bucket, archive, CODEC, totals, source)
        items = [found.item.attributes for found in reading]
        if reading.compared().findings.count:
            self._fail(
                f"parquet: {window.id} is read as {archive.prefix}: {reading.findings.first}"
            )
        return items

    def chosen(self, window: Window) -> Archive | None:
        """What is read of a dropped window as Parquet, if there is some, and else as it is."""
        found = [each for each in best(self._found(window.attempt.archive)) if each.proven]
        return max(found, key=lambda each: each.parquet, default=None)

    def _found(self, prefix: str) -> list[Archive]:
        return find(self._bucket, StillEffects(), prefix)

    def last_items(self, window: Window, store: Any, bucket: Any, fail: Any) -> list[Any]:
        """What a window holds in the end, as `holdings.last_items`, once it was dropped as it is
        read then.
        """
        items = holdings.last_items(window, store, bucket, fail)
        archive = self.chosen(window) if window.status is Status.DROPPED else None
        if archive is None or not archive.parquet:
            return items
        read = self.read(window, archive, self._system.totals)
        if not archive.alone and told(read) != told(items):
            self._fail(f"parquet: {archive.prefix} is not what was archived")
        return read

    def check_queries(self, windows: Iterable[Window]) -> None:
        """Check that queries over the Parquet of windows count what was counted, without what was
        taken back.
        """
        with tempfile.TemporaryDirectory() as folder:
            queries = ArchiveQueries(
                Path(folder),
                self._bucket,
                CODEC,
                lambda reading, *_: iter(reading),
                self._system.totals,
            )
            asked = [each.id for each in windows if self._add(queries, each)]
            _, rows = queries.rows(
                f'SELECT "window", key, count(*), CAST(sum(value) * {MICROS} AS BIGINT)'
                " FROM events GROUP BY ALL ORDER BY ALL"
            )
            found = {(window, key): (n, amount) for window, key, n, amount in rows}
        true = {name: sums for name, sums in self._true_sums().items() if name[0] in asked}
        if found != true:
            self._fail(f"parquet: queries count {found}, counted were {true}")

    def _add(self, queries: ArchiveQueries, window: Window) -> bool:
        archive = self.chosen(window)
        if archive is None or not archive.parquet:
            return False
        queries.add(archive)
        return True

    def _true_sums(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Events and amount of each window and key: its total, less what was corrected."""
        oracle = self._system.oracle
        sums = {name: (total.n, total.amount) for name, total in oracle.totals.items()}
        for (window, key, *_), made in oracle.retractions.corrections.items():
            n, amount = sums[window, key]
            sums[window, key] = n - made.n, amount - made.amount
        return {name: (n, amount) for name, (n, amount) in sums.items() if n}

    def sealed(self, window: Window) -> dict[str, tuple[int, int]]:
        """Events and amount of each key of a window, when it was sealed."""
        totals = self._system.oracle.totals.items()
        return {key: (total.n, total.amount) for (of, key), total in totals if of == window.id}

    def parts_of(self, source: str) -> list[str]:
        """The objects that are there of an archive that was let pass, but for notes, and for
        corrections that came later.
        """
        return [
            key
            for key in self._bucket.list(f"{source}/")
            if not is_passing(key) and CORRECTIONS not in key
        ]

    def _window(self, prefix: str) -> Window | None:
        place = parse_prefix(prefix)
        return self._system.catalog.window(place.window) if place else None

    def check_copies(self) -> None:
        """Check that no correction was lost that was ever copied beside an archive."""
        for prefix, source in self.proven.items():
            if prefix + ALONE not in self._bucket.list(prefix):
                continue
            there = self._lines_of(prefix)
            for key, body in self._bucket.whole().under(source + CORRECTIONS).items():
                if key in self._bucket.list(key) and key not in self._bucket.passing:
                    continue
                if lost := [line for line in body.splitlines() if line not in there]:
                    self._fail(f"parquet: {key} may expire, and {prefix} lacks {lost}")
