"""Finds what is to be loaded: files, directories, stdin, objects of S3, exports of DynamoDB.

Everything is read from a file: an object and stdin are first copied into a temporary one. So their
content has a digest before an event of it is sent, and Parquet can be read from its end.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from tallyroll.client.jsonlines import UnreadableInput
from tallyroll.client.sources.dynamodb import SUMMARY, export_files
from tallyroll.errors import UsageError
from tallyroll.ports.bucket import Bucket, ListedBucket

CHUNK_BYTES = 1024 * 1024
STDIN = "stdin"
CHECKPOINT, BAD_LINES = "tallyroll-load-{}.checkpoint.json", "tallyroll-load-{}.bad.jsonl"
_KEPT = re.compile(r"tallyroll-load-.*\.(checkpoint\.json(\.part)?|bad\.jsonl)")
_S3 = "s3://"
_COMPRESSED = (".gz", ".gzip", ".zst", ".zstd")
_PARQUET_MAGIC = b"PAR1"


class Format(StrEnum):
    """What a source is written in."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    DYNAMODB = "dynamodb"


_SUFFIXES = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), Format.JSONL),
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}


class ObjectBucket(ListedBucket, Protocol):
    """A bucket whose objects have stamps, which change with their content."""

    def stamps(self, prefix: str) -> Iterator[tuple[str, str]]:
        """The keys under a prefix, ascending, each with its object's stamp."""


