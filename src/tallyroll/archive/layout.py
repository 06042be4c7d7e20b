"""The layout of an archive: that of DynamoDB's native export to S3, so that one reader reads both.

    {prefix}/AWSDynamoDB/{export id}/
        data/*.json.gz         lines of items, as the store's codec writes them
        manifest-files.json    one line per file: itemCount, md5Checksum, dataFileS3Key
        manifest-summary.json  itemCount, outputFormat, ...; written last
    {prefix}/progress/         notes of exporter and proof on their progress; ours, and passing
    {prefix}/index/            where each event is in the data files; ours, see `indexed`
    {prefix}/proof.json        the proof's result; ours

Source: DynamoDB Developer Guide, "DynamoDB table export output format". Every attempt has a prefix
of its own. What is made of it as Parquet is beside it:

    {prefix}.parquet.{digest}/
        events/0000.parquet    a row an event
        rest/0000.parquet      what a restore needs besides
        corrections/*.jsonl    a copy of those beside the other archive
        manifest.json          names, sizes and SHA-256 of both kinds of files; written after them
        proof.json             the proof's result; only after all was read back and was equal
        alone.json             that the other archive expires; see `lifecycle/compactor.py`

The digest is that of all files, so equal files have the same prefix, and no run overwrites what
another one made otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from tallyroll.errors import Missing, ProofMismatch
from tallyroll.model.formats.gzip_members import unzipped
from tallyroll.model.items import Content, StoredItem
from tallyroll.model.records import Record
from tallyroll.model.stored import check_leaf
from tallyroll.model.windows import WindowId, iso, window_start
from tallyroll.ports.bucket import PROGRESS, Bucket
from tallyroll.ports.store import ItemCodec

Fault = Callable[[str], None]
SUMMARY_VERSION = "2020-06-30"
LINE_BYTES_MAX = 1024 * 1024  # an item has at most 400 KB; base64 and names make a line longer
_PREFIX = re.compile(
    r"archive/(?P<pipeline>[^/]+)/date=[0-9-]{10}/hour=[0-9]{2}/(?P<window>[^/]+)/(?P<attempt>[^/]+)"
)
_SUMMARY_NAME = "/manifest-summary.json"
PARQUET_VERSION = 1
DEPTH = 6  # archive/PIPELINE/date=.../hour=.../WINDOW/ATTEMPT
_PARQUET = ".parquet."
_ALONE = "/alone.json"
_DIGEST_LETTERS = 12
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file: its key, its number of items, the base64 MD5 of its compressed bytes."""

    key: str
    items: int
    md5: str


@dataclass(frozen=True, slots=True)
class ArchivedItem:
    """One item of an archive and its place: data file and line, from 1; and the gzip member, from
    0, that has the whole line (NOWHERE: none has).
    """

    item: StoredItem
    holds: Content
    file: str
    line: int
    member: int = NOWHERE

    @property
    def in_chunks(self) -> bool:
        """Whether it holds a record with its data in chunks."""
        return isinstance(self.holds, Record) and self.holds.in_chunks


class ItemSource(Protocol):
    """The items of an archive in another layout. Both call `fault` with each finding."""

    def files(self, fault: Fault) -> list[DataFile]:
        """What has items; nothing if there is no manifest."""

    def read(self, file: DataFile, fault: Fault) -> Iterator[ArchivedItem]:
        """Stream the items of one of them."""


def prefix_of(pipeline: str, window: WindowId, attempt: str) -> str:
    """The prefix of one attempt to export a window, partitioned by date and hour."""
    instant = iso(window_start(window))
    return f"archive/{pipeline}/date={instant[:10]}/hour={instant[11:13]}/{window}/{attempt}"


@dataclass(frozen=True, slots=True)
class ArchiveId:
    """The pipeline, window and attempt that an archive's prefix names."""

    pipeline: str
    window: WindowId
    attempt: str


def archive_of(key: str) -> str:
    """The prefix of the archive that an object belongs to, or "" if it is of none."""
    parts = key.split("/")
    return "/".join(parts[:DEPTH]) if len(parts) > DEPTH else ""


def parse_prefix(prefix: str) -> ArchiveId | None:
    """The reverse of `prefix_of`; None for any other prefix."""
    match = _PREFIX.fullmatch(prefix)
    return ArchiveId(match["pipeline"], match["window"], match["attempt"]) if match else None


def _export_dir(prefix: str) -> str:
    return f"{prefix}/AWSDynamoDB/{prefix.rpartition('/')[2]}"


def data_dir(prefix: str) -> str:
    """The prefix that holds the scan exporter's data files and nothing else."""
    return f"{_export_dir(prefix)}/data/"


