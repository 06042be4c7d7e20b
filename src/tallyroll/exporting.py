"""The scan exporter: reads a sealed table in parallel segments and leaves the native export's
layout.
"""

from __future__ import annotations

from functools import partial

from tallyroll.archive import DataFile, DataFileWriter, put_manifests
from tallyroll.ports import Bucket, Effects, Store, Window

FILE_BYTES = 16 * 1024 * 1024  # compressed; a segment is cut into files of about this size


def export(window: Window, store: Store, bucket: Bucket, effects: Effects, segments: int) -> int:
    """Write the current attempt's archive of a window's table; give the items written.

    The manifests are written last, so that an attempt which ends early is never taken for whole.
    """
    assert window.archive
    at = effects.now()
    jobs = [
        partial(_export_segment, window, store, bucket, segment, segments)
        for segment in range(segments)
    ]
    files = [file for part in effects.together(jobs, segments) for file in part]
    put_manifests(bucket, window.archive, window.table, files, at)
    return sum(file.items for file in files)


def _export_segment(
    window: Window, store: Store, bucket: Bucket, segment: int, segments: int
) -> list[DataFile]:
    assert window.archive
    files: list[DataFile] = []
    writer = DataFileWriter()
    for page in store.scan(window.table, segment, segments):
        for item in page:
            writer.add(item)
        if writer.size >= FILE_BYTES:
            files.append(writer.put(bucket, window.archive, f"{segment:03d}-{len(files):04d}"))
            writer = DataFileWriter()
    if writer.items:
        files.append(writer.put(bucket, window.archive, f"{segment:03d}-{len(files):04d}"))
    return files
