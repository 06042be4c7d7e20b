"""An event by its id and date: every window of a span is asked, at once."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from tallyroll.errors import Absent, Archived, Missing, UsageError
from tallyroll.model.states import Attempt, Calendar, Status
from tallyroll.model.stored import StoredPacket
from tallyroll.model.windows import Grid, window_start
from tallyroll.reads.http import answer_error, answer_event
from tallyroll.reads.ranges import dated, spans
from tallyroll.reads.ranges.spans import date_ms
from tallyroll.reads.reader import PortReader
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, WINDOW, Pipeline, hour, opened

DAY = date_ms("2026-11-20")


@pytest.fixture
def written() -> Pipeline:
    """`a` in windows 07 and 08, `b` in 08 alone, and a packet of two in 07."""
    pipeline = opened()
    report = pipeline.write(
        {"id": "a", "key": "k", "ts": NOW - HOUR, "value": 7},
        {"id": "a", "key": "k", "ts": NOW, "value": 8},
        {"id": "b", "key": "k", "ts": NOW},
        {"v": 1, "id": "p", "key": "k", "t0": START - HOUR, "events": [[0], [10]]},
    )
    assert report.events == 5
    return pipeline


def ask(pipeline: Pipeline, event_id: str, **more: str) -> dict[str, Any]:
    parameters = {"key": "k", "id": event_id, **(more or {"date": "2026-11-20"})}
    return answer_event(pipeline.reader(), parameters).body


def drop(pipeline: Pipeline, number: int) -> None:
    """The window of an hour is dropped, and its table gone."""
    pipeline.move(Status.DROPPED, hour(number), attempt=Attempt(archive=f"archive/{number}"))
    delete(pipeline, number)


def delete(pipeline: Pipeline, number: int) -> None:
    for _ in range(2):  # the first call lifts the protection
        pipeline.store.drop_table(f"tallyroll-{hour(number)}")


def test_one_event_is_answered_as_by_its_window(written: Pipeline) -> None:
    assert ask(written, "b") == ask(written, "b", window=WINDOW)
    assert ask(written, "p:1") == ask(written, "p:1", window=hour(7))
    packet = written.reader().event_on("k", "p", DAY).found[0].what
    assert isinstance(packet, StoredPacket)


def test_large_events_of_later_windows_are_named_alone() -> None:
    """An answer has at most a megabyte: what is beyond is asked for by its window."""
    pipeline = opened()
    payload = "x" * 600_000
    for back in (HOUR, 0):
        pipeline.write({"id": "a", "key": "k", "ts": NOW - back, "payload": payload})
    body = ask(pipeline, "a")
    assert (body["window"], body["payload"]) == (hour(7), payload)
    assert body["also"] == [{"window": WINDOW}]
    assert ask(pipeline, "a", window=WINDOW)["payload"] == payload


def test_payloads_beyond_an_answer_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, read = opened(), list[str]()
    chunks = pipeline.store.chunks

    def noted(spec: Any, *more: Any) -> Any:
        read.append(spec.window)
        return chunks(spec, *more)

    for back in (HOUR, 0):
        pipeline.write({"id": "a", "key": "k", "ts": NOW - back, "payload": noise(600_000)})
        pipeline.write({"v": 1, "id": "p", "key": "k", "t0": NOW - back, "events": [[0], [1]]})
    monkeypatch.setattr(pipeline.store, "chunks", noted)
    monkeypatch.setattr(dated, "BYTES_MAX", 500_000)
    assert ask(pipeline, "a")["also"] == [{"window": WINDOW}]
    assert read == [hour(7)]
    monkeypatch.setattr(dated, "BYTES_MAX", 1)
    assert ask(pipeline, "p:1")["also"] == [{"window": WINDOW}]
    with pytest.raises(Absent):
        ask(pipeline, "p:2")
    assert len(pipeline.reader().event_on("k", "a", DAY).found) == 2, "as many as there are"


def noise(size: int) -> str:
    """A text that zlib makes little smaller."""
    return base64.b85encode(Random(7).randbytes(size * 4 // 5)).decode()


def again(pipeline: Pipeline, reader: PortReader, event_id: str, **more: str) -> list[str]:
    """The windows in which a process that has read before finds an event."""
    parameters = {"key": "k", "id": event_id, **(more or {"date": "2026-11-20"})}
    body = answer_event(reader, parameters).body
    assert body == answer_event(pipeline.reader(), parameters).body, "as one that has not"
    return [one["window"] for one in (body, *body.get("also", ()))]


def test_a_window_that_has_opened_since_an_earlier_read(written: Pipeline) -> None:
    reader = written.reader()
    assert again(written, reader, "a") == [hour(7), WINDOW]
    written.effects.pass_by(HOUR)
    written.roller().run(TIME_LEFT)
    assert written.write({"id": "a", "key": "k", "ts": NOW + HOUR}).events == 1
    assert again(written, reader, "a") == [hour(7), WINDOW, hour(9)]


@pytest.mark.parametrize(
    "stale",
    [Calendar(Grid.of(3600), window_start(WINDOW)), Calendar(Grid.of(7200), window_start(hour(6)))],
)
def test_a_calendar_that_is_another_since_an_earlier_read(
    written: Pipeline, stale: Calendar
) -> None:
    reader = written.reader()
    reader._calendar_seen = stale
    assert again(written, reader, "a", until=hour(9)) == [hour(7), WINDOW]
    assert reader._calendar_seen == written.catalog.calendar()


def test_a_window_that_was_dropped_since_an_earlier_read(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table fails a batch once."""
    reader, asked = written.reader(), list[list[str]]()
    assert again(written, reader, "b") == [WINDOW]
    lookup = written.store.lookup_across

    def noted(specs: Any, names: Any) -> Mapping[str, Any]:
        asked.append([spec.window for spec in specs])
        return lookup(specs, names)

    monkeypatch.setattr(written.store, "lookup_across", noted)
    drop(written, 7)
    parameters = {"key": "k", "id": "b", "date": "2026-11-20"}
    for _ in range(2):
        assert answer_event(reader, parameters).body["archived"][0]["window"] == hour(7)
    assert asked == [[hour(6), hour(7), WINDOW], *[[hour(6), WINDOW]] * 2]


