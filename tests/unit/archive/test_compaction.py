"""Archives as Parquet: made, proven, killed at each call, and damaged in every way."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.corrections import copy_corrections
from tallyroll.archive.inventory import Archive, best, find, named
from tallyroll.archive.layout import parquet_manifest_key, proof_key, read_parquet_manifest
from tallyroll.archive.parquet.compaction import Compaction
from tallyroll.archive.parquet.files import ParquetWriter
from tallyroll.archive.parquet.source import ParquetItems, manifest_digest
from tallyroll.archive.verification import ArchiveReading
from tallyroll.errors import ProofMismatch
from tests.harness.archives import Archived, archived
from tests.harness.pipeline import WINDOW
from tests.harness.retracted_archives import LIKE_PACKED, correction_of, retracted_archive


class Killed(BaseException):
    """The end of a process."""


class MortalBucket(MemoryBucket):
    """A bucket whose write of this number ends the process instead."""

    def __init__(self, of: MemoryBucket, dies_at: int) -> None:
        super().__init__(of.name)
        self._objects = of._objects
        self._left = dies_at

    def put(self, key: str, body: bytes) -> None:
        if not self._left:
            raise Killed
        self._left -= 1
        super().put(key, body)


@pytest.fixture
def whole() -> Archived:
    """A proven archive with retractions, of which one came after the seal."""
    made = retracted_archive()
    made.pipeline.totals.correct([correction_of(made, "e#e0")])
    copy_corrections(made.window, made.pipeline.totals, made.bucket)
    return made


def compacted(whole: Archived, bucket: MemoryBucket | None = None) -> Archive:
    bucket = bucket or whole.bucket
    ports = (CODEC, whole.pipeline.effects)
    work = Compaction(bucket, *ports, lambda reading, *_: iter(reading), whole.pipeline.totals)
    return work.compact(original(whole))


def original(whole: Archived) -> Archive:
    [found] = [each for each in best(everything(whole)) if not each.parquet]
    return found


def everything(whole: Archived) -> list[Archive]:
    return find(whole.bucket, whole.pipeline.effects, "archive/")


def verified(whole: Archived, archive: Archive) -> ArchiveReading:
    items = ParquetItems(whole.bucket, archive.prefix, CODEC)
    return ArchiveReading(whole.bucket, archive, CODEC, whole.pipeline.totals, items).verified()


def test_parquet_is_proven_and_gives_the_same_items(whole: Archived) -> None:
    made = compacted(whole)
    assert made.parquet
    assert made.proof
    assert made.proof == replace(
        original(whole).proof or made.proof, proven_at=made.proof.proven_at
    )
    reading = verified(whole, made)
    assert reading.findings.first == []
    assert reading.retractions.corrected == (1, 0)
    [file] = reading.files()
    items = ParquetItems(whole.bucket, made.prefix, CODEC).read(file, pytest.fail)
    by_name = sorted((item.item.attributes for item in items), key=str_of)
    assert by_name == sorted(whole.items(), key=str_of)


def str_of(item: Any) -> str:
    return json.dumps([item["pk"], item["sk"]])


def test_duckdbs_totals_are_those_of_the_pipeline(whole: Archived, tmp_path: Path) -> None:
    made = compacted(whole)
    path = tmp_path / "events.parquet"
    path.write_bytes(whole.bucket.get(f"{made.prefix}/events/0000.parquet"))
    found = duckdb.execute(
        "SELECT key, count(*), sum(value) FROM read_parquet(?) WHERE NOT retracted GROUP BY key",
        [str(path)],
    ).fetchall()
    tallies = verified(whole, made).counted.tallies
    assert {key: (n, int(value * 10**6)) for key, n, value in found} == {
        key: sums for key, sums in tallies.items() if sums[0]
    }
    gone = duckdb.execute(
        "SELECT key, id FROM read_parquet(?) WHERE retracted ORDER BY ALL", [str(path)]
    ).fetchall()
    assert ("k0", "p:1") in gone
    assert len(gone) == verified(whole, made).counted.taken[0]


def test_a_proven_one_is_found_again_and_the_other_one_is_preferred(whole: Archived) -> None:
    made = compacted(whole)
    assert [each.prefix for each in best(everything(whole))] == [whole.prefix, made.prefix]
    ports = (whole.bucket, whole.pipeline.effects, "tallyroll")
    assert named(*ports, WINDOW).prefix == whole.prefix
    assert named(*ports, made.prefix) == made
    whole.remove(f"{whole.prefix}/proof.json")
    assert named(*ports, WINDOW) == made


def test_killed_before_each_write_it_leaves_no_false_proof(whole: Archived) -> None:
    """What is only read changes nothing, so these are all the states in which a run may end."""
    for writes in range(len(["events", "rest", "corrections", "manifest", "proof"])):
        with pytest.raises(Killed):
            compacted(whole, MortalBucket(whole.bucket, writes))
        assert not any(each.proven for each in everything(whole) if each.parquet)
    made = compacted(whole, MortalBucket(whole.bucket, 5))
    assert [each for each in everything(whole) if each.parquet] == [made]
    assert verified(whole, made).findings.first == []


def test_an_id_like_that_of_a_packed_event_is_another_event() -> None:
    other = retracted_archive(more=LIKE_PACKED)
    made = compacted(other)
    assert verified(other, made).findings.first == []


def test_an_unproven_or_damaged_archive_is_refused(whole: Archived) -> None:
    whole.spoil()
    with pytest.raises(ProofMismatch, match="MD5"):
        compacted(whole)
    assert [each for each in everything(whole) if each.parquet] == []
    whole.remove(f"{whole.prefix}/proof.json")
    with pytest.raises(ProofMismatch, match="it is not proven"):
        compacted(whole)


def test_what_cannot_be_unpacked_is_named() -> None:
    whole = archived()
    items = whole.items()
    [packet] = [item for item in items if item.get("fmt", {}).get("S") == "packet1+zlib"]
    packet["data"] = {"B": "AAAA"}
    whole.rewrite(items)
    with pytest.raises(ProofMismatch, match=f"{packet['sk']['S'][2:]}.* cannot be unpacked"):
        compacted(whole)


# --- damage


def test_flipped_bits_and_missing_files_are_named(whole: Archived) -> None:
    made = compacted(whole)
    stored = dict(whole.bucket._objects)
    names = [file.name for file in read_parquet_manifest(whole.bucket, made.prefix).files]
    for name in names:
        key = f"{made.prefix}/{name}"
        for at in (0, 10, len(stored[key]) // 2, len(stored[key]) - 1):
            body = bytearray(stored[key])
            body[at] ^= 1
            whole.bucket.put(key, bytes(body))
            [first, *_] = verified(whole, made).findings.first
            assert first.startswith(f"{key}: {len(body)} bytes, SHA-256")
        whole.remove(key)
        assert verified(whole, made).findings.first[0] == f"{key}: missing"
        whole.bucket.put(key, stored[key])
    whole.bucket.put(f"{made.prefix}/events/0001.parquet", b"")
    [stray] = verified(whole, made).findings.first
    assert stray == f"{made.prefix}/events/0001.parquet: the manifest does not name it"


def rewritten(whole: Archived, made: Archive, kind: str, change: str, folder: Path) -> list[str]:
    """The findings after a file was rewritten by SQL, and manifest and proof with it."""
    old, new = folder / "old.parquet", folder / "new.parquet"
    [file] = getattr(read_parquet_manifest(whole.bucket, made.prefix), kind)
    old.write_bytes(whole.bucket.get(f"{made.prefix}/{file.name}"))
    duckdb.execute(f"CREATE OR REPLACE TEMP TABLE t AS FROM read_parquet('{old}')")
    duckdb.execute(f"COPY ({change}) TO '{new}' (FORMAT parquet)")
    whole.bucket.put(f"{made.prefix}/{file.name}", new.read_bytes())
    digest = manifest_digest(new.read_bytes())
    changed: dict[str, Any] = {kind: (replace(file, bytes=len(new.read_bytes()), sha256=digest),)}
    manifest = replace(read_parquet_manifest(whole.bucket, made.prefix), **changed)
    whole.bucket.put(parquet_manifest_key(made.prefix), manifest.encode())
    proof = json.loads(whole.bucket.get(proof_key(made.prefix)))
    proof["manifestDigest"] = manifest_digest(manifest.encode())
    whole.bucket.put(proof_key(made.prefix), json.dumps(proof).encode())
    return verified(whole, made).findings.first


@pytest.mark.parametrize(
    ("kind", "change", "finding"),
    [
        ("events", "FROM t WHERE id <> 'e0'", "compresses|rows of several|not those|is of more"),
        ("events", "FROM t WHERE id <> 'p:3'", "rows of several records|not those|not what"),
        ("events", "FROM t UNION ALL FROM t WHERE id = 'e0' ORDER BY key, ts, id", "an extra row"),
        ("events", "SELECT * REPLACE ('w' AS \"window\") FROM t", "'e0': of the window w"),
        ("events", "SELECT * REPLACE (value + 1 AS value) FROM t", "items are not those|not what"),
        ("events", "SELECT * REPLACE (false AS retracted) FROM t", "0 rows are marked"),
        ("events", "SELECT * REPLACE (true AS retracted) FROM t", "rows are marked"),
        ("rest", "FROM t LIMIT 3", "an extra row|not those"),
        ("rest", "FROM t WHERE items IS NULL OR items NOT LIKE '%r#e4%'", "the manifest says"),
        ("rest", "SELECT * REPLACE (8 AS stripe) FROM t", "items are not those"),
    ],
)
def test_other_rows_are_named_though_all_digests_agree(
    whole: Archived, tmp_path: Path, kind: str, change: str, finding: str
) -> None:
    made = compacted(whole)
    findings = rewritten(whole, made, kind, change, tmp_path)
    assert findings
    assert re.search(finding, findings[0]), findings


def test_a_changed_manifest_is_named(whole: Archived) -> None:
    made = compacted(whole)
    manifest = read_parquet_manifest(whole.bucket, made.prefix)
    whole.bucket.put(parquet_manifest_key(made.prefix), replace(manifest, table="t").encode())
    findings = verified(whole, made).findings.first
    assert any("table t" in finding for finding in findings)
    assert any("changed since it was proven" in finding for finding in findings)
    whole.bucket.put(parquet_manifest_key(made.prefix), b"{")
    assert "manifest malformed" in verified(whole, made).findings.first[0]


# --- mistakes of the code


def mistaken(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Plant a mistake in what writes the files."""
    add, retract = ParquetWriter.add, ParquetWriter.retract

    def add_less(self: ParquetWriter, made: Any) -> None:
        rows, rest = made
        if name == "last event lost" and rest.rows > 1:
            made = made._replace(rows=rows[:-1], rest=rest._replace(rows=rest.rows - 1))
        elif name == "record lost" and rows[0].record == "e0":
            return
        add(self, made)

    def keep(self: ParquetWriter, *event: Any) -> None:
        if name != "retracted kept":
            retract(self, *event)

    monkeypatch.setattr(ParquetWriter, "add", add_less)
    monkeypatch.setattr(ParquetWriter, "retract", keep)


@pytest.mark.parametrize("name", ["last event lost", "record lost", "retracted kept"])
def test_a_planted_mistake_is_not_proven(
    whole: Archived, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mistaken(monkeypatch, name)
    with pytest.raises(ProofMismatch):
        compacted(whole)
    assert not any(each.proven for each in everything(whole) if each.parquet)


def test_planting_nothing_is_proven(whole: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    mistaken(monkeypatch, "")
    assert compacted(whole).proven
