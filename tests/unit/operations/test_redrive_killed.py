"""An operator's process that ends at any moment, before or after each call of a port: whoever goes
on gets every event counted, once.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tallyroll.reasons import Reason
from tests.harness.pipeline import NOW, Pipeline, hour, opened
from tests.harness.redriving import LATE, Operator, counted, drain, records, reject, seal, send

PULSES_MAX = 1_000


def late_events() -> Pipeline:
    """An event with an id, one without, a packet, and an event that stands there twice."""
    pipeline = opened()
    send(pipeline, id="e1", ts=LATE)
    send(pipeline, ts=LATE)
    send(pipeline, v=1, id="p1", t0=LATE, events=[[0], [1]])
    send(pipeline, id="e2", ts=LATE)
    drain(pipeline)
    reject(pipeline, json.dumps({"key": "k", "id": "e2", "ts": LATE}), Reason.TOO_LATE)
    seal(pipeline, hour(6))
    return pipeline


def crashed_events() -> Pipeline:
    """Events that may have been counted before their writer died, of which one was."""
    pipeline = opened()
    pipeline.write({"key": "k", "id": "e1", "ts": NOW})
    reject(pipeline, json.dumps({"key": "k", "id": "e1", "ts": NOW}), Reason.CRASHES_WRITER)
    reject(pipeline, json.dumps({"key": "k", "id": "e2", "ts": NOW}), Reason.CRASHES_WRITER)
    reject(pipeline, json.dumps({"key": "k"}), Reason.REFUSED_BY_STORE)
    return pipeline


def moving_claims() -> Pipeline:
    """Redriven events whose target was sealed before they came."""
    pipeline = late_events()
    Operator(pipeline).redrive(to=hour(7))
    seal(pipeline, hour(7))
    drain(pipeline)
    assert set(pipeline.reasons()) == {"window-sealed"}
    return pipeline


@pytest.mark.parametrize(
    ("scene", "events"), [(late_events, 5), (crashed_events, 3), (moving_claims, 5)]
)
@pytest.mark.parametrize("drained", [False, True], ids=["at once", "after the writer"])
def test_killed_at_any_moment(scene: Callable[[], Pipeline], events: int, drained: bool) -> None:
    for pulse in range(PULSES_MAX):
        pipeline = scene()
        operator = Operator(pipeline)
        killed = operator.killed_at(pulse)
        if drained:
            drain(pipeline)
        again = Operator(pipeline)
        again.redrive()
        drain(pipeline)
        assert pipeline.queue.dead_letters == [], f"pulse {pulse}"
        assert counted(pipeline) == events, f"pulse {pulse}"
        assert len(set(records(pipeline))) == len({name for _, name in records(pipeline)})
        if not killed:
            assert pulse > 30, "there are many moments"
            return
    raise AssertionError("the redrive never ends")
