from __future__ import annotations

from typing import Any

import pytest

from tallyroll.errors import Refused
from tallyroll.model.states import Status
from tallyroll.operations.overview.status import PipelineStatus, status_of
from tallyroll.ports.queue import Backlog
from tallyroll.ports.writer_notes import Reception
from tests.harness.doctoring import case_of
from tests.harness.pipeline import HOUR, MINUTE, NOW, Pipeline, hour, opened

AGES = ((NOW - 3 * MINUTE, 0), (NOW - 2 * MINUTE, 10 * MINUTE))


class Waiting:
    """A queue with this backlog; `denied` denies its metrics."""

    def __init__(self, backlog: Backlog, *, denied: bool = False) -> None:
        self._backlog = backlog
        self._denied = denied

    def backlog(self, since: int) -> Backlog:
        if self._denied and since < NOW:
            raise Refused("GetMetricStatistics: AccessDenied", "AccessDenied")
        return self._backlog


@pytest.fixture
def pipeline() -> Pipeline:
    return opened()


def status(pipeline: Pipeline, **changes: Any) -> PipelineStatus:
    return status_of(case_of(pipeline, **changes))


def test_an_empty_queue_is_counted_but_for_the_lag_of_its_counts(pipeline: Pipeline) -> None:
    found = status(pipeline)
    assert found.queue == Backlog(0, 0, 0)
    assert found.oldest is None
    assert found.counted_up_to == NOW - pipeline.settings.drain_margin_ms
    assert (found.window and found.window.id, found.takes_events, found.why_not) == (
        hour(8),
        True,
        "",
    )
    assert (found.dead_letters, found.rate, found.unknown) == (0, None, {})


def test_all_is_counted_up_to_the_oldest_that_waits(pipeline: Pipeline) -> None:
    found = status(pipeline, queue=Waiting(Backlog(5, 1, 0, AGES)))
    assert found.oldest == found.counted_up_to == NOW - 12 * MINUTE


def test_fresh_events_that_wait_do_not_move_the_bound_past_the_lag(pipeline: Pipeline) -> None:
    found = status(pipeline, queue=Waiting(Backlog(5, 0, 0, ((NOW - 1, 0),))))
    assert found.oldest == NOW - 1
    assert found.counted_up_to == NOW - pipeline.settings.drain_margin_ms


def test_what_was_handed_back_counts_as_waiting(pipeline: Pipeline) -> None:
    """The queue's age leaves out messages that were received three times."""
    queue = Waiting(Backlog(5, 1, 0, AGES))
    found = status(pipeline, queue=queue, handed_back=lambda since: ((NOW - MINUTE, HOUR),))
    assert found.counted_up_to == NOW - MINUTE - HOUR
    pipeline.catalog.note_received(Reception("n1", NOW - 1, NOW - 2 * HOUR, NOW))
    assert status(pipeline, queue=queue).counted_up_to == NOW - 2 * HOUR


def test_without_ages_nothing_is_claimed(pipeline: Pipeline) -> None:
    found = status(pipeline, queue=Waiting(Backlog(5, 0, 0)))
    assert (found.oldest, found.counted_up_to) == (None, None)
    denied = status(pipeline, queue=Waiting(Backlog(5, 0, 0), denied=True))
    assert denied.queue == Backlog(5, 0, 0)
    assert denied.counted_up_to is None
    assert "AccessDenied" in denied.unknown["the oldest message"]


class Denied:
    """What nobody may read."""

    def __getattr__(self, name: str) -> Any:
        def denied(*_: object) -> Any:
            raise Refused(f"{name}: AccessDenied", "AccessDenied")

        return denied


def test_each_part_may_be_denied_alone(pipeline: Pipeline) -> None:
    found = status(pipeline, queue=Denied())
    assert found.unknown.keys() == {"messages waiting", "the oldest message"}
    assert (found.queue, found.counted_up_to, found.dead_letters) == (None, None, 0)
    found = status(pipeline, dead_letters=Denied())
    assert found.unknown == {"dead letters": "backlog: AccessDenied"}
    assert (found.queue, found.dead_letters) == (Backlog(0, 0, 0), None)
    queue = Waiting(Backlog(5, 1, 0, AGES))
    found = status(pipeline, queue=queue, handed_back=Denied().handed_back)
    assert (found.oldest, found.counted_up_to) == (None, None)
    with pytest.raises(Refused):
        status(pipeline, catalog=Denied())
    found = status_of(case_of(pipeline, catalog=Denied(), queue=queue), needs_catalog=False)
    assert found.unknown.keys() == {"current window", "the oldest message"}
    assert (found.window, found.oldest, found.dead_letters) == (None, None, 0)


def test_without_queues(pipeline: Pipeline) -> None:
    found = status(pipeline, queue=None, dead_letters=None)
    assert (found.queue, found.counted_up_to, found.dead_letters) == (None, None, None)


def test_the_rate_is_that_of_full_periods(pipeline: Pipeline) -> None:
    at = NOW // MINUTE * MINUTE
    points = tuple((at - n * MINUTE, 300) for n in range(8))
    found = status(pipeline, counted=lambda since: points)
    assert (found.rate, found.rate_ms) == (5.0, 5 * MINUTE)
    assert status(pipeline, counted=lambda since: points[:2]).rate is None

    def denied(since: int) -> tuple[tuple[int, int], ...]:
        raise Refused("GetMetricStatistics: AccessDenied", "AccessDenied")

    found = status(pipeline, counted=denied)
    assert (found.rate, found.unknown) == (
        None,
        {"events a second": "GetMetricStatistics: AccessDenied"},
    )


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (Status.CREATING, "its events wait until it is open"),
        (Status.CLOSING, "its events are rejected"),
        (Status.SEALED, "its events are rejected"),
    ],
)
def test_a_current_window_that_takes_no_events(pipeline: Pipeline, state: Status, why: str) -> None:
    pipeline.move(state, hour(8))
    found = status(pipeline)
    assert not found.takes_events
    assert why in found.why_not


def test_a_current_window_that_is_not_there(pipeline: Pipeline) -> None:
    del pipeline.catalog._windows[hour(8)]
    assert "not made" in status(pipeline).why_not
    assert "no calendar" in status(Pipeline()).why_not