def summary_key(prefix: str) -> str:
    """The key of an archive's summary, which exists once the export is complete."""
    return _export_dir(prefix) + _SUMMARY_NAME


def progress_dir(prefix: str) -> str:
    """The prefix of the notes of exporter and proof on their progress."""
    return f"{prefix}/{PROGRESS}/"


def index_key(prefix: str, partition: int, partitions: int) -> str:
    """The key of a partition of an archive's index, which has so many."""
    return f"{prefix}/index/{partition:03d}-of-{partitions:03d}"


def proof_key(prefix: str) -> str:
    """The key of an archive's proof."""
    return f"{prefix}/proof.json"


def manifests(
    bucket: str, prefix: str, table: str, files: Sequence[DataFile], at: int
) -> list[tuple[str, bytes]]:
    """Key and body of both manifests, the summary last; `at` (ms) is when the table was read."""
    lines = [
        {"itemCount": file.items, "md5Checksum": file.md5, "dataFileS3Key": file.key}
        for file in files
    ]
    files_key = f"{_export_dir(prefix)}/manifest-files.json"
    summary = {
        "version": SUMMARY_VERSION,
        "exportTime": iso(at),
        "s3Bucket": bucket,
        "s3Prefix": prefix,
        "manifestFilesS3Key": files_key,
        "itemCount": sum(file.items for file in files),
        "outputFormat": "DYNAMODB_JSON",
        "exportType": "FULL_EXPORT",
        "tableName": table,
    }
    listed = "".join(json.dumps(line) + "\n" for line in lines)
    return [(files_key, listed.encode()), (summary_key(prefix), json.dumps(summary).encode())]


@dataclass(frozen=True, slots=True)
class Manifest:
    """An archive's summary: its own key, the table, the number of items, and the key of the data
    files' manifest; `exported_at` is the summary's text.
    """

    key: str
    table: str
    items: int
    exported_at: str
    files_key: str


def find_summary(prefix: str, keys: Iterable[str]) -> str | None:
    """The summary among an archive's keys; a native export has it in a directory named by AWS."""
    begin = f"{prefix}/AWSDynamoDB/"
    found = (key for key in keys if key.startswith(begin) and key.endswith(_SUMMARY_NAME))
    return next(found, None)


def read_summary(bucket: Bucket, prefix: str) -> Manifest:
    """The summary of an archive. Raises ProofMismatch if it is missing or malformed."""
    try:
        try:
            key = summary_key(prefix)
            body = bucket.get(key)
        except Missing:
            key = find_summary(prefix, bucket.list(f"{prefix}/AWSDynamoDB/")) or key
            body = bucket.get(key)
        said = json.loads(body)
        return Manifest(
            key=key,
            # A native export names its table by ARN: arn:aws:dynamodb:REGION:ACCOUNT:table/NAME
            table=said.get("tableName") or said["tableArn"].rpartition("/")[2],
            items=int(said["itemCount"]),
            exported_at=str(said["exportTime"]),
            files_key=str(said["manifestFilesS3Key"]),
        )
    except Missing as error:
        raise ProofMismatch(
            [f"manifest missing: {error}: the export was not finished, or runs still"]
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProofMismatch([f"manifest malformed: {summary_key(prefix)}: {error!r}"]) from None


def read_files(bucket: Bucket, summary: Manifest) -> list[DataFile]:
    """The data files that an archive's manifest lists. Raises ProofMismatch if it is missing or
    malformed.
    """
    try:
        lines = map(json.loads, filter(None, bucket.get(summary.files_key).splitlines()))
        return [
            DataFile(line["dataFileS3Key"], int(line["itemCount"]), line["md5Checksum"])
            for line in lines
        ]
    except Missing as error:
        raise ProofMismatch([f"manifest missing: {error}"]) from None
    except (KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"manifest malformed: {summary.files_key}: {error!r}"]) from None


def read_items(
    bucket: Bucket,
    file: DataFile,
    codec: ItemCodec,
    fault: Fault,
    needle: bytes = b"",
    ends: list[int] | None = None,
) -> Iterator[ArchivedItem]:
    """Stream the items of one data file whose lines hold the needle; skip lines that hold none.
    Appends to `ends` where each gzip member of the file ends.

    Calls `fault` with each finding, which may raise to stop reading: if the file is missing or
    damaged, a line holds no item of a window table, or at the end count or checksum disagree.
    """
    md5 = hashlib.md5(usedforsecurity=False)
    number = 0
    try:
        ends = [] if ends is None else ends
        for number, (line, member) in enumerate(_lines(bucket, file.key, md5, ends), 1):
            if needle not in line:
                continue
            try:
                item = codec.decode(line)
                holds = codec.parse(item)
                check_leaf(holds)
            except ValueError as error:
                fault(f"{file.key} line {number}: {error}")
            else:
                yield ArchivedItem(item, holds, file.key, number, member)
    except Missing:
        fault(f"{file.key}: missing")
        return
    except (zlib.error, EOFError, ValueError) as error:
        fault(f"{file.key} line {number + 1}: unreadable from here on: {error!r}")
        return
    if number != file.items:
        fault(f"{file.key}: {number} items, the manifest says {file.items}")
    found = base64.b64encode(md5.digest()).decode()
    if found != file.md5:
        fault(f"{file.key}: MD5 {found}, the manifest says {file.md5}")


