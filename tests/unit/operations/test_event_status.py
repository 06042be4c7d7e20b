"""What a window may still count is never taken for absent, whatever happens between two looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tallyroll.errors import Missing
from tallyroll.model.dead_letters import letter_of
from tallyroll.model.events import Event
from tallyroll.model.records import Record, RecordName
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.windows import Span
from tallyroll.operations.event_status import EventStatus, Sought, Whereabouts
from tallyroll.operations.letter_events import LetterEvent
from tests.harness.pipeline import HOUR, NOW, START, WINDOW, Pipeline, opened
from tests.harness.redriving import seal

HOME = Span(START, START + HOUR)
LETTER = letter_of(
    id_="m", receipt="r", receives=1, arrived=NOW, body="", attributes={}, moved=True
)


def place_of(pipeline: Pipeline, record_id: str = "e1") -> EventStatus:
    where = Whereabouts(pipeline.store, pipeline.catalog, pipeline.effects)
    (place,) = where.places([sought(record_id)])
    assert isinstance(place, EventStatus)
    return place


def sought(record_id: str = "e1") -> Sought:
    event = Event("k", record_id, NOW, 0, None)
    (sight,) = LetterEvent(LETTER, "", event, HOME, ((WINDOW, "k", record_id),)).sights()
    return sight


def test_a_table_that_is_dropped_during_the_look_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is read then may be a table of the same name that was made again, and is empty."""
    pipeline = opened()
    seal(pipeline, WINDOW)
    look = pipeline.store.lookup

    def overtaken(spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        for status in (Status.EXPORTING, Status.PROVEN, Status.DROPPING):
            pipeline.move(status, WINDOW)
        return look(spec, names)

    monkeypatch.setattr(pipeline.store, "lookup", overtaken)
    assert place_of(pipeline) is EventStatus.UNVERIFIED


def test_a_table_that_is_missing_while_its_window_is_open_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    pipeline.store.drop_table(pipeline.spec().table)
    where = Whereabouts(pipeline.store, pipeline.catalog, pipeline.effects)
    (missing,) = where.places([sought()])
    assert isinstance(missing, Missing)
    assert "there is no table tallyroll-20261120T080000Z" in str(missing)
    monkeypatch.setattr(pipeline.catalog, "specs", lambda windows: {})
    where = Whereabouts(pipeline.store, pipeline.catalog, pipeline.effects)
    (missing,) = where.places([sought()])
    assert isinstance(missing, Missing)
    assert (str(missing), missing.code) == (f"window {WINDOW} has no spec", "NoSpec")


def test_a_copy_that_counts_just_after_the_look_before_the_window_is_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = opened()
    look = pipeline.store.lookup

    def overtaken(spec: Spec, names: Sequence[RecordName]) -> Mapping[RecordName, Record]:
        found = look(spec, names)
        monkeypatch.undo()
        for key, record_id in names:
            assert pipeline.write({"id": record_id, "key": key, "ts": NOW}).events == 1
        seal(pipeline, WINDOW)
        return found

    monkeypatch.setattr(pipeline.store, "lookup", overtaken)
    assert place_of(pipeline) is not EventStatus.ABSENT
    assert place_of(pipeline, "e2") is EventStatus.ABSENT
