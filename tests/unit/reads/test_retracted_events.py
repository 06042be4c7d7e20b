"""Lists of events, and reads of one, mark what was retracted, at one request if nothing was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Archived, Missing
from tallyroll.model.retractions import RetractionNote
from tallyroll.model.states import Attempt, Status
from tallyroll.model.stored import StoredEvent, StoredPacket
from tallyroll.model.totals import Correction, Total
from tallyroll.reads.http import answer_event, answer_events
from tests.harness.pipeline import NOW, START, TIME_LEFT, WINDOW, Pipeline, opened
from tests.harness.retracting import QUEUE, retraction

MICROS = 1_000_000
PACKET = {"v": 1, "id": "p", "key": "k", "t0": START, "events": [[0], [10, 4]]}
ANN = RetractionNote("ann", "a test")


class Counting:
    """Notes the calls of a port."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.calls: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._port, verb)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            self.calls.append(verb)
            return found(*arguments)

        return call


def written(*bodies: Any, events: int = 3, **settings: Any) -> Pipeline:
    """Some events of k, and a packet of two; then what is to be retracted."""
    pipeline = opened(replace(QUEUE, **settings))
    pipeline.write(*({"id": f"e{n}", "key": "k", "ts": NOW} for n in range(events)), PACKET)
    pipeline.write(*bodies)
    return pipeline


def seal(pipeline: Pipeline, key: str = "k", n: int = 5) -> None:
    """The window's state and total, as sealing would leave them; with what was retracted before."""
    tally = pipeline.store.tallies(pipeline.spec(), [key])[key]
    pipeline.totals.put([Total(key, WINDOW, tally.n or n, tally.amount)])
    if any(tally.retracted):
        pipeline.totals.put_retracted(WINDOW, {key: tally.retracted})
    if not pipeline.state().status.sealed:
        pipeline.move(Status.SEALED)


def correct(pipeline: Pipeline, id_: str, *keys: str, index: int | None = None) -> None:
    keys = keys or ("k",)
    made = Correction(WINDOW, id_, keys, 1, MICROS, b"digest", NOW, "bob", "late", index)
    pipeline.totals.correct([made])


def marks(pipeline: Pipeline, key: str = "k", **more: Any) -> dict[str, RetractionNote]:
    found = pipeline.reader().events(key, WINDOW, TIME_LEFT, **more).found
    apart = [
        each for one in found for each in (one.events if isinstance(one, StoredPacket) else [one])
    ]
    return {event.id: event.retracted for event in apart if event.retracted}


def one(pipeline: Pipeline, event_id: str, key: str = "k") -> StoredEvent | StoredPacket:
    return pipeline.reader().event(key, event_id, WINDOW, None).what


# --- a live window


@pytest.mark.parametrize("events", [3, 20])  # fewer and more than the tally has stripes
def test_a_list_marks_what_was_retracted(events: int) -> None:
    pipeline = written(retraction(id="e1"), retraction(id="p", index=1), events=events)
    assert marks(pipeline) == {"e1": ANN, "p:1": ANN}
    assert marks(pipeline, packed=True) == {"e1": ANN, "p:1": ANN}


def test_one_event_is_marked() -> None:
    pipeline = written(retraction(id="e1"), retraction(id="p", index=1))
    for event_id, note in {"e0": None, "e1": ANN, "p:0": None, "p:1": ANN}.items():
        found = one(pipeline, event_id)
        assert isinstance(found, StoredEvent)
        assert found.retracted == note
    packet = one(pipeline, "p")
    assert isinstance(packet, StoredPacket)
    assert [event.retracted for event in packet.events] == [None, ANN]


def test_an_event_of_several_keys_is_marked_under_each() -> None:
    mapping = {"id": "id", "ts": "ts", "keys": ["a", "b"]}
    pipeline = opened(replace(QUEUE, mapping=mapping))
    pipeline.write({"id": "f", "ts": NOW})
    pipeline.write(retraction(key="b", id="f"))
    assert marks(pipeline, "a") == marks(pipeline, "b") == {"f": ANN}


