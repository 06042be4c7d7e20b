"""Events and retractions of them, sent to a pipeline in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tallyroll.ingest.writer import BatchReport
from tallyroll.model.messages import Message
from tallyroll.model.retractions import Retraction, Tombstone
from tests.harness.pipeline import NOW, SMALL, TIME_LEFT, WINDOW, Pipeline

EVENT = {"key": "k", "id": "e1", "ts": NOW, "value": 2.5}
QUEUE = replace(SMALL, retraction="queue")


def retraction(**fields: Any) -> str:
    given = {"key": "k", "id": "e1", "by": "ann", "why": "a test"} | fields
    if not given.keys() & {"window", "ts"}:
        given["ts"] = NOW
    return Retraction.of(**given).body


def write(pipeline: Pipeline, *messages: Message) -> BatchReport:
    return pipeline.writer().write(messages, TIME_LEFT)


def again(pipeline: Pipeline, body: str, receives: int) -> BatchReport:
    return write(pipeline, pipeline.message(body, sent=NOW, receives=receives))


def retracted(pipeline: Pipeline, key: str = "k", window: str = WINDOW) -> tuple[int, int]:
    return pipeline.store.tallies(pipeline.spec(window), [key])[key].retracted


def stone(pipeline: Pipeline, *name: Any) -> Tombstone:
    place = name or ("k", "e1", None)
    return pipeline.store.tombstones(pipeline.spec(), [place])[place]
