"""The proof of a window of which events were retracted."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tallyroll.adapters.dynamodb.items import Item, parse_item
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive import proof, proof_joining
from tallyroll.archive.joining import Joining, wanted_by
from tallyroll.archive.layout import progress_dir, proof_key
from tallyroll.archive.notes import ReadNote, note_body, parse_note
from tallyroll.errors import ProofMismatch
from tallyroll.model.records import Record
from tallyroll.model.retractions import Tombstone
from tests.harness.archives import Archived
from tests.harness.pipeline import WINDOW
from tests.harness.retracted_archives import of_kind, retracted_archive
from tests.unit.archive.test_recount import exported, findings, prefix, proven

JOIN = "tombstones: {} of 7 have no record with their shard, digest, events and amount"
GONE = {"k0": (2, 2), "k1": (2, 10_000_000), "k2": (2, 9_000_000), "large": (1, 2_000_000)}


@pytest.fixture
def archive() -> Archived:
    return retracted_archive(proven=False)


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join of several passes, runs and partitions, without millions of tombstones."""
    monkeypatch.setattr(proof, "DIGESTS_HELD", 2)
    monkeypatch.setattr(proof, "PARTITION_ITEMS", 5)
    monkeypatch.setattr(proof, "NOTE_EVERY_MS", 0)
    monkeypatch.setattr(proof_joining, "NOTE_EVERY_MS", 0)
    monkeypatch.setattr(proof_joining, "WANTED_HELD", 2)
    monkeypatch.setattr(proof_joining, "PARTITION_PACKETS", 1)
    monkeypatch.setattr(proof_joining, "HELD_BYTES", 1)
    monkeypatch.setattr(proof_joining, "CLOCK_EVERY_ITEMS", 1)


def told(archive: Archived) -> str:
    return "; ".join(findings(archive.pipeline, archive.window))


def changed(archive: Archived, sk: str, change: Callable[[Item], None], *pks: str) -> None:
    """Rewrite the archive with one item changed; it is found by its sort key."""
    items = archive.items()
    [found] = [
        item for item in items if item["sk"]["S"] == sk and (not pks or item["pk"]["S"] in pks)
    ]
    change(found)
    archive.rewrite(items)


def without(archive: Archived, *names: str) -> None:
    """Rewrite the archive without the items of these sort keys."""
    archive.rewrite([item for item in archive.items() if item["sk"]["S"] not in names])


def test_records_less_tombstones_are_what_was_sealed(archive: Archived) -> None:
    window = archive.window
    assert (window.keys, window.events, window.amount) == (4, 9, 10_000_002)
    assert proven(archive.pipeline, window) == len(archive.items())
    said = json.loads(archive.bucket.get(proof_key(archive.prefix)))
    assert (said["keys"], said["events"], said["amountMillionths"]) == (4, 9, "10000002")
    assert said["retracted"] == {"events": 7, "amountMillionths": "21000002"}
    assert said["compared"].endswith("; tombstones with their records, and with what was retracted")


def test_a_key_of_which_all_was_retracted_is_a_key_of_no_events(archive: Archived) -> None:
    """Sealing counts it, and the proof does."""
    assert archive.pipeline.totals.of_window(WINDOW, ["k2"])["k2"].n == 0
    assert told(archive) == ""
    [k2] = [item for item in of_kind(archive, "t#") if item["sk"]["S"].startswith("t#k2.")]
    without(archive, "r#both", "r#e2", "e#e2", k2["sk"]["S"])
    items = [item for item in archive.items() if not item["pk"]["S"].startswith("k2.")]
    archive.rewrite(items)
    assert "by records (3, " in told(archive)


@pytest.mark.usefixtures("small_memory")
def test_it_is_the_same_in_many_passes_and_partitions(archive: Archived) -> None:
    assert proven(archive.pipeline, archive.window) == len(archive.items())
    names = [key.rpartition("/")[2] for key in archive.bucket.list(progress_dir(archive.prefix))]
    assert {name[:10] for name in names if name.startswith("joined-")} == {
        f"joined-{number:03d}" for number in range(4)
    }
    assert sum(name.startswith("unpacked-") for name in names) == 3
    assert {name[:24] for name in names if name.startswith("packets-")} != set()


