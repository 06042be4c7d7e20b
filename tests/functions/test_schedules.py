from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.model.states import Status
from tests.functions.invocation import Invocations, load
from tests.harness.pipeline import SMALL, TIME_LEFT, Pipeline, hour


def test_the_roller_says_what_it_did(functions: Invocations) -> None:
    functions.pipeline = Pipeline()
    answer = functions.roll(load("roller-schedule.json"))
    assert answer == {
        "steps": {"make-table": 3, "check-table": 3, "open": 1, "recover": 3},
        "problems": [],
    }
    assert functions.metrics["service"] == "roller"
    values = functions.values()
    assert {name: value for name, value in values.items() if value} == {
        "Steps": 10,
        "Windows-open": 1,
        "Windows-creating": 2,
        "WindowTables": 3,
        "ShardsMost": 4,
    }
    told = {
        "Problems",
        "ProofFailures",
        "NextWindowMissing",
        "HotKeys",
        "StuckFor",
        "WritersSilentFor",
    }
    assert told | {f"Windows-{status}" for status in Status} < values.keys()
    units = functions.units()
    assert units.pop("StuckFor") == units.pop("WritersSilentFor") == "Seconds"
    assert set(units.values()) == {"Count"}


def test_a_roller_that_cannot_open_the_current_window_alarms(functions: Invocations) -> None:
    functions.pipeline = Pipeline()
    functions.pipeline.store._creating_ms = 60_000
    functions.roll(load("roller-schedule.json"))
    assert functions.values()["NextWindowMissing"] == 1


def sealed() -> Pipeline:
    pipeline = Pipeline(replace(SMALL, retention_ms=0))
    pipeline.roller().run(TIME_LEFT)
    pipeline.move(Status.CLOSING)
    pipeline.roller().run(TIME_LEFT)
    assert pipeline.state().status is Status.SEALED
    return pipeline


def test_cleanup_says_what_it_did(functions: Invocations) -> None:
    functions.pipeline = sealed()
    functions.pipeline.effects.pass_by(1)
    answer = functions.clean(load("cleanup-schedule.json"))
    steps = dict.fromkeys(["export", "copy", "prove", "drop"], 1)
    assert answer == {"steps": steps, "problems": []}
    assert functions.metrics["service"] == "cleanup"
    told = functions.values()
    assert {name: value for name, value in told.items() if value} == {"Steps": 4}
    assert told.keys() == {"Steps", "Problems", "ProofFailures", "StuckFor"}


def test_the_dropper_says_what_it_did(functions: Invocations) -> None:
    functions.pipeline = sealed()
    functions.pipeline.effects.pass_by(1)
    functions.clean(load("cleanup-schedule.json"))
    answer = functions.drop(load("dropper-schedule.json"))
    assert answer == {"steps": {"delete": 1, "finish": 1}, "problems": []}
    assert functions.metrics["service"] == "dropper"
    assert functions.values() == {"Steps": 2, "Problems": 0, "ProofFailures": 0}


def test_a_dropper_that_finds_another_archive_than_was_proven(functions: Invocations) -> None:
    pipeline = functions.pipeline = sealed()
    pipeline.effects.pass_by(1)
    functions.clean(load("cleanup-schedule.json"))
    for key in pipeline.bucket.list(pipeline.state().attempt.archive):
        pipeline.bucket.put(key, b"{}")
    (problem,) = functions.drop(load("dropper-schedule.json"))["problems"]
    assert "(dropping): " in problem
    assert functions.values()["ProofFailures"] == 1
    assert pipeline.state().status is Status.DROPPING


def test_a_mismatch_is_a_metric_and_a_problem(functions: Invocations) -> None:
    pipeline = functions.pipeline = sealed()
    pipeline.effects.pass_by(1)
    pipeline.store.items(pipeline.state().table).popitem()
    answer = functions.clean(load("cleanup-schedule.json"))
    (problem,) = answer["problems"]
    assert "(exporting): gates: 3 shut" in problem
    assert functions.values()["ProofFailures"] == 1
    assert pipeline.state().status is Status.EXPORTING


@pytest.mark.parametrize("number", [1, 2])
def test_schedules_may_fire_twice(functions: Invocations, number: int) -> None:
    for _ in range(number):
        functions.roll(load("roller-schedule.json"))
    assert functions.pipeline.state(hour(8)).status is Status.OPEN
