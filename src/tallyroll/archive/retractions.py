"""The retractions of an archived window: the tombstones in the archive, and the corrections made
since. Each must be of an event that the archive has.

What is read of them waits in temporary files, so memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import chain, groupby, islice

from tallyroll.archive.chunked import Waiting
from tallyroll.archive.corrections import (
    correction_line,
    corrections_copied,
    corrections_in,
    listed_corrections,
    revised,
    sums_unlike_corrections,
)
from tallyroll.archive.duplicates import DIGEST_BYTES
from tallyroll.archive.joining import Joining, wanted_by, wanted_by_correction
from tallyroll.archive.layout import ArchivedItem
from tallyroll.archive.recount import Findings
from tallyroll.archive.runs import SortedRuns
from tallyroll.errors import ProofMismatch
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tallyroll.model.stored import StoredEvent
from tallyroll.model.totals import Correction
from tallyroll.model.windows import WindowId
from tallyroll.ports.bucket import Bucket
from tallyroll.ports.totals import Totals

WANTED_HELD = 100_000  # with the names of their events, some 30 MB


class Retractions:
    """What was retracted from a window, as one reading of its archive finds it."""

    def __init__(self, window: WindowId) -> None:
        self._window = window
        self._wanted = SortedRuns[tuple[bytes, str]](WANTED_HELD)
        self._lines = SortedRuns[tuple[str, bytes, bool]](WANTED_HELD)
        self.any = False
        """Whether there are tombstones or corrections."""
        self.corrected = (0, 0)
        """The (events, amount) of all keys that were retracted since the window was sealed."""
        self.lacking = Findings()
        """The events whose corrections are in the table, and not in the copy: the first, and the
        number of all.
        """

    def add(self, tombstone: Tombstone) -> None:
        """Add a tombstone of the archive."""
        self.any = True
        name = _named(tombstone.key, tombstone.id, tombstone.index)
        self._wanted.add((wanted_by(tombstone), f"tombstone of {name}"))

    def read_corrections(self, bucket: Bucket, prefix: str, totals: Totals | None) -> Iterator[str]:
        """Read the corrections from the table of totals, if it is given, and else from their copy.
        Yields a finding for each in the copy that is not in the table.
        """
        try:
            for each in corrections_copied(bucket, prefix, self._window):
                self._lines.add((_name_of(each), correction_line(each), False))
                if totals is None:
                    self._correct(each)
        except ProofMismatch as mismatch:
            yield from mismatch.findings
        if totals is None:
            return
        for each in _corrections(totals, self._window):
            self._lines.add((_name_of(each), correction_line(each), True))
            self._correct(each)
        for (name, _), same in groupby(self._lines.rows(), lambda row: row[:2]):
            places = {in_table for *_, in_table in same}
            if True not in places:
                yield f"{name}: its correction in the copy is not in the table of totals"
            elif False not in places:
                self.lacking.add(name)

    def _correct(self, correction: Correction) -> None:
        self.any = True
        keys, (events, amount) = len(correction.keys), self.corrected
        self.corrected = events + keys * correction.n, amount + keys * correction.amount
        for key, wanted in zip(correction.keys, wanted_by_correction(correction), strict=True):
            name = _named(key, correction.id, correction.index)
            self._wanted.add((wanted, f"correction of {name}"))

    def unjoined(self, read: Callable[[], Iterable[ArchivedItem]]) -> Iterator[str]:
        """One finding for each that is of no event of the archive, and for each event that was
        retracted before the seal and corrected since. Reads the archive by `read` once more for
        every 100,000.
        """
        rows = self._wanted.rows()
        while names := dict(islice(rows, WANTED_HELD)):
            joining = Joining(names)
            with Waiting() as waiting:
                for found in read():
                    content = found.holds
                    if isinstance(content, Tombstone) and joining.is_corrected(content):
                        name = _named(content.key, content.id, content.index)
                        yield f"{name}: retracted before the seal, and by a correction again"
                    elif isinstance(content, Record) and not (found.in_chunks and content.packed):
                        joining.join(content)
                    elif joining.wanted_of(content):
                        waiting.add(found)
                for _, record in waiting.joined(lambda _: None):  # damage is a finding already
                    joining.join(record)
            for wanted in joining.missing():
                yield f"{names[wanted]}: no record has its digest, events and amount"


class RetractedEvents:
    """The retracted events of an archive, by key, id and index; some 100 bytes each in memory."""

    def __init__(self) -> None:
        self._names: set[bytes] = set()

    def add(self, key: str, record_id: str, index: int | None) -> None:
        """Add the event of this id, or that of this index in the packet."""
        self._names.add(_short(key, record_id, index))

    def kept(self, record: Record, events: Iterable[StoredEvent]) -> Iterator[StoredEvent]:
        """Those of a record's events that were not retracted."""
        for event in events:
            if not self._names or _short(record.key, record.id, event.index) not in self._names:
                yield event


def corrections_of(
    bucket: Bucket, prefix: str, totals: Totals | None, window: WindowId
) -> Iterator[Correction]:
    """The corrections of a window by the table of totals, if it is given, and else by their copy.
    Raises ProofMismatch if that is malformed.
    """
    if totals is None:
        return corrections_copied(bucket, prefix, window)
    return _corrections(totals, window)


def sums_unlike(totals: Totals, window: WindowId) -> list[str]:
    """One finding per key whose sums of corrections are not those of its corrections; none if they
    may have grown meanwhile.
    """
    revision = totals.revision(revised(window))
    if not revision:
        return []
    found = list(sums_unlike_corrections(totals, window, listed_corrections(totals, window)))
    return found if totals.revision(revised(window)) == revision else []


def _corrections(totals: Totals, window: WindowId) -> Iterator[Correction]:
    if not totals.revision(revised(window)):
        return iter(())
    buckets = range(1, LISTING_BUCKETS + 1)
    return chain.from_iterable(corrections_in(totals, window, number) for number in buckets)


def _short(key: str, record_id: str, index: int | None) -> bytes:
    return blake2b(_named(key, record_id, index).encode(), digest_size=DIGEST_BYTES).digest()


def _name_of(correction: Correction) -> str:
    return _named(correction.keys[0], correction.id, correction.index)


def _named(key: str, record_id: str, index: int | None) -> str:
    of_packet = "" if index is None else f" index {index}"
    return f"key {key!r} id {record_id!r}{of_packet}"
