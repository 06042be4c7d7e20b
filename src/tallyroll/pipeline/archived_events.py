"""One event of dropped windows, from their archives: by an index, or else from the whole archive.

By an index it takes the proof, an object of the index, and a member of a data file. Only windows
are asked in which the key has a total: without one it has no events there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tallyroll.archive.indexed.finding import IndexedArchive
from tallyroll.archive.layout import superseded_by
from tallyroll.errors import Archived, Missing, ProofMismatch
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.retractions import RetractionNote, Tombstone, TombstoneName
from tallyroll.model.states import Window
from tallyroll.model.stored import StoredPacket, packed_id, stored, whole
from tallyroll.model.totals import Total
from tallyroll.model.windows import WindowId, window_id
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec
from tallyroll.ports.totals import Totals
from tallyroll.reads.found import FoundEvent, StoredWhat, corrected, least_key, marked, names_of
from tallyroll.reads.lookups import deadline_of
from tallyroll.reads.merge import BYTES_MAX, event_bytes
from tallyroll.reads.ranges.pages import ArchivedMatches

WINDOWS_AT_ONCE = 16
Stones = Mapping[TombstoneName, RetractionNote]
ReadWhole = Callable[[str, str, Window, Total, int], StoredWhat | None]
"""Gives the event of a key and id from the whole archive of a window in which the key has this
total, until a deadline (ms). Raises Archived for an archive that it does not read.
"""


@dataclass(frozen=True)
class ArchivedEvents:
    """Reads single events. What has no index is `read_whole`."""

    totals: Totals
    bucket: Bucket
    codec: ItemCodec
    effects: Effects
    read_whole: ReadWhole

    def events_named(
        self, key: str, event_id: str, windows: Sequence[Window], left: int
    ) -> ArchivedMatches:
        """See `ArchiveReads`. An archive that is not as it was proven is left unread, if another
        has the event.
        """
        deadline = deadline_of(self.effects.now(), left)
        totals = self._totals(key, windows)
        having = [window for window in windows if window.id in totals]
        found: list[FoundEvent] = []
        unread: dict[WindowId, Archived] = {}
        failed: ProofMismatch | None = None
        size = 0
        for at in range(0, len(having), WINDOWS_AT_ONCE):
            some = having[at : at + WINDOWS_AT_ONCE]
            if self.effects.now() >= deadline or size > BYTES_MAX:
                unread |= {each.id: Archived(each.id, each.attempt.archive) for each in some}
                continue
            jobs = [partial(self._sought, key, event_id, each, totals[each.id]) for each in some]
            for window, known in zip(
                some, self.effects.together(jobs, WINDOWS_AT_ONCE), strict=True
            ):
                try:
                    if isinstance(known, ProofMismatch):
                        raise known
                    indexed, what = known
                    if not indexed:
                        place = (window, totals[window.id], deadline)
                        what = self.read_whole(key, event_id, *place)
                except Archived as error:
                    unread[window.id] = error.with_traceback(None)
                    continue
                except ProofMismatch as error:
                    failed = failed or error.with_traceback(None)  # frames hold files
                    unread[window.id] = Archived(window.id, window.attempt.archive, str(error))
                    continue
                if what is not None:
                    found.append(FoundEvent(key, window.id, window.status, what))
                    size += event_bytes(what)
        if failed and not found:
            raise failed
        return ArchivedMatches(tuple(found), unread)

    def _sought(self, *what: Any) -> tuple[bool, StoredWhat | None] | ProofMismatch:
        try:
            return self._indexed(*what)
        except ProofMismatch as error:
            return error

    def _totals(self, key: str, windows: Sequence[Window]) -> dict[WindowId, Total]:
        if not windows:
            return {}
        found = self.totals.of_key(key, windows[0].id, window_id(windows[-1].end))
        return {total.window: total for total in found}

    def _indexed(
        self, key: str, event_id: str, window: Window, total: Total
    ) -> tuple[bool, StoredWhat | None]:
        """Whether the archive has an index, and what is found by it. An archive that expires has
        none: its objects go in any order.
        """
        prefix = window.attempt.archive
        archive = IndexedArchive.opened(self.bucket, prefix, self.codec)
        if archive is None:
            return False, None
        try:
            what, least = event_in(event_id, partial(_record, archive, key))
            if what is None:
                return True, None
            ids = {event_id, *(packed_id(event_id) or ())[:1]}
            items = [item for each in sorted(ids) for item in archive.items_of(key, each)]
        except Missing as error:
            if superseded_by(self.bucket, prefix):
                return False, None
            raise ProofMismatch([f"{prefix}: {error}"]) from None
        stones = {each.name: each.note for each in items if isinstance(each, Tombstone)}
        return True, told(self.totals, self.effects, key, window, total, what, least, stones)


def _record(archive: IndexedArchive, key: str, record_id: str) -> Record | None:
    """The record of a key and id, with its data."""

    def chunks_of(of: str, name: str, _: int) -> list[Chunk]:
        return [each for each in archive.items_of(of, name) if isinstance(each, Chunk)]

    items = archive.items_of(key, record_id)
    record = next((each for each in items if isinstance(each, Record)), None)
    return whole(record, chunks_of) if record else None


def event_in(
    event_id: str, record_of: Callable[[str], Record | None]
) -> tuple[StoredWhat | None, dict[str, str]]:
    """The event or packet of an id, among whole records by their ids; and its least key, if it has
    several.
    """
    if record := record_of(event_id):
        return stored(record), least_key(record)
    if packed := packed_id(event_id):
        packet_id, index = packed
        packet = record_of(packet_id)
        held = stored(packet) if packet else None
        if isinstance(held, StoredPacket) and index < len(held.events):
            return held.events[index], {}
    return None, {}


def told(
    totals: Totals,
    effects: Effects,
    key: str,
    window: Window,
    total: Total,
    what: StoredWhat,
    least: Mapping[str, str],
    stones: Stones,
) -> StoredWhat:
    """An event of a window with what was retracted of it, by tombstones and by corrections."""
    notes = dict(stones)
    if total.corrections.n:
        notes |= corrected(totals, effects, window.id, names_of(key, [what]), least)
    [one] = marked(key, [what], notes)
    return one
