"""The layout of an archive, that of DynamoDB's native export to S3, so that one reader serves both.

    {prefix}/AWSDynamoDB/{export id}/
        data/*.json.gz         lines of {"Item": ...} in DynamoDB JSON
        manifest-files.json    a line a file: itemCount, md5Checksum, dataFileS3Key
        manifest-summary.json  itemCount, outputFormat, ...; written last
    {prefix}/proof.json        what the proof found; ours

Source: DynamoDB Developer Guide, "DynamoDB table export output format". Every attempt has a prefix
of its own.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tallyroll.errors import Missing, ProofMismatch
from tallyroll.ports import Bucket, Item
from tallyroll.windows import WindowId, iso, window_start

SUMMARY_VERSION = "2020-06-30"
LINE_BYTES_MAX = 1024 * 1024  # an item has at most 400 KB; base64 and names make a line longer


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of an archive: its key in the bucket, its items, the base64 MD5 of its
    compressed bytes.
    """

    key: str
    items: int
    md5: str


def prefix_of(pipeline: str, window: WindowId, attempt: str) -> str:
    """Where an attempt to export a window writes: partitioned by date and hour."""
    instant = iso(window_start(window))
    return f"archive/{pipeline}/date={instant[:10]}/hour={instant[11:13]}/{window}/{attempt}"


def _export_dir(prefix: str) -> str:
    return f"{prefix}/AWSDynamoDB/{prefix.rpartition('/')[2]}"


def summary_key(prefix: str) -> str:
    """The key of an archive's summary; that it exists says that the export is complete."""
    return f"{_export_dir(prefix)}/manifest-summary.json"


def proof_key(prefix: str) -> str:
    """The key of an archive's proof."""
    return f"{prefix}/proof.json"


class DataFileWriter:
    """Collects items into one compressed data file; deterministic bytes for the same items."""

    def __init__(self) -> None:
        self._compress = zlib.compressobj(
            6, zlib.DEFLATED, 31
        )  # 31: with a gzip header of time zero
        self._parts: list[bytes] = []
        self.items = 0
        self.size = 0

    def add(self, item: Item) -> None:
        """Add one item (DynamoDB JSON with base64 binaries)."""
        line = json.dumps({"Item": item}, ensure_ascii=False, separators=(",", ":")) + "\n"
        part = self._compress.compress(line.encode())
        self._parts.append(part)
        self.size += len(part)
        self.items += 1

    def put(self, bucket: Bucket, prefix: str, name: str) -> DataFile:
        """Finish the file and write it to the bucket under `name`."""
        body = b"".join([*self._parts, self._compress.flush()])
        key = f"{_export_dir(prefix)}/data/{name}.json.gz"
        bucket.put(key, body)
        md5 = hashlib.md5(body, usedforsecurity=False).digest()
        return DataFile(key, self.items, base64.b64encode(md5).decode())


def put_manifests(bucket: Bucket, prefix: str, table: str, files: list[DataFile], at: int) -> None:
    """Write both manifests, the summary last; `at` (ms) is when the table was read."""
    lines = [
        {"itemCount": file.items, "md5Checksum": file.md5, "dataFileS3Key": file.key}
        for file in files
    ]
    files_key = f"{_export_dir(prefix)}/manifest-files.json"
    bucket.put(files_key, "".join(json.dumps(line) + "\n" for line in lines).encode())
    summary = {
        "version": SUMMARY_VERSION,
        "exportTime": iso(at),
        "s3Bucket": bucket.name,
        "s3Prefix": prefix,
        "manifestFilesS3Key": files_key,
        "itemCount": sum(file.items for file in files),
        "outputFormat": "DYNAMODB_JSON",
        "exportType": "FULL_EXPORT",
        "tableName": table,
    }
    bucket.put(summary_key(prefix), json.dumps(summary, indent=1).encode())


def is_complete(bucket: Bucket, prefix: str) -> bool:
    """Whether an attempt's summary stands."""
    return any(key == summary_key(prefix) for key in bucket.list(summary_key(prefix)))


def read_manifests(bucket: Bucket, prefix: str) -> tuple[int, list[DataFile]]:
    """The summary's item count and the data files. Raises ProofMismatch if one is missing or
    malformed.
    """
    try:
        summary = json.loads(bucket.get(summary_key(prefix)))
        lines = bucket.get(summary["manifestFilesS3Key"]).decode().splitlines()
        files = [_data_file(json.loads(line)) for line in lines if line]
        return int(summary["itemCount"]), files
    except Missing as error:
        raise ProofMismatch([f"manifest missing: {error}"]) from None
    except (KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"manifest malformed: {error!r}"]) from None


def _data_file(line: dict[str, Any]) -> DataFile:
    return DataFile(line["dataFileS3Key"], int(line["itemCount"]), line["md5Checksum"])


def read_items(bucket: Bucket, file: DataFile) -> Iterator[Item]:
    """The items of one data file, streamed. Raises ProofMismatch at its end if count or checksum
    disagree, and at once if the file is missing, damaged or malformed.
    """
    md5 = hashlib.md5(usedforsecurity=False)
    items = 0
    try:
        for line in _lines(bucket, file.key, md5):
            yield json.loads(line)["Item"]
            items += 1
    except Missing:
        raise ProofMismatch([f"{file.key}: missing"]) from None
    except (zlib.error, EOFError, gzip.BadGzipFile, KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"{file.key}: unreadable: {error!r}"]) from None
    if items != file.items:
        raise ProofMismatch([f"{file.key}: {items} items, the manifest says {file.items}"])
    found = base64.b64encode(md5.digest()).decode()
    if found != file.md5:
        raise ProofMismatch([f"{file.key}: MD5 {found}, the manifest says {file.md5}"])


def _lines(bucket: Bucket, key: str, md5: hashlib._Hash) -> Iterator[bytes]:
    unzip, rest = zlib.decompressobj(31), b""
    for chunk in bucket.stream(key):
        md5.update(chunk)
        rest += unzip.decompress(chunk)
        *lines, rest = rest.split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise ValueError(f"a line over {LINE_BYTES_MAX} bytes")
        yield from lines
    if not unzip.eof:
        raise EOFError("the file is truncated")
    if rest:
        yield rest
