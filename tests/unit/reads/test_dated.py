"""An event by its id and date: every window of a span is asked, at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tallyroll.errors import Absent, Archived, Missing, UsageError
from tallyroll.model.states import Attempt, Status
from tallyroll.model.stored import StoredPacket
from tallyroll.reads.http import answer_error, answer_event
from tallyroll.reads.ranges import spans
from tallyroll.reads.ranges.spans import date_ms
from tests.harness.pipeline import HOUR, NOW, START, WINDOW, Pipeline, hour, opened

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
