"""Reads of windows that are sealed, dropped, or gone."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.errors import Archived, Missing
from tallyroll.model.specs import Spec
from tallyroll.model.states import Attempt, Status
from tests.harness.pipeline import WINDOW, Pipeline
from tests.unit.reads.test_lookups import ALL, best, find, ids, listed, look, written


def reads(pipeline: Pipeline) -> list[Any]:
    """The three reads, as calls."""
    return [lambda: find_e1(pipeline), lambda: listed(pipeline), lambda: best(pipeline)]


def find_e1(pipeline: Pipeline) -> Any:
    return find(pipeline, "e1")


def drop(pipeline: Pipeline, status: Status = Status.DROPPED) -> None:
    pipeline.store.drop_table(pipeline.state().table)
    pipeline.move(status, attempt=Attempt(archive="archive/w/1"))


def test_a_sealed_window_is_read_while_its_table_lives() -> None:
    pipeline = written()
    for status in (Status.CLOSING, Status.SEALED, Status.EXPORTING, Status.PROVEN):
        pipeline.move(status)
        assert find(pipeline, "e1").status is status
        assert (ids(listed(pipeline)), listed(pipeline).status) == (ALL, status)
        assert (best(pipeline).events, best(pipeline).status) == (14, status)


@pytest.mark.parametrize("status", [Status.DROPPING, Status.DROPPED])
def test_what_was_dropped_is_in_the_archive(status: Status) -> None:
    pipeline = written()
    drop(pipeline, status)
    for read in reads(pipeline):
        with pytest.raises(
            Archived, match=r"dropped: .* in the archive, under archive/w/1/"
        ) as told:
            read()
        assert told.value.prefix == "archive/w/1"


def test_a_table_that_a_late_roller_made_again_is_not_taken_for_the_window() -> None:
    pipeline = written()
    drop(pipeline)
    pipeline.store.make_table(pipeline.state().table)
    for read in reads(pipeline):
        with pytest.raises(Archived):
            read()


def test_a_window_that_is_dropped_during_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is read last: what was not there then is in the archive, not nowhere."""
    pipeline = written()
    specs = pipeline.catalog.specs

    def meanwhile(windows: list[str]) -> dict[str, Spec]:
        found = specs(windows)
        if pipeline.state().status is Status.OPEN:
            drop(pipeline)
            pipeline.store.make_table(pipeline.state().table)
        return found

    monkeypatch.setattr(pipeline.catalog, "specs", meanwhile)
    for read in reads(pipeline):
        with pytest.raises(Archived):
            read()


@pytest.mark.parametrize("verb", ["record", "records", "stripes"])
def test_a_window_that_is_dropped_right_before_its_table_is_read(
    monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """A state that was read before the table would say that an empty one is the window's."""
    pipeline = written()
    read = {"record": find_e1, "records": listed, "stripes": best}[verb]
    look_in = getattr(pipeline.store, verb)

    def late(*asked: Any) -> Any:
        if pipeline.state().status is Status.OPEN:
            drop(pipeline)
            pipeline.store.make_table(pipeline.state().table)
        return look_in(*asked)

    monkeypatch.setattr(pipeline.store, verb, late)
    with pytest.raises(Archived):
        read(pipeline)
    assert pipeline.state().status is Status.DROPPED


def test_a_table_that_is_gone_too_early_is_missing_not_empty() -> None:
    pipeline = written()
    pipeline.store.drop_table(pipeline.state().table)
    for read in reads(pipeline):
        with pytest.raises(Missing, match="no table"):
            read()


def test_a_window_that_opens_during_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = written()
    monkeypatch.setattr(pipeline.catalog, "specs", lambda windows: {})
    with pytest.raises(Missing, match="opened just now"):
        listed(pipeline)


def test_specs_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = written()
    asked: list[list[str]] = []
    specs = pipeline.catalog.specs

    def noted(windows: list[str]) -> dict[str, Spec]:
        asked.append(windows)
        return specs(windows)

    monkeypatch.setattr(pipeline.catalog, "specs", noted)
    lookups = look(pipeline)
    for _ in range(3):
        lookups.event("k", "e1", WINDOW, None)
    assert asked == [[WINDOW]]
