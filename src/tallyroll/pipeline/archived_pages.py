"""Pages of a key's events over a range of windows; those of dropped windows from their archives.

A page reads of an archive what may be the key's. It checks the files by their manifest, and the
key's sums by its total; all else was checked before the table was dropped. The aggregator imports
this with the first page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import attrgetter
from shlex import quote

from tallyroll.archive.indexed.finding import needle_of
from tallyroll.archive.inventory import best, find
from tallyroll.archive.layout import DataFile
from tallyroll.archive.parquet.by_key import KeyPass
from tallyroll.archive.parquet.files import DUCKDB, installed
from tallyroll.archive.recount import ArchivePass
from tallyroll.errors import Archived, ProofMismatch, Refused
from tallyroll.model.formats.payloads import Chunk, manifest_in
from tallyroll.model.items import Content
from tallyroll.model.records import Record, RecordPage
from tallyroll.model.retractions import RetractionNote, Tombstone, TombstoneName
from tallyroll.model.states import Window
from tallyroll.model.stored import packed_id, whole
from tallyroll.model.totals import Total
from tallyroll.model.windows import Grid, Span, WindowId, window_id
from tallyroll.pipeline.archived_events import ArchivedEvents, ReadWhole, event_in, told
from tallyroll.ports.bucket import ListedBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec
from tallyroll.ports.totals import Totals
from tallyroll.reads.cursor import Position
from tallyroll.reads.found import (
    FoundEvent,
    StoredWhat,
    corrected,
    least_key,
    marked,
    names_of,
)
from tallyroll.reads.lookups import deadline_of
from tallyroll.reads.merge import BYTES_MAX, LAST_BYTES_MAX, Merge, event_bytes
from tallyroll.reads.ranges.cursors import RangePlace, RangeQuery
from tallyroll.reads.ranges.pages import ArchivedMatches, EventsPage, ReadPage
from tallyroll.reads.ranges.spans import dropped

ITEMS_MAX = 5_000_000  # of an archive: of so many, a page has the key's within some 5 s of CPU
ARCHIVE_BYTES_MAX = 512 * 1024 * 1024
PARQUET_BYTES_MAX = 256 * 1024 * 1024  # it waits on disk, of which a function has 512 MB
LATE = "is too large to be read in time"
RECORDS_KEPT, BYTES_KEPT = 50_000, 32 * 1024 * 1024  # of an archive, for the next pages


class _Late(Exception):
    """The time to read an archive is over."""


class _LinesPass(ArchivePass):
    """One pass over the lines of an archive in DynamoDB's layout that have the needle."""

    def contents(self, file: DataFile) -> Iterator[Content]:
        return (each.holds for each in self.read(file))


@dataclass(frozen=True, slots=True)
class _Run:
    """Records of a key in an archive, whole and ascending: all from the id `first` on, up to the
    last of them; if it is the `last`, there are no more. `stones` are the key's tombstones.
    """

    window: WindowId
    key: str
    first: str
    records: Sequence[Record]
    last: bool
    stones: Mapping[TombstoneName, RetractionNote]

    def serves(self, window: WindowId, key: str, position: Position) -> bool:
        """Whether what comes next after a position is here."""
        there = (window, key) == (self.window, self.key) and self.first <= position.record_id
        return there and (self.last or position.record_id < self.records[-1].id)


@dataclass(slots=True)
class _Page:
    """A page, as far as it is filled: what was `found` from the place `start` up to the place `at`.
    Once it is `over`, nothing is added. From `halfway` (ms) on it begins no further archive, and at
    the `deadline` it ends.
    """

    query: RangeQuery
    start: RangePlace
    at: RangePlace
    most: int
    size: int
    halfway: int
    deadline: int
    found: list[FoundEvent] = field(default_factory=list)
    complete: bool = True
    over: bool = False

    def take(self, found: Sequence[FoundEvent], then: RangePlace) -> None:
        """Add what was found up to a place, or leave it to the next page if it is too much."""
        taken = sum(event_bytes(one.what) for one in found)
        if self.found and taken > self.size + LAST_BYTES_MAX:
            self.over = True
            return
        self.found += found
        self.size -= taken
        self.at = then
        self.over = len(self.found) >= self.most or self.size <= 0


