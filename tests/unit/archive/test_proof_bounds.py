"""A proof's limits of time and memory, its notes by their names, and what it says is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import gate_item, jsonable, record_item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive import proof
from tallyroll.archive.duplicates import digests_of
from tallyroll.archive.layout import ArchivedItem, progress_dir, proof_key
from tallyroll.archive.proof import check_place, notes
from tallyroll.archive.proof_joining import Counted, compare
from tallyroll.errors import ProofMismatch
from tallyroll.model.states import Window
from tests.harness.pipeline import MINUTE, NOW, Pipeline, record_with
from tests.unit.archive.test_recount import (
    LATER,
    archived,
    exported,
    findings,
    prefix,
    proven,
    rewrite,
)

CHANGED = "the archive changed while it was being proven"
KEPT = re.compile(
    r"(proof-\d{5}|compared-\d{4}|repeated-\d{4})\.json"
    r"|sums-[0-9a-f]{16}-\d{4}\.json\.z|(items|entries)-[0-9a-f]{16}-\d{4}\.bin"
    r"|members-[0-9a-f]{16}\.json\.z"
)


def kept(pipeline: Pipeline, window: Window) -> list[str]:
    """The names of what a proof keeps, without the exporter's notes."""
    progress = progress_dir(prefix(window))
    names = (key.removeprefix(progress) for key in pipeline.bucket.list(progress))
    return [name for name in names if not name.startswith("segment-")]


def manifest(window: Window) -> str:
    """The key of the list of data files."""
    return f"{prefix(window)}/AWSDynamoDB/a1/manifest-files.json"


def wrong(pipeline: Pipeline, window: Window) -> list[str]:
    """What a proof that goes on from what stands finds wrong."""
    with pytest.raises(ProofMismatch) as mismatch:
        proven(pipeline, window)
    return mismatch.value.findings


# --- what it keeps


def test_what_a_proof_keeps_is_named_as_documented() -> None:
    pipeline, window = exported()
    before = notes(pipeline.bucket, window)
    assert proven(pipeline, window)
    names = kept(pipeline, window)
    assert [name for name in names if not KEPT.fullmatch(name)] == []
    kinds = {name.partition("-")[0] for name in names}
    assert kinds == {"proof", "compared", "repeated", "sums", "items"}  # a small one has no index
    assert notes(pipeline.bucket, window) == before + 3


@pytest.mark.parametrize(("keys", "partitions"), [(0, 1), (3, 1), (4, 2)])
def test_keys_and_items_are_compared_by_partitions_of_bounded_size(
    keys: int, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "PARTITION_KEYS", 3)
    pipeline, window = exported(events=keys, keys=max(1, keys))
    items = len(archived(pipeline))
    for most, parts in ((items, 1), (items - 1, 2)):
        monkeypatch.setattr(proof, "PARTITION_ITEMS", most)
        assert findings(pipeline, window) == []
        names = kept(pipeline, window)
        assert sum(name.startswith("compared-") for name in names) == partitions
        assert sum(name.startswith("repeated-") for name in names) == parts