@pytest.mark.parametrize(("events", "asks"), [(3, "tombstones"), (20, "tallies")])
def test_a_list_without_retractions_takes_one_request_more(events: int, asks: str) -> None:
    pipeline = written(events=events)
    store, totals = Counting(pipeline.store), Counting(pipeline.totals)
    pipeline.store, pipeline.totals = store, totals  # type: ignore[assignment]
    assert marks(pipeline) == {}
    assert [call for call in store.calls if call not in ("records", "metering_of")] == [asks]
    assert totals.calls == []


def test_a_store_without_tallies_is_not_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = written(events=20)
    untallied = replace(pipeline.store.metering_of(""), tallied=False)
    monkeypatch.setattr(pipeline.store, "metering_of", lambda _: untallied)
    store = Counting(pipeline.store)
    pipeline.store = store  # type: ignore[assignment]
    assert marks(pipeline) == {}
    assert "tallies" not in store.calls


def test_a_list_without_events_takes_none_more() -> None:
    pipeline = opened(QUEUE)
    store = Counting(pipeline.store)
    pipeline.store = store  # type: ignore[assignment]
    assert marks(pipeline) == {}
    assert set(store.calls) == {"records"}


# --- a sealed window


def test_retractions_before_and_after_the_seal() -> None:
    pipeline = written(retraction(id="e1"))
    seal(pipeline)
    correct(pipeline, "e2")
    correct(pipeline, "p", index=0)
    late = RetractionNote("bob", "late", NOW)
    assert marks(pipeline) == {"e1": ANN, "e2": late, "p:0": late}
    found = one(pipeline, "e2")
    assert isinstance(found, StoredEvent)
    assert found.retracted == late


def test_corrections_under_the_least_key() -> None:
    mapping = {"id": "id", "ts": "ts", "keys": ["a", "b"]}
    pipeline = opened(replace(QUEUE, mapping=mapping))
    pipeline.write({"id": "f", "ts": NOW}, {"id": "g", "ts": NOW})
    seal(pipeline, "a")
    seal(pipeline, "b")
    correct(pipeline, "f", "a", "b")
    correct(pipeline, "g", "a")  # another event, of that key alone
    assert set(marks(pipeline, "b")) == {"f"}
    assert set(marks(pipeline, "a")) == {"f", "g"}
    found = one(pipeline, "f", "b")
    assert isinstance(found, StoredEvent)
    assert found.retracted


def test_a_sealed_window_without_retractions_takes_one_request_more() -> None:
    pipeline = written()
    seal(pipeline)
    store, totals = Counting(pipeline.store), Counting(pipeline.totals)
    pipeline.store, pipeline.totals = store, totals  # type: ignore[assignment]
    assert marks(pipeline) == {}
    assert set(store.calls) == {"records"}
    assert totals.calls == ["of_key"]


# --- a drop in between


def gone(*_: object) -> Any:
    raise Missing("BatchGetItem: ResourceNotFoundException")


def test_a_drop_after_the_events_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = written()

    def dropped(*_: object) -> Any:
        pipeline.move(Status.DROPPED, attempt=Attempt(archive="archive/w/1"))
        gone()

    monkeypatch.setattr(pipeline.store, "tombstones", dropped)
    with pytest.raises(Archived):
        marks(pipeline)


def test_a_table_that_is_missing_without_a_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = written()
    monkeypatch.setattr(pipeline.store, "tombstones", gone)
    with pytest.raises(Missing):
        marks(pipeline)


# --- the answers


def test_the_answers_say_who_and_why() -> None:
    pipeline = written(retraction(id="e1"))
    seal(pipeline)
    correct(pipeline, "e2")
    reader = pipeline.reader()
    body = answer_events(reader, {"key": "k", "window": WINDOW}, TIME_LEFT).body
    marked = {each["id"]: each["retracted"] for each in body["events"] if "retracted" in each}
    assert marked == {
        "e1": {"by": "ann", "why": "a test"},
        "e2": {"by": "bob", "why": "late", "at": "2026-11-20T08:30:00.000Z"},
    }
    single = answer_event(reader, {"key": "k", "id": "e2", "window": WINDOW}).body
    assert single["retracted"] == marked["e2"]
    assert "retracted" not in answer_event(reader, {"key": "k", "id": "e0", "window": WINDOW}).body
