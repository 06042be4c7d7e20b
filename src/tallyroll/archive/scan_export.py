"""The scan exporter: reads a sealed table in parallel segments and leaves the native export's
layout.

    {prefix}/progress/segment-0007.json   the data files of a finished segment

A run writes each segment's files as uploads that nobody sees. The note of the segment, which only
one run can put, says which uploads become objects, and whoever comes later may complete them. So a
run may be killed anywhere, and several may work at once: every data file that stands is one that
the manifest will name. (A reader such as Athena reads all files that lie beside them.)
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
from tallyroll.model.items import Item
from tallyroll.model.states import Window
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store

PART_BYTES = PART_BYTES_MIN
FILE_BYTES = 64 * 1024 * 1024  # compressed; a segment is cut into files of about this size, each of
# which the proof has to read in one run
SEGMENTS_AT_ONCE = 8  # threads; each holds a page of at most 1 MB and a part of a file
NOTES_AT_ONCE = 16
SEGMENT_ITEMS = 20_000  # a segment's aim: a second or so of one thread
SEGMENTS_MAX = 10_000  # as many notes; DynamoDB would take a million


@dataclass(frozen=True, slots=True)
class Exported:
    """What a run did: the segments that it finished, whether the archive is whole now, and the
    first error that kept others from it.
    """

    segments: int
    whole: bool
    error: StoreError | ProofMismatch | None = None


def segments_for(window: Window, stripes_min: int, least: int) -> int:
    """How many segments an attempt has: at least `least`, and so many that each is a small part of
    a run. After attempts in vain twice as many, each time.
    """
    items = (window.events or 0) + (window.keys or 0) * stripes_min
    wanted = max(least, -(-items // SEGMENT_ITEMS))
    doublings = min(window.attempts, SEGMENTS_MAX.bit_length())
    return min(SEGMENTS_MAX, wanted << doublings)


def export(
    window: Window, store: Store, bucket: ArchiveBucket, effects: Effects, deadline: int
) -> Exported:
    """Go on with the current attempt's archive of a window's table, until it is whole or the
    deadline (ms) is near.

    The manifests are written last, so that an attempt which ended early is never taken for whole.
    Raises StoreError, and ProofMismatch if notes of segments are damaged.
    """
    assert window.archive
    assert window.segments
    standing = frozenset(bucket.list(progress_dir(window.archive)))
    left = [one for one in range(window.segments) if note_key(window, one) not in standing]
    work = _Work(window, store, bucket, effects, deadline)
    # Runs that are at it at once begin at different places, and meet late.
    begin = int(effects.chance.random() * len(left))
    jobs = [partial(work.segment, one) for one in (*left[begin:], *left[:begin])]
    finished = sum(effects.together(jobs, SEGMENTS_AT_ONCE))
    whole = finished == len(left)
    if whole:
        _finish(window, bucket, effects)
    return Exported(finished, whole, work.error)


def note_key(window: Window, segment: int) -> str:
    """The key of a segment's note."""
    assert window.archive
    return f"{progress_dir(window.archive)}segment-{segment:04d}.json"


class _Work:
    """One run's share of the segments."""

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
        """Export one segment, if time allows; whether its note stands now."""
        began = self._effects.now()
        if self.error or began + self._slowest >= self._deadline:
            return False
        assert self._window.archive
        name = f"{data_dir(self._window.archive)}{segment:04d}-{self._token}"
        files = _Files(self._bucket, name)
        try:
            whole = self._write(segment, files)
            if whole:
                self._note(segment, files)
        except (StoreError, ProofMismatch) as error:
            # No upload is aborted here: if it was only the reply that was lost, the note names it.
            self.error = error
            return False
        if not whole:
            files.abort()
            return False
        self._slowest = max(self._slowest, self._effects.now() - began)
        return True

    def _write(self, segment: int, files: _Files) -> bool:
        """Write a segment's files; False if time was up before its end."""
        assert self._window.segments
        for page in self._store.scan(self._window.table, segment, self._window.segments):
            if self._effects.now() >= self._deadline:
                return False
            for item in page:
                files.add(item)
        files.end()
        return True

    def _note(self, segment: int, files: _Files) -> None:
        assert self._window.segments
        said = {
            "table": self._window.table,
            "segment": segment,
            "segments": self._window.segments,
            "files": files.ended,
        }
        note = json.dumps(said).encode()
        if self._bucket.put_once(note_key(self._window, segment), note) != note:
            files.abort()  # another run was faster
            return
        for file in files.ended:
            _complete(self._bucket, file)


class _Files:
    """The data files of one segment, as uploads; all that was ended is in `ended`."""

    def __init__(self, bucket: ArchiveBucket, name: str) -> None:
        self._bucket = bucket
        self._name = name
        self._writer = DataFileWriter()
        self._upload: dict[str, Any] | None = None
        self.ended: list[dict[str, Any]] = []

    def add(self, item: Item) -> None:
        """Add an item to the file that is being written."""
        self._writer.add(item)
        if self._writer.waiting >= PART_BYTES:
            self._put_part(last=False)
        if self._writer.size >= FILE_BYTES:
            self.end()

    def end(self) -> None:
        """End the file, unless nothing is in it."""
        if not self._writer.items:
            return
        file = self._put_part(last=True)
        file |= {"items": self._writer.items, "md5": self._writer.md5}
        self.ended.append(file)
        self._writer, self._upload = DataFileWriter(), None

    def abort(self) -> None:
        """Let no file come of it; what cannot be aborted now, the bucket's lifecycle rule ends."""
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
            raise ProofMismatch(
                [f"{file['key']}: its upload was aborted before it was completed"]
            ) from None


def _finish(window: Window, bucket: ArchiveBucket, effects: Effects) -> None:
    """See that every file of every note stands, then write the manifests."""
    assert window.archive
    assert window.segments
    assert window.export_at is not None
    read: list[Callable[[], list[dict[str, Any]]]] = [
        partial(_noted, window, bucket, segment) for segment in range(window.segments)
    ]
    files = [file for some in effects.together(read, NOTES_AT_ONCE) for file in some]
    standing = frozenset(bucket.list(data_dir(window.archive)))
    for file in files:
        if file["key"] not in standing:
            _complete(bucket, file)
    listed = [DataFile(file["key"], file["items"], file["md5"]) for file in files]
    for key, body in manifests(bucket.name, window.archive, window.table, listed, window.export_at):
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
    if of != (window.table, segment, window.segments):
        raise ProofMismatch([f"note of another segment: {key}: {of}"])
    return files
