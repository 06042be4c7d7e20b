"""The events of a key over a range: windows and shards in one order, page by page."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.errors import Absent, Archived, Missing, UsageError
from tallyroll.model.states import Attempt, Status, Window
from tallyroll.model.windows import Span, window_id
from tallyroll.reads import hints
from tallyroll.reads.http import answer_error, answer_events
from tallyroll.reads.parts import ListedPart
from tallyroll.reads.ranges import cursors, events
from tallyroll.reads.ranges.cursors import range_cursor
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, WINDOW, Pipeline, hour, opened

SINCE, UNTIL = hour(6), hour(10)
PACKET = {"v": 1, "id": "p", "key": "k", "t0": START, "events": [[0], [10], [20]]}
IDS = ["a", "b", "c", "d", "a", "b", "e", "p:0", "p:1", "p:2"]
"""Those of windows 07 and 08, in the order of a listing."""


@pytest.fixture
def written() -> Pipeline:
    """Four events of k in window 07; three and a packet in window 08; 06 and 09 are empty."""
    pipeline = opened()
    report = pipeline.write(
        *({"id": each, "key": "k", "ts": NOW - HOUR} for each in "dcba"),
        *({"id": each, "key": "k", "ts": NOW - n} for n, each in enumerate("abe")),
        PACKET,
        {"id": "x", "key": "l", "ts": NOW},
    )
    assert report.events == 11
    return pipeline


def ask(pipeline: Pipeline, left: int = TIME_LEFT, **more: Any) -> dict[str, Any]:
    """An answer of a new reader, as after a restart."""
    parameters = {"key": "k", "since": SINCE, "until": UNTIL}
    parameters |= {name: str(value) for name, value in more.items()}
    return answer_events(pipeline.reader(), parameters, left).body


def ids(*pages: dict[str, Any]) -> list[str]:
    return [one["id"] for page in pages for one in page["events"]]


def pages(
    pipeline: Pipeline, limit: int, between: Callable[[], object] = lambda: None, **more: Any
) -> list[dict[str, Any]]:
    found = [ask(pipeline, limit=limit, **more)]
    while "cursor" in found[-1]:
        between()
        found.append(ask(pipeline, limit=limit, cursor=found[-1]["cursor"], **more))
        assert len(found) < 30
    return found


def drop(pipeline: Pipeline, window: str) -> None:
    pipeline.move(Status.DROPPED, window, attempt=Attempt(archive=f"archive/{window}"))


def test_one_answer(written: Pipeline) -> None:
    body = ask(written)
    assert ids(body) == IDS
    assert [one["window"] for one in body["events"]] == [hour(7)] * 4 + [WINDOW] * 6
    assert {name: body[name] for name in ("key", "since", "until", "complete")} == {
        "key": "k",
        "since": "2026-11-20T06:00:00.000Z",
        "until": "2026-11-20T10:00:00.000Z",
        "complete": True,
    }
    assert "cursor" not in body
    assert ids(ask(written, until=WINDOW)) == IDS[:4]
    assert ids(ask(written, packed="true")) == [*IDS[:7], "p"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9, 10])
@pytest.mark.parametrize("sealed", [False, True])
def test_pages_hold_every_event_once(written: Pipeline, limit: int, sealed: bool) -> None:
    if sealed:
        seal_07(written)
    found = pages(written, limit)
    assert ids(*found) == IDS
    assert all(len(page["events"]) <= limit for page in found)


def test_the_bounds_of_the_first_page_hold_for_all(written: Pipeline) -> None:
    first = answer_events(written.reader(), {"key": "k", "since": SINCE, "limit": "3"}, TIME_LEFT)
    written.effects.pass_by(HOUR)
    more = {"key": "k", "since": SINCE, "cursor": first.body["cursor"]}
    assert answer_events(written.reader(), more, TIME_LEFT).body["until"] == first.body["until"]


def test_events_that_count_meanwhile_come_if_their_place_lies_ahead(written: Pipeline) -> None:
    new = iter([("aa", NOW - HOUR), ("cc", NOW - HOUR), ("ee", NOW)])

    def write() -> None:
        for name, ts in new:
            assert written.write({"id": name, "key": "k", "ts": ts}).events == 1

    assert ids(*pages(written, 3, write)) == [*IDS[:3], "cc", "d", "a", "b", "e", "ee", *IDS[7:]]


def seal_07(pipeline: Pipeline) -> None:
    pipeline.move(Status.CLOSING, hour(7))
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.state(hour(7)).status is Status.SEALED


def test_a_window_that_is_sealed_meanwhile(written: Pipeline) -> None:
    def seal_once() -> None:
        if not written.state(hour(7)).status.sealed:
            seal_07(written)

    assert ids(*pages(written, 3, seal_once)) == IDS


def test_of_sealed_windows_only_those_with_events_are_read(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    records = written.store.records

    def noted(spec: Any, *more: Any) -> Any:
        asked.append(spec.window)
        return records(spec, *more)

    written.move(Status.CLOSING, hour(6))
    seal_07(written)
    monkeypatch.setattr(written.store, "records", noted)
    assert ids(ask(written)) == IDS
    assert set(asked) == {hour(7), WINDOW}


def test_a_dropped_window_refuses_before_the_first_event(written: Pipeline) -> None:
    drop(written, hour(6))
    drop(written, hour(7))
    with pytest.raises(Archived) as raised:
        ask(written)
    problem = answer_error(raised.value)
    assert problem.status == 410
    assert [each["archive"] for each in problem.body["archives"]] == [
        f"archive/{hour(6)}",
        f"archive/{hour(7)}",
    ]
    assert problem.body["since"] == "2026-11-20T08:00:00.000Z"
    assert "the earliest whole range is since 2026-11-20T08:00" in problem.body["detail"]
    assert ids(ask(written, since=WINDOW)) == IDS[4:]
    with pytest.raises(Archived, match="no window of the range is left"):
        ask(written, until=WINDOW)


def test_only_windows_from_the_cursor_on_can_refuse(written: Pipeline) -> None:
    first = ask(written, limit=5)
    drop(written, hour(7))
    assert ids(ask(written, cursor=first["cursor"])) == IDS[5:]
    drop(written, WINDOW)
    with pytest.raises(Archived, match=f"{WINDOW}.*; the earliest whole range is since") as raised:
        ask(written, cursor=first["cursor"])
    assert raised.value.since == "2026-11-20T09:00:00.000Z"


@pytest.mark.parametrize("gone", [False, True])
def test_a_window_that_is_dropped_while_it_is_read(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """Its table answers nothing, or is missing; the state is read after the shards."""
    first = ask(written, limit=5)

    def late(*_: Any) -> Any:
        if written.state().status is not Status.DROPPED:
            drop(written, WINDOW)
        if gone:
            raise Missing("no table")
        return ListedPart((), None, True, {})

    monkeypatch.setattr("tallyroll.reads.parts.Parts.read", late)
    with pytest.raises(Archived, match=WINDOW):
        ask(written, cursor=first["cursor"])


def test_states_read_before_the_shards_would_lose_events(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted mistake: what the test before refuses is then an answer without the events."""
    first = ask(written, limit=5)
    states = written.catalog.windows(0, START + 9 * HOUR)

    def late(*_: Any) -> Any:
        drop(written, WINDOW)
        return ListedPart((), None, True, {})

    monkeypatch.setattr("tallyroll.reads.parts.Parts.read", late)
    monkeypatch.setattr(
        MemoryCatalog, "windows", lambda _, a, b: [each for each in states if a <= each.start < b]
    )
    assert ids(ask(written, cursor=first["cursor"])) == []


