"""Lists with cursors, series and largest keys have events in leaves as they have all others."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tallyroll import limits
from tallyroll.reads.http import answer_events, answer_series, answer_top
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, Pipeline, hour, opened
from tests.unit.logs.test_logged_keys import LOGGED, sent, stored
from tests.unit.reads.test_range_events import ids, pages

RANGE = {"since": hour(6), "until": hour(10)}
PLAIN = {number: str(UUID(int=number, version=4)) for number in range(14)}


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Seven plain events of k in each of windows 07 and 08, three a leaf, beside a record and a
    packet; and two records of l.
    """
    monkeypatch.setattr(limits, "LOG_ENTRIES_MAX", 3)
    pipeline = opened(LOGGED)
    earlier = {number: NOW - 5 - (number % 2) * HOUR for number in PLAIN}
    plain = [replace(sent(pipeline, number), sent=at) for number, at in earlier.items()]
    others = [
        {"key": "k", "id": "own", "ts": NOW, "value": 0.5},
        {"v": 1, "id": "p", "key": "k", "t0": START, "events": [[0], [10]]},
        *({"key": "l", "id": each, "ts": NOW} for each in "ab"),
    ]
    report = pipeline.writer().write([*plain, *map(pipeline.message, others)], TIME_LEFT)
    assert (report.events, report.logged_events) == (19, 14)
    assert [each.n for each in stored(pipeline) if each.logged] == [3, 3, 1]
    return pipeline


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 16, 17])
def test_pages_hold_every_event_once(logged: Pipeline, limit: int) -> None:
    found = [one for page in pages(logged, limit) for one in page["events"]]
    assert sorted(one.get("message", one["id"]) for one in found) == sorted(
        [*PLAIN.values(), "own", "p:0", "p:1"]
    )
    assert ids({"events": found}) == ids(*pages(logged, 1_000))
    in_time = answer_events(logged.reader(), {"key": "k", "order": "time", **RANGE}, TIME_LEFT)
    assert sorted(ids(in_time.body)) == sorted(ids({"events": found}))


def test_series_and_largest_keys(logged: Pipeline) -> None:
    series = answer_series(logged.reader(), {"key": "k", "step": "hour", **RANGE}, TIME_LEFT).body
    counted = [(each["events"], each["sum"]) for each in series["points"]]
    assert counted == [(0, "0"), (7, "7"), (10, "9.5"), (0, "0")]
    largest = answer_top(logged.reader(), RANGE, TIME_LEFT).body["top"]
    assert [(each["key"], each["events"]) for each in largest] == [("k", 17), ("l", 2)]