@dataclass(frozen=True, slots=True)
class Place:
    """One file or object. `bucket` and `key` say where an object is, `path` where a file is.

    `stamp` changes with an object's content; a file has none. `md5` (base64) is what a manifest
    says of the content.
    """

    name: str
    size: int
    format: Format | None
    path: Path | None = None
    bucket: Bucket | None = None
    key: str = ""
    stamp: str = ""
    md5: str = ""

    @contextmanager
    def opened(self, read: Callable[[int], object] = lambda _: None) -> Iterator[Copy]:
        """The content as a file, while the context lasts; `read` is called with the bytes so far.

        Raises UnreadableInput, StoreError, and UsageError for what its manifest does not describe.
        """
        with ExitStack() as stack:
            path, copy = self.path, None
            if path is None:
                made = tempfile.NamedTemporaryFile(prefix="tallyroll-load-", suffix=".part")  # noqa: SIM115
                copy, path = stack.enter_context(made), Path(made.name)
            before = _state(path)
            digest, md5, size = hashlib.blake2b(digest_size=16), _md5(), 0
            for part in self._parts():
                digest.update(part)
                if self.md5:
                    md5.update(part)
                if copy:
                    copy.write(part)
                size += len(part)
                read(size)
            if copy:
                copy.flush()
            if self.md5 and b64encode(md5.digest()).decode() != self.md5:
                raise UsageError(f"{self.name} is not what its manifest says: copy it again")
            written = _state(path) if copy else before
            yield Copy(path, digest.hexdigest(), size, self.format or sniffed(path), written)

    def _parts(self) -> Iterator[bytes]:
        if self.bucket:
            yield from self.bucket.stream(self.key)
            return
        assert self.path
        try:
            with self.path.open("rb") as file:
                yield from _chunks(file)
        except OSError as error:
            raise UnreadableInput(f"{self.name}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Copy:
    """A place's content: a file, the hex digest of its bytes, their number, their format. `state`
    is the file's size and time when the digest was made.
    """

    path: Path
    digest: str
    size: int
    format: Format
    state: tuple[int, int]

    @property
    def changed(self) -> bool:
        """Whether the file was changed after its digest was made."""
        return _state(self.path) != self.state


@dataclass
class Finder:
    """Finds places. `bucket_of` gives the bucket of a name, `directory` a directory as a bucket.

    `left_out` are the names of files in directories whose format nobody knows. What stdin holds is
    copied to a file in `folder`.
    """

    bucket_of: Callable[[str], ObjectBucket]
    directory: Callable[[Path], ListedBucket]
    stdin: BinaryIO
    folder: Path
    format: Format | None = None
    left_out: list[str] = field(default_factory=list)

    def find(self, given: Sequence[str]) -> list[Place]:
        """The places of what was given, in its order. Raises UsageError and StoreError."""
        places = [place for each in given for place in self._of(each)]
        names = Counter(place.name for place in places)
        if twice := next((name for name, count in names.items() if count > 1), None):
            raise UsageError(f"{twice} is given twice")
        return places

    def _of(self, given: str) -> Iterator[Place]:
        if given == "-":
            yield self._of_stdin()
        elif given.startswith(_S3):
            yield from self._of_s3(given)
        else:
            yield from self._of_path(given)

    def _of_stdin(self) -> Place:
        path = self.folder / STDIN
        with path.open("wb") as file:
            file.writelines(_chunks(self.stdin))
        return Place(STDIN, path.stat().st_size, self.format, path)

    def _of_path(self, given: str) -> Iterator[Place]:
        path = Path(given)
        try:
            if path.is_dir():
                yield from self._of_directory(path, "")
            elif path.name == SUMMARY:
                yield from self._of_directory(path.parent, SUMMARY)
            else:
                with path.open("rb"):
                    pass
                if not path.is_file():
                    raise UsageError(f"{given}: no regular file: give it to stdin, as `-`")
                yield Place(given, path.stat().st_size, self._format(given), path)
        except OSError as error:
            raise UsageError(f"{given}: {error.strerror}") from None

    def _of_directory(self, root: Path, prefix: str) -> Iterator[Place]:
        bucket = self.directory(root)
        sizes = dict(bucket.sizes(prefix))
        files = {key: root / key for key in sizes}
        if prefix:  # an export's summary: its files lie beside it
            sizes = dict(bucket.sizes(""))
            files = {key: root / key for key in sizes}
        for key, form, md5 in self._chosen(bucket, list(sizes), str(root)):
            yield Place(str(root / key), sizes[key], form, files[key], md5=md5)

    def _of_s3(self, given: str) -> Iterator[Place]:
        name, _, prefix = given.removeprefix(_S3).partition("/")
        if not name:
            raise UsageError(f"{given!r}: give s3://BUCKET/KEY, or a prefix of keys")
        bucket = self.bucket_of(name)
        wanted = prefix.removesuffix(SUMMARY)
        sizes, stamps = dict(bucket.sizes(wanted)), dict(bucket.stamps(wanted))
        if prefix in sizes and wanted == prefix and not prefix.endswith("/"):
            chosen = [(prefix, self._format(prefix), "")]
        else:
            keys = [key for key, size in sizes.items() if size and key in stamps]
            chosen = list(self._chosen(bucket, keys, given))
        for key, form, md5 in chosen:
            yield Place(
                f"{_S3}{name}/{key}",
                sizes[key],
                form,
                bucket=bucket,
                key=key,
                stamp=stamps[key],
                md5=md5,
            )

    def _chosen(
        self, bucket: Bucket, keys: Sequence[str], where: str
    ) -> Iterator[tuple[str, Format | None, str]]:
        """Those of these keys that are to be loaded, with their formats and MD5s: the data files of
        exports, or else all files of a known format.
        """
        summaries = [key for key in keys if PurePosixPath(key).name == SUMMARY]
        there, chosen = set(keys), 0
        for summary in summaries:
            for file in export_files(bucket, summary):
                if file.key not in there:
                    raise UsageError(f"{where}: {file.key} is missing: copy the whole export")
                chosen += 1
                yield file.key, Format.DYNAMODB, file.md5
        if summaries:
            return
        for key in keys:
            if _KEPT.fullmatch(PurePosixPath(key).name):
                continue  # a load keeps it in the directory that is loaded
            form = self._format(key)
            if form is None or PurePosixPath(key).name.startswith((".", "_")):
                self.left_out.append(key)
                continue
            chosen += 1
            yield key, form, ""
        if not chosen:
            raise UsageError(
                f"{where}: no file to load there: their names end in .jsonl, .csv or .parquet, or"
                " give --format"
            )

    def _format(self, name: str) -> Format | None:
        path = PurePosixPath(name)
        if path.suffix.lower() in _COMPRESSED:
            path = path.with_suffix("")
        return self.format or _SUFFIXES.get(path.suffix.lower())


def sniffed(path: Path) -> Format:
    """The format of a file whose name does not say it."""
    with path.open("rb") as file:
        return Format.PARQUET if file.read(4) == _PARQUET_MAGIC else Format.JSONL


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror}") from error
    return found.st_size, found.st_mtime_ns


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while part := file.read(CHUNK_BYTES):
        yield part


def _md5() -> hashlib._Hash:
    return hashlib.md5(usedforsecurity=False)
