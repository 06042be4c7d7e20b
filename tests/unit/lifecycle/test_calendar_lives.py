"""Windows by the calendar live as others do: made, written to, sealed, archived, dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.model.states import Status
from tallyroll.model.windows import DAY_MS, Grid, lasting_of, window_start
from tests.harness.pipeline import MINUTE, NOW, SMALL, TIME_LEFT, Pipeline, StillEffects


@pytest.mark.parametrize(
    ("length", "first"),
    [
        ("week", "20261116T000000Z"),
        ("month", "20261101T000000Z"),
        ("quarter", "20261001T000000Z"),
        ("year", "20260101T000000Z"),
    ],
)
def test_a_life(length: str, first: str) -> None:
    """An event a day over three windows: each is counted once, in its own window."""
    settings = replace(SMALL, window=length, retention_ms=7 * DAY_MS)
    pipeline = Pipeline(settings, StillEffects(NOW))
    roller = pipeline.roller()
    grid = Grid.of(length)
    spans = [grid.at(window_start(first))]
    spans += [grid.after(spans[0]), grid.after(grid.after(spans[0]))]
    expected: dict[str, int] = {}
    end = spans[-1].end + 10 * DAY_MS
    step = max(DAY_MS, lasting_of(length).shortest // 20)
    while (now := pipeline.effects.now()) < end:
        for _ in range(5):
            rolled = roller.run(TIME_LEFT)
            assert rolled.problems == []
            pipeline.effects.pass_by(MINUTE)
        if now < spans[-1].end:
            assert pipeline.write({"key": "k", "ts": now, "id": str(now)}).events == 1
            expected[grid.at(now).id] = expected.get(grid.at(now).id, 0) + 1
        for cleaner in (pipeline.cleanup(), pipeline.dropper()):
            assert cleaner.run(TIME_LEFT).problems == []
        pipeline.effects.pass_by(step)

    assert [span.id for span in spans] == sorted(expected)
    states = {span.id: pipeline.state(span.id) for span in spans}
    assert {states[spans[0].id].status, states[spans[1].id].status} == {Status.DROPPED}
    assert all(states[span.id].end == span.end for span in spans)
    counted = pipeline.reader().count("k", by_window=True)
    assert {each.window: each.events for each in counted.windows if each.events} == expected
