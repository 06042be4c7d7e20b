"""The proof in slices: killed, out of time, changed under its hands; and the last look before a
drop.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import jsonable, record_item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive import proof, proof_joining
from tallyroll.archive.layout import data_dir, progress_dir, proof_key, read_files, read_summary
from tallyroll.archive.proof import check_place, check_proof
from tallyroll.errors import ProofMismatch
from tests.harness.archives import put_manifests
from tests.harness.pipeline import NOW, WINDOW, record_with
from tests.unit.archive.test_recount import archived, exported, prefix, proven, rewrite


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof of many partitions and spills, without millions of keys."""
    monkeypatch.setattr(proof, "DIGESTS_HELD", 8)
    monkeypatch.setattr(proof, "PARTITION_ITEMS", 50)
    monkeypatch.setattr(proof, "SUMS_HELD", 8)
    monkeypatch.setattr(proof, "PARTITION_KEYS", 10)
    monkeypatch.setattr(proof, "NOTE_EVERY_MS", 0)
    monkeypatch.setattr(proof, "CLOCK_EVERY_ITEMS", 1)


@pytest.mark.usefixtures("small_memory")
def test_sums_are_kept_in_the_bucket_and_merged_by_partition() -> None:
    pipeline, window = exported(events=100, keys=50)
    items = proven(pipeline, window)
    assert items == len(pipeline.store.items(window.table))
    names = list(pipeline.bucket.list(progress_dir(prefix(window))))
    assert sum("compared-" in name for name in names) == 5
    assert sum("sums-" in name for name in names) > 20
    attempt = replace(window.attempt, items=items)
    check_proof(replace(window, attempt=attempt), pipeline.bucket)


class Killed(BaseException):
    """No code survives it."""


@pytest.mark.usefixtures("small_memory")
def test_killed_at_any_write_the_next_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    put, put_once = MemoryBucket.put, MemoryBucket.put_once
    number, lived = 0, False
    while not lived:
        number += 1
        pipeline, window = exported(events=30, keys=20)
        writes = 0

        def count() -> None:
            nonlocal writes
            writes += 1
            if writes == number:  # noqa: B023 - used at once
                raise Killed

        def killing_put(self: MemoryBucket, key: str, body: bytes) -> None:
            put(self, key, body)
            count()

        with monkeypatch.context() as patch:
            patch.setattr(MemoryBucket, "put", killing_put)
            try:
                proven(pipeline, window)
                lived = True
            except Killed:
                pass
        items = proven(pipeline, window)
        assert items == len(pipeline.store.items(window.table))
    assert put_once is MemoryBucket.put_once
    assert number > 5


