from __future__ import annotations

import gzip
import hashlib
import json
from base64 import b64encode
from dataclasses import replace

import pytest

from tallyroll.adapters.dynamodb.items import CODEC, Item, jsonable, record_item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.layout import (
    ArchiveId,
    DataFile,
    find_summary,
    parse_prefix,
    prefix_of,
    proof_key,
    read_files,
    read_items,
    read_summary,
    summary_key,
)
from tallyroll.errors import ProofMismatch
from tests.harness.archives import put_file, put_manifests
from tests.harness.pipeline import NOW, WINDOW, record_with

PREFIX = prefix_of("votes", WINDOW, "a1")
ITEMS = [jsonable(record_item(record_with(f"e{n}", "ü"))) for n in range(500)]


def written(items: list[Item] = ITEMS) -> tuple[MemoryBucket, DataFile]:
    bucket = MemoryBucket("archive")
    file = put_file(bucket, PREFIX, "000-0000", items)
    put_manifests(bucket, PREFIX, "votes-table", [file], NOW)
    return bucket, file


def fault(finding: str) -> None:
    raise ProofMismatch([finding])


def read(bucket: MemoryBucket, file: DataFile) -> list[Item]:
    return [dict(found.item.attributes) for found in read_items(bucket, file, CODEC, fault)]


def read_manifests(bucket: MemoryBucket, prefix: str) -> tuple[int, list[DataFile]]:
    summary = read_summary(bucket, prefix)
    return summary.items, read_files(bucket, summary)


def test_the_layout_is_that_of_the_native_export() -> None:
    bucket, file = written()
    begin = f"archive/votes/date=2026-11-20/hour=08/{WINDOW}/a1"
    assert begin == PREFIX
    assert list(bucket.list("")) == [
        f"{begin}/AWSDynamoDB/a1/data/000-0000.json.gz",
        f"{begin}/AWSDynamoDB/a1/manifest-files.json",
        f"{begin}/AWSDynamoDB/a1/manifest-summary.json",
    ]
    summary = json.loads(bucket.get(summary_key(PREFIX)))
    assert summary["itemCount"] == 500
    assert summary["outputFormat"] == "DYNAMODB_JSON"
    assert summary["manifestFilesS3Key"] == f"{begin}/AWSDynamoDB/a1/manifest-files.json"
    assert summary["exportTime"] == "2026-11-20T08:30:00.000Z"
    lines = gzip.decompress(bucket.get(file.key)).splitlines()
    assert json.loads(lines[0]) == {"Item": ITEMS[0]}
    assert proof_key(PREFIX) == f"{begin}/proof.json"


def test_what_was_written_is_read() -> None:
    bucket, file = written()
    assert read_manifests(bucket, PREFIX) == (500, [file])
    assert read(bucket, file) == ITEMS


def test_an_empty_archive() -> None:
    bucket = MemoryBucket()
    put_manifests(bucket, PREFIX, "votes-table", [], NOW)
    assert read_manifests(bucket, PREFIX) == (0, [])


def test_the_same_items_make_the_same_bytes() -> None:
    one, file = written()
    other, same = written()
    assert one.get(file.key) == other.get(same.key)
    assert file == same


def test_a_last_line_without_an_end_is_read_too() -> None:
    bucket, file = MemoryBucket(), written()[1]
    bucket.put(file.key, gzip.compress(json.dumps({"Item": ITEMS[0]}).encode()))
    found: list[Item] = []
    with pytest.raises(ProofMismatch, match="1 items, the manifest says 500"):
        found.extend(dict(one.item.attributes) for one in read_items(bucket, file, CODEC, fault))
    assert found == ITEMS[:1]


def test_an_attempt_is_complete_when_its_summary_stands() -> None:
    bucket, _ = written()
    assert find_summary(PREFIX, bucket.list("")) == summary_key(PREFIX)
    assert find_summary(PREFIX[:-1], bucket.list("")) is None
    assert find_summary(PREFIX, []) is None


# --- whatever was damaged is found


def test_a_missing_file() -> None:
    _, file = written()
    with pytest.raises(ProofMismatch, match="missing"):
        read(MemoryBucket(), file)


@pytest.mark.parametrize("kept", [0, 1, 9, 100, -1, -8])
def test_a_truncated_file(kept: int) -> None:
    bucket, file = written()
    bucket.put(file.key, bucket.get(file.key)[:kept])
    with pytest.raises(ProofMismatch, match="unreadable"):
        read(bucket, file)


