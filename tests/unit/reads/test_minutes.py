"""A key's events by the minute, from the tallies of windows that are not sealed."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tallyroll.errors import Absent, Missing, UsageError
from tallyroll.model.retractions import Retraction
from tallyroll.model.states import Status
from tallyroll.model.windows import iso
from tallyroll.reads.http import answer_series
from tallyroll.reads.minutes import MINUTE_MS, minutes_json
from tests.harness.pipeline import (
    HOUR,
    MINUTE,
    NOW,
    SMALL,
    START,
    TIME_LEFT,
    WINDOW,
    Pipeline,
    StillEffects,
    hour,
    opened,
)

RETRACTING = replace(SMALL, retraction="queue")


def by_minute(
    pipeline: Pipeline, since: int | None = None, until: int | None = None, zone: tzinfo = UTC
) -> dict[int, int]:
    """The minutes that have events."""
    found = pipeline.reader().minutes("k", since, until, zone)
    return {point.start: point.events for point in found.points if point.events}


def test_each_event_is_in_its_minute() -> None:
    random, pipeline = Random(5), opened()
    times = [random.randrange(START - HOUR, NOW + MINUTE) for _ in range(200)]
    pipeline.write(*({"key": "k", "id": f"e{n}", "ts": ts} for n, ts in enumerate(times)))
    pipeline.write({"key": "other", "ts": NOW})
    assert by_minute(pipeline) == Counter(ts - ts % MINUTE_MS for ts in times)
    first, last = NOW - 90 * MINUTE, NOW - 10 * MINUTE
    inside = [ts for ts in times if first <= ts < last]
    assert by_minute(pipeline, first, last) == Counter(ts - ts % MINUTE_MS for ts in inside)
    assert by_minute(pipeline, zone=ZoneInfo("Asia/Kathmandu")) == by_minute(pipeline)


def test_minutes_without_a_date_in_their_zone_are_refused() -> None:
    since = round(datetime(9999, 12, 31, 14, 50, tzinfo=UTC).timestamp()) * 1000
    with pytest.raises(UsageError, match=r"in tz Asia/Tokyo that is after the year 9999"):
        by_minute(opened(), since, since + 10 * MINUTE, ZoneInfo("Asia/Tokyo"))
    found = opened().reader().minutes("k", since, since + 9 * MINUTE, ZoneInfo("Asia/Tokyo"))
    assert minutes_json(found)["until"] == "9999-12-31T23:59:00+09:00"


def test_it_begins_after_the_last_sealed_window_and_ends_with_this_minute() -> None:
    pipeline = opened()
    points = pipeline.reader().minutes("k").points
    assert (points[0].start, points[-1].start) == (START - 2 * HOUR, NOW)
    pipeline.move(Status.SEALED, hour(7))  # before the one of the hour before
    assert pipeline.reader().minutes("k").points[0].start == START
    with pytest.raises(UsageError, match=r"windows before 2026-11-20T08:00:00\.000Z are sealed"):
        pipeline.reader().minutes("k", None, START)


def test_what_is_retracted_is_in_no_minute() -> None:
    pipeline = opened(RETRACTING)
    pipeline.write(*({"key": "k", "id": f"e{n}", "ts": NOW} for n in range(3)))
    pipeline.write(json.loads(Retraction.of("k", "e1", window=WINDOW).body))
    assert by_minute(pipeline) == {NOW: 2}


def test_a_window_that_is_sealed_meanwhile_has_what_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    pipeline.write({"key": "k", "ts": NOW})
    real = pipeline.store.tallies

    def seal(spec: Any, keys: Any) -> Any:
        if spec.window == WINDOW:
            pipeline.move(Status.SEALED)
        return real(spec, keys)

    monkeypatch.setattr(pipeline.store, "tallies", seal)
    assert by_minute(pipeline, START, NOW + MINUTE) == {NOW: 1}
    with pytest.raises(UsageError, match=f"{WINDOW} is sealed"):
        pipeline.reader().minutes("k", START)


def test_a_window_that_cannot_be_read_is_missing_in_its_minutes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    pipeline.write({"key": "k", "ts": NOW}, {"key": "k", "ts": NOW - HOUR})
    real = pipeline.store.tallies

    def refuse(spec: Any, keys: Any) -> Any:
        if spec.start == START:
            raise Missing("its table is gone")
        return real(spec, keys)

    monkeypatch.setattr(pipeline.store, "tallies", refuse)
    parameters = {"key": "k", "step": "minute", "since": iso(NOW - HOUR)}
    answer = answer_series(pipeline.reader(), parameters, TIME_LEFT)
    assert answer.is_complete is False
    assert (answer.body["missing"], answer.body["events"]) == ([WINDOW], 1)
    assert [(point["start"], point.get("complete", True)) for point in answer.body["points"]] == [
        (f"2026-11-20T07:{minute}:00+00:00", True) for minute in range(30, 60)
    ] + [(f"2026-11-20T08:{minute:02}:00+00:00", False) for minute in range(31)]
    late = pipeline.reader().minutes("k", time_left_ms=0)
    assert {*late.why_missing.values()} == {"no time left"}


def test_as_json() -> None:
    pipeline = opened()
    pipeline.write({"key": "k", "ts": NOW})
    found = pipeline.reader().minutes("k", NOW - MINUTE, zone=ZoneInfo("Europe/Berlin"))
    assert minutes_json(found) == {
        "key": "k",
        "step": "minute",
        "tz": "Europe/Berlin",
        "until": "2026-11-20T09:31:00+01:00",
        "events": 1,
        "points": [
            {"start": "2026-11-20T09:29:00+01:00", "events": 0},
            {"start": "2026-11-20T09:30:00+01:00", "events": 1},
        ],
        "as_of": iso(NOW),
        "complete": True,
    }


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        (START - 2 * HOUR, None, f"{hour(6)} is sealed"),
        (START + 1, None, "must be a whole minute"),
        (START, START, "is not before until"),
        (START, START + 10_001 * MINUTE, "10,001 minutes: at most 10,000"),
    ],
)
def test_what_is_refused(since: int, until: int | None, said: str) -> None:
    pipeline = opened()
    pipeline.move(Status.SEALED, hour(6))
    with pytest.raises(UsageError, match=said):
        pipeline.reader().minutes("k", since, until)


@pytest.mark.parametrize("seconds", [30, 120, 600])
def test_shorter_windows_have_minutes_too(seconds: int) -> None:
    settings = replace(SMALL, window_seconds=seconds)
    pipeline, random = Pipeline(settings, StillEffects(NOW - 10 * MINUTE)), Random(seconds)
    pipeline.roller().run(TIME_LEFT)
    pipeline.effects.pass_by(10 * MINUTE)
    for _ in range(2):
        pipeline.roller().run(TIME_LEFT)
    times = [NOW - random.randrange(5 * MINUTE) for _ in range(50)]
    pipeline.write(*({"key": "k", "id": f"e{n}", "ts": ts} for n, ts in enumerate(times)))
    assert by_minute(pipeline) == Counter(ts - ts % MINUTE_MS for ts in times)
    first = pipeline.catalog.windows(0, NOW)[0]
    pipeline.move(Status.SEALED, first.id)
    points = pipeline.reader().minutes("k").points
    assert points[0].start == first.end + -first.end % MINUTE_MS
    with pytest.raises(UsageError, match=f"since={iso(points[0].start)} or later"):
        pipeline.reader().minutes("k", first.start - first.start % MINUTE_MS)


def test_a_range_that_is_too_long_reads_no_states(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    monkeypatch.setattr(pipeline.catalog, "windows", None)
    with pytest.raises(UsageError, match="minutes: at most 10,000"):
        pipeline.reader().minutes("k", 0)


def test_windows_that_do_not_divide_an_hour_have_no_minutes() -> None:
    pipeline = opened(replace(SMALL, window_seconds=7_200))
    with pytest.raises(UsageError, match="does not divide an hour"):
        pipeline.reader().minutes("k")


def test_there_are_no_windows_yet() -> None:
    with pytest.raises(Absent, match="no windows"):
        Pipeline(SMALL, StillEffects(NOW)).reader().minutes("k")
