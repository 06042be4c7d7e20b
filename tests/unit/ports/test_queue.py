"""A backlog that outlives its windows: whatever was sent in time must still be counted."""

from __future__ import annotations

import json

import pytest

from tallyroll.ingest.writer import BatchReport, Writer
from tallyroll.model.states import Status
from tests.harness.pipeline import HOUR, MINUTE, START, TIME_LEFT, Pipeline, hour, opened


def deliver(pipeline: Pipeline, writer: Writer, most: int) -> BatchReport:
    """One poll: at most so many messages to the writer, what is done is deleted."""
    messages = pipeline.queue.receive(most)
    report = writer.write(messages, TIME_LEFT)
    for message in messages:
        if message.id not in report.failures:
            pipeline.queue.delete(message.receipt)
    return report


@pytest.mark.slow
def test_a_backlog_that_was_handed_back_while_the_roller_was_away() -> None:
    """The age metric leaves out what was received three times: all of this backlog."""
    pipeline = opened()
    writer, eleven = pipeline.writer(), START + 3 * HOUR
    pipeline.effects.pass_by(eleven - pipeline.effects.now())
    for n in range(600):
        pipeline.queue.send(json.dumps({"id": f"e{n}", "key": "k", "ts": eleven + n}))
        pipeline.effects.pass_by(1)
    for _ in range(60):  # no window of eleven o'clock yet: all is handed back, again and again
        deliver(pipeline, writer, 1_000)
        pipeline.effects.pass_by(MINUTE)
    pipeline.effects.pass_by(61 * MINUTE)  # it accepts no more
    roller = pipeline.roller()
    for minute in range(90):  # the roller is back, beside other traffic
        roller.run(TIME_LEFT * 5)
        pipeline.queue.send(json.dumps({"id": f"live{minute}", "key": "l"}))
        deliver(pipeline, writer, 12)
        pipeline.effects.pass_by(MINUTE)
    assert pipeline.queue.dead_letters == []
    assert pipeline.tally("k", hour(11))[0] == 600


def test_messages_whose_writers_were_killed_are_noted_by_the_one_that_lives() -> None:
    pipeline = opened()
    writer, seven = pipeline.writer(), START - HOUR
    pipeline.queue.send(json.dumps({"id": "e", "key": "k", "ts": seven}))
    for _ in range(3):  # three writers are killed: nobody notes anything
        assert pipeline.queue.receive()
        pipeline.effects.pass_by(6 * MINUTE)
    assert deliver(pipeline, writer, 10).events == 1
    assert hour(7) in pipeline.catalog.stragglers([hour(7)])


def test_a_window_closes_once_its_stragglers_have_ended() -> None:
    pipeline = opened()
    writer, six = pipeline.writer(), START - 2 * HOUR
    message = pipeline.message({"id": "e", "key": "k", "ts": six}, sent=six, receives=2)
    assert writer.write([message], TIME_LEFT).events == 1
    roller = pipeline.roller()
    for _ in range(11):
        roller.run(TIME_LEFT * 5)
        pipeline.effects.pass_by(MINUTE)
    assert pipeline.state(hour(6)).status is Status.OPEN
    for _ in range(4):
        roller.run(TIME_LEFT * 5)
        pipeline.effects.pass_by(MINUTE)
    assert pipeline.state(hour(6)).status is not Status.OPEN
