"""The scan exporter: reads a sealed table in parallel segments and writes the layout of a native
export.

    {prefix}/progress/segment-0007.json   the data files of a finished segment

A run writes each segment's files as multipart uploads, which are invisible until completed. Only
one run can write the segment's note, which names the uploads to complete; any later run may
complete them. So a run may be killed anywhere, several may run at once, and every data file that
exists is one that the manifest will list. (Athena reads all files under the prefix, listed or not.)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from tallyroll.archive.indexed.members import DataFileWriter
from tallyroll.archive.layout import DataFile, data_dir, manifests, progress_dir
from tallyroll.archive.notes import SegmentNote, Upload, note_body, parse_note
from tallyroll.errors import Missing, ProofMismatch, StoreError
from tallyroll.limits import PART_BYTES_MIN
from tallyroll.model.states import Window
from tallyroll.model.windows import name_in_store
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store

PART_BYTES = PART_BYTES_MIN
# Compressed size at which a segment's next file begins. The proof reads a file within one run.
FILE_BYTES = 64 * 1024 * 1024
SEGMENTS_AT_ONCE = 8  # threads; each holds a page of up to 1 MB and one part of a file
NOTES_AT_ONCE = 16
SEGMENT_ITEMS = 20_000  # wanted size of a segment: about a second of one thread
SEGMENTS_MAX = 10_000  # one note each; DynamoDB would allow a million


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of a run: the number of segments it finished, whether the archive is complete, and
    the first error that stopped it.
    """

    segments: int
    whole: bool
    error: StoreError | ProofMismatch | None = None