def _lines(
    bucket: Bucket, key: str, md5: hashlib._Hash, ends: list[int]
) -> Iterator[tuple[bytes, int]]:
    """The lines of a file, each with the member that has it."""
    begun: list[bytes] = []  # pieces of a line whose end has not been read yet
    size = begun_in = member = 0
    for part in unzipped(_summed(bucket.stream(key), md5), ends):
        member = len(ends)
        first, *others = part.split(b"\n")
        begun_in = begun_in if size else member
        begun.append(first)
        size += len(first)
        if others:
            yield b"".join(begun), member if begun_in == member else NOWHERE
            *whole, last = others
            for line in whole:
                yield line, member
            begun, size, begun_in = [last], len(last), member
        if size > LINE_BYTES_MAX:
            raise ValueError(f"a line over {LINE_BYTES_MAX} bytes")
    if size:
        yield b"".join(begun), member if begun_in == member else NOWHERE


def _summed(chunks: Iterable[bytes], md5: hashlib._Hash) -> Iterator[bytes]:
    for chunk in chunks:
        md5.update(chunk)
        yield chunk


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file: its name below the prefix, its size in bytes, its SHA-256 in hex."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ParquetManifest:
    """What an archive as Parquet holds. `source` is the prefix of the one that it was made of,
    `items_digest` the sum of the digests of its items, in hex; `exported_at` is ISO 8601.
    """

    window: str
    table: str
    source: str
    items: int
    items_digest: str
    exported_at: str
    events: tuple[ParquetFile, ...]
    rest: tuple[ParquetFile, ...]
    version: int = PARQUET_VERSION

    @property
    def files(self) -> tuple[ParquetFile, ...]:
        """All its files."""
        return self.events + self.rest

    def encode(self) -> bytes:
        """The manifest as it is stored."""
        return json.dumps(asdict(self), indent=1).encode()


def parquet_prefix(source: str, files: Sequence[ParquetFile]) -> str:
    """The prefix of these files that were made of the archive under the prefix `source`."""
    facts = json.dumps([asdict(file) for file in files])
    return source + _PARQUET + hashlib.sha256(facts.encode()).hexdigest()[:_DIGEST_LETTERS]


def is_parquet(prefix: str) -> bool:
    """Whether a prefix is that of an archive as Parquet."""
    return _PARQUET in prefix.rpartition("/")[2]


def source_of(prefix: str) -> str:
    """The prefix of the archive that the one under this prefix was made of."""
    return prefix.rpartition(_PARQUET)[0]


def parquet_manifest_key(prefix: str) -> str:
    """The key of the manifest, which exists once all files are there."""
    return f"{prefix}/manifest.json"


def alone_key(prefix: str) -> str:
    """The key of the note that an archive as Parquet is to be read in the place of its source,
    which the bucket's rule deletes. It is put before anything of the source may expire.
    """
    return prefix + _ALONE


def superseded_by(bucket: Bucket, source: str) -> str | None:
    """The prefix of the archive as Parquet that is to be read in the place of the one under the
    prefix `source`; None while that one stays.
    """
    keys = bucket.list(source + _PARQUET)
    return next((key.removesuffix(_ALONE) for key in keys if key.endswith(_ALONE)), None)


def read_parquet_manifest(bucket: Bucket, prefix: str) -> ParquetManifest:
    """The manifest of an archive as Parquet. Raises ProofMismatch if it is missing or malformed."""
    key = parquet_manifest_key(prefix)
    try:
        said = json.loads(bucket.get(key))
        if said["version"] != PARQUET_VERSION:
            raise ProofMismatch([f"{key}: version {said['version']} is unknown to this release"])
        for kind in ("events", "rest"):
            said[kind] = tuple(ParquetFile(**each) for each in said[kind])
        return ParquetManifest(**said)
    except Missing as error:
        raise ProofMismatch([f"manifest missing: {error}: it was not finished"]) from None
    except (KeyError, TypeError, ValueError) as error:
        raise ProofMismatch([f"manifest malformed: {key}: {error!r}"]) from None
