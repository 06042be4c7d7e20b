from __future__ import annotations

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.errors import UsageError
from tallyroll.model.states import Calendar, Status, Window, takes_events
from tallyroll.model.windows import Grid, window_start
from tallyroll.operations.backfill import WINDOWS_PER_CALL_MAX, open_past
from tests.harness.pipeline import HOUR, MINUTE, NOW, hour, opened

CALENDAR = Calendar(Grid.of(3600), window_start(hour(8)))


def test_windows_that_another_call_creates_meanwhile_are_left_as_they_are() -> None:
    catalog = MemoryCatalog()
    hidden = MemoryCatalog()
    theirs = open_past(hidden, CALENDAR, "votes", *_range(5, 6), NOW - 1, HOUR).created[0]

    def windows(since: int, until: int) -> list[Window]:
        catalog.create(theirs)
        return []

    real, catalog.windows = catalog.windows, windows  # type: ignore[method-assign]
    past = open_past(catalog, CALENDAR, "votes", *_range(4, 7), NOW, HOUR)
    assert [window.id for window in past.windows] == [hour(4), hour(5), hour(6)]
    assert past.existed == (theirs,)
    assert real(0, NOW) == past.windows


def test_as_many_windows_as_a_call_may_open() -> None:
    until = CALENDAR.genesis
    since = until - WINDOWS_PER_CALL_MAX * HOUR
    with pytest.raises(UsageError, match=r"the first until 2026-11-20T07:00:00"):
        open_past(MemoryCatalog(), CALENDAR, "votes", since - HOUR, until, NOW, HOUR)
    past = open_past(MemoryCatalog(), CALENDAR, "votes", since, until, NOW, HOUR)
    assert len(past.created) == WINDOWS_PER_CALL_MAX
    assert past.created[0].table == f"votes-{past.created[0].id}"


def test_regular_windows_that_exist_are_no_error() -> None:
    pipeline = opened()
    calendar = pipeline.catalog.calendar()
    assert calendar
    past = open_past(pipeline.catalog, calendar, "tallyroll", *_range(5, 9), NOW, HOUR)
    assert [window.id for window in past.created] == [hour(5)]
    assert [window.id for window in past.existed] == [hour(6), hour(7), hour(8)]


def test_an_opened_past_is_closed_by_its_own_time() -> None:
    pipeline = opened()
    calendar = pipeline.catalog.calendar()
    assert calendar
    open_past(pipeline.catalog, calendar, "tallyroll", *_range(5, 6), NOW, HOUR)
    pipeline.roller().run(60_000)
    assert pipeline.spec(hour(5)).accept_until == NOW + HOUR
    assert takes_events(pipeline.state(hour(5)), NOW + HOUR)
    assert not takes_events(pipeline.state(hour(5)), NOW + HOUR + 1)
    roller = pipeline.roller()
    pipeline.effects.pass_by(HOUR + 2 * MINUTE)  # the queue's counts tell after a margin
    for _ in range(4):
        roller.run(60_000)
    assert pipeline.state(hour(5)).status is Status.SEALED


def _range(first: int, last: int) -> tuple[int, int]:
    return window_start(hour(first)), window_start(hour(last))
