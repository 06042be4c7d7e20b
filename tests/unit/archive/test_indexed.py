"""The index of an archive: the proof makes it, whatever interrupts it; events are found by it; and
nothing that is wrong with it passes for an event that is not there.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive import proof
from tallyroll.archive.indexed import entries, finding, making, members
from tallyroll.archive.indexed.entries import Partition, name_digest
from tallyroll.archive.indexed.finding import IndexedArchive
from tallyroll.archive.layout import progress_dir, proof_key
from tallyroll.errors import ProofMismatch
from tallyroll.model.formats.payloads import Chunk
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tests.harness.archives import Archived, archived, line_of
from tests.harness.indexed_archives import index, indexed, items, names, opened, run
from tests.harness.retracted_archives import LIKE_PACKED, retracted_archive


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed(monkeypatch)


@pytest.fixture
def whole(small: None) -> Archived:
    return retracted_archive(more=LIKE_PACKED)


# --- what is found by it


def test_all_items_of_each_name_are_found_and_nothing_else(whole: Archived) -> None:
    named: dict[tuple[str, str], list[Any]] = {}
    for item in items(whole):
        if isinstance(item.holds, Record | Chunk | Tombstone):
            named.setdefault((item.holds.key, item.holds.id), []).append(item.holds)
    assert {type(each) for some in named.values() for each in some} == {Record, Chunk, Tombstone}
    for name, some in named.items():
        assert sorted(map(repr, opened(whole).items_of(*name))) == sorted(map(repr, some))
    assert opened(whole).items_of("k0", "none") == []
    assert opened(whole).items_of("none", "e0") == []
    assert len(index(whole)) > 3
    assert max(item.member for item in items(whole)) > 3


def test_a_member_is_read_in_parts_whatever_its_text_comes_to(
    whole: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = opened(whole).items_of("k0", "e0")
    for size in (1, 7, 100):
        monkeypatch.setattr(finding, "PART_BYTES", size)
        assert opened(whole).items_of("k0", "e0") == found != []


def test_the_index_of_a_name_has_each_of_its_members_once(whole: Archived) -> None:
    found = [entry for body in index(whole).values() for entry in Partition.decoded("", body)]
    assert found == sorted(set(found))
    assert whole.findings(whole.pipeline.totals) == []


@dataclass
class Metered:
    """A bucket that notes what is read of it."""

    bucket: MemoryBucket
    name: str = "memory"

    def __post_init__(self) -> None:
        self.read: list[tuple[str, int]] = []

    def get(self, key: str) -> bytes:
        body = self.bucket.get(key)
        self.read.append((key, len(body)))
        return body

    def get_range(self, key: str, first: int, size: int) -> bytes:
        body = self.bucket.get_range(key, first, size)
        self.read.append((key, len(body)))
        return body

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a lookup needs no {name}")


def test_a_lookup_reads_a_proof_a_partition_and_a_member(whole: Archived) -> None:
    bucket: Any = Metered(whole.bucket)
    archive = IndexedArchive.opened(bucket, whole.prefix, CODEC)
    assert archive
    assert archive.items_of("k0", "e0")
    [proven, partition, member] = bucket.read
    assert proven[0] == proof_key(whole.prefix)
    assert partition == (partition[0], len(index(whole)[partition[0]]))
    file = whole.bucket.get(member[0])
    assert member[1] < len(file) / 3
    assert archive.items_of("k0", "e0")
    assert len(bucket.read) == 3, "what was read is kept"
    assert archive.items_of("k0", "none") == []
    assert [key for key, _ in bucket.read[3:] if "/data/" in key] == []


def test_two_names_of_one_digest_are_told_apart(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def colliding(_: str, record_id: str) -> bytes:
        return name_digest("any", record_id[:1])

    for module in (entries, finding):
        monkeypatch.setattr(module, "name_digest", colliding)
    made = archived()
    for item in items(made):
        if isinstance(holds := item.holds, Record):
            assert opened(made).items_of(holds.key, holds.id) == [holds]
    assert opened(made).items_of("k0", "e99") == []
    assert made.findings() == []


# --- which archives have one


def test_a_small_archive_has_none() -> None:
    made = archived()
    assert index(made) == {}
    assert "index" not in json.loads(made.bucket.get(proof_key(made.prefix)))
    assert IndexedArchive.opened(made.bucket, made.prefix, CODEC) is None


def test_an_archive_has_one_from_a_size_on(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(len(archived().bucket.get(file.key)) for file in archived().files())
    for over, has in ((size, False), (size - 1, True)):
        monkeypatch.setattr(making, "INDEXED_OVER", over)
        assert bool(index(archived())) == has


@pytest.mark.parametrize("kind", ["large members", "lines over members"])
def test_an_archive_of_another_exporter_may_have_none(
    small: None, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = archived(proven=False)
    lines = b"".join(map(line_of, made.items()))
    if kind == "large members":
        monkeypatch.setattr(making, "MEMBER_BYTES_MAX", 10)
        body = gzip.compress(lines)
    else:
        body = gzip.compress(lines[:150]) + gzip.compress(lines[150:])
    with_body(made, body)
    assert run(made)
    assert index(made) == {}
    assert made.findings() == []


def test_the_last_line_of_another_exporter_may_be_without_its_end(small: None) -> None:
    made = archived(proven=False)
    made.rewrite(sorted(made.items(), key=lambda item: item["sk"]["S"].startswith("e#")))
    with_body(made, gzip.compress(b"".join(map(line_of, made.items())).rstrip(b"\n")))
    assert run(made)
    for name in names(made):
        assert len(opened(made).items_of(*name)) == 1
    assert made.findings() == []


def with_body(made: Archived, body: bytes) -> None:
    """The archive in one data file of this body."""
    made.rewrite(made.items())
    [file] = made.files()
    writer = members.DataFileWriter()
    writer._keep(body)
    writer.part()
    made.bucket.put(file.key, body)
    listed = f"{made.prefix}/AWSDynamoDB/a1/manifest-files.json"
    said = json.loads(made.bucket.get(listed))
    made.bucket.put(listed, json.dumps({**said, "md5Checksum": writer.md5}).encode())


# --- runs that end early


class DiedError(Exception):
    """A run was killed."""


def test_a_proof_killed_at_any_write_and_continued_makes_the_same_index(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "HELD_ITEMS", 0)
    monkeypatch.setattr(making, "ENTRIES_HELD", 7)
    made = retracted_archive(proven=False, segments=3)
    exported = dict(made.bucket._objects)
    assert run(made)
    wanted, proven = index(made), json.loads(made.bucket.get(proof_key(made.prefix)))
    put, put_once = MemoryBucket.put, MemoryBucket.put_once
    deaths = left = 0

    def mortal(act: Callable[..., Any]) -> Callable[..., Any]:
        def acting(*given: Any) -> Any:
            nonlocal left
            done = act(*given)
            left -= 1
            if left < 0:
                raise DiedError
            return done

        return acting

    while True:
        made.bucket._objects, left = dict(exported), deaths
        with monkeypatch.context() as patch, suppress(DiedError):
            patch.setattr(MemoryBucket, "put", mortal(put))
            patch.setattr(MemoryBucket, "put_once", mortal(put_once))
            run(made)
            break
        deaths += 1
        assert run(made)
        assert index(made) == wanted
        assert json.loads(made.bucket.get(proof_key(made.prefix)))["index"] == proven["index"]
    assert deaths > 20


def test_a_note_of_an_earlier_release_means_no_index(
    whole: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "HELD_ITEMS", 0)
    made = archived(proven=False)
    with monkeypatch.context() as patch:
        patch.setattr(proof, "compare", lambda *_: ["not yet"])
        with pytest.raises(ProofMismatch):
            run(made)
    notes = made.bucket.list(progress_dir(made.prefix))
    made.remove(*[key for key in notes if "/members-" in key])
    assert run(made)
    assert index(made) == {}


def test_a_proof_of_an_earlier_release_stands(whole: Archived) -> None:
    key = proof_key(whole.prefix)
    said = json.loads(whole.bucket.get(key))
    del said["index"]
    whole.bucket.put(key, json.dumps(said).encode())
    assert run(whole)
    assert json.loads(whole.bucket.get(key)) == said
