"""Loads sources: their records become events, which a bulk sender sends, up to checkpoints.

Packets never reach over a record whose number is a multiple of `SEGMENT`, and their ids are made
from the content of their source. So a load that begins again at such a record makes the same
packets as one that was never interrupted, and the queue's writers find duplicates.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tallyroll.client.bulk import BulkSender
from tallyroll.client.checkpoint import Checkpoint, SourceState
from tallyroll.client.jsonlines import UnreadableInput
from tallyroll.client.sources.parquet import Parquet
from tallyroll.client.sources.places import Copy, Format, Place, sniffed
from tallyroll.client.sources.readers import Csv, DynamoJson, JsonLines, RecordReader
from tallyroll.client.sources.records import BadRecord, Changed, SourceRecord
from tallyroll.client.sources.shapes import RecordShape, read
from tallyroll.errors import Rejected, UsageError
from tallyroll.model.events import Event
from tallyroll.model.records import event_time

SEGMENT = 100_000
CHUNK_RECORDS = 20_000
CHUNK_BYTES = 16 * 1024 * 1024
_BAD_BEGINS = b'{"source": '


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Where a load is: bytes of all `size`, of which so many `before` were loaded earlier. Of what
    was read ahead, the `position` leaves out what the queue has not taken yet. If it is `reading`,
    the load copies the next source or makes its digest.
    """

    position: int
    before: int
    size: int
    events: int
    reading: bool = False


@dataclass(frozen=True)
class SourceLayout:
    """How sources are to be read: the shape of the records of each format, and how CSV is cut."""

    shapes: Mapping[Format, RecordShape]
    columns: Sequence[str] | None = None
    delimiter: str = ","

    def check(self, places: Sequence[Place]) -> None:
        """Raise UsageError for a file on this machine that has not the columns that are needed."""
        for place in places:
            if place.path:
                form = place.format or sniffed(place.path)
                with suppress(UnreadableInput):  # told when it is loaded
                    self.table(place, Copy(place.path, "", place.size, form, (0, 0))).close()

    def table(self, place: Place, copy: Copy) -> RecordReader:
        """The reader of a source. Raises UsageError and UnreadableInput."""
        path = str(copy.path)
        table: RecordReader
        if copy.format is Format.CSV:
            table = Csv(path, self.columns, self.delimiter)
        elif copy.format is Format.PARQUET:
            table = Parquet(path)
        else:
            table = DynamoJson(path) if copy.format is Format.DYNAMODB else JsonLines(path)
        try:
            self.shapes[copy.format].check(place.name, table.columns)
        except UsageError:
            table.close()
            raise
        return table


class BadFile:
    """The file of bad records: JSON Lines, made with the first. After a crash it goes on at the
    size that it had at the checkpoint. A `dry` run writes none.
    """

    def __init__(self, path: Path, size: int, *, dry: bool = False) -> None:
        self.path = path
        self.size = size
        self._dry = dry
        self._file: TextIO | None = None

    def write(self, source: str, record: SourceRecord, bad: BadRecord | Rejected) -> None:
        """Add a record. Raises UsageError if that fails."""
        if self._dry:
            return
        reported = {"source": source, "line": record.number, "reason": str(bad.reason)}
        line = json.dumps({**reported, "detail": bad.detail, "text": record.text}) + "\n"
        try:
            if self._file is None:
                self.path.touch()
                self._file = self.path.open("r+", encoding="ascii")
                self.size = min(self.size, self.path.stat().st_size)  # it may have been removed
                self._file.seek(self.size)
                self._file.truncate()
            self._file.write(line)
        except OSError as error:
            raise UsageError(f"--bad {self.path}: {error.strerror}") from None
        self.size += len(line)

    def flush(self) -> None:
        """Bring to the file what was written."""
        if self._file:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


def are_bad_lines(path: Path) -> bool:
    """Whether a file, if it is there, holds what `BadFile` writes, or nothing."""
    try:
        with path.open("rb") as file:
            line = file.readline()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not line or line.startswith(_BAD_BEGINS)


