"""The schedule: at once, then every period, never two at a time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from local.runtime.pool import FunctionError
from local.runtime.schedule import Schedule, scheduled_event


class Stub:
    def __init__(self, takes_s: float = 0.0, fails: bool = False) -> None:
        self.events: list[Any] = []
        self._takes_s = takes_s
        self._fails = fails
        self.at_once = self.at_once_most = 0

    def invoke(self, event: Any, *, kill_after_ms: float | None = None) -> Any:
        self.at_once += 1
        self.at_once_most = max(self.at_once, self.at_once_most)
        self.events.append(event)
        time.sleep(self._takes_s)
        self.at_once -= 1
        if self._fails:
            raise FunctionError("Boom", "as told")
        return len(self.events)


def test_runs_at_once_and_then_every_period() -> None:
    stub, results = Stub(), list[Any]()
    schedule = Schedule("roller", stub, 0.1, on_result=results.append).start()
    time.sleep(0.35)
    schedule.stop()
    assert 3 <= schedule.runs <= 4
    assert results == list(range(1, schedule.runs + 1))
    time.sleep(0.15)
    assert len(results) == schedule.runs


def test_a_long_run_leaves_periods_out() -> None:
    stub = Stub(takes_s=0.25)
    schedule = Schedule("roller", stub, 0.1).start()
    time.sleep(0.55)
    schedule.stop()
    assert stub.at_once_most == 1
    assert 2 <= schedule.runs <= 3
    assert schedule.skipped >= 4


def test_errors_are_told_and_not_fatal() -> None:
    told: list[str] = []
    schedule = Schedule("roller", Stub(fails=True), 0.05, on_error=told.append).start()
    time.sleep(0.2)
    schedule.stop()
    assert schedule.errors == schedule.runs >= 2
    assert told[0] == "roller: Boom: as told"


def test_the_event() -> None:
    event = scheduled_event("roller", datetime(2026, 11, 20, 8, 0, 5, tzinfo=UTC))
    assert event["source"] == "aws.scheduler"
    assert event["detail-type"] == "Scheduled Event"
    assert event["time"] == "2026-11-20T08:00:05Z"
    assert event["resources"][0].endswith(":schedule/default/roller")
