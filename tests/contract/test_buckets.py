"""What every bucket promises: in memory, a directory, S3 (moto); and what archives need besides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from tallyroll.adapters.aws.client import Caller, make_client
from tallyroll.adapters.directory import DirectoryBucket
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.layout import data_dir, prefix_of, progress_dir, proof_key, summary_key
from tallyroll.errors import Missing, Refused
from tallyroll.limits import PART_BYTES_MIN
from tallyroll.pipeline import Pipeline
from tallyroll.ports.bucket import PROGRESS, TAG_PASSING, ArchiveBucket, ListedBucket, is_passing
from tallyroll.settings import Settings
from tallyroll.testing.emulated import create_bucket
from tests.contract.engines import SteadyEffects

KEYS = ["a/b/1.json", "a/b-c", "a/b/2 ä.json", "a.json", "b/1"]


@pytest.fixture(params=["memory", "directory", "s3"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ListedBucket]:
    if request.param == "memory":
        yield MemoryBucket()
    elif request.param == "directory":
        yield DirectoryBucket(tmp_path)
    else:
        with mock_aws():
            make_client("s3").create_bucket(Bucket="archives")
            yield Pipeline(Settings(bucket="archives"), SteadyEffects()).bucket


@pytest.fixture(params=["memory", "s3"])
def archives(request: pytest.FixtureRequest) -> Iterator[ArchiveBucket]:
    if request.param == "memory":
        yield MemoryBucket()
        return
    with mock_aws():
        make_client("s3").create_bucket(Bucket="archives")
        yield Pipeline(Settings(bucket="archives"), SteadyEffects()).bucket


def test_what_was_put_is_got_and_streamed(bucket: ListedBucket) -> None:
    body = bytes(range(256)) * 4_000
    bucket.put("a/b/c", body)
    bucket.put("a/b/empty", b"")
    assert bucket.get("a/b/c") == body
    assert b"".join(bucket.stream("a/b/c")) == body
    assert max(map(len, bucket.stream("a/b/c"))) < len(body)
    assert bucket.get("a/b/empty") == b""
    bucket.put("a/b/c", b"again")
    assert bucket.get("a/b/c") == b"again"


def test_what_is_not_there(bucket: ListedBucket) -> None:
    with pytest.raises(Missing):
        bucket.get("a/none")
    with pytest.raises(Missing):
        list(bucket.stream("a/none"))
    assert list(bucket.list("a")) == []


def test_a_range_of_an_object(bucket: ListedBucket) -> None:
    bucket.put("a/b", b"0123456789")
    wanted = {(0, 1): b"0", (2, 3): b"234", (8, 5): b"89", (0, 99): b"0123456789", (10, 1): b""}
    assert {asked: bucket.get_range("a/b", *asked) for asked in wanted} == wanted
    with pytest.raises(Missing):
        bucket.get_range("a/none", 0, 1)


def test_listings_are_ascending_with_sizes(bucket: ListedBucket) -> None:
    for size, key in enumerate(KEYS):
        bucket.put(key, b"x" * size)
    assert list(bucket.list("")) == sorted(KEYS)
    assert list(bucket.list("a/b")) == ["a/b-c", "a/b/1.json", "a/b/2 ä.json"]
    assert list(bucket.list("a/b", "a/b-c")) == ["a/b/1.json", "a/b/2 ä.json"]
    assert list(bucket.list("a/b/", "a/a")) == ["a/b/1.json", "a/b/2 ä.json"]
    assert list(bucket.list("a/b", "a/c")) == []
    assert list(bucket.sizes("a/b/")) == [("a/b/1.json", 0), ("a/b/2 ä.json", 2)]


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", "/outside", "a/.."])
def test_no_key_leads_out_of_a_directory(tmp_path: Path, key: str) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    bucket = DirectoryBucket(tmp_path / "inside")
    with pytest.raises(Missing, match="leads out"):
        bucket.get(key)
    with pytest.raises(Missing, match="leads out"):
        bucket.put(key, b"")


def test_a_directory_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    bucket = DirectoryBucket(tmp_path)
    bucket.put("a/b", b"")
    with pytest.raises(Refused, match="'a'"):
        bucket.get("a")
    with pytest.raises(Refused, match="'a/b/c'"):
        bucket.put("a/b/c", b"")


# --- what archives need besides


def test_what_stands_is_never_written_over(archives: ArchiveBucket) -> None:
    assert archives.put_once("a/b", b"first") == b"first"
    assert archives.put_once("a/b", b"second") == b"first"
    assert archives.get("a/b") == b"first"
    assert archives.put_once("a/c", b"") == b""


@mock_aws
def test_notes_of_progress_alone_have_the_tag_by_which_they_are_deleted() -> None:
    client = make_client("s3")
    client.create_bucket(Bucket="archives")
    bucket = Pipeline(Settings(bucket="archives"), SteadyEffects()).bucket
    prefix = prefix_of("progress", "20261120T080000Z", "progress")
    notes = [f"{progress_dir(prefix)}{name}" for name in ("proof-00000.json", "items-1-0001.bin")]
    others = [
        *(summary_key(prefix), proof_key(prefix), f"{data_dir(prefix)}000-0000.json.gz"),
        *("rejected/progress/1", f"archive/a/b/c/d/e/{PROGRESS}/1", f"{prefix}/{PROGRESS}"),
        *(f"{prefix}/corrections/progress/01.jsonl", f"payloads/{progress_dir(prefix)}1"),
    ]
    for number, key in enumerate(notes + others):
        assert is_passing(key) == (key in notes), key
        (bucket.put if number % 2 else bucket.put_once)(key, b"1")
        tags = client.get_object_tagging(Bucket="archives", Key=key)["TagSet"]
        assert tags == ([{"Key": TAG_PASSING, "Value": "true"}] if key in notes else [])
        assert bucket.put_once(key, b"2") == b"1"


@mock_aws
@pytest.mark.parametrize("mode", ["governance", "compliance"])
def test_the_objects_of_an_archive_alone_are_locked(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However they are put; notes, tickets and rejected bodies can be deleted at once."""
    asked: list[dict[str, Any]] = []
    call = Caller.call

    def noting(caller: Caller, operation: str, /, **params: Any) -> Any:
        asked.extend([params] * (operation == "CreateMultipartUpload"))
        return call(caller, operation, **params)

    monkeypatch.setattr(Caller, "call", noting)
    client = make_client("s3")
    given = Settings(bucket="archives", archive_lock_days=365, archive_lock=mode)
    settings = create_bucket(given, client)
    effects = SteadyEffects()
    bucket = Pipeline(settings, effects).bucket
    begun = effects.now() // 1000
    prefix = prefix_of("votes", "20261120T080000Z", "one")
    made = f"{prefix}.parquet.0123456789ab"
    archived = [
        *(summary_key(prefix), proof_key(prefix), f"{prefix}/corrections/01.jsonl"),
        *(f"{made}/events/0000.parquet", f"{made}/alone.json"),
    ]
    others = [f"{progress_dir(prefix)}proof-00000.json", "compacting/votes/1", "rejected/votes/1"]
    for number, key in enumerate(archived + others):
        (bucket.put if number % 2 else bucket.put_once)(key, b"1")
    for key in (data := f"{data_dir(prefix)}000-0000.json.gz", others[0]):
        bucket.start_upload(key)
    until = range(begun + 365 * 86_400, effects.now() // 1000 + 365 * 86_400 + 1)
    for key in archived:
        head = client.head_object(Bucket="archives", Key=key)
        assert head["ObjectLockMode"] == mode.upper()
        assert int(head["ObjectLockRetainUntilDate"].timestamp()) in until
        with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
            client.delete_object(Bucket="archives", Key=key, VersionId=head["VersionId"])
    for key in others:
        head = client.head_object(Bucket="archives", Key=key)
        assert "ObjectLockMode" not in head
        client.delete_object(Bucket="archives", Key=key, VersionId=head["VersionId"])
    of_data, of_note = asked  # moto locks nothing that is put in parts
    assert (of_data["Key"], of_data["ObjectLockMode"]) == (data, mode.upper())
    assert int(of_data["ObjectLockRetainUntilDate"].timestamp()) in until
    assert not {name for name in of_note if name.startswith("ObjectLock")}


@mock_aws
def test_what_may_pass_has_the_tag_and_what_is_not_there_stays_so() -> None:
    client = make_client("s3")
    client.create_bucket(Bucket="archives")
    bucket = Pipeline(Settings(bucket="archives"), SteadyEffects()).bucket
    bucket.put("archive/a", b"1")
    for key in ("archive/a", "archive/a", "archive/none"):
        bucket.let_pass(key)
    assert list(bucket.list("")) == ["archive/a"]
    tags = client.get_object_tagging(Bucket="archives", Key="archive/a")["TagSet"]
    assert tags == [{"Key": TAG_PASSING, "Value": "true"}]


@mock_aws
@pytest.mark.parametrize("denied", [{"Tagging"}, {"Tagging", "Body"}], ids=["tag", "all"])
def test_a_bucket_that_denies_the_tag_gets_the_notes_without_it(
    denied: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client("s3")
    client.create_bucket(Bucket="archives")
    bucket = Pipeline(Settings(bucket="archives"), SteadyEffects()).bucket
    call = Caller.call

    def denying(caller: Caller, operation: str, /, **params: Any) -> Any:
        if operation == "PutObject" and denied & {*params}:
            raise Refused("PutObject: AccessDenied", "AccessDenied")
        return call(caller, operation, **params)

    monkeypatch.setattr(Caller, "call", denying)
    note = f"{progress_dir(prefix_of('votes', '20261120T080000Z', 'one'))}proof-00000.json"
    if "Body" in denied:
        with pytest.raises(Refused, match="AccessDenied"):
            bucket.put(note, b"1")
        return
    assert bucket.put_once(note, b"1") == b"1"
    bucket.put(note, b"2")
    assert bucket.get(note) == b"2"
    assert not client.get_object_tagging(Bucket="archives", Key=note)["TagSet"]


def test_stamps_tell_one_content_from_another(archives: ArchiveBucket) -> None:
    archives.put("a/b", b"first")
    archives.put("a/c", b"first")
    before = dict(archives.stamps("a/"))
    archives.put("a/c", b"second")
    after = dict(archives.stamps("a/"))
    assert list(before) == list(after) == ["a/b", "a/c"]
    assert before["a/b"] == before["a/c"] == after["a/b"] != after["a/c"]


def test_an_object_in_parts_stands_only_when_it_is_completed(archives: ArchiveBucket) -> None:
    bodies = [b"x" * PART_BYTES_MIN, b"y" * PART_BYTES_MIN, b"the end"]
    upload = archives.start_upload("a/b")
    receipts = [
        archives.put_part("a/b", upload, number, body) for number, body in enumerate(bodies, 1)
    ]
    assert list(archives.list("")) == []
    archives.complete_upload("a/b", upload, receipts)
    assert b"".join(archives.stream("a/b")) == b"".join(bodies)
    archives.abort_upload("a/b", upload)
    assert list(archives.list("")) == ["a/b"]


def test_a_part_alone_may_be_small(archives: ArchiveBucket) -> None:
    upload = archives.start_upload("a/b")
    archives.complete_upload("a/b", upload, [archives.put_part("a/b", upload, 1, b"all")])
    assert archives.get("a/b") == b"all"


def test_an_upload_that_was_aborted_leaves_nothing(archives: ArchiveBucket) -> None:
    upload = archives.start_upload("a/b")
    archives.put_part("a/b", upload, 1, b"part")
    archives.abort_upload("a/b", upload)
    archives.abort_upload("a/b", upload)
    assert list(archives.list("")) == []


def test_two_uploads_of_one_key_do_not_mix(archives: ArchiveBucket) -> None:
    first, second = archives.start_upload("a/b"), archives.start_upload("a/b")
    receipts = {
        upload: archives.put_part("a/b", upload, 1, upload.encode()) for upload in (first, second)
    }
    archives.complete_upload("a/b", second, [receipts[second]])
    assert archives.get("a/b") == second.encode()


def test_an_object_is_deleted_once_and_for_all(archives: ArchiveBucket) -> None:
    archives.put("a", b"x")
    archives.put("b", b"x")
    for _ in range(2):
        archives.delete("a")
    assert list(archives.list("")) == ["b"]