@pytest.mark.usefixtures("small_memory")
def test_a_run_ends_with_its_time_and_another_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, window = exported(events=60, keys=30)
    stream, runs = MemoryBucket.stream, 0

    def slow(self: MemoryBucket, key: str) -> object:
        pipeline.effects.pass_by(1_000)
        return stream(self, key)

    monkeypatch.setattr(MemoryBucket, "stream", slow)
    while (items := proven(pipeline, window, pipeline.effects.now() + 1_500)) is None:
        runs += 1
        assert proof_key(prefix(window)) not in pipeline.bucket.list("")
    assert items == len(pipeline.store.items(window.table))
    assert runs >= 1


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize(
    "which", ["data/", "manifest-files", "sums-", "items-", "proof-0", "compared-", "repeated-"]
)
def test_what_changes_between_two_runs_is_noticed(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, window = exported(events=60, keys=30)

    def killed(*_: object) -> list[str]:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(proof, "compare", killed)
        with pytest.raises(Killed):
            proven(pipeline, window)
    key = next(key for key in pipeline.bucket.list(prefix(window)) if which in key)
    pipeline.bucket.put(key, pipeline.bucket.get(key).replace(b"e", b"f") + b" ")
    if note_of := {"sums-": "compared-", "items-": "repeated-"}.get(which):
        for note in [*pipeline.bucket.list(f"{progress_dir(prefix(window))}{note_of}")]:
            del pipeline.bucket._objects[note]
    with pytest.raises(ProofMismatch):
        proven(pipeline, window)
    assert proof_key(prefix(window)) not in pipeline.bucket.list("")


def test_a_file_that_is_replaced_after_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, window = exported()
    key = next(key for key in pipeline.bucket.list("") if "data/" in key)
    compare = proof_joining.compare

    def replaced(*args: Any) -> list[str]:
        pipeline.bucket.put(key, b"another")
        return compare(*args)

    monkeypatch.setattr(proof, "compare", replaced)
    with pytest.raises(ProofMismatch, match="changed while it was being proven"):
        proven(pipeline, window)


@pytest.mark.parametrize("name", ["items", "events", "dataDigest", "archiveDigest"])
def test_another_proof_that_stands_is_not_taken_for_this_one(name: str) -> None:
    pipeline, window = exported()
    proven(pipeline, window)
    key = proof_key(prefix(window))
    stands = json.loads(pipeline.bucket.get(key))
    pipeline.bucket.put(key, json.dumps({**stands, name: "another"}).encode())
    with pytest.raises(ProofMismatch, match="there is another proof"):
        proven(pipeline, window)
    pipeline.bucket.put(key, json.dumps({**stands, "provenAt": "earlier"}).encode())
    assert proven(pipeline, window) == stands["items"], "when it was proven is of no matter"


def test_a_data_file_that_no_manifest_lists() -> None:
    pipeline, window = exported()
    pipeline.bucket.put(f"{data_dir(prefix(window))}stray.json.gz", b"")
    with pytest.raises(ProofMismatch, match=r"stray.json.gz: no manifest lists it"):
        proven(pipeline, window)


def test_an_export_of_another_table() -> None:
    pipeline, window = exported()
    files = read_files(pipeline.bucket, read_summary(pipeline.bucket, prefix(window)))
    put_manifests(pipeline.bucket, prefix(window), "tallyroll-20261120T090000Z", files, NOW)
    with pytest.raises(ProofMismatch, match="an export of the table"):
        proven(pipeline, window)


def test_an_archive_of_far_more_keys_than_were_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "PARTITION_KEYS", 3)
    pipeline, window = exported()
    strangers = [jsonable(record_item(record_with("e", f"x{n}"))) for n in range(30)]
    rewrite(pipeline, window, [*archived(pipeline), *strangers])
    with pytest.raises(ProofMismatch, match="far more keys than the 3"):
        proven(pipeline, window)


# --- the last look before a drop


def test_what_stands_is_looked_at_once_more() -> None:
    pipeline, window = exported()
    with pytest.raises(ProofMismatch, match="not proven"):
        check_proof(window, pipeline.bucket)
    items = proven(pipeline, window) or 0
    window = replace(window, attempt=replace(window.attempt, items=items))
    check_proof(window, pipeline.bucket)
    others = [
        replace(window, keys=9),
        replace(window, events=9),
        replace(window, amount=9),
        replace(window, attempt=replace(window.attempt, items=9)),
        replace(window, attempt=replace(window.attempt, id="a2")),
    ]
    for other in others:
        with pytest.raises(ProofMismatch, match="another state"):
            check_proof(other, pipeline.bucket)
    key = next(key for key in pipeline.bucket.list("") if "data/" in key)
    body = pipeline.bucket.get(key)
    for changed in (b"", body + b"x"):
        pipeline.bucket.put(key, changed)
        with pytest.raises(ProofMismatch, match="changed since they were proven"):
            check_proof(window, pipeline.bucket)
    pipeline.bucket.put(key, body)
    check_proof(window, pipeline.bucket)
    del pipeline.bucket._objects[key]
    with pytest.raises(ProofMismatch, match="changed since they were proven"):
        check_proof(window, pipeline.bucket)
    pipeline.bucket.put(proof_key(prefix(window)), b"{}")
    with pytest.raises(ProofMismatch, match="malformed"):
        check_proof(window, pipeline.bucket)


@pytest.mark.parametrize(
    "archive", ["", "archive", f"archive/tallyroll/date=2026-11-20/hour=08/{WINDOW}/a2"]
)
def test_the_state_must_name_its_own_archive(archive: str) -> None:
    _, window = exported()
    check_place(window, "tallyroll")
    with pytest.raises(ProofMismatch, match="the state names the archive"):
        check_place(replace(window, attempt=replace(window.attempt, archive=archive)), "tallyroll")
    with pytest.raises(ProofMismatch, match="the state names the archive"):
        check_place(window, "votes")
