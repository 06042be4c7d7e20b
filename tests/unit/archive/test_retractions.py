"""Verifying the archive of a window of which events were retracted, before the seal and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC, parse_item
from tallyroll.archive import retractions
from tallyroll.archive.corrections import (
    copy_corrections,
    correction_line,
    corrections_copied,
    corrections_dir,
)
from tallyroll.archive.recount import ArchivePass
from tallyroll.archive.verification import ArchiveReading
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.records import Record
from tallyroll.model.stored import events_of
from tallyroll.model.totals import Correction
from tallyroll.ports.totals import Totals
from tests.harness.archives import Archived, archived
from tests.harness.pipeline import WINDOW
from tests.harness.retracted_archives import correction_of, of_kind, retracted_archive
from tests.unit.archive.test_proof_retracted import changed, other_digest, without

UNJOINED = "no record has its digest, events and amount"


@pytest.fixture
def whole() -> Archived:
    return retracted_archive()


def correct(archive: Archived, *corrections: Correction) -> None:
    archive.pipeline.totals.correct(corrections)


def some(archive: Archived) -> list[Correction]:
    """A correction of a single event, and ones of packed events, in chunks and not."""
    return [
        correction_of(archive, "e#e0"),
        correction_of(archive, "e#p", 0, amount=1),
        correction_of(archive, "e#q", 4, amount=4_000_000),
    ]


def found(archive: Archived) -> list[str]:
    return archive.findings(archive.pipeline.totals)


def copy(archive: Archived) -> None:
    copy_corrections(archive.window, archive.pipeline.totals, archive.bucket)


def copies(archive: Archived) -> list[str]:
    return [*archive.bucket.list(corrections_dir(archive.prefix))]


# --- tombstones


def test_a_whole_archive_is_found_so(whole: Archived) -> None:
    assert whole.findings() == found(whole) == []
    verified = whole.verified()
    assert (verified.counted.sums, verified.counted.taken) == ((9, 10_000_002), (7, 21_000_002))
    assert verified.retractions.corrected == (0, 0)


def test_tombstones_without_a_record_are_named(
    whole: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(whole, "r#e4", other_digest)
    changed(whole, "p#q#2", other_digest)
    expected = [
        f"tombstone of key 'k1' id 'e4': {UNJOINED}",
        f"tombstone of key 'large' id 'q' index 2: {UNJOINED}",
    ]
    assert sorted(whole.findings()) == expected
    monkeypatch.setattr(retractions, "WANTED_HELD", 1)
    assert sorted(whole.findings()) == expected


def test_a_record_that_is_gone_with_its_tombstone(whole: Archived) -> None:
    without(whole, "e#e4", "r#e4")
    assert [finding.partition(":")[0] for finding in whole.findings()] == [
        "key 'k1'",
        "(items, keys, events, amount) (28, 4, 9, 10000002), when proven (30, 4, 9, 10000002)",
        "retracted (6, 19000002), when proven (7, 21000002)",
    ]


def test_what_a_proven_window_noted_must_be_there(whole: Archived) -> None:
    """Only before the proof may it be missing: an earlier release seals without it."""
    totals = whole.pipeline.totals
    [before] = [totals._corrected.pop(("k1", WINDOW))]
    assert before.before == (2, 10_000_000)
    assert any("'total': None" in finding for finding in found(whole))
    whole.remove(f"{whole.prefix}/proof.json")
    assert not any("'total': None" in finding for finding in found(whole))


# --- corrections


def test_corrections_are_of_records_of_the_archive(whole: Archived) -> None:
    correct(whole, *some(whole))
    assert found(whole) == []
    made = whole.verified(whole.pipeline.totals).retractions
    assert made.corrected == (3, 4_000_001)
    assert whole.verified().retractions.corrected == (0, 0), "it has no copy yet"


def test_one_of_several_keys_is_of_a_record_under_each() -> None:
    archive = retracted_archive(without=["both"])
    correct(archive, correction_of(archive, "e#both"))
    assert found(archive) == []
    assert archive.verified(archive.pipeline.totals).retractions.corrected == (2, 16_000_000)
    other = retracted_archive(without=["both"])
    correct(other, correction_of(other, "e#both", keys=("k0", "k1")))
    assert f"correction of key 'k0' id 'both': {UNJOINED}" in found(other)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"digest": b"another"}, f"correction of key 'k0' id 'e0': {UNJOINED}"),
        ({"amount": 1}, f"correction of key 'k0' id 'e0': {UNJOINED}"),
        ({"n": 2}, f"correction of key 'k0' id 'e0': {UNJOINED}"),
        ({"id": "none"}, f"correction of key 'k0' id 'none': {UNJOINED}"),
        ({"index": 0}, f"correction of key 'k0' id 'e0' index 0: {UNJOINED}"),
    ],
)
def test_a_correction_of_no_record(whole: Archived, change: dict[str, Any], told: str) -> None:
    correct(whole, replace(correction_of(whole, "e#e0"), **change))
    assert found(whole) == [told]


@pytest.mark.parametrize(("sk", "index", "amount"), [("e#e4", None, 2_000_000), ("e#p", 1, 1)])
def test_an_event_is_retracted_once(
    whole: Archived, sk: str, index: int | None, amount: int
) -> None:
    """Before the seal or after it."""
    correct(whole, correction_of(whole, sk, index, amount=amount))
    [finding] = found(whole)
    assert finding.endswith(": retracted before the seal, and by a correction again")


def test_sums_that_are_not_those_of_the_corrections(whole: Archived) -> None:
    correct(whole, *some(whole))
    totals = whole.pipeline.totals
    totals._corrected["k0", WINDOW] = totals._corrected["k0", WINDOW]._replace(n=7)
    [finding] = found(whole)
    assert finding.startswith("key 'k0': corrected by (2, 1); by its sums ")


def test_sums_that_grow_meanwhile_are_no_finding(whole: Archived) -> None:
    correct(whole, *some(whole))
    corrections, calls = whole.pipeline.totals.corrections, 0

    def meanwhile(*given: Any) -> list[Correction]:
        nonlocal calls
        calls += 1
        made = corrections(*given)
        if calls == 3:  # after they are joined
            correct(whole, correction_of(whole, "e#e3"))
        return made

    whole.pipeline.totals.corrections = meanwhile  # type: ignore[assignment, method-assign]
    assert found(whole) == []
    assert calls > 3


# --- the copy


def test_the_copy_holds_each_correction_once(whole: Archived) -> None:
    copy(whole)
    assert copies(whole) == [], "there are none yet, but what was retracted before"
    correct(whole, *some(whole))
    copy(whole)
    names = [key.rpartition("/")[2] for key in copies(whole)]
    assert set(names) <= {f"{number:02d}.jsonl" for number in range(1, LISTING_BUCKETS + 1)}
    read = corrections_copied(whole.bucket, whole.prefix, WINDOW)
    assert sorted(read, key=lambda each: each.id) == some(whole)
    made = whole.verified().retractions
    assert (made.corrected, made.lacking.count) == ((3, 4_000_001), 0)
    assert whole.findings() == found(whole) == []


def test_a_window_without_retractions_costs_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = retracted_archive(without=["e2", "e4", "p", "q", "both"])
    for name in ("corrected", "corrections"):
        monkeypatch.delattr(type(archive.pipeline.totals), name)
    copy(archive)
    assert copies(archive) == []


def test_a_copy_that_was_cut_off_goes_on(whole: Archived, monkeypatch: pytest.MonkeyPatch) -> None:
    correct(whole, *some(whole))
    put_once = type(whole.bucket).put_once

    def killed(bucket: Any, key: str, body: bytes) -> bytes:
        put_once(bucket, key, body)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(whole.bucket), "put_once", killed)
        with pytest.raises(KeyboardInterrupt):
            copy(whole)
    [first] = copies(whole)
    stands = whole.bucket.get(first)
    copy(whole)
    assert len(copies(whole)) == 2, "the keys k0 and large are in different buckets"
    assert whole.bucket.get(first) == stands
    assert whole.verified(whole.pipeline.totals).retractions.lacking.count == 0


def test_what_is_corrected_after_the_copy_is_a_note(whole: Archived) -> None:
    first, *later = some(whole)
    correct(whole, first)
    copy(whole)
    correct(whole, *later)
    lacking = whole.verified(whole.pipeline.totals).retractions.lacking
    assert lacking.first == ["key 'k0' id 'p' index 0", "key 'large' id 'q' index 4"]
    assert found(whole) == whole.findings() == []


def test_the_copy_says_nothing_that_the_table_does_not(whole: Archived) -> None:
    made = correction_of(whole, "e#e0")
    correct(whole, made)
    whole.bucket.put(f"{corrections_dir(whole.prefix)}01.jsonl", correction_line(made))
    assert found(whole) == []
    other = correction_line(replace(made, by="nobody"))
    whole.bucket.put(f"{corrections_dir(whole.prefix)}01.jsonl", other)
    assert found(whole) == [
        "key 'k0' id 'e0': its correction in the copy is not in the table of totals"
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:-3],
        lambda _: b"[]",
        lambda line: line.replace(b'"k0"', b""),
        lambda line: line.replace(b'"events":1', b'"events":"1"'),
        lambda line: line.replace(b'"amount":"', b'"amount":"x'),
        lambda line: line.replace(b'"digest":"', b'"digest":"!'),
    ],
)
def test_a_damaged_copy(whole: Archived, change: Callable[[bytes], bytes]) -> None:
    line = correction_line(correction_of(whole, "e#e0"))
    key = f"{corrections_dir(whole.prefix)}01.jsonl"
    whole.bucket.put(key, line + change(line))
    [finding] = whole.findings()
    assert finding.startswith(f"{key} line 2: no correction: ")


# --- the events that are left


BEFORE = {"k1 e4", "k2 e2", "k0 p:1", "k0 p:3", "k1 both", "k2 both"}


def left_out(archive: Archived, key: str | None = None, totals: Totals | None = None) -> set[str]:
    """The names of the events that are taken for retracted, but for those in chunks."""
    reading = ArchiveReading(archive.bucket, archive.archive(), CODEC, totals)
    retracted, names = reading.retracted_events(key), set()
    for record in map(parse_item, of_kind(archive, "e#e", "e#both", "e#p")):
        assert isinstance(record, Record)
        events = events_of(record)
        kept = [*retracted.kept(record, events)]
        names |= {f"{record.key} {event.id}" for event in events if event not in kept}
    return names


def test_retracted_events_are_known_by_tombstones_copy_and_table(whole: Archived) -> None:
    totals = whole.pipeline.totals
    assert left_out(whole) == left_out(whole, totals=totals) == BEFORE
    assert left_out(whole, "k2") == {"k2 e2", "k2 both"}
    correct(whole, correction_of(whole, "e#e0"))
    assert left_out(whole) == BEFORE
    assert left_out(whole, totals=totals) == BEFORE | {"k0 e0"}
    copy(whole)
    correct(whole, correction_of(whole, "e#p", 0, amount=1))
    assert left_out(whole) == BEFORE | {"k0 e0"}
    assert left_out(whole, totals=totals) == BEFORE | {"k0 e0", "k0 p:0"}
    assert left_out(whole, "k2", totals) == {"k2 e2", "k2 both"}


def test_an_archive_is_not_read_for_tombstones_of_which_its_proof_knows_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ArchivePass, "uncounted", refuse)
    plain = archived()
    ArchiveReading(plain.bucket, plain.archive(), CODEC).retracted_events()
    plain.remove(f"{plain.prefix}/proof.json")
    with pytest.raises(AssertionError, match="read"):
        ArchiveReading(plain.bucket, plain.archive(), CODEC).retracted_events()


def refuse(_: object) -> None:
    raise AssertionError("it is read")
