"""The dropper deletes what cleanup has proven and tagged, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tallyroll.adapters.memory import MemoryStore
from tallyroll.archive.layout import proof_key
from tallyroll.errors import Missing
from tallyroll.lifecycle.runner import Rolled
from tallyroll.lifecycle.state_machine import Step
from tallyroll.model.states import Status
from tallyroll.resources import TAG_PROVEN
from tests.harness.pipeline import SMALL, TIME_LEFT, Pipeline


def dropping() -> Pipeline:
    """A pipeline whose window cleanup has proven, and its table tagged."""
    pipeline = Pipeline(replace(SMALL, retention_ms=0))
    pipeline.roller().run(TIME_LEFT)
    pipeline.move(Status.CLOSING)
    pipeline.roller().run(TIME_LEFT)
    pipeline.effects.pass_by(1)
    assert clean(pipeline).problems == []
    assert pipeline.state().status is Status.DROPPING
    return pipeline


def clean(pipeline: Pipeline) -> Rolled:
    return pipeline.cleanup().run(TIME_LEFT)


def drop(pipeline: Pipeline) -> Rolled:
    return pipeline.dropper().run(TIME_LEFT)


def is_there(pipeline: Pipeline) -> bool:
    return pipeline.state().table in pipeline.store.tables()


def made_again(pipeline: Pipeline, tags: Mapping[str, str]) -> None:
    """As by a roller that slept since the window was new."""
    table = pipeline.state().table
    pipeline.store.drop_table(table)
    pipeline.store.make_table(table, tags)


def test_cleanup_ends_with_the_tag_and_the_dropper_takes_the_rest() -> None:
    pipeline = dropping()
    assert clean(pipeline).steps.total() == 0
    assert is_there(pipeline)

    rolled = drop(pipeline)

    assert (dict(rolled.steps), rolled.problems) == ({Step.DELETE: 1, Step.FINISH: 1}, [])
    assert dict(rolled.states) == {Status.DROPPED: 1}
    window = pipeline.state()
    assert (window.status, window.times[Status.DROPPED]) == (Status.DROPPED, pipeline.effects.now())
    assert not is_there(pipeline)
    assert drop(pipeline) == Rolled()


def test_a_pipeline_without_windows() -> None:
    assert drop(Pipeline()) == Rolled()


@pytest.mark.parametrize("status", [one for one in Status if one is not Status.DROPPING])
def test_windows_in_other_states_are_left_alone(status: Status) -> None:
    """Even with a table that is tagged, and an archive that is proven."""
    pipeline = dropping()
    window = replace(pipeline.state(), status=status)
    pipeline.catalog.advance(window)

    assert drop(pipeline) == Rolled()
    assert is_there(pipeline)


@pytest.mark.parametrize("tags", [{}, {TAG_PROVEN: "another attempt"}], ids=["without", "another"])
def test_a_table_made_again_is_dropped_only_after_cleanup_tagged_it(tags: dict[str, str]) -> None:
    pipeline = dropping()
    made_again(pipeline, tags)
    assert drop(pipeline).steps.total() == 0
    assert is_there(pipeline)

    assert clean(pipeline).steps == {Step.TAG: 1}
    assert drop(pipeline).steps == {Step.DELETE: 1, Step.FINISH: 1}


def test_the_archive_is_checked_once_more() -> None:
    pipeline = dropping()
    key = proof_key(pipeline.state().attempt.archive)
    proof = pipeline.bucket.get(key)
    pipeline.bucket.put(key, proof.replace(b'"items"', b'"other"'))

    for _ in range(2):
        rolled = drop(pipeline)
        assert (rolled.steps.total(), rolled.mismatches) == (0, 1)
        assert is_there(pipeline)
        assert pipeline.state().attempt.problem in rolled.problems[0]

    pipeline.bucket.put(key, proof)
    assert drop(pipeline).steps == {Step.DELETE: 1, Step.FINISH: 1}
    assert pipeline.state().attempt.problem == ""


def test_a_store_without_tags_has_only_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = dropping()
    made_again(pipeline, {})
    monkeypatch.setattr(pipeline.store, "tags", lambda _: None)

    assert clean(pipeline).steps.total() == 0
    assert drop(pipeline).steps == {Step.DELETE: 1, Step.FINISH: 1}


def test_a_table_that_goes_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = dropping()

    def gone(store: MemoryStore, table: str) -> Mapping[str, str]:
        raise Missing(f"no table {table}")

    monkeypatch.setattr(MemoryStore, "tags", gone)
    rolled = drop(pipeline)

    assert (dict(rolled.steps), rolled.problems) == ({Step.FINISH: 1}, [])


@pytest.mark.parametrize("status", [Status.PROVEN, Status.DROPPING])
def test_windows_of_the_release_before_are_dropped(status: Status) -> None:
    """One function did all steps there: it wrote the same states and the same tag."""
    pipeline = dropping()
    if status is Status.PROVEN:
        pipeline.catalog.advance(replace(pipeline.state(), status=status))
        made_again(pipeline, {})
        assert clean(pipeline).steps == {Step.DROP: 1}

    assert drop(pipeline).steps == {Step.DELETE: 1, Step.FINISH: 1}


def test_without_time_nothing_is_begun() -> None:
    pipeline = dropping()
    rolled = pipeline.dropper().run(time_left_ms=5_000)
    assert rolled.steps.total() == 0
    assert dict(rolled.states) == {Status.DROPPING: 1}
