"""A window that could not be created is made by a later run, whatever stands after it by then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import Unknown
from tallyroll.model.states import Calendar, Status, Window
from tests.harness.pipeline import HOUR, NOW, START, TIME_LEFT, Pipeline, hour, opened


def unlucky_with(pipeline: Pipeline, unlucky: str, patch: pytest.MonkeyPatch) -> None:
    """The creation of that window fails meanwhile."""
    create = pipeline.catalog.create

    def creating(window: Window, calendar: Calendar | None = None) -> bool:
        if window.id == unlucky:
            raise Unknown("no answer")
        return create(window, calendar)

    patch.setattr(pipeline.catalog, "create", creating)


def live_since(pipeline: Pipeline) -> int:
    pointer = pipeline.catalog.live()
    assert pointer
    return pointer.since


def test_none_is_created_after_one_that_could_not_be() -> None:
    """The live pointer begins at the first that stands: no run would look before it."""
    pipeline = Pipeline()
    with pytest.MonkeyPatch.context() as patch:
        unlucky_with(pipeline, hour(8), patch)
        assert pipeline.roller().run(TIME_LEFT).problems
        assert pipeline.catalog.windows(0, 10**14) == []
    pipeline.roller().run(TIME_LEFT)
    assert [window.id for window in pipeline.catalog.windows(0, 10**14)] == [
        *(hour(8), hour(9), hour(10))
    ]


def test_the_live_pointer_stays_before_a_gap() -> None:
    pipeline = opened()
    start = START + 4 * HOUR
    pipeline.catalog.create(Window(hour(12), f"tallyroll-{hour(12)}", start, start + HOUR))
    for number in range(6, 11):
        pipeline.move(Status.DROPPED, hour(number))
    pipeline.effects.pass_by(3 * HOUR)
    with pytest.MonkeyPatch.context() as patch:
        unlucky_with(pipeline, hour(11), patch)
        assert pipeline.roller().run(TIME_LEFT).problems
    assert live_since(pipeline) == START - 2 * HOUR
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.catalog.window(hour(11))
    pipeline.roller().run(TIME_LEFT)
    assert live_since(pipeline) == START + 3 * HOUR


def test_the_live_pointer_stays_before_a_window_that_no_listing_shows_yet() -> None:
    """A query beside the creation may not see its state, though the pointer has moved."""
    pipeline = opened()
    start = START - 9 * HOUR
    past = Window(hour(-1), f"tallyroll-{hour(-1)}", start, start + HOUR, accept_from=NOW)
    pipeline.catalog.create(past)
    windows = pipeline.catalog.windows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            pipeline.catalog,
            "windows",
            lambda *span: [window for window in windows(*span) if window.id != past.id],
        )
        pipeline.roller().run(TIME_LEFT)
    pointer = pipeline.catalog.live()
    assert pointer
    assert pointer.covers(start)


def test_a_calendar_that_another_run_changes_meanwhile_is_not_extended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The windows go on by the calendar that was read; the next run extends it."""
    pipeline = opened()
    pipeline.settings = replace(pipeline.settings, window_seconds=900)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline.catalog, "extend", lambda *_: False)
        assert pipeline.roller().run(TIME_LEFT).problems == []
    calendar = pipeline.catalog.calendar()
    assert calendar
    assert [length for _, length in calendar.grid.lengths] == [HOUR]
    pipeline.roller().run(TIME_LEFT)
    calendar = pipeline.catalog.calendar()
    assert calendar
    assert [length for _, length in calendar.grid.lengths] == [HOUR, HOUR // 4]
