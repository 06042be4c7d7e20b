"""For how long a window has not got on, and how hot the current one is: what a run tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import Unknown
from tallyroll.lifecycle.overdue import ARCHIVED, stuck_ms, why_not_taking
from tallyroll.model.states import Attempt, Moment, Status, Window
from tests.harness.pipeline import HOUR, NOW, SMALL, TIME_LEFT, WINDOW, Pipeline, opened

SETTINGS = replace(SMALL, retention_ms=HOUR)
ALL = frozenset(Status)


def window(status: Status, *, attempts: float = 1, problem: float = 0, **hours: float) -> Window:
    """A window that came into states, or got on, so many hours ago."""
    times = {name: NOW - int(ago * HOUR) for name, ago in hours.items()}
    attempt = Attempt(number=int(attempts), problem="not proven" if problem else "")
    return Window(WINDOW, "table", 0, HOUR, status, times=times, attempt=attempt)


@pytest.mark.parametrize(
    ("state", "hours"),
    [
        (window(Status.CREATING, creating=9), 0),
        (window(Status.OPEN, open=9), 0),  # the queue's doing: another alarm
        (window(Status.CLOSING, closing=3), 3),
        (window(Status.CLOSING, closing=3, **{Moment.SHUT: 2}), 2),
        (window(Status.CLOSING, closing=3, **{Moment.SHUT: 2, Moment.PROGRESSED: 0.5}), 0.5),
        (window(Status.SEALED, sealed=0.5), 0),  # it is to stay for an hour
        (window(Status.SEALED, sealed=3), 2),
        (window(Status.EXPORTING, sealed=9, exporting=7), 0),  # it gets on
        (window(Status.EXPORTING, sealed=9, exporting=7, **{Moment.TRIED: 4}), 4),
        (window(Status.EXPORTING, sealed=9, attempts=2, **{Moment.TRIED: 0}), 8),
        (window(Status.EXPORTING, sealed=9, problem=1, **{Moment.TRIED: 0}), 8),
        (window(Status.PROVEN, sealed=9, proven=2), 2),
        (window(Status.DROPPING, sealed=9, dropping=1), 1),
        (window(Status.DROPPED, sealed=9, dropped=1), 0),
    ],
    ids=lambda value: value.status.value if isinstance(value, Window) else "",
)
def test_since_when_a_window_has_not_got_on(state: Window, hours: float) -> None:
    assert stuck_ms([state], ALL, NOW, SETTINGS) == int(hours * HOUR)


def test_the_one_that_is_stuck_longest_counts_of_those_asked_for() -> None:
    windows = [window(Status.SEALED, sealed=hours) for hours in (2, 5, 3)]
    windows.append(window(Status.CLOSING, closing=7))

    assert stuck_ms(windows, ARCHIVED, NOW, SETTINGS) == 4 * HOUR
    assert stuck_ms(windows, {Status.CLOSING}, NOW, SETTINGS) == 7 * HOUR
    assert stuck_ms([], ALL, NOW, SETTINGS) == 0


def sealed() -> Pipeline:
    pipeline = opened(replace(SMALL, retention_ms=0))
    pipeline.move(Status.CLOSING)
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.state().status is Status.SEALED
    return pipeline


def test_cleanup_tells_for_how_long_it_cannot_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = sealed()

    def fails(*_: object) -> object:
        raise Unknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.store, "scan", fails)
        told = []
        for _ in range(4):
            told.append(pipeline.cleanup().run(TIME_LEFT).stuck_ms)
            pipeline.effects.pass_by(HOUR)
    assert told[0] < HOUR <= told[1] < told[2] < told[3]
    for _ in range(3):
        pipeline.cleanup().run(TIME_LEFT)
        pipeline.dropper().run(TIME_LEFT)
        pipeline.effects.pass_by(1)
    assert pipeline.state().status is Status.DROPPED
    assert pipeline.cleanup().run(TIME_LEFT).stuck_ms == 0


def test_the_roller_tells_how_many_keys_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(replace(SMALL, hot_shards={"Ada": 64, "Bob": 2}))
    roller = pipeline.roller()
    rolled = roller.run(TIME_LEFT)
    assert (rolled.hot_keys, rolled.shards) == (2, 64)

    def fails(*_: object) -> object:
        raise Unknown("no answer")

    monkeypatch.setattr(pipeline.catalog, "specs", fails)
    rolled = roller.run(TIME_LEFT)  # the spec never changes: it is read once
    assert (rolled.hot_keys, rolled.shards) == (2, 64)
    rolled = pipeline.roller().run(TIME_LEFT)
    assert (rolled.hot_keys, rolled.shards, rolled.problems) == (0, 0, [])


def test_the_roller_tells_of_the_hot_keys_of_each_window() -> None:
    pipeline = Pipeline(replace(SMALL, hot_shards={"Ada": 64, "Bob": 2}))
    roller = pipeline.roller()
    roller.run(TIME_LEFT)
    pipeline.effects.pass_by(HOUR)
    rolled = roller.run(TIME_LEFT)
    assert (rolled.hot_keys, rolled.shards) == (2, 64)


def test_why_the_current_window_takes_no_events() -> None:
    pipeline = opened()
    current = pipeline.state()
    assert why_not_taking(current, NOW) == ""
    over = current.accepts_until + 1
    assert why_not_taking(current, over) == "it took events until 2026-11-20T10:00:00.000Z"
    creating = replace(current, status=Status.CREATING)
    assert why_not_taking(creating, NOW) == "its events wait until it is open"
    sealed = replace(current, status=Status.SEALED)
    assert why_not_taking(sealed, NOW) == "its events are rejected"