def segments_for(window: Window, stripes_min: int, least: int) -> int:
    """The number of segments of an attempt: at least `least`, and enough that each is a small part
    of a run. Each failed attempt doubles it.
    """
    events = window.events or 0
    items = events + min(events, (window.keys or 0) * stripes_min)
    wanted = max(least, -(-items // SEGMENT_ITEMS))
    doublings = min(window.attempt.number, SEGMENTS_MAX.bit_length())
    return min(SEGMENTS_MAX, wanted << doublings)


def export(
    window: Window, store: Store, bucket: ArchiveBucket, effects: Effects, deadline: int
) -> Exported:
    """Continue the current attempt's archive of a window until it is complete or the deadline (ms)
    is near.

    The manifests are written last, so an unfinished attempt never looks complete.
    Raises StoreError, and ProofMismatch if a segment's note is damaged.
    """
    attempt = window.attempt
    noted = frozenset(bucket.list(progress_dir(attempt.archive)))
    left = [one for one in range(attempt.segments) if note_key(window, one) not in noted]
    work = _Work(window, store, bucket, effects, deadline)
    # Concurrent runs start at different segments, so they rarely collide.
    begin = int(effects.chance.random() * len(left))
    jobs = [partial(work.segment, one) for one in (*left[begin:], *left[:begin])]
    finished = sum(effects.together(jobs, SEGMENTS_AT_ONCE))
    whole = finished == len(left)
    if whole:
        work.finish()
    return Exported(finished, whole, work.error)


def note_key(window: Window, segment: int) -> str:
    """The key of a segment's note."""
    return f"{progress_dir(window.attempt.archive)}segment-{segment:04d}.json"


@dataclass
class _Work:
    """One run's work on the segments."""

    window: Window
    store: Store
    bucket: ArchiveBucket
    effects: Effects
    deadline: int
    slowest: int = 0
    error: StoreError | ProofMismatch | None = None

    def __post_init__(self) -> None:
        self.attempt = self.window.attempt
        self.token = f"{self.effects.chance.getrandbits(48):012x}"

    def segment(self, segment: int) -> bool:
        """Export one segment if time allows. Returns whether its note exists now."""
        began = self.effects.now()
        if self.error or began + self.slowest >= self.deadline:
            return False
        name = f"{data_dir(self.attempt.archive)}{segment:04d}-{self.token}"
        files = _Files(self.bucket, name)
        try:
            whole = self._write(segment, files)
            if whole:
                self._note(segment, files)
        except (StoreError, ProofMismatch) as error:
            # No upload is aborted here: if only the reply was lost, the note names the uploads.
            self.error = error
            return False
        if not whole:
            files.abort()
            return False
        self.slowest = max(self.slowest, self.effects.now() - began)
        return True

    def _write(self, segment: int, files: _Files) -> bool:
        """Write a segment's files. Returns False if time ran out."""
        for page in self.store.scan(self.window.table, segment, self.attempt.segments):
            if self.effects.now() >= self.deadline:
                return False
            for item in page:
                files.add(self.store.codec.encode(item))
        files.end()
        return True

    def _note(self, segment: int, files: _Files) -> None:
        note = SegmentNote(self.window.table, segment, self.attempt.segments, files.ended)
        body = note_body(note)
        if self.bucket.put_once(note_key(self.window, segment), body) != body:
            files.abort()  # another run was faster
            return
        for file in files.ended:
            self._complete(file)

    def _complete(self, file: Upload) -> None:
        try:
            self.bucket.complete_upload(file.key, file.upload, file.parts)
        except Missing:
            if file.key not in self.bucket.list(file.key):  # else completed before
                finding = f"{file.key}: its upload was aborted before it was completed"
                raise ProofMismatch([finding]) from None

    def finish(self) -> None:
        """Complete the uploads of all notes, then write the manifests."""
        attempt, bucket = self.attempt, self.bucket
        read = [partial(self._noted, segment) for segment in range(attempt.segments)]
        files = [file for some in self.effects.together(read, NOTES_AT_ONCE) for file in some]
        existing = frozenset(bucket.list(data_dir(attempt.archive)))
        for file in files:
            if file.key not in existing:
                self._complete(file)
        listed = [DataFile(file.key, file.items, file.md5) for file in files]
        place = (bucket.name, attempt.archive, name_in_store(self.window.table))
        for key, body in manifests(*place, listed, attempt.export_at):
            bucket.put_once(key, body)

    def _noted(self, segment: int) -> list[Upload]:
        key = note_key(self.window, segment)
        note = parse_note(SegmentNote, key, self.bucket.get(key))
        of = (note.table, note.segment, note.segments)
        if of != (self.window.table, segment, self.attempt.segments):
            raise ProofMismatch([f"note of another segment: {key}: {of}"])
        return note.files


@dataclass
class _Files:
    """Writes the data files of one segment as uploads; `ended` lists the finished ones."""

    bucket: ArchiveBucket
    name: str
    ended: list[Upload] = field(default_factory=list)
    writer: DataFileWriter = field(default_factory=DataFileWriter)
    upload: Upload | None = None

    def add(self, line: bytes) -> None:
        """Add the line of an item to the current file."""
        self.writer.add(line)
        if len(self.writer.waiting) >= PART_BYTES:
            self._put_part(last=False)
        if self.writer.size >= FILE_BYTES:
            self.end()

    def end(self) -> None:
        """Finish the current file, unless it is empty."""
        if not self.writer.items:
            return
        file = self._put_part(last=True)
        file.items, file.md5 = self.writer.items, self.writer.md5
        self.ended.append(file)
        self.writer, self.upload = DataFileWriter(), None

    def abort(self) -> None:
        """Abort all uploads. Those that cannot be aborted now are left to the lifecycle rule."""
        for file in (*self.ended, *filter(None, [self.upload])):
            with suppress(StoreError):
                self.bucket.abort_upload(file.key, file.upload)

    def _put_part(self, *, last: bool) -> Upload:
        if self.upload is None:
            key = f"{self.name}-{len(self.ended):04d}.json.gz"
            self.upload = Upload(key, self.bucket.start_upload(key), [])
        file, body = self.upload, self.writer.part(last=last)
        number = len(file.parts) + 1
        file.parts.append(self.bucket.put_part(file.key, file.upload, number, body))
        return file
