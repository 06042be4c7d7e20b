"""The roller and its tables: checked, recoverable, warm, cooled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.errors import Throttled
from tallyroll.lifecycle.runner import Rolled
from tallyroll.model.states import Status
from tallyroll.model.windows import KEYSPACES, store_of, window_start
from tests.harness.both_stores import KEPT, BothStores
from tests.harness.pipeline import HOUR, SMALL, TIME_LEFT, WINDOW, Pipeline, hour, opened


def run(pipeline: Pipeline) -> Rolled:
    return pipeline.roller().run(TIME_LEFT)


def test_a_table_that_is_not_ours_is_named_and_never_opened() -> None:
    pipeline = Pipeline()
    table = f"tallyroll-{WINDOW}"
    pipeline.store.make_table(table, {"tallyroll": "another"})
    rolled = run(pipeline)
    (problem,) = [problem for problem in rolled.problems if WINDOW in problem]
    assert f"table {table} is no window table of this pipeline" in problem
    assert pipeline.state().status is Status.CREATING
    assert rolled.next_missing


@pytest.mark.parametrize("shut", [False, True])
def test_a_table_of_an_earlier_pipeline_is_named_and_never_opened(*, shut: bool) -> None:
    earlier = opened()
    if shut:
        earlier.store.shut_gates(earlier.spec())
    pipeline = Pipeline()
    pipeline.store = earlier.store
    pipeline.store._catalog = pipeline.catalog
    rolled = run(pipeline)
    assert any("is there, with gates" in problem for problem in rolled.problems)
    assert pipeline.state().status is Status.CREATING


def test_point_in_time_recovery_is_tried_again_and_delays_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = Pipeline()

    def unavailable(_table: str) -> None:
        raise Throttled("Backups are being enabled")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.store, "recover_table", unavailable)
        rolled = run(pipeline)
        assert pipeline.state().status is Status.OPEN
        assert any("Backups are being enabled" in problem for problem in rolled.problems)
    assert run(pipeline).problems == []
    assert all(pipeline.store.table(table).recoverable for table in pipeline.store.tables())


def test_new_tables_are_made_for_the_peak_of_the_last_windows() -> None:
    pipeline = opened(replace(SMALL, warm_units_max=30_000))
    made = {table: pipeline.store.table(table).peak for table in pipeline.store.tables()}
    assert set(made.values()) == {0}
    busy = pipeline.state(hour(7))
    pipeline.catalog.advance(replace(busy, peak=8_000))
    pipeline.effects.pass_by(HOUR)
    run(pipeline)
    assert pipeline.store.table(f"tallyroll-{hour(11)}").peak == 8_000


def test_also_long_windows_follow_the_peak_of_the_last_that_was_sealed() -> None:
    """The table of March is made as January begins, when December is not sealed yet."""
    pipeline = Pipeline(replace(SMALL, window="month", warm_units_max=30_000))
    run(pipeline)
    pipeline.move(Status.OPEN, "20261101T000000Z", peak=8_000)
    pipeline.effects.pass_by(window_start("20270101T000000Z") - pipeline.effects.now())
    run(pipeline)
    assert pipeline.store.table("tallyroll-20270301T000000Z").peak == 8_000


def test_the_peak_is_that_of_windows_in_the_same_store_if_there_are_any() -> None:
    """A store charges what it writes in its own way."""
    pipeline = BothStores(replace(KEPT, ahead_windows=1, warm_units_max=40_000))
    pipeline.roller().run(TIME_LEFT)
    pipeline.move(Status.OPEN, peak=8_000)
    pipeline.change_store(KEYSPACES)
    for number, peak in ((10, 8_000), (11, 3_000)):
        pipeline.effects.pass_by(HOUR)
        pipeline.roller().run(TIME_LEFT)
        pipeline.roller().run(TIME_LEFT)
        table = pipeline.state(hour(number)).table
        assert (store_of(table), pipeline.rows.table(table).peak) == (KEYSPACES, peak)
        pipeline.catalog.advance(replace(pipeline.state(hour(number)), peak=3_000))


def test_provisioned_tables_are_cooled_when_they_are_sealed() -> None:
    units = {"write": 900, "read": 300, "cold_write": 1, "cold_read": 50}
    pipeline = opened(replace(SMALL, provisioned=units))
    table = f"tallyroll-{WINDOW}"
    assert not pipeline.store.table(table).cooled
    pipeline.move(Status.SEALED)
    run(pipeline)
    assert pipeline.store.table(table).cooled
