"""Taking a pipeline down while roller, cleanup and other people work at the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Missing, Refused, StateConflict, Throttled
from tallyroll.model.states import Status, Window
from tallyroll.operations.teardown import TeardownProgress, delete, inventory, without_table
from tallyroll.resources import TAG_PIPELINE
from tests.harness.doctoring import case_of, first, grown, listing_of, states
from tests.harness.pipeline import HOUR, NOW, SMALL, TIME_LEFT, Pipeline, StillEffects, hour, opened
from tests.unit.operations.test_teardown import DAY, ignore, teardown

Patch = pytest.MonkeyPatch


def troubled(method: Any, window: str, *errors: Exception) -> Any:
    """The method, which raises these errors first when it is called for a window."""
    left = [*errors]

    def call(state: Window) -> Window:
        if state.id == window and left:
            raise left.pop(0)
        written: Window = method(state)
        return written

    return call


def test_a_window_that_another_run_closed_first_is_left_to_it(monkeypatch: Patch) -> None:
    pipeline = opened()
    advance = pipeline.catalog.advance
    conflict = StateConflict("its state is at another version")
    monkeypatch.setattr(pipeline.catalog, "advance", troubled(advance, hour(8), conflict))
    told: list[TeardownProgress] = []
    assert teardown(pipeline).run(DAY, told.append).left == ()
    assert {problem for progress in told for problem in progress.problems} == set()
    assert set(states(pipeline).values()) == {Status.DROPPED}


def test_a_window_that_cannot_be_closed_is_told_and_tried_again(monkeypatch: Patch) -> None:
    pipeline = opened()
    advance = pipeline.catalog.advance
    error = Throttled("PutItem: too much", "ThrottlingException")
    monkeypatch.setattr(pipeline.catalog, "advance", troubled(advance, hour(8), error))
    told: list[TeardownProgress] = []
    assert teardown(pipeline).run(DAY, told.append).left == ()
    problems = {problem for progress in told for problem in progress.problems}
    assert problems == {f"window {hour(8)} (open): PutItem: too much"}


def test_a_table_that_the_roller_has_not_checked_is_checked(monkeypatch: Patch) -> None:
    """One of another hand under this name is not taken for the window's."""
    pipeline = Pipeline(SMALL, StillEffects(NOW))
    pipeline.roller().run(TIME_LEFT)
    window = pipeline.state(hour(10))
    pipeline.catalog.advance(replace(window, times={Status.CREATING: NOW}))
    pipeline.store.table(window.table).tags[TAG_PIPELINE] = "another"
    last = teardown(pipeline).run(HOUR, ignore)
    assert [left.id for left in last.left] == [window.id]
    assert "is no window table of this pipeline" in "".join(last.problems)
    pipeline.store.table(window.table).tags[TAG_PIPELINE] = "tallyroll"
    assert teardown(pipeline).run(DAY, ignore).left == ()


def test_a_proven_window_needs_no_table() -> None:
    pipeline = grown()
    window = pipeline.state(first(pipeline, Status.SEALED))
    pipeline.store.drop_table(window.table)
    assert without_table(case_of(pipeline), [window]) != {}
    assert without_table(case_of(pipeline), [replace(window, status=Status.PROVEN)]) == {}


def test_a_table_that_is_being_deleted_is_no_loss() -> None:
    pipeline = opened()
    pipeline.store._deleting_ms = HOUR
    table = pipeline.state(hour(8)).table
    pipeline.store.drop_table(table)
    found = inventory(case_of(pipeline))
    assert [loss.window for loss in found.losses] == [hour(n) for n in (6, 7, 9, 10)]
    assert found.spared == {}


def test_a_table_that_goes_while_it_is_counted_has_no_known_number(monkeypatch: Patch) -> None:
    pipeline = opened()
    pipeline.write({"key": "k", "id": "e", "ts": NOW})
    stripes = pipeline.store.stripes

    def gone(spec: Any, *page: Any) -> Iterator[Any]:
        if spec.window == hour(8):
            raise Missing("there is no such table", "ResourceNotFoundException")
        return stripes(spec, *page)

    monkeypatch.setattr(pipeline.store, "stripes", gone)
    events = {loss.window: loss.events for loss in inventory(case_of(pipeline)).losses}
    assert (events[hour(8)], events[hour(7)]) == (None, 0)


def test_a_table_that_is_being_changed_is_deleted_a_little_later(monkeypatch: Patch) -> None:
    pipeline = opened()
    table = pipeline.state(hour(8)).table
    drop, tries = pipeline.store.drop_table, iter(range(9))

    def busy(name: str) -> None:
        if next(tries) < 2:
            raise Throttled("DeleteTable: it is being updated", "ResourceInUseException")
        drop(name)

    monkeypatch.setattr(pipeline.store, "drop_table", busy)
    done = delete(case_of(pipeline), [table], ignore)
    assert (done.gone, done.refused, done.left) == ([table], {}, [])


def test_a_protection_that_may_not_be_given_back_is_not_tried_for_ever(monkeypatch: Patch) -> None:
    pipeline, calls = opened(), list[str]()
    listing = listing_of(pipeline)

    def refuse(table: str) -> None:
        calls.append(table)
        raise Refused("AccessDeniedException: no", "AccessDeniedException")

    monkeypatch.setattr(pipeline.store, "drop_table", refuse)
    monkeypatch.setattr(listing, "protect", refuse)
    done = delete(case_of(pipeline, tables=listing), ["a-table"], ignore)
    assert done.refused.keys() == {"a-table"}
    assert calls == ["a-table"] * 2
    assert pipeline.effects.now() == NOW
