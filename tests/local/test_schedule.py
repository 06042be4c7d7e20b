"""The schedule: at once, then every period, never two at a time."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

from local.runtime.pool import FunctionError
from local.runtime.schedule import Schedule, scheduled_event

TAKES_S = 120


class Stub:
    """Notes when it is invoked; an invocation waits until it may go on."""

    def __init__(self, fails: bool = False) -> None:
        self.began: list[float] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.at_once = self.at_once_most = 0
        self._fails = fails

    def invoke(self, event: Any, *, kill_after_ms: float | None = None) -> Any:
        self.at_once += 1
        self.at_once_most = max(self.at_once, self.at_once_most)
        self.began.append(time.monotonic())
        assert self.go_on.wait(TAKES_S)
        self.at_once -= 1
        if self._fails:
            raise FunctionError("Boom", "as told")
        return len(self.began)


def await_runs(stub: Stub, runs: int) -> None:
    until = time.monotonic() + TAKES_S
    while len(stub.began) < runs:
        assert time.monotonic() < until, f"{len(stub.began)} runs"
        time.sleep(0.005)


def test_runs_at_once_and_then_every_period() -> None:
    stub, results = Stub(), list[Any]()
    schedule = Schedule("roller", stub, 0.1, on_result=results.append).start()
    await_runs(stub, 4)
    schedule.stop()
    ended, runs = time.monotonic(), schedule.runs
    assert results == list(range(1, runs + 1))
    # One is due at the beginning and after each period; a machine that lags leaves some out.
    due = 1 + (ended - stub.began[0]) / 0.1
    assert runs + schedule.skipped <= due + 1
    time.sleep(0.15)
    assert schedule.runs == len(results) == runs


def test_a_long_run_leaves_periods_out() -> None:
    stub = Stub()
    stub.go_on.clear()
    schedule = Schedule("roller", stub, 0.05).start()
    await_runs(stub, 1)
    time.sleep(0.25)
    assert len(stub.began) == 1
    stub.go_on.set()
    await_runs(stub, 2)
    schedule.stop()
    assert stub.at_once_most == 1
    assert schedule.skipped >= 4


def test_a_held_schedule_lets_a_run_finish_and_begins_none() -> None:
    stub = Stub()
    schedule = Schedule("roller", stub, 0.001)
    with schedule.held():
        schedule.start()
        time.sleep(0.05)
        assert not stub.began
    await_runs(stub, 3)
    with schedule.held():
        assert stub.at_once == 0
        runs = len(stub.began)
        time.sleep(0.05)
        assert len(stub.began) == runs
    await_runs(stub, runs + 1)
    schedule.stop()


def test_errors_are_told_and_not_fatal() -> None:
    told: list[str] = []
    stub = Stub(fails=True)
    schedule = Schedule("roller", stub, 0.05, on_error=told.append).start()
    await_runs(stub, 2)
    schedule.stop()
    assert schedule.errors == schedule.runs >= 2
    assert told[0] == "roller: Boom: as told"


def test_the_event() -> None:
    event = scheduled_event("roller", datetime(2026, 11, 20, 8, 0, 5, tzinfo=UTC))
    assert event["source"] == "aws.scheduler"
    assert event["detail-type"] == "Scheduled Event"
    assert event["time"] == "2026-11-20T08:00:05Z"
    assert event["resources"][0].endswith(":schedule/default/roller")