@pytest.mark.parametrize("at", [0, 5, 200, -5, -1])
def test_a_flipped_bit(at: int) -> None:
    bucket, file = written()
    body = bytearray(bucket.get(file.key))
    body[at] ^= 1
    bucket.put(file.key, bytes(body))
    with pytest.raises(ProofMismatch):
        read(bucket, file)


def test_bytes_behind_the_end() -> None:
    bucket, file = written()
    bucket.put(file.key, bucket.get(file.key) + b"more")
    with pytest.raises(ProofMismatch, match=r"after part 1 .* comes other data: b'more'"):
        read(bucket, file)


def test_zero_bytes_behind_the_end_are_padding_that_the_checksum_finds() -> None:
    bucket, file = written()
    bucket.put(file.key, bucket.get(file.key) + bytes(512))
    with pytest.raises(ProofMismatch, match="MD5"):
        read(bucket, file)


@pytest.mark.parametrize("cut", [1, 2, 250, 499])
def test_a_file_of_several_members_is_read_whole(cut: int) -> None:
    bucket, file = written()
    lines = gzip.decompress(bucket.get(file.key)).splitlines(keepends=True)
    parts = [b"".join(lines[:cut]), b"", b"".join(lines[cut:])]
    body = b"".join(map(gzip.compress, parts))
    bucket.put(file.key, body)
    digest = b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    assert read(bucket, replace(file, md5=digest)) == ITEMS


def test_a_wrong_checksum() -> None:
    bucket, file = written()
    with pytest.raises(ProofMismatch, match="MD5"):
        read(bucket, DataFile(file.key, file.items, "AAAA"))


@pytest.mark.parametrize("items", [499, 501])
def test_a_wrong_count(items: int) -> None:
    bucket, file = written()
    with pytest.raises(ProofMismatch, match=f"500 items, the manifest says {items}"):
        read(bucket, DataFile(file.key, items, file.md5))


@pytest.mark.parametrize("line", [b"no JSON", b"{}", b"[]", b"7", b"\xff", b'{"Item":'])
def test_a_malformed_line(line: bytes) -> None:
    bucket, file = written()
    bucket.put(file.key, gzip.compress(line + b"\n"))
    with pytest.raises(ProofMismatch, match="unreadable"):
        read(bucket, file)


def test_missing_manifests() -> None:
    with pytest.raises(ProofMismatch, match="manifest missing"):
        read_manifests(MemoryBucket(), PREFIX)
    bucket = MemoryBucket()
    bucket.put(summary_key(PREFIX), written()[0].get(summary_key(PREFIX)))
    with pytest.raises(ProofMismatch, match="manifest missing"):
        read_manifests(bucket, PREFIX)


SUMMARY: dict[str, object] = {
    "manifestFilesS3Key": "files",
    "itemCount": 0,
    "tableName": "votes-table",
    "exportTime": "2026-11-20T08:30:00.000Z",
}


@pytest.mark.parametrize(
    "summary",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        *(json.dumps({**SUMMARY, "itemCount": items}).encode() for items in (None, "many", "")),
        *(
            json.dumps({name: SUMMARY[name] for name in SUMMARY if name != lost}).encode()
            for lost in SUMMARY
        ),
    ],
)
def test_a_malformed_summary(summary: bytes) -> None:
    bucket = MemoryBucket()
    bucket.put(summary_key(PREFIX), summary)
    bucket.put("files", b"")
    with pytest.raises(ProofMismatch, match=r"manifest malformed: .*manifest-summary\.json"):
        read_manifests(bucket, PREFIX)


@pytest.mark.parametrize("files", [b"{}", b"[]", b"\xff", b"7", b'{"itemCount": 1}', b"null"])
def test_a_malformed_list_of_files(files: bytes) -> None:
    bucket = MemoryBucket()
    bucket.put(summary_key(PREFIX), json.dumps(SUMMARY).encode())
    bucket.put("files", files)
    with pytest.raises(ProofMismatch, match="manifest malformed: files: "):
        read_manifests(bucket, PREFIX)


def test_a_prefix_says_whose_archive_it_is() -> None:
    assert parse_prefix(PREFIX) == ArchiveId("votes", WINDOW, "a1")
    for other in (f"{PREFIX}/proof.json", PREFIX[:-3], "archive/votes", "", f"x/{PREFIX}"):
        assert parse_prefix(other) is None
