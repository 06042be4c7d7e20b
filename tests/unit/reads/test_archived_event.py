"""One event of a dropped window, from its archive: by an index, or else from the whole archive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tallyroll.adapters.dynamodb.items import CODEC
from tallyroll.adapters.memory import MemoryBucket
from tallyroll.archive.indexed.finding import IndexedArchive
from tallyroll.archive.layout import alone_key, proof_key
from tallyroll.errors import Absent, Archived, Missing, ProofMismatch, UsageError
from tallyroll.model.states import Status
from tallyroll.pipeline import archived_events, archived_pages
from tallyroll.pipeline.archived_pages import ArchivedPages
from tallyroll.reads.http import answer_error, answer_event
from tallyroll.reads.reader import PortReader
from tests.harness.archives import Archived as Archive
from tests.harness.archives import as_archived, leave_parquet, sealed_and_exported
from tests.harness.indexed_archives import indexed
from tests.harness.pipeline import HOUR, NOW, SMALL, TIME_LEFT, WINDOW, hour
from tests.harness.retracted_archives import LIKE_PACKED, correction_of, retracted_archive

IDS = {
    "k0": ["e0", "e3", "p", *(f"p:{n}" for n in range(5)), "p:x", "none"],
    "k1": ["e1", "e4", "both", "none"],
    "k2": ["e2", "both"],
    "large": ["q", *(f"q:{n}" for n in range(6))],
    "nobody": ["e0"],
}
PLACES: list[dict[str, Any]] = [
    *({"date": "2026-11-20"}, {"window": WINDOW}, {"ts": str(NOW)}),
    {"since": hour(7), "until": hour(10)},
]


@pytest.fixture(params=["indexed", "whole"])
def whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """A proven window of single events, packets, chunks, several keys, and of retractions before
    and after the seal; its archive with an index or without.
    """
    if request.param == "indexed":
        indexed(monkeypatch)
    made = retracted_archive(more=LIKE_PACKED)
    made.pipeline.totals.correct([correction_of(made, "e#e0"), correction_of(made, "e#p:3")])
    move(made, Status.PROVEN)
    return made


def move(made: Archive, status: Status) -> None:
    window = made.window
    sums: dict[str, Any] = {"keys": window.keys, "events": window.events, "amount": window.amount}
    made.pipeline.move(status, attempt=window.attempt, **sums)


def drop(made: Archive) -> None:
    move(made, Status.DROPPED)
    made.pipeline.store.drop_table(made.window.table)


def reader(archive: Archive, bucket: MemoryBucket | None = None) -> PortReader:
    made = archive.pipeline
    pages = ArchivedPages(made.catalog, made.totals, bucket or made.bucket, CODEC, made.effects)
    ports = (made.store, made.catalog, made.totals, made.effects)
    return PortReader(made.settings, *ports, archives=lambda: pages)


def asked(of: PortReader, key: str, event_id: str, **more: Any) -> dict[str, Any] | str:
    """The answer without the window's state, or the name of the error."""
    given = {"key": key, "id": event_id, "archived": "true"} | (more or PLACES[0])
    try:
        body = answer_event(of, given, TIME_LEFT).body
    except (Absent, Archived) as error:
        return type(error).__name__
    return {name: body[name] for name in body if name != "state"}


def all_asked(of: PortReader, **more: Any) -> dict[tuple[str, str], Any]:
    return {(key, each): asked(of, key, each, **more) for key in IDS for each in IDS[key]}


def test_a_dropped_window_gives_each_event_as_its_table_did(whole: Archive) -> None:
    before = [all_asked(reader(whole), **place) for place in PLACES]
    assert sum(isinstance(each, dict) for each in before[0].values()) == 18
    assert str(before).count("'retracted'") == 4 * 11
    drop(whole)
    assert [all_asked(reader(whole), **place) for place in PLACES] == before


def test_so_does_an_archive_that_is_there_as_parquet_alone() -> None:
    made = retracted_archive(more=LIKE_PACKED)
    drop(made)
    before = all_asked(reader(made), **PLACES[0])
    made.pipeline.totals.correct([correction_of(made, "e#e0"), correction_of(made, "e#p:3")])
    after = all_asked(reader(made), **PLACES[0])
    assert before != after
    leave_parquet(made)
    assert all_asked(reader(made), **PLACES[0]) == after


class Counted(MemoryBucket):
    """Counts what is got, listed and streamed."""

    def __init__(self, of: Archive) -> None:
        super().__init__()
        self._objects = of.bucket._objects
        self.read = list[tuple[str, str, int]]()

    def get(self, key: str) -> bytes:
        return self._noted("get", key, super().get(key))

    def get_range(self, key: str, first: int, size: int) -> bytes:
        return self._noted("get_range", key, self._objects[key][first : first + size])

    def stream(self, key: str) -> Iterator[bytes]:
        raise AssertionError(f"{key} is read whole")

    def list(self, prefix: str, after: str = "") -> list[str]:
        raise AssertionError(f"{prefix} is listed")

    def _noted(self, how: str, key: str, body: bytes) -> bytes:
        self.read.append((how, key, len(body)))
        return body