@pytest.mark.parametrize("name", ["proof-00000", "compared-0000", "repeated-0000"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("body", [b"junk", b"[]", b"{}", b'{"identity": "another"}'])
def test_a_note_that_is_not_its_own_is_named(
    name: str, when: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run before, or of one beside it that was faster."""
    pipeline, window = exported()
    key = f"{progress_dir(prefix(window))}{name}.json"
    put_once = MemoryBucket.put_once

    def faster(bucket: MemoryBucket, asked: str, own: bytes) -> bytes:
        return put_once(bucket, asked, body if asked == key else own)

    if when == "before":
        pipeline.bucket.put(key, body)
    else:
        monkeypatch.setattr(MemoryBucket, "put_once", faster)
    [finding] = wrong(pipeline, window)
    if body.startswith(b'{"'):
        assert finding == CHANGED
    else:
        assert finding.startswith(f"note damaged: {key}: ")


def test_notes_of_another_list_of_files_are_not_its_own() -> None:
    """They name files by number."""
    pipeline, window = exported()
    assert proven(pipeline, window)
    del pipeline.bucket._objects[proof_key(prefix(window))]
    lines = pipeline.bucket.get(manifest(window)).splitlines()
    pipeline.bucket.put(manifest(window), b"\n".join(reversed(lines)))
    assert wrong(pipeline, window) == [CHANGED]


@pytest.mark.parametrize("name", ["PARTITION_KEYS", "PARTITION_ITEMS"])
def test_notes_of_another_partitioning_are_not_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the code may have made them."""
    pipeline, window = exported()
    assert proven(pipeline, window)
    del pipeline.bucket._objects[proof_key(prefix(window))]
    monkeypatch.setattr(proof, name, 2)
    assert wrong(pipeline, window) == [CHANGED]


def test_another_proof_that_stands_is_named() -> None:
    pipeline, window = exported()
    items = proven(pipeline, window)
    pipeline.effects.pass_by(MINUTE)
    assert proven(pipeline, window) == items, "but for its time it is the same"
    key = proof_key(prefix(window))
    proof = json.loads(pipeline.bucket.get(key))
    pipeline.bucket.put(key, json.dumps({**proof, "events": 6}).encode())
    assert wrong(pipeline, window) == [f"there is another proof under {key}"]


# --- time


def test_at_its_deadline_nothing_is_read() -> None:
    pipeline, window = exported()
    assert proven(pipeline, window, NOW) is None
    assert kept(pipeline, window) == []
    assert proven(pipeline, window, NOW + 1)


@pytest.mark.parametrize(
    ("late", "stands"), [("proof-", {"proof"}), ("compared-", {"proof", "compared"})]
)
def test_at_its_deadline_nothing_is_compared(
    late: str, stands: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, window = exported()
    put_once = MemoryBucket.put_once

    def slow(bucket: MemoryBucket, key: str, body: bytes) -> bytes:
        if late in key:
            pipeline.effects.pass_by(LATER - pipeline.effects.now())
        return put_once(bucket, key, body)

    monkeypatch.setattr(MemoryBucket, "put_once", slow)
    assert proven(pipeline, window) is None
    kinds = {name.partition("-")[0] for name in kept(pipeline, window)}
    assert kinds == {*stands, "sums", "items"}


def test_at_its_deadline_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, window = exported()
    items = archived(pipeline)
    rewrite(pipeline, window, [*items, items[0]])

    def slow(*known: Any) -> list[str]:
        pipeline.effects.pass_by(LATER - pipeline.effects.now())
        return compare(*known)

    monkeypatch.setattr(proof, "compare", slow)
    assert wrong(pipeline, window)[-1].startswith("an item occurs more than once, its digest is")


def test_what_was_read_by_the_deadline_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, window = exported()

    def slow(found: ArchivedItem) -> list[bytes]:
        pipeline.effects.pass_by(1)
        return digests_of(found)

    monkeypatch.setattr(proof, "digests_of", slow)
    in_first = json.loads(pipeline.bucket.get(manifest(window)).splitlines()[0])["itemCount"]
    assert proven(pipeline, window, NOW + in_first) is None
    assert [name for name in kept(pipeline, window) if name.startswith("proof-")] == [
        "proof-00000.json"
    ]


@pytest.mark.parametrize("held", ["SUMS_HELD", "DIGESTS_HELD"])
def test_a_note_is_made_when_anything_was_spilled(
    held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, held, 1)
    pipeline, window = exported()
    assert proven(pipeline, window)
    names = [name for name in kept(pipeline, window) if name.startswith("proof-")]
    assert names == ["proof-00000.json", "proof-00001.json"]


@pytest.mark.parametrize(("ms", "notes_of"), [(29_999, [0]), (30_000, [0, 1])])
def test_a_note_is_made_when_reading_took_its_time(
    ms: int, notes_of: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, window = exported()
    stream = MemoryBucket.stream

    def slow(bucket: MemoryBucket, key: str) -> object:
        pipeline.effects.pass_by(ms)
        return stream(bucket, key)

    monkeypatch.setattr(MemoryBucket, "stream", slow)
    assert proven(pipeline, window)
    names = [name for name in kept(pipeline, window) if name.startswith("proof-")]
    assert names == [f"proof-{number:05d}.json" for number in notes_of]


def test_the_clock_is_looked_at_before_the_first_item_and_then_now_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proof, "CLOCK_EVERY_ITEMS", 3)
    pipeline, window = exported(events=0)
    rewrite(pipeline, window, [jsonable(gate_item(n)) for n in range(7)])
    read = 0

    def reading(found: ArchivedItem) -> list[bytes]:
        nonlocal read
        read += 1
        pipeline.effects.pass_by(1_000)
        return digests_of(found)

    monkeypatch.setattr(proof, "digests_of", reading)
    for seconds, expected in ((2, 3), (3, 3), (4, 6)):
        read = 0
        assert proven(pipeline, window, pipeline.effects.now() + seconds * 1_000) is None
        assert read == expected


# --- memory


@pytest.mark.parametrize(("most", "spills"), [(6, 1), (5, 2)])
def test_no_more_sums_are_held_than_may_be(
    most: int, spills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three keys by records and by tallies; looked at before each item is read, gates last."""
    monkeypatch.setattr(proof, "HELD_ITEMS", 0)
    monkeypatch.setattr(proof, "SUMS_HELD", most)
    pipeline, window = exported()
    items = sorted(archived(pipeline), key=lambda item: item["sk"]["S"])
    gates = [item for item in items if item["sk"]["S"].startswith("g#")]
    rewrite(pipeline, window, [*gates, *(item for item in items if item not in gates)])
    assert proven(pipeline, window)
    assert len({name[5:21] for name in kept(pipeline, window) if "sums-" in name}) == spills


@pytest.mark.parametrize(("more", "runs"), [(0, 1), (-1, 2)])
def test_no_more_digests_are_held_than_may_be(
    more: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, window = exported()
    rewrite(pipeline, window, archived(pipeline))
    monkeypatch.setattr(proof, "HELD_ITEMS", 0)
    monkeypatch.setattr(proof, "DIGESTS_HELD", len(archived(pipeline)) + more)
    assert proven(pipeline, window)
    assert len({name[6:22] for name in kept(pipeline, window) if "items-" in name}) == runs


def test_a_partition_may_have_so_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "PARTITION_KEYS", 3)
    monkeypatch.setattr(proof, "KEYS_TOO_MANY", 1)
    pipeline, window = exported(keys=3)
    assert findings(pipeline, window) == []


def test_so_many_findings_are_kept_of_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "FINDINGS_KEPT", 3)
    pipeline, window = exported(events=5, keys=5)
    pipeline.totals._totals.clear()
    assert [finding[:7] for finding in findings(pipeline, window)] == [
        "key 'k0",
        "key 'k1",
        "key 'k2",
    ]


def test_so_many_repeats_are_kept_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "HELD_ITEMS", 0)
    monkeypatch.setattr(proof, "FINDINGS_KEPT", 3)
    pipeline, window = exported()
    gates = [item for item in archived(pipeline) if item["sk"]["S"].startswith("g#")]
    rewrite(pipeline, window, [*archived(pipeline), *gates])
    told = findings(pipeline, window)
    assert sum("occurs more than once" in finding for finding in told) == 3
    key = f"{progress_dir(prefix(window))}repeated-0000.json"
    assert len(json.loads(pipeline.bucket.get(key))["repeated"]) == 3


# --- what it says


def test_what_differs_from_the_sealed_window_is_told() -> None:
    pipeline, window = exported()
    spec = pipeline.spec()
    whole = Counted(12, gates_shut=4, gates_open=0, keys=3, events=5, amount=10_000_000)
    assert compare(window, spec, whole) == []
    late = "was it taken before the window was sealed?"
    for shut, opened in ((3, 0), (4, 1), (5, 0)):
        changed = replace(whole, gates_shut=shut, gates_open=opened)
        assert compare(window, spec, changed) == [
            f"gates: {shut} shut and {opened} open in the archive, 4 shut expected: {late}"
        ]
    for name, said in (
        ("keys", "(4, 5, 10000000)"),
        ("events", "(3, 6, 10000000)"),
        ("amount", "(3, 5, 10000001)"),
    ):
        changed = replace(whole, **{name: getattr(whole, name) + 1})
        assert compare(window, spec, changed) == [
            f"(keys, events, amount) by records {said}, when sealed (3, 5, 10000000)"
        ]


def test_an_archive_of_another_attempt_is_named() -> None:
    _, window = exported()
    with pytest.raises(ProofMismatch) as mismatch:
        check_place(replace(window, attempt=replace(window.attempt, id="a2")), "tallyroll")
    assert mismatch.value.findings == [
        f"the state names the archive {window.attempt.archive!r}, not that of 'a2'"
    ]


def test_all_that_is_wrong_is_told_at_once() -> None:
    pipeline, window = exported()
    stranger = jsonable(record_item(record_with("late", "k9")))
    rewrite(pipeline, window, [*archived(pipeline), stranger, stranger])
    by_records, by_key, repeat = findings(pipeline, window)
    assert by_records.startswith("(keys, events, amount) by records (4, 7, 12000000)")
    assert by_key.startswith("key 'k9'")
    assert repeat.startswith("item k9.")