@pytest.mark.usefixtures("small_memory")
def test_runs_of_little_time_go_on_where_the_last_one_ended(
    archive: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, runs = MemoryBucket.stream, 0

    def slow(self: MemoryBucket, key: str) -> object:
        archive.pipeline.effects.pass_by(1_000)
        return stream(self, key)

    monkeypatch.setattr(MemoryBucket, "stream", slow)
    effects = archive.pipeline.effects
    while (items := proven(archive.pipeline, archive.window, effects.now() + 1_500)) is None:
        runs += 1
        assert proof_key(archive.prefix) not in archive.bucket.list("")
    assert (items, runs > 4) == (len(archive.items()), True)


class Killed(BaseException):
    """No code survives it."""


@pytest.mark.usefixtures("small_memory")
def test_killed_at_any_write_the_next_run_joins_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    put, put_once = MemoryBucket.put, MemoryBucket.put_once
    number, lived = 0, False
    while not lived:
        number += 1
        archive = retracted_archive(proven=False)
        writes = 0

        def count() -> None:
            nonlocal writes
            writes += 1
            if writes == number:  # noqa: B023 - used at once
                raise Killed

        def killing(self: MemoryBucket, key: str, body: bytes) -> None:
            put(self, key, body)
            count()

        def killing_once(self: MemoryBucket, key: str, body: bytes) -> bytes:
            stored = put_once(self, key, body)
            count()
            return stored

        with monkeypatch.context() as patch:
            patch.setattr(MemoryBucket, "put", killing)
            patch.setattr(MemoryBucket, "put_once", killing_once)
            try:
                proven(archive.pipeline, archive.window)
                lived = True
            except Killed:
                pass
        assert proven(archive.pipeline, archive.window) == len(archive.items())
    assert number > 20


# --- what is refused


def test_an_archive_that_lacks_a_record_and_its_tombstone(archive: Archived) -> None:
    """Its net sums are those of tallies and totals: only what was retracted tells."""
    without(archive, "e#e4", "r#e4")
    assert told(archive) == (
        "key 'k1': retracted (events, amount) {'tombstones': (1, 8000000),"
        " 'tallies': (2, 10000000), 'total': (2, 10000000)}"
    )


def test_an_archive_whose_tallies_lack_it_too(archive: Archived) -> None:
    """What sealing noted beside the total tells, however little of it is in the archive."""
    without(archive, "e#p", "p#p#1", "p#p#3", "e#q", "p#q#2")

    def forget(item: Item) -> None:
        del item["rn"], item["rv"]

    [tally] = [item["sk"]["S"] for item in of_kind(archive, "t#k0")]
    changed(archive, tally, forget)
    assert "key 'k0': retracted (events, amount) {'tombstones': None, 'tallies': None," in (
        told(archive)
    )


def add(name: str, micros: int) -> Callable[[Item], None]:
    """Add so many millionths to a small amount."""

    def change(item: Item) -> None:
        item[name] = {"N": f"{(float(item[name]['N']) * 10**6 + micros) / 10**6:.6f}"}

    return change


def test_two_wrong_amounts_that_cancel_each_other_out(archive: Archived) -> None:
    changed(archive, "p#p#1", add("v", 5))
    changed(archive, "p#p#3", add("v", -5))
    assert told(archive).startswith(JOIN.format(2))


def other_digest(item: Item) -> None:
    item["h"] = {"B": "YWJj"}


def other_shard(item: Item) -> None:
    item["pk"]["S"] = item["pk"]["S"][:-1] + "3"


def other_name(item: Item) -> None:
    item["sk"]["S"] += "x"


def other_index(item: Item) -> None:
    item["sk"]["S"] = "p#q#5"


@pytest.mark.parametrize(
    ("sk", "change"),
    [
        ("r#e4", other_digest),
        ("r#e4", other_shard),
        ("r#e4", other_name),
        ("p#p#1", other_digest),
        ("p#q#2", other_digest),
        ("p#q#2", other_index),
        ("c#q#0003", lambda item: item.update(data={"B": "YWJj"})),
    ],
)
def test_a_tombstone_of_no_record(
    archive: Archived, sk: str, change: Callable[[Item], None]
) -> None:
    """All sums are right; of a packet in chunks, its chunks tell what was retracted."""
    changed(archive, sk, change)
    assert JOIN.format(1) in told(archive)


def test_a_packet_is_retracted_by_its_events_and_an_event_as_itself(archive: Archived) -> None:
    def whole(item: Item) -> None:
        item["sk"]["S"] = "r#p"

    def packed(item: Item) -> None:
        item["sk"]["S"] = "p#e4#0"

    changed(archive, "p#p#1", whole)
    changed(archive, "r#e4", packed)
    assert told(archive).startswith(JOIN.format(2))


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("sk", ["r#e4", "p#p#3", "p#q#2"])
def test_one_is_found_among_many(archive: Archived, sk: str) -> None:
    changed(archive, sk, other_digest)
    assert told(archive).startswith(JOIN.format(1))


def test_a_record_that_is_twice_there_does_not_make_up_for_one_that_is_not(
    archive: Archived,
) -> None:
    changed(archive, "r#e4", other_digest)
    items = archive.items()
    archive.rewrite([*items, next(item for item in items if item["sk"]["S"] == "e#p")])
    assert "item k0.4/e#p occurs more than once" in told(archive)


def test_what_is_noted_beside_the_total_must_be_the_same(archive: Archived) -> None:
    totals = archive.pipeline.totals
    before = totals._corrected["k1", WINDOW]
    totals._corrected["k1", WINDOW] = before._replace(before=(2, 9_000_000))
    assert told(archive) == (
        "key 'k1': retracted (events, amount) {'tombstones': (2, 10000000),"
        " 'tallies': (2, 10000000), 'total': (2, 9000000)}"
    )


def test_it_is_noted_where_sealing_left_it_out(archive: Archived) -> None:
    """A roller of an earlier release does not know it."""
    totals = archive.pipeline.totals
    totals._corrected.clear()
    totals._noted.clear()
    totals.put_retracted(WINDOW, {"k1": GONE["k1"]})
    assert proven(archive.pipeline, archive.window)
    of = totals.of_window(WINDOW, [*GONE], corrected=True)
    assert {key: total.retracted for key, total in of.items()} == GONE


def test_nothing_is_written_where_it_is_noted(
    archive: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody may retract any more, cleanup may not write to the totals."""
    monkeypatch.setattr(archive.pipeline.totals, "put_retracted", None)
    assert proven(archive.pipeline, archive.window)


def test_what_is_wrong_is_not_noted(archive: Archived) -> None:
    totals = archive.pipeline.totals
    totals._corrected.clear()
    totals._noted.clear()
    without(archive, "r#e4")
    assert told(archive)
    assert totals.of_window(WINDOW, ["k1"], corrected=True)["k1"].retracted == (0, 0)


# --- beside another release


def test_without_retractions_a_note_is_as_another_release_reads_it() -> None:
    pipeline, window = exported()
    assert proven(pipeline, window)
    [note] = [key for key in pipeline.bucket.list(progress_dir(prefix(window))) if "proof-" in key]
    fields = json.loads(pipeline.bucket.get(note))
    assert fields.keys() == {"identity", "end", "items", "gates", "spills", "runs"}
    said = json.loads(pipeline.bucket.get(proof_key(prefix(window))))
    assert "retracted" not in said
    assert said["compared"].endswith("no item twice")
    parsed = parse_note(ReadNote, note, json.dumps(fields).encode())
    assert (parsed.tombstones, parsed.packed, parsed.taken, parsed.wanted) == (0, 0, "0", [])


def test_with_them_another_release_finds_the_note_damaged(archive: Archived) -> None:
    proven(archive.pipeline, archive.window)
    [key] = [key for key in archive.bucket.list(progress_dir(archive.prefix)) if "proof-" in key]
    note = parse_note(ReadNote, key, archive.bucket.get(key))
    assert (note.tombstones, note.packed, note.taken, len(note.wanted)) == (7, 3, "21000002", 1)
    assert json.loads(note_body(note)).keys() > {"tombstones", "packed", "taken", "wanted"}


@pytest.mark.parametrize("which", ["wanted-", "joined-", "packets-", "unpacked-"])
def test_what_changes_between_two_runs_is_noticed(which: str, archive: Archived) -> None:
    proven(archive.pipeline, archive.window)
    archive.remove(proof_key(archive.prefix))
    keys = [*archive.bucket.list(progress_dir(archive.prefix))]
    key = next(key for key in keys if which in key)
    archive.bucket.put(key, archive.bucket.get(key) + b"x")
    made_of = {"wanted-": "joined-", "packets-": "unpacked-"}.get(which)
    archive.remove(*(key for key in keys if made_of and made_of in key))
    with pytest.raises(ProofMismatch, match=which):
        proven(archive.pipeline, archive.window)


# --- the join by itself


def test_each_is_met_once_and_forgotten_on_a_restart(archive: Archived) -> None:
    [stone, record] = [parse_item(of_kind(archive, sk)[0]) for sk in ("r#e4", "e#e4")]
    assert isinstance(stone, Tombstone)
    assert isinstance(record, Record)
    made = Joining([wanted_by(stone)])
    for _ in range(2):
        made.join(record)
        assert (made.joined, [*made.missing()]) == (1, [])
    made.restart()
    assert (made.joined, [*made.missing()]) == (0, [wanted_by(stone)])
