"""What was sent is found as it is counted, however much of it still waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallyroll.adapters.memory import MemoryDeadLetters
from tallyroll.client.bulk import BulkMessage
from tallyroll.errors import Missing
from tallyroll.model.events import Event, event_body
from tallyroll.operations import arrivals as arrivals_module
from tallyroll.operations.arrivals import Arrivals
from tests.harness.pipeline import HOUR, NOW, SMALL, TIME_LEFT, Pipeline, hour, opened

MESSAGES = 2_000
AT_ONCE = arrivals_module.LOOKUPS_AT_ONCE * 5


def sent(pipeline: Pipeline) -> Arrivals:
    """The arrivals of messages that were sent in a row."""
    letters = MemoryDeadLetters(pipeline.queue, pipeline.effects)
    found = Arrivals(pipeline.store, pipeline.catalog, pipeline.queue, letters, pipeline.effects)
    bodies = [event_body(Event("k", f"e{n}", NOW, 10**6, None)) for n in range(MESSAGES)]
    for body in bodies:
        pipeline.queue.send(body)
    found.expect((BulkMessage(body, 1, "a line"), NOW) for body in bodies)
    return found


def write(pipeline: Pipeline, batches: int) -> int:
    """Let a writer count this many batches, oldest first; how many messages that were."""
    written = 0
    for _ in range(batches):
        messages = pipeline.queue.receive()
        assert not pipeline.writer().write(messages, TIME_LEFT).failures
        for message in messages:
            pipeline.queue.delete(message.receipt)
        written += len(messages)
    return written


@pytest.mark.parametrize("batches", [1, 3, 12])
def test_what_is_counted_is_found_soon(monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    """All but a tenth of what waits, from a writer that is slower or faster than the lookups."""
    monkeypatch.setattr(arrivals_module, "BATCH_GET_KEYS_MAX", 5)
    pipeline = opened()
    arrivals, written = sent(pipeline), 0
    while written < MESSAGES:
        written += write(pipeline, batches)
        arrivals.sweep()
        assert written - arrivals.counted <= arrivals.messages // 10 + 2 * AT_ONCE
    for _ in range(-(-arrivals.messages // AT_ONCE)):
        arrivals.sweep()
    assert (arrivals.counted, arrivals.messages) == (MESSAGES, 0)


def test_each_message_is_looked_up_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is counted is found, wherever it stands among many that are not."""
    monkeypatch.setattr(arrivals_module, "BATCH_GET_KEYS_MAX", 5)
    for alone in (0, 1, 49, 1_023, MESSAGES - 1):
        pipeline = opened()
        arrivals = sent(pipeline)
        (message,) = pipeline.queue.receive(alone + 1)[alone:]
        assert not pipeline.writer().write([message], TIME_LEFT).failures
        found = sum(arrivals.sweep() for _ in range(MESSAGES // AT_ONCE))
        assert found == arrivals.counted == 1


@pytest.mark.parametrize("scope", ["key", "pipeline", "window"])
def test_an_event_that_counts_in_another_window(scope: str) -> None:
    """The same event sent again with another time is a conflict, and without one a duplicate."""
    pipeline = opened(replace(SMALL, identity=scope))
    letters = MemoryDeadLetters(pipeline.queue, pipeline.effects)
    pipeline.effects.pass_by(-HOUR)
    pipeline.write({"id": "same", "key": "k"}, {"id": "other", "key": "k", "ts": NOW - HOUR})
    pipeline.effects.pass_by(HOUR)
    arrivals = Arrivals(pipeline.store, pipeline.catalog, pipeline.queue, letters, pipeline.effects)
    bodies = [
        event_body(Event("k", "same", None, 10**6, None)),
        event_body(Event("k", "other", NOW, 10**6, None)),
        event_body(Event("k", "neither", NOW + 10 * HOUR, 10**6, None)),
    ]
    arrivals.expect((BulkMessage(body, 1, "a line"), NOW) for body in bodies)
    settled = arrivals.wait(10_000, lambda: None)
    assert not settled
    assert arrivals.messages == (3 if scope == "window" else 1)
    assert arrivals.counted == (scope != "window")
    assert dict(arrivals.rejected) == ({} if scope == "window" else {"id-conflict": 1})
    assert scope == "window" or arrivals.details["id-conflict"].endswith(f"in window {hour(7)}")


def test_ids_that_cannot_be_looked_up_stay_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = opened(replace(SMALL, identity="key"))
    letters = MemoryDeadLetters(pipeline.queue, pipeline.effects)
    arrivals = Arrivals(pipeline.store, pipeline.catalog, pipeline.queue, letters, pipeline.effects)
    pipeline.write({"id": "e", "key": "k", "ts": NOW - HOUR})
    body = event_body(Event("k", "e", NOW, 10**6, None))
    arrivals.expect([(BulkMessage(body, 1, "a line"), NOW)])

    def gone(names: object) -> None:
        raise Missing("there is no table of identities", "ResourceNotFoundException")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.store, "identities", gone)
        arrivals.look()
    assert arrivals.messages == 1
    arrivals.look()
    assert arrivals.messages == 0
