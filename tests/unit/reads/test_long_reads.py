"""Reads of what is sealed: days and months in a count, and the largest keys of a sealed window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.states import Status
from tallyroll.model.totals import Listed
from tallyroll.model.windows import window_start
from tallyroll.reads.counts import Count, PeriodCount, counter_json
from tallyroll.reads.http import answer_counter
from tallyroll.reads.lookups import Lookups
from tallyroll.reads.top import Top
from tests.harness.pipeline import (
    HOUR,
    SECOND,
    SMALL,
    START,
    TIME_LEFT,
    Pipeline,
    StillEffects,
    hour,
)

MICROS = 1_000_000
DAY = 24 * HOUR
MIDNIGHT = window_start("20261121T000000Z")
SIX_HOURS = replace(SMALL, window_seconds=21_600, cache_live_ms=0)


def lived(settings: Any = SIX_HOURS) -> Pipeline:
    """A pipeline since noon of 20 November, two days later, with an event in each window of k."""
    pipeline = Pipeline(settings, StillEffects(window_start("20261120T120000Z")))
    roller, writer = pipeline.roller(), pipeline.writer()
    until = MIDNIGHT + DAY + 8 * HOUR
    sent: set[int] = set()
    while pipeline.effects.now() < until:
        assert not roller.run(TIME_LEFT).problems
        now = pipeline.effects.now()
        if now % (6 * HOUR) >= HOUR and now // (6 * HOUR) not in sent:
            sent.add(now // (6 * HOUR))
            event = {"id": f"e{now}", "key": "k", "ts": now, "value": 2}
            assert writer.write([pipeline.message(event)], TIME_LEFT).events == 1
        pipeline.effects.pass_by(20 * 60 * SECOND)
    assert len(sent) == 8
    return pipeline


def count(pipeline: Pipeline, since: int | None = None, until: int | None = None) -> Count:
    return pipeline.reader().count("k", since, until, TIME_LEFT)


def shape(answer: Count) -> tuple[list[str], list[str]]:
    return [one.period for one in answer.periods], [one.window[6:11] for one in answer.windows]


def test_days_that_are_over_are_read_whole() -> None:
    pipeline = lived()
    answer = count(pipeline)
    assert (answer.events, answer.amount, answer.complete) == (8, 16 * MICROS, True)
    assert shape(answer) == (["day#20261120", "day#20261121"], ["22T00", "22T06"])
    assert answer.periods == (
        PeriodCount("day#20261120", 2, 2, 4 * MICROS),
        PeriodCount("day#20261121", 4, 4, 8 * MICROS),
    )


def test_only_what_lies_wholly_in_the_range_is_read_whole() -> None:
    pipeline = lived()
    noon = MIDNIGHT + 12 * HOUR
    assert shape(count(pipeline, MIDNIGHT, noon)) == ([], ["21T00", "21T06"])
    assert shape(count(pipeline, MIDNIGHT, MIDNIGHT + DAY)) == (["day#20261121"], [])
    answer = count(pipeline, MIDNIGHT - 6 * HOUR, MIDNIGHT + DAY)
    assert shape(answer) == (["day#20261121"], ["20T18"])
    assert answer.events == 5
    assert shape(count(pipeline, None, noon)) == (["day#20261120"], ["21T00", "21T06"])


def test_each_window_s_share_when_asked_for() -> None:
    pipeline = lived()
    answer = pipeline.reader().count("k", None, None, TIME_LEFT, by_window=True)
    assert (answer.events, len(answer.windows), answer.periods) == (8, 8, ())
    asked = {"key": "k", "windows": "true"}
    assert len(answer_counter(pipeline.reader(), asked, TIME_LEFT).body["windows"]) == 8


def test_a_key_without_events_in_a_day() -> None:
    pipeline = lived()
    answer = pipeline.reader().count("nobody", None, None, TIME_LEFT)
    assert [(one.windows, one.events) for one in answer.periods] == [(2, 0), (4, 0)]
    assert (answer.events, answer.complete) == (0, True)


def test_the_answer_tells_days_from_windows() -> None:
    body = counter_json(count(lived(), None, MIDNIGHT))
    assert body["windows"] == []
    assert body["rolled_up"] == [{"period": "2026-11-20", "windows": 2, "events": 2, "sum": "4"}]
    month = replace(count(lived()), periods=(PeriodCount("month#202611", 4, 0, 0),))
    assert counter_json(month)["rolled_up"][0]["period"] == "2026-11"


def test_roll_ups_can_be_switched_off() -> None:
    pipeline = lived(replace(SIX_HOURS, rollups=False))
    assert pipeline.totals.rolled() == []
    assert "day#20261120" in pipeline.catalog.unrolled()
    assert len(count(pipeline).windows) == 8
    pipeline.settings = SIX_HOURS
    pipeline.roller().run(TIME_LEFT)
    assert len(count(pipeline).periods) == 2
    pipeline.settings = replace(SIX_HOURS, rollups=False)
    assert len(count(pipeline).windows) == 8


# --- the largest keys of a sealed window

VOTES = {"a": 5, "b": 3, "c": 3, "d": 1, "é": 2}


def voted(status: Status) -> Pipeline:
    """A window in which keys have so many events, and sums the other way round."""
    pipeline = Pipeline(SMALL, StillEffects(START))
    pipeline.roller().run(TIME_LEFT)
    events = [
        {"id": f"{key}{n}", "key": key, "ts": START, "value": -n} for key in VOTES for n in range(9)
    ]
    kept = [event for event in events if int(str(event["id"])[-1]) < VOTES[str(event["key"])]]
    assert pipeline.write(*kept).events == 14
    pipeline.move(Status.CLOSING, hour(8))
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.state(hour(8)).status is Status.SEALED
    if status is not Status.SEALED:
        pipeline.store.drop_table(pipeline.state(hour(8)).table)
        pipeline.move(status, hour(8))
    return pipeline


def best(pipeline: Pipeline, n: int = 3, time_left: int = TIME_LEFT, **more: bool) -> Top:
    ports = (pipeline.store, pipeline.catalog, pipeline.totals, pipeline.effects)
    return Lookups(*ports).top(hour(8), n, time_left, **more)


@pytest.mark.parametrize("status", [Status.SEALED, Status.DROPPED])
def test_the_largest_keys_of_a_sealed_window(status: Status) -> None:
    pipeline = voted(status)
    top = best(pipeline)
    assert [(key.key, key.n) for key in top.largest] == [("a", 5), ("b", 3), ("c", 3)]
    assert (top.keys, top.events, top.amount) == (5, 14, -17 * MICROS)
    assert (top.status, top.complete) == (status, True)
    assert best(pipeline, 2, by_amount=True).largest == (Listed("d", 1, 0), Listed("é", 2, -MICROS))
    assert [key.key for key in best(pipeline, 1_000).largest] == ["a", "b", "c", "é", "d"]


def test_buckets_that_cannot_be_read_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = voted(Status.DROPPED)
    listing = pipeline.totals.listing
    whole = best(pipeline)

    def fails(name: str, bucket: int, *rest: Any) -> Iterator[Any]:
        if bucket in (3, 4):
            raise Throttled("slow down")
        return listing(name, bucket, *rest)

    monkeypatch.setattr(pipeline.totals, "listing", fails)
    top = best(pipeline)
    assert (top.missing, top.complete) == (2, False)
    assert top.events <= whole.events
    assert best(pipeline, time_left=0).missing == LISTING_BUCKETS
