"""The scan exporter: reads a sealed table in parallel segments and writes the layout of a native
export.

    {prefix}/progress/segment-0007.json   the data files of a finished segment

A run writes each segment's files as multipart uploads, which are invisible until completed. Only
one run can write the segment's note, which names the uploads to complete; any later run may
complete them. So a run may be killed anywhere, several may run at once, and every data file that
exists is one that the manifest will list. (Athena reads all files under the prefix, listed or not.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tallyroll.archive.layout import DataFile, DataFileWriter, data_dir, manifests, progress_dir
from tallyroll.errors import Missing, ProofMismatch, StoreError
from tallyroll.limits import PART_BYTES_MIN
from tallyroll.model.states import Window
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
    items = (window.events or 0) + (window.keys or 0) * stripes_min
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
        _finish(window, bucket, effects)
    return Exported(finished, whole, work.error)


def note_key(window: Window, segment: int) -> str:
    """The key of a segment's note."""
    return f"{progress_dir(window.attempt.archive)}segment-{segment:04d}.json"


class _Work:
    """One run's work on the segments."""

    def __init__(
        self,
        window: Window,
        store: Store,
        bucket: ArchiveBucket,
        effects: Effects,
        deadline: int,
    ) -> None:
        self._window = window
        self._store = store
        self._bucket = bucket
        self._effects = effects
        self._deadline = deadline
        self._token = f"{effects.chance.getrandbits(48):012x}"
        self._slowest = 0
        self.error: StoreError | ProofMismatch | None = None

    def segment(self, segment: int) -> bool:
        """Export one segment if time allows. Returns whether its note exists now."""
        began = self._effects.now()
        if self.error or began + self._slowest >= self._deadline:
            return False
        name = f"{data_dir(self._window.attempt.archive)}{segment:04d}-{self._token}"
        files = _Files(self._bucket, name)
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
        self._slowest = max(self._slowest, self._effects.now() - began)
        return True

    def _write(self, segment: int, files: _Files) -> bool:
        """Write a segment's files. Returns False if time ran out."""
        for page in self._store.scan(self._window.table, segment, self._window.attempt.segments):
            if self._effects.now() >= self._deadline:
                return False
            for item in page:
                files.add(self._store.codec.encode(item))
        files.end()
        return True

    def _note(self, segment: int, files: _Files) -> None:
        fields = {
            "table": self._window.table,
            "segment": segment,
            "segments": self._window.attempt.segments,
            "files": files.ended,
        }
        note = json.dumps(fields).encode()
        if self._bucket.put_once(note_key(self._window, segment), note) != note:
            files.abort()  # another run was faster
            return
        for file in files.ended:
            _complete(self._bucket, file)


class _Files:
    """Writes the data files of one segment as uploads; `ended` lists the finished ones."""

    def __init__(self, bucket: ArchiveBucket, name: str) -> None:
        self._bucket = bucket
        self._name = name
        self._writer = DataFileWriter()
        self._upload: dict[str, Any] | None = None
        self.ended: list[dict[str, Any]] = []

    def add(self, line: bytes) -> None:
        """Add the line of an item to the current file."""
        self._writer.add(line)
        if self._writer.waiting >= PART_BYTES:
            self._put_part(last=False)
        if self._writer.size >= FILE_BYTES:
            self.end()

    def end(self) -> None:
        """Finish the current file, unless it is empty."""
        if not self._writer.items:
            return
        file = self._put_part(last=True)
        file |= {"items": self._writer.items, "md5": self._writer.md5}
        self.ended.append(file)
        self._writer, self._upload = DataFileWriter(), None

    def abort(self) -> None:
        """Abort all uploads. Those that cannot be aborted now are left to the lifecycle rule."""
        for file in (*self.ended, *([self._upload] if self._upload else [])):
            with suppress(StoreError):
                self._bucket.abort_upload(file["key"], file["upload"])

    def _put_part(self, *, last: bool) -> dict[str, Any]:
        if self._upload is None:
            key = f"{self._name}-{len(self.ended):04d}.json.gz"
            upload = self._bucket.start_upload(key)
            self._upload = {"key": key, "upload": upload, "parts": []}
        file, parts = self._upload, self._upload["parts"]
        body = self._writer.part(last=last)
        number = len(parts) + 1
        parts.append(self._bucket.put_part(file["key"], file["upload"], number, body))
        return file


def _complete(bucket: ArchiveBucket, file: Mapping[str, Any]) -> None:
    try:
        bucket.complete_upload(file["key"], file["upload"], file["parts"])
    except Missing:
        if file["key"] not in bucket.list(file["key"]):  # else completed before
            finding = f"{file['key']}: its upload was aborted before it was completed"
            raise ProofMismatch([finding]) from None


def _finish(window: Window, bucket: ArchiveBucket, effects: Effects) -> None:
    """Complete the uploads of all notes, then write the manifests."""
    attempt = window.attempt
    read: list[Callable[[], list[dict[str, Any]]]] = [
        partial(_noted, window, bucket, segment) for segment in range(attempt.segments)
    ]
    files = [file for some in effects.together(read, NOTES_AT_ONCE) for file in some]
    existing = frozenset(bucket.list(data_dir(attempt.archive)))
    for file in files:
        if file["key"] not in existing:
            _complete(bucket, file)
    listed = [DataFile(file["key"], file["items"], file["md5"]) for file in files]
    for key, body in manifests(
        bucket.name, attempt.archive, window.table, listed, attempt.export_at
    ):
        bucket.put_once(key, body)


def _noted(window: Window, bucket: ArchiveBucket, segment: int) -> list[dict[str, Any]]:
    key = note_key(window, segment)
    try:
        said = json.loads(bucket.get(key))
        files: list[dict[str, Any]] = [
            {
                "key": str(file["key"]),
                "upload": str(file["upload"]),
                "parts": [str(part) for part in file["parts"]],
                "items": int(file["items"]),
                "md5": str(file["md5"]),
            }
            for file in said["files"]
        ]
        of = (said["table"], said["segment"], said["segments"])
    except (Missing, KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"note of a segment damaged: {key}: {error!r}"]) from None
    if of != (window.table, segment, window.attempt.segments):
        raise ProofMismatch([f"note of another segment: {key}: {of}"])
    return files