def test_an_event_takes_a_proof_a_partition_and_a_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    indexed(monkeypatch)
    made = retracted_archive()
    size = sum(len(made.bucket.get(file.key)) for file in made.files())
    drop(made)
    bucket = Counted(made)
    assert isinstance(asked(reader(made, bucket), "k0", "e0"), dict)
    proof, partition, member = bucket.read
    assert proof[:2] == ("get", proof_key(made.prefix))
    assert partition[1].startswith(f"{made.prefix}/index/")
    assert member[0] == "get_range"
    assert member[2] < size / 4
    bucket.read.clear()
    assert asked(reader(made, bucket), "nobody", "e0") == "Absent"
    assert bucket.read == [], "a key without a total in the window has no event there"


def test_what_is_found_and_what_is_not_read_are_told_apart(
    whole: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another window of the day has an event of the same id, and no archive at all."""
    drop(whole)
    pipeline = whole.pipeline
    pipeline.write({"id": "e0", "key": "k0", "ts": NOW - HOUR, "v": 1})
    before = asked(reader(whole), "k0", "e0")
    assert isinstance(before, dict)
    assert [before["window"], *(each["window"] for each in before["also"])] == [hour(7), WINDOW]
    monkeypatch.setattr(archived_pages, "ITEMS_MAX", 1)
    monkeypatch.setattr(IndexedArchive, "opened", lambda *_: None)
    after = asked(reader(whole), "k0", "e0")
    assert isinstance(after, dict)
    assert (after["window"], after["archived"]) == (
        hour(7),
        [{"window": WINDOW, "archive": whole.prefix}],
    )
    with pytest.raises(
        Archived, match=r"items, over 1: .*`tallyroll archive read \S+ --key k0`"
    ) as gone:
        answer_event(reader(whole), {"key": "k0", "id": "e3", "archived": "true", **PLACES[0]})
    assert answer_error(gone.value).status == 410
    with pytest.raises(Archived, match="items, over 1"):
        answer_event(reader(whole), {"key": "k0", "id": "e3", "archived": "true", **PLACES[1]})


@pytest.mark.parametrize("bound", ["deadline", "size"])
def test_windows_that_there_is_no_time_or_room_for_are_not_read(
    whole: Archive, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    drop(whole)
    if bound == "size":
        monkeypatch.setattr(archived_events, "BYTES_MAX", -1)
    given = {"key": "k0", "id": "e0", "archived": "true", **PLACES[0]}
    with pytest.raises(Archived):
        answer_event(reader(whole), given, 0 if bound == "deadline" else TIME_LEFT)


def test_an_archive_that_expires_is_not_read_by_its_index(
    whole: Archive,
) -> None:
    """Its objects go in any order, and what is left of them says nothing."""
    drop(whole)
    kept = dict(whole.bucket._objects)
    gone = [key for key in kept if "/index/" in key or "/data/" in key]
    whole.remove(*gone)
    with pytest.raises(ProofMismatch, match=r"there is no object|missing"):
        asked(reader(whole), "k0", "e0")
    whole.bucket.put(alone_key(f"{whole.prefix}.parquet.0123456789ab"), b"{}")
    assert asked(reader(whole), "k0", "e0") == "Archived"


def test_an_archive_may_expire_between_a_record_and_its_tombstones(
    whole: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(whole)
    whole.bucket.put(alone_key(f"{whole.prefix}.parquet.0123456789ab"), b"{}")
    calls, items_of = count(1), IndexedArchive.items_of

    def expiring(self: IndexedArchive, *asked: str) -> Any:
        if next(calls) > 1:
            whole.remove(*(key for key in dict(whole.bucket._objects) if "/data/" in key))
            raise Missing("expired")
        return items_of(self, *asked)

    monkeypatch.setattr(IndexedArchive, "items_of", expiring)
    is_indexed = IndexedArchive.opened(whole.bucket, whole.prefix, CODEC) is not None
    assert asked(reader(whole), "k0", "e0") == "Archived" or not is_indexed
    assert (next(calls) > 2) == is_indexed


def test_in_a_scope_of_ids_each_window_where_it_is_taken_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    indexed(monkeypatch)
    bodies = [{"id": each, "key": "k", "ts": NOW, "value": 2} for each in ("a", "b")]
    settings = replace(SMALL, identity="key")
    made = as_archived(*sealed_and_exported(bodies, settings=settings))
    drop(made)
    place = {"key": "k", "id": "a", "archived": "true"}
    answer = answer_event(reader(made), place, TIME_LEFT).body
    assert (answer["window"], answer["value"], answer["state"]) == (WINDOW, "2", "dropped")
    assert asked(reader(made), "k", "none", window=WINDOW) == "Absent"


def test_what_cannot_be_asked_for(whole: Archive) -> None:
    given = {"key": "k0", "id": "e0", "archived": "true"}
    for place in PLACES:
        with pytest.raises(UsageError, match="tallyroll:read_archives=true"):
            answer_event(whole.pipeline.reader(), given | place, TIME_LEFT)
    with pytest.raises(UsageError, match="archived 'yes': must be true or false"):
        answer_event(reader(whole), given | {"archived": "yes"}, TIME_LEFT)
    drop(whole)
    with pytest.raises(Archived):
        answer_event(reader(whole), {"key": "k0", "id": "e0", **PLACES[0]}, TIME_LEFT)