def test_a_shard_that_is_skipped_is_found(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted mistake: pages after the first leave a shard out."""
    whole = ids(*pages(written, 3))
    listed = hints.shards_to_list
    monkeypatch.setattr(
        "tallyroll.reads.parts.shards_to_list", lambda *asked: list(listed(*asked))[:2]
    )
    assert ids(*pages(written, 3)) != whole


def test_time_that_runs_out(written: Pipeline) -> None:
    first = ask(written, left=0)
    assert (first["events"], first["complete"]) == ([], False)
    assert ids(ask(written, cursor=first["cursor"])) == IDS


def test_a_range_of_windows_without_events_ends_in_time_too(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = written.catalog.windows

    def slow(since: int, until: int) -> list[Window]:
        written.effects.pass_by(1_000)
        return windows(since, until)

    monkeypatch.setattr(written.catalog, "windows", slow)
    since = window_id(START - 2_000 * HOUR)
    found = [ask(written, left=15_000, since=since)]
    while "cursor" in found[-1]:
        found.append(ask(written, left=15_000, since=since, cursor=found[-1]["cursor"]))
    assert len(found) > 3
    assert ids(*found) == IDS
    assert [page["complete"] for page in found] == [False] * (len(found) - 1) + [True]


@pytest.mark.parametrize("limit", [3, 100])
def test_answers_stay_below_what_a_function_may_answer(written: Pipeline, limit: int) -> None:
    payload = "x" * 300_000
    for window in (0, 1):
        for n in range(5):
            event = {"id": f"f{n}", "key": "k", "ts": NOW - window * HOUR, "payload": payload}
            assert written.write(event).events == 1
    found = pages(written, limit)
    assert max(len(json.dumps(page)) for page in found) < 1_600_000
    large = [f"f{n}" for n in range(5)]
    assert sorted(ids(*found)) == sorted([*IDS, *large, *large])


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("most", [1, 2, 3, 4, 6, 100])
def test_an_iterator_that_pages_by_itself(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch, most: int, sealed: bool
) -> None:
    """Windows of about a page are read side by side, and larger ones by themselves."""
    if sealed:
        seal_07(written)
    monkeypatch.setattr(events, "STREAMED_EVENTS", most)
    reader = written.reader()
    assert [one.what.id for one in reader.events_within("k")] == IDS
    assert [one.what.id for one in reader.events_within("k", START)] == IDS[4:]
    assert list(reader.events_within("nobody")) == []


def test_by_time(written: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    body = ask(written, order="time")
    assert ids(body)[4:] == ["p:0", "p:1", "p:2", "e", "b", "a"]
    assert "cursor" not in body
    monkeypatch.setattr(events, "ORDERED_MAX", 9)
    with pytest.raises(UsageError, match=r"more than 9 events.*give a shorter range"):
        ask(written, order="time")
    monkeypatch.setattr(events, "ORDERED_MAX", 10)
    assert len(ids(ask(written, order="time"))) == 10


# --- the secret, and cursors


def test_without_a_secret_there_is_no_cursor_yet(written: Pipeline) -> None:
    calendar = written.catalog.calendar()
    assert calendar
    assert len(calendar.secret) == 64
    assert calendar.secret not in repr(calendar)
    written.catalog._calendar = replace(calendar, secret="")
    with pytest.raises(Missing) as raised:
        ask(written, limit=3)
    problem = answer_error(raised.value)
    assert (problem.status, "its roller puts it" in problem.body["detail"]) == (503, True)
    written.roller().run(TIME_LEFT)
    secret = written.catalog.calendar()
    written.roller().run(TIME_LEFT)
    assert written.catalog.calendar() == secret
    assert ids(*pages(written, 3)) == IDS


def forged(cursor: str) -> str:
    """The cursor with another key, signed by somebody who does not know the secret."""
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    body = raw[16:].replace(b'"k"', b'"l"')
    return base64.urlsafe_b64encode(raw[:16] + body).decode().rstrip("=")


def test_forged_and_damaged_cursors(written: Pipeline) -> None:
    cursor = ask(written, limit=3)["cursor"]
    for bad in (forged(cursor), cursor[:-4], "nonsense", "", cursor + "A"):
        parameters = {"key": "l", "since": SINCE, "until": UNTIL, "cursor": bad}
        if bad:
            with pytest.raises(UsageError, match="none of this pipeline"):
                answer_events(written.reader(), parameters, TIME_LEFT)
    of_window = answer_events(
        written.reader(), {"key": "k", "window": WINDOW, "limit": "1"}, TIME_LEFT
    ).body["cursor"]
    with pytest.raises(UsageError, match="none of this pipeline"):
        ask(written, cursor=of_window)


def test_a_cursor_of_another_pipeline_or_release(
    written: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = ask(written, limit=3)["cursor"]
    other = opened()
    with pytest.raises(UsageError, match="none of this pipeline"):
        ask(other, cursor=cursor)
    with monkeypatch.context() as patch:
        patch.setattr(cursors, "RANGE_VERSION", "r9")
        later = ask(written, limit=3)["cursor"]
    with pytest.raises(UsageError, match="version 'r9': begin again without it"):
        ask(written, cursor=later)


def test_a_cursor_keeps_to_its_query(written: Pipeline) -> None:
    cursor = ask(written, limit=3)["cursor"]
    others: list[dict[str, Any]] = [{"key": "l"}, {"since": hour(7)}, {"until": hour(9)}]
    for other in (*others, {"packed": "true"}):
        with pytest.raises(UsageError, match="the cursor belongs to key 'k', since 2026-11-20T06"):
            ask(written, cursor=cursor, **other)


def test_a_cursor_of_a_window_that_there_is_not(written: Pipeline) -> None:
    calendar = written.catalog.calendar()
    assert calendar
    query = cursors.RangeQuery("k", Span(START - 2 * HOUR, START + 2 * HOUR))
    cursor = range_cursor(calendar.secret, query, cursors.RangePlace(START + 1))
    with pytest.raises(UsageError, match="a window that there is not"):
        ask(written, cursor=cursor)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"since": UNTIL, "until": SINCE}, "is not before"),
        ({"since": "2026-11-20T12:00Z", "until": ""}, "no window begins there yet"),
        ({"since": "2026-11-20T08:10Z"}, "the nearest bound is 2026-11-20T08:00"),
        ({"since": "1970-01-01T00:00Z"}, "more than 3,000 windows"),
        ({"window": WINDOW}, "window and since: give one of them"),
        ({"order": "size"}, "must be id or time"),
        ({"order": "time", "limit": 3}, "takes no limit"),
        ({"limit": 0}, "from 1 to 1000"),
    ],
)
def test_wrong_questions(written: Pipeline, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ask(written, **more)


def test_a_pipeline_without_windows() -> None:
    with pytest.raises(Absent, match="roller has not run yet"):
        ask(Pipeline())


def test_an_order_by_time_needs_a_range(written: Pipeline) -> None:
    with pytest.raises(UsageError, match="give since and until"):
        answer_events(written.reader(), {"key": "k", "window": WINDOW, "order": "time"}, TIME_LEFT)
