"""A key's events as they count: each once, also below the last one that was listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from tallyroll.errors import Archived, Throttled, UsageError
from tallyroll.model.states import Status
from tallyroll.model.tallies import Tally
from tallyroll.reads.found import FoundEvent
from tallyroll.reads.ranges.follow import FOLLOW_MS, FollowingReads
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, WINDOW, Pipeline, hour, opened
from tests.harness.retracting import QUEUE, retraction
from tests.unit.reads.test_range_events import drop, seal_07


def write(pipeline: Pipeline, *names: str, ts: int = NOW) -> None:
    report = pipeline.write(*({"id": each, "key": "k", "ts": ts} for each in names))
    assert report.events == len(names)


def take(found: Iterator[FoundEvent], number: int) -> list[str]:
    return [one.what.id for one in islice(found, number)]


def when_asleep(pipeline: Pipeline, *steps: Callable[[], object]) -> None:
    """Do a step at each look's end; then end the following."""
    left = list(steps)
    sleep = pipeline.effects.sleep

    def slept(ms: float) -> None:
        assert ms == FOLLOW_MS
        sleep(ms)
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    pipeline.effects.sleep = slept  # type: ignore[method-assign]


def followed(pipeline: Pipeline, since: int | None = START - HOUR) -> list[str]:
    """All that is seen until the steps end."""
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(
            one.what.id for one in noting(pipeline.reader().follow("k", since), seen) if one
        )
    return seen


def noting(found: Iterator[FoundEvent], seen: list[str]) -> Iterator[FoundEvent | None]:
    for one in found:
        seen.append(one.what.id)
        yield None


def test_events_below_the_last_one_come_too() -> None:
    pipeline = opened()
    write(pipeline, "m", "n")
    when_asleep(
        pipeline,
        lambda: write(pipeline, "a"),
        lambda: None,
        lambda: write(pipeline, "b", ts=NOW - HOUR),
        lambda: write(pipeline, "z", "c"),
    )
    assert followed(pipeline) == ["m", "n", "a", "b", "c", "z"]


def test_a_window_that_cannot_be_read_now_is_read_at_the_next_look() -> None:
    pipeline = opened()
    write(pipeline, "m")
    real = pipeline.store.tallies

    def throttled(*_: Any) -> Any:
        pipeline.store.tallies = real  # type: ignore[method-assign]
        raise Throttled("BatchGetItem: slow down", "Throttling")

    def fail_once() -> None:
        write(pipeline, "n")
        pipeline.store.tallies = throttled  # type: ignore[assignment, method-assign]

    when_asleep(pipeline, fail_once, lambda: None)
    assert followed(pipeline, START) == ["m", "n"]


def test_following_by_the_cursor_alone_would_lose_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: what sorts below the last one that was seen is taken as seen."""
    pipeline = opened()
    write(pipeline, "m", "n")
    when_asleep(pipeline, lambda: write(pipeline, "a", "o"))
    news = FollowingReads._news

    def by_cursor(reads: Any, key: str, window: Any, known: Any) -> Iterator[FoundEvent]:
        last = max(known.seen, default="")
        for one in news(reads, key, window, known):
            known.seen.add(one.what.id)
            if one.what.id > last:
                yield one

    monkeypatch.setattr(FollowingReads, "_news", by_cursor)
    monkeypatch.setattr("tallyroll.reads.ranges.follow._digest", lambda what: what.id)
    assert followed(pipeline) == ["m", "n", "o"]


def test_an_event_and_one_of_a_packet_with_its_id() -> None:
    pipeline = opened()
    pipeline.write({"v": 1, "id": "p", "key": "k", "t0": START, "events": [[0], [10]]})
    when_asleep(pipeline, lambda: write(pipeline, "p:1"))
    assert followed(pipeline) == ["p:0", "p:1", "p:1"]


def test_quiet_windows_are_not_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    write(pipeline, "a")
    asked: list[str] = []
    records = pipeline.store.records

    def noted(spec: Any, *more: Any) -> Any:
        asked.append(spec.window)
        return records(spec, *more)

    monkeypatch.setattr(pipeline.store, "records", noted)
    when_asleep(pipeline, asked.clear, lambda: None, lambda: None)
    assert followed(pipeline) == ["a"]
    assert asked == []


def test_a_retraction_beside_an_event_hides_none() -> None:
    """The number of events is the same after both: that of the stored ones is not."""
    pipeline = opened(QUEUE)
    write(pipeline, "a", "b")

    def both() -> None:
        pipeline.write(retraction(id="a", ts=NOW))
        write(pipeline, "c")
        assert pipeline.tally("k")[0] == 2

    when_asleep(pipeline, both)
    assert followed(pipeline) == ["a", "b", "c"]


def test_a_window_that_is_sealed_is_listed_a_last_time() -> None:
    pipeline = opened()
    write(pipeline, "a", ts=NOW - HOUR)

    def late() -> None:
        write(pipeline, "0", ts=NOW - HOUR)
        seal_07(pipeline)

    when_asleep(pipeline, late, lambda: drop(pipeline, hour(7)), lambda: write(pipeline, "c"))
    assert followed(pipeline) == ["a", "0", "c"], "and may be dropped then"


def test_new_windows_come() -> None:
    pipeline = opened()
    write(pipeline, "a")

    def next_hour() -> None:
        pipeline.effects.pass_by(HOUR)
        pipeline.roller().run(TIME_LEFT)
        pipeline.roller().run(TIME_LEFT)
        write(pipeline, "b", ts=NOW + HOUR)

    when_asleep(pipeline, next_hour)
    assert followed(pipeline, None) == ["a", "b"]


def test_what_was_dropped_before() -> None:
    pipeline = opened()
    drop(pipeline, hour(7))
    with pytest.raises(Archived, match="the earliest whole range is since 2026-11-20T08"):
        next(pipeline.reader().follow("k", START - HOUR))
    write(pipeline, "a")
    assert take(pipeline.reader().follow("k", START), 1) == ["a"]


def test_a_window_that_is_dropped_before_its_end_was_listed() -> None:
    pipeline = opened()
    write(pipeline, "a")
    found = pipeline.reader().follow("k", START)
    assert next(found).what.id == "a"
    pipeline.move(Status.DROPPING, WINDOW)
    with pytest.raises(Archived):
        next(found)


def test_a_table_that_is_made_again_after_the_drop_is_no_window_without_events() -> None:
    """A roller that slept makes it between the reads of one look."""
    pipeline = opened()
    write(pipeline, "a", ts=NOW - HOUR)
    seal_07(pipeline)
    real = pipeline.store.tallies

    def emptied(*asked: Any) -> Any:
        pipeline.store.tallies = real  # type: ignore[method-assign]
        drop(pipeline, hour(7))
        return {key: Tally(key, 0, 0) for key in asked[1]}

    pipeline.store.tallies = emptied  # type: ignore[assignment, method-assign]
    pipeline.effects.sleep = lambda ms: pytest.fail(f"{ms}")  # type: ignore[method-assign]
    with pytest.raises(Archived, match="events of 'k'"):
        next(pipeline.reader().follow("k", START - HOUR))


def test_wrong_bounds() -> None:
    with pytest.raises(UsageError, match="lies inside a window"):
        next(opened().reader().follow("k", START + 1))