@dataclass
class ArchivedPages:
    """Pages of ranges, and single events, whether their windows were dropped or not. Use one per
    process: it keeps some records of the archive that was read last. `read_whole` is what reads an
    event where there is no index; by default as a page does.
    """

    catalog: Catalog
    totals: Totals
    bucket: ListedBucket
    codec: ItemCodec
    effects: Effects
    read_whole: ReadWhole | None = None
    _kept: _Run | None = field(default=None, init=False)

    def page(
        self, live: ReadPage, grid: Grid, query: RangeQuery, place: RangePlace, most: int, left: int
    ) -> EventsPage:
        """See `ArchiveReads`. A page may also end early where archives take long.

        Raises Archived for an archive that is too large for a page, or that is there only as
        Parquet where DuckDB is not, ProofMismatch for one that is damaged, and StoreError.
        """
        began, end = self.effects.now(), query.span.end
        deadline = deadline_of(began, left)
        page = _Page(query, place, place, most, BYTES_MAX, (began + deadline) // 2, deadline)
        while page.at.window < end and not page.over:
            windows = self.catalog.windows(page.at.window, end)
            if not windows:
                page.at = RangePlace(end)
            elif dropped(windows[0]):
                self._add_archived(page, list(takewhile(dropped, windows)))
            else:
                there = list(takewhile(lambda each: not dropped(each), windows))
                _add_live(page, live, there, grid, began + left - self.effects.now())
            if self.effects.now() >= deadline and not page.over:
                page.over, page.complete = True, page.at.window >= end
        then = page.at if page.at.window < end else None
        return EventsPage(query, tuple(page.found), then, page.complete, began)

    def events_named(
        self, key: str, event_id: str, windows: Sequence[Window], left: int
    ) -> ArchivedMatches:
        """See `ArchiveReads`. An archive without an index is read whole, if it may be."""
        ports = (self.totals, self.bucket, self.codec, self.effects)
        whole = self.read_whole or self._event
        return ArchivedEvents(*ports, whole).events_named(key, event_id, windows, left)

    def _event(
        self, key: str, event_id: str, window: Window, total: Total, deadline: int
    ) -> StoredWhat | None:
        check_items(window, key)
        packed = packed_id(event_id)
        records: dict[str, Record] = {}
        stones: Mapping[TombstoneName, RetractionNote] = {}
        for name in sorted({event_id, *(packed or ())[:1]}):  # the packet's run may have both
            run = self._run(window, key, total, Position(name), deadline)
            if run is None:
                raise _unread(window, key, LATE)
            records |= {each.id: each for each in run.records if each.id == name}
            stones = run.stones
        what, least = event_in(event_id, records.get)
        if what is None:
            return None
        return told(self.totals, self.effects, key, window, total, what, least, stones)

    def _add_archived(self, page: _Page, windows: Sequence[Window]) -> None:
        """Add events of these windows, or some of them."""
        key, end = page.query.key, windows[-1].end
        found = self.totals.of_key(key, windows[0].id, window_id(end))
        totals = {total.window: total for total in found}
        having = [window for window in windows if window.id in totals]
        for window in having:
            check_items(window, key)
        for window in having:
            if window.start > page.at.window:
                page.at = RangePlace(window.start)
            if page.at != page.start and self.effects.now() >= page.halfway:
                page.over = True
                return
            place = (page.at.position, page.deadline)
            run = self._run(window, key, totals[window.id], *place)
            if run is None and page.at == page.start:
                raise _unread(window, key, LATE)
            if run is None:
                page.complete, page.over = False, True
                return
            page.take(*self._part(page, window, totals[window.id], run))
            if page.over or page.at.window == window.start:
                return
        page.at = RangePlace(end)

    def _part(
        self, page: _Page, window: Window, total: Total, run: _Run
    ) -> tuple[list[FoundEvent], RangePlace]:
        """As many events as a page has room for, and the place after them."""
        key, position = run.key, page.at.position
        after = [record for record in run.records if record.id > position.record_id]
        begun = None
        if position.index is not None:
            begun = next(one for one in run.records if one.id == position.record_id)
        most = page.most - len(page.found)
        merge = Merge([1], position, most, page.size, packed=page.query.packed, begun=begun)
        if not merge.done:
            merge.add({1: RecordPage(tuple(after), more=False)})
        part = merge.part(lambda record: record)
        notes = dict(run.stones)
        if total.corrections.n and part.found:
            least: dict[str, str] = {}
            for record in run.records:
                least |= least_key(record)
            names = names_of(key, part.found)
            notes |= corrected(self.totals, self.effects, window.id, names, least)
        found = marked(key, part.found, notes)
        then = part.then or (None if run.last else Position(run.records[-1].id))
        place = RangePlace(window.start, then) if then else RangePlace(window.end)
        return [FoundEvent(key, window.id, window.status, one) for one in found], place

    def _run(
        self, window: Window, key: str, total: Total, position: Position, deadline: int
    ) -> _Run | None:
        """The key's records from a position on, as many as are kept; None if it is late."""
        run = self._kept
        if not (run and run.serves(window.id, key, position)):
            run = self._kept = None  # makes room
            run = self._kept = self._read(window, key, total, position.record_id, deadline)
        return run  # not what another thread keeps by now

    def _read(
        self, window: Window, key: str, total: Total, first: str, deadline: int
    ) -> _Run | None:
        def check() -> None:
            if self.effects.now() >= deadline:
                raise _Late

        try:
            return self._checked(window, key, total, first, check)
        except _Late:
            return None
        except OSError as error:
            why = f"cannot be kept on disk here ({error})"
        except Refused as error:
            if error.code != DUCKDB:
                raise
            why = "takes more memory than there is here"
        # Not in an `except`: the error's frames hold the files.
        raise _unread(window, key, why)

    def _checked(
        self, window: Window, key: str, total: Total, first: str, check: Callable[[], None]
    ) -> _Run:
        """See `_read`. `check` raises _Late."""
        reading = self._reading(window, key, check)
        records = _First(first)
        stones: dict[TombstoneName, RetractionNote] = {}
        for file in reading.files():
            check()
            for holds in reading.contents(file):
                check()
                if not isinstance(holds, Record | Tombstone) or holds.key != key:
                    continue
                reading.counted.add(holds)
                if isinstance(holds, Record):
                    records.add(holds)
                else:
                    stones[key, holds.id, holds.index] = holds.note
        counted = reading.counted.net(key) or (0, 0)
        if counted != (total.n, total.amount):
            said = f"(events, amount) {counted}, the total is {(total.n, total.amount)}"
            reading.findings.add(f"{window.attempt.archive}: key {key!r}: {said}")
        if reading.findings.count:
            raise ProofMismatch(reading.findings.first)
        held = _wholes(reading, records.cut(), check)
        return _Run(window.id, key, first, held, records.last, stones)

    def _reading(self, window: Window, key: str, check: Callable[[], None]) -> _LinesPass | KeyPass:
        prefix = window.attempt.archive
        proven = [each for each in best(find(self.bucket, self.effects, prefix)) if each.proven]
        if not proven:
            raise _unread(window, key, "is not there, or not proven")
        archive = proven[0]  # DynamoDB's, if both are there
        if archive.parquet and not installed():
            raise _unread(window, key, "is there only as Parquet, which needs DuckDB")
        most = PARQUET_BYTES_MAX if archive.parquet else ARCHIVE_BYTES_MAX
        if archive.size > most:
            raise _unread(window, key, f"has over {most:,} bytes")
        if archive.parquet:
            return KeyPass(self.bucket, archive.prefix, self.codec, key, check)
        reading = _LinesPass(self.bucket, archive.prefix, self.codec)
        reading.needle = needle_of(key)
        return reading


def _wholes(
    reading: _LinesPass | KeyPass, records: Sequence[Record], check: Callable[[], None]
) -> list[Record]:
    """The records with their data. If it is in chunks, the archive is read once more. Raises
    Refused if a chunk is missing or damaged.
    """
    chunks: dict[tuple[str, str], list[Chunk]] = {}
    for record in records:
        with suppress(ValueError):  # `whole` says that it is damaged
            if manifest := manifest_in(record.data, record.format):
                chunks[manifest.key, record.id] = []
    keys = {key for key, _ in chunks}
    reading.needle = needle_of(keys.pop()) if len(keys) == 1 else b""
    for file in reading.files() if chunks else ():
        check()
        for holds in reading.contents(file):
            check()
            if isinstance(holds, Chunk) and (holds.key, holds.id) in chunks:
                chunks[holds.key, holds.id].append(holds)
    return [whole(record, lambda key, name, _: chunks[key, name]) for record in records]


def _add_live(
    page: _Page, live: ReadPage, windows: Sequence[Window], grid: Grid, left: int
) -> None:
    """Add events of these windows; nothing if one of them was dropped meanwhile."""
    query, end, most = page.query, windows[-1].end, page.most - len(page.found)
    part = replace(query, span=Span(query.span.start, end))
    try:
        found = live(grid, part, page.at, most, page.size, left)
    except Archived:
        return
    page.take(found.found, found.then or RangePlace(end))
    page.complete = found.complete
    page.over = page.over or found.then is not None


class _First:
    """The first records by id from one id on, as many as are kept."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._held: list[Record] = []
        self._bytes = 0
        self._bound: str | None = None

    @property
    def last(self) -> bool:
        """Whether all records are here."""
        return self._bound is None

    def add(self, record: Record) -> None:
        """Add a record."""
        if record.id < self._first or (self._bound is not None and record.id > self._bound):
            return
        self._held.append(record)
        self._bytes += record.weight
        if len(self._held) >= 2 * RECORDS_KEPT or self._bytes >= 2 * BYTES_KEPT:
            self.cut()

    def cut(self) -> Sequence[Record]:
        """Those that are kept, in their order: also one after the first, which may be known."""
        self._held.sort(key=attrgetter("id"))
        size = 0
        for number, record in enumerate(self._held):
            if number > 1 and (number == RECORDS_KEPT or size + record.weight > BYTES_KEPT):
                del self._held[number:]
                self._bound = self._held[-1].id
                break
            size += record.weight
        self._bytes = size
        return self._held


def check_items(window: Window, key: str) -> None:
    """Raise Archived for an archive of too many items."""
    if (items := window.attempt.items) > ITEMS_MAX:
        raise _unread(window, key, f"has {items:,} items, over {ITEMS_MAX:,}")


def _unread(window: Window, key: str, why: str) -> Archived:
    """The error of an archive that no page has."""
    prefix = window.attempt.archive
    said = (
        f"window {window.id} was dropped, and its archive, under {prefix}/, {why}: read it by"
        f" `tallyroll archive read {window.id} --key {quote(key)}`"
    )
    return Archived(window.id, prefix, said)