@dataclass(slots=True)
class Loaded:
    """The result so far, of this run alone. `sources` are done; `skipped` rows were no inserts;
    `notes` are for people.
    """

    sources: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class Load:
    """One run. `on_progress` is called with its progress, `listed` with each bad record.

    With `skip_changes` rows that were updated or deleted are counted and left out, else they are
    bad. `keep_up` waits for what was sent; False ends the load.
    """

    def __init__(
        self,
        producer: BulkSender,
        layout: SourceLayout,
        checkpoint: Checkpoint,
        bad_file: BadFile,
        *,
        skip_changes: bool,
        on_progress: Callable[[LoadProgress], object],
        listed: Callable[[str, SourceRecord, BadRecord | Rejected], object],
        keep_up: Callable[[], bool] = lambda: True,
    ) -> None:
        self.loaded = Loaded()
        self.complete = False
        self._producer = producer
        producer.limit_packets(checkpoint.packets)
        self._segment = checkpoint.segment = checkpoint.segment or SEGMENT
        self._layout = layout
        self._checkpoint = checkpoint
        self._bad_file = bad_file
        self._skip_changes = skip_changes
        self._on_progress = on_progress
        self._listed = listed
        self._keep_up = keep_up
        self._unsaved = Loaded()  # bad and skipped records since the checkpoint
        totals = checkpoint.totals
        self._earlier = {"bad": Counter(totals.bad), "skipped": Counter(totals.skipped)}
        self.events_before = totals.events
        self._saved_lines = self._saved_events = 0
        self._before = 0  # bytes that were loaded earlier
        self._read = 0  # events
        self._began = (0, 0, 0)  # of a source: its byte, and events read and settled before
        self._names: dict[str, str] = {}  # of sources, by their digests

    def earlier(self, name: str) -> Counter[str]:
        """What the checkpoint had of `bad` or `skipped` when this run began."""
        return self._earlier[name]

    @property
    def _clean(self) -> bool:
        """Whether the queue took everything, so that the checkpoint may go on."""
        sent = self._producer.sent
        return not (sent.refused or sent.lost or sent.waiting)

    def run(self, places: Sequence[Place]) -> None:
        """Load the places, as long as the queue takes anything. Raises UsageError, StoreError."""
        size = sum(place.size for place in places)
        at = 0
        for place in places:
            self._load(place, at, size)
            at += place.size
            if self._producer.sent.stopped:
                return
        self.complete = self._clean and not self._producer.sent.broken

    def _load(self, place: Place, at: int, size: int) -> None:
        state = self._checkpoint.state(place)
        if state.done and place.stamp:
            self._before += place.size
            self.loaded.sources += 1
            return
        sent = self._producer.sent

        def progress(position: int, *, reading: bool = False) -> None:
            self._on_progress(LoadProgress(at + position, self._before, size, sent.events, reading))

        try:
            with place.opened(lambda _: progress(0, reading=True)) as copy:
                state = self._checkpoint.state(place, copy)
                if state.done:
                    self._before += place.size
                    self.loaded.sources += 1
                    return
                self._name(place, copy)
                with closing(self._layout.table(place, copy)) as table:
                    self._send(
                        place, copy, table, state, lambda: progress(self._taken_to(table.position))
                    )
        except UnreadableInput as error:
            sent.broken = True
            self.loaded.notes.append(f"the input is broken: {error}")
            # What could not be read now may be read later. Packets that end here would then have
            # the ids of those that have all their events.
            again = isinstance(error.__cause__, OSError) and self._producer.packing
            self._producer.flush(end=not again)
            sent.stopped |= again
            self._forget()

    @property
    def _settled(self) -> int:
        """How many events the queue has taken, or will not get from this run."""
        sent = self._producer.sent
        return sent.events + sent.refused + sum(message.events for message, _ in sent.lost)

    def _taken_to(self, position: int) -> int:
        """The byte of a source up to which its events are settled, about, if it is read up to a
        position.
        """
        begin, read, settled = self._began
        share = (self._settled - settled) / (self._read - read) if self._read > read else 1.0
        return begin + round((position - begin) * min(1.0, share))

    def _forget(self) -> None:
        """Leave out of the checkpoint what came since it: the next run reads it again."""
        sent = self._producer.sent
        self._saved_lines, self._saved_events, self._unsaved = sent.lines, sent.events, Loaded()

    def _name(self, place: Place, copy: Copy) -> None:
        name = f"{copy.digest} in segments of {self._segment}, {self._checkpoint.options['shape']}"
        self._producer.rename(name)
        other = self._names.setdefault(copy.digest, place.name)
        if other != place.name and copy.size:
            self.loaded.notes.append(
                f"{place.name} has the content of {other}: its events without ids count once"
            )

    def _send(
        self,
        place: Place,
        copy: Copy,
        table: RecordReader,
        state: SourceState,
        on_progress: Callable[[], None],
    ) -> None:
        producer, sent = self._producer, self._producer.sent
        shape = self._layout.shapes[copy.format]
        records = size = last = 0
        segment = state.to // self._segment
        skipping, before = True, (self._read, self._settled)
        self._began = (0, *before)
        for record in table.records():
            if record.number <= state.to:
                continue
            if skipping:
                begin = table.position if state.to else 0
                self._before += begin
                self._began = (begin, *before)
                skipping = False
            if (record.number - 1) // self._segment != segment:
                segment = (record.number - 1) // self._segment
                producer.flush(on_progress)
                if sent.stopped or not self._keep_up():
                    return
                self._save(state, to=segment * self._segment)
                records = size = 0
            elif records >= CHUNK_RECORDS or size >= CHUNK_BYTES:
                producer.flush(on_progress, end=False)
                if sent.stopped or not self._keep_up():
                    return
                if not producer.packing:
                    self._save(state, to=last)
                records = size = 0
            size += self._take_in(place, record, shape)
            records, last = records + 1, record.number
        producer.flush(on_progress)
        if sent.stopped or not self._keep_up():
            return
        if copy.changed:
            raise UnreadableInput(f"{place.name} changed while it was loaded: load it again")
        self._save(state, to=last, done=True)
        self.loaded.sources += 1
        on_progress()

    def _save(self, state: SourceState, to: int, *, done: bool = False) -> None:
        """Record that the queue has taken everything up to a record, if it has."""
        if not self._clean:
            return
        self._bad_file.flush()
        totals, sent = self._checkpoint.totals, self._producer.sent
        totals.records += sent.lines - self._saved_lines
        totals.events += sent.events - self._saved_events
        totals.bad += self._unsaved.bad
        totals.skipped += self._unsaved.skipped
        totals.bad_bytes = self._bad_file.size
        self._forget()
        state.to, state.done = max(to, state.to), done
        self._checkpoint.save()

    def _take_in(self, place: Place, record: SourceRecord, shape: RecordShape) -> int:
        """Add a record's event; its bytes, roughly."""
        producer, sent = self._producer, self._producer.sent
        sent.lines, sent.read_to = sent.lines + 1, record.number
        try:
            found = read(record, shape)
        except (BadRecord, Rejected) as bad:
            skip = isinstance(bad, Changed) and self._skip_changes
            for loaded in (self.loaded, self._unsaved):
                (loaded.skipped if skip else loaded.bad)[str(bad.reason)] += 1
            if not skip:
                self._bad_file.write(place.name, record, bad)
                self._listed(place.name, record, bad)
            return len(record.raw or b"")
        origin = f"line {record.number}"
        self._read += 1 if isinstance(found.envelope, Event) else len(found.envelope.entries)
        if isinstance(found.envelope, Event):
            producer.add(found.envelope, origin, apart=found.apart)
            return len(record.raw or found.envelope.payload or "")
        producer.add_packet(found.text, found.envelope, origin)
        return len(found.text)


def pending(places: Sequence[Place], checkpoint: Checkpoint) -> list[Place]:
    """The places that are not loaded yet. Raises UsageError if one changed."""
    return [place for place in places if not checkpoint.state(place).done]


def times(
    places: Sequence[Place], layout: SourceLayout, on_progress: Callable[[LoadProgress], object]
) -> Iterator[int]:
    """When the events of these places happened (ms); records that are bad are left out."""
    size, at, events = sum(place.size for place in places), 0, 0
    for place in places:
        with (
            suppress(UnreadableInput),  # told when it is loaded
            place.opened() as copy,
            closing(layout.table(place, copy)) as table,
        ):
            shape = layout.shapes[copy.format]
            for record in table.records():
                try:
                    envelope = read(record, shape).envelope
                except (BadRecord, Rejected):
                    continue
                events += 1
                if events % CHUNK_RECORDS == 0:
                    on_progress(LoadProgress(at + table.position, 0, size, events))
                yield event_time(envelope, 0)
        at += place.size
