"""The doctor's check of logs: by what a key's busiest sixtieth has stored."""

from __future__ import annotations

import re
from dataclasses import replace
from uuid import UUID

import pytest

from tallyroll import limits
from tallyroll.lifecycle.sealing import Sealing, seal
from tallyroll.model.states import Status
from tallyroll.operations.doctor import log_checks
from tallyroll.operations.doctor.checkup import Level, Sign
from tests.harness.doctoring import case_of
from tests.harness.pipeline import NOW, SMALL, TIME_LEFT, WINDOW, Pipeline, opened

WHERE = f"key 'k': in its busiest sixtieth of {WINDOW}"


def logged(
    named: int, *, events: int, lasted_ms: int = 60_000, batch: int = 1_000, after_ms: int = 0
) -> Pipeline:
    """A pipeline with so many plain events of a key, all sent within the last minute."""
    pipeline = opened(replace(SMALL, logs={"k": named}))
    body = pipeline.message({"key": "k"})
    messages = [
        replace(
            body,
            id=str(UUID(int=number, version=4)),
            sent=NOW - 60_000 + after_ms + number * lasted_ms // events,
        )
        for number in range(events)
    ]
    for first in range(0, events, batch):
        report = pipeline.writer().write(messages[first : first + batch], TIME_LEFT)
        assert report.events == len(messages[first : first + batch])
    return pipeline


def judged(pipeline: Pipeline) -> list[Sign]:
    """What is not fine."""
    *signs, last = log_checks.logs(case_of(pipeline))
    assert last.level is Level.OK
    return signs


def test_without_logs_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened()
    monkeypatch.setattr(pipeline.store, "tallies", None)
    monkeypatch.setattr(pipeline.store, "records", None)
    (sign,) = log_checks.logs(case_of(pipeline))
    assert (sign.level, sign.text) == (Level.OK, "no key is logged")


@pytest.mark.parametrize("sealed", [False, True])
def test_a_key_that_is_named_well_is_fine(*, sealed: bool) -> None:
    pipeline = logged(50, events=3_000)
    if sealed:
        pipeline.store.shut_gates(pipeline.spec())
        [*seal(pipeline.spec(), pipeline.store, pipeline.totals, pipeline.effects, Sealing())]
        pipeline.move(Status.SEALED, WINDOW)
    (sign,) = log_checks.logs(case_of(pipeline))
    assert sign.text == "logged keys: 1, of these with events lately: 1"


def test_a_key_that_nobody_writes_is_fine() -> None:
    (sign,) = log_checks.logs(case_of(opened(replace(SMALL, logs={"none": 1}))))
    assert sign.text == "logged keys: 1, of these with events lately: 0"


def test_too_high_a_name_is_told_with_a_better_one() -> None:
    (sign,) = judged(logged(20_000, events=6_000))
    assert sign.level is Level.WARNING
    assert sign.text.startswith(f"{WHERE}, 100.0 logged events a second came, 5.0 in a leaf: ")
    assert sign.text.endswith(" 20,000 is too high a name for it")
    assert "tallyroll:logs='{\"k\": 100}'" in sign.remedy


def test_too_low_a_name_is_told() -> None:
    (sign,) = judged(logged(2, events=3_000))
    assert sign.text.endswith("in a leaf: 2 is too low a name for it")
    assert "came, 1,000.0 in a leaf" in sign.text


@pytest.mark.parametrize(("named", "events", "batch"), [(1, 60, 2), (1_000, 120, 1_000)])
def test_a_log_that_saves_little_is_told(named: int, events: int, batch: int) -> None:
    (sign,) = judged(logged(named, events=events, batch=batch))
    assert re.search(r"in a leaf: its log costs some \d\.\d times what records would$", sign.text)
    assert "To stop logging it, name a key that nobody writes" in sign.remedy


def test_full_slots_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (limits, log_checks):
        monkeypatch.setattr(module, "LOG_POSITIONS", 4)
    (sign,) = judged(logged(10, events=3_000, batch=50))
    assert "slots were full, and left later events to records" in sign.text


def test_a_key_whose_events_have_ids_is_told() -> None:
    pipeline = opened(replace(SMALL, logs={"k": 100}))
    pipeline.write(*({"key": "k", "id": f"e{n}", "ts": NOW - 1} for n in range(20)))
    (sign,) = judged(pipeline)
    assert sign.text == f"{WHERE}, no event was found in its log, and 20 were counted"
    assert sign.window == WINDOW


def test_a_burst_between_the_groups_that_are_read_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = logged(5_000, events=2_000, lasted_ms=500, after_ms=13_000)
    assert not judged(pipeline)
    monkeypatch.setattr(log_checks, "first_leaves", lambda *_: ())
    (sign,) = judged(pipeline)
    assert "no event was found in its log, and 2,000 were counted" in sign.text


def test_a_window_of_an_older_name_is_not_judged_by_that_of_today() -> None:
    pipeline = logged(2, events=3_000)
    pipeline.settings = replace(pipeline.settings, logs={"k": 50})
    (sign,) = log_checks.logs(case_of(pipeline))
    assert sign.text == "logged keys: 1, of these with events lately: 0"