def test_states_are_read_after_the_records(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that a late roller made again is empty: what the state says after it counts."""
    reader = written.reader()
    assert again(written, reader, "p:1") == [hour(7)]
    monkeypatch.setattr(written.store, "lookup_across", lambda *_: {})
    state = written.state(hour(7))
    assert not state.status.sealed
    with pytest.raises(Absent):
        answer_event(reader, {"key": "k", "id": "p:1", "date": "2026-11-20"})

    def dropped_at_last(*_: Any) -> Any:
        written.move(Status.DROPPED, hour(7), attempt=Attempt(archive="archive/7"))
        return {}

    monkeypatch.setattr(written.store, "lookup_across", dropped_at_last)
    with pytest.raises(Archived, match=hour(7)):
        answer_event(reader, {"key": "k", "id": "p:1", "date": "2026-11-20"})


def test_the_last_day_of_all() -> None:
    with pytest.raises(Absent, match="there is no event 'a' of key 'k' from 9999-12-31"):
        ask(opened(), "a", date="9999-12-31")


def test_one_id_in_several_windows(written: Pipeline) -> None:
    body = ask(written, "a")
    assert (body["window"], body["value"]) == (hour(7), "7")
    assert [(one["window"], one["value"]) for one in body["also"]] == [(WINDOW, "8")]
    assert "also" not in ask(written, "a", since=WINDOW)
    assert "also" not in ask(written, "a", until=WINDOW)


def test_a_record_of_the_whole_id_wins_in_its_window_alone(written: Pipeline) -> None:
    written.write({"id": "p:1", "key": "k", "ts": NOW, "value": 5})
    first, second = written.reader().event_on("k", "p:1", DAY).found
    assert (first.window, second.window) == (hour(7), WINDOW)
    assert second.what.id == "p:1"


def test_nothing_is_read_twice(written: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    lookup = written.store.lookup_across

    def noted(specs: Any, names: Any) -> Mapping[str, Any]:
        asked.append([spec.window for spec in specs])
        return lookup(specs, names)

    monkeypatch.setattr(written.store, "lookup_across", noted)
    ask(written, "b")
    assert asked == [[hour(6), hour(7), WINDOW]], "the others have no spec yet"


def test_what_is_not_there(written: Pipeline) -> None:
    with pytest.raises(Absent, match=r"no event 'c' of key 'k' from 2026-11-20T00.* in 5 windows"):
        ask(written, "c")
    with pytest.raises(Absent, match="in 0 windows"):
        ask(written, "b", date="2026-11-19")
    with pytest.raises(Absent, match="roller has not run yet"):
        ask(Pipeline(), "b")


def test_absent_beside_a_dropped_window_is_in_its_archive(written: Pipeline) -> None:
    drop(written, 7)
    with pytest.raises(Archived) as raised:
        ask(written, "p:1")
    problem = answer_error(raised.value)
    assert (problem.status, problem.body["archive"]) == (410, "archive/7")
    assert problem.body["archives"] == [{"window": hour(7), "archive": "archive/7"}]
    assert "no event 'p:1'" in problem.body["detail"]
    assert ask(written, "b")["archived"] == [{"window": hour(7), "archive": "archive/7"}]


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_window_that_is_dropped_meanwhile(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its table fails the whole batch, or answers for the last time."""
    lookup: Callable[..., Any] = written.store.lookup_across
    dropping = [6]

    def slow(specs: Any, names: Any) -> Any:
        found = {} if when == "before" else lookup(specs, names)
        while dropping:
            drop(written, dropping.pop())
        return found if when == "during" else lookup(specs, names)

    monkeypatch.setattr(written.store, "lookup_across", slow)
    with pytest.raises(Archived, match=hour(6)):
        ask(written, "c")
    assert [each["window"] for each in ask(written, "a")["also"]] == [WINDOW]


def test_a_table_that_is_missing_without_a_reason_is_told(written: Pipeline) -> None:
    delete(written, 7)
    with pytest.raises(Missing):
        ask(written, "b")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"date": "20261120"}, "such as 2026-11-20"),
        ({"date": "2026-02-30"}, "such as 2026-11-20"),
        ({"date": "1969-12-31"}, "such as 2026-11-20"),
        ({"date": "2026-11-20", "ts": str(NOW)}, "ts and date: give one of them"),
        ({"date": "2026-11-20", "since": WINDOW}, "date and since: give one of them"),
        ({"since": hour(9), "until": WINDOW}, "is not before"),
        ({"since": "2026-11-20T08:30Z"}, "the nearest bound is"),
        ({"since": "1970-01-01T00:00Z"}, "more than 3,000 windows: give a shorter range"),
    ],
)
def test_wrong_questions(written: Pipeline, more: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ask(written, "b", **more)


def test_a_day_of_more_windows_than_a_range_may_have(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "WINDOWS_MAX", 23)
    with pytest.raises(UsageError, match=r"until 2026-11-20T23:00:00.000Z"):
        ask(written, "b")
