"""Processes that count events while the stripes of their tallies are raised: each raises them for
itself at a step of its own, and knows fewer until then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Pipe
from threading import Barrier
from typing import Any

from tallyroll.adapters.memory import MemoryQueue
from tallyroll.adapters.system import SystemEffects
from tallyroll.ingest.writer import Writer
from tallyroll.model.messages import Message
from tallyroll.model.specs import Spec
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

PROCESSES = 4
KEYS = ("ann", "bob", "cyd")
EVENTS, BATCH = 24_000, 100
STEPS = EVENTS // PROCESSES // BATCH
RAISES_IN = 10  # the step in which the first process raises the stripes; the others later
CLOSES_IN = STEPS - 10
STEP_S_MAX = 600.0
TIME_LEFT_MS = 600_000


@dataclass(frozen=True)
class Rush:
    """What all processes know."""

    settings: Settings
    endpoint: str
    spec: Spec
    now: int

    def message(self, number: int, receives: int = 1) -> Message:
        body = {"id": f"e{number}", "key": key_of(number), "ts": self.now, "value": number % 7 - 2}
        return Message(f"m{number}", json.dumps(body), self.now, receives, f"receipt {number}")

    def steps(self, process: int) -> Iterator[list[Message]]:
        """What a process writes in each step, with some that the next one writes, too."""
        share = EVENTS // PROCESSES
        for first in range(process * share, (process + 1) * share, BATCH):
            again = (first + share) % EVENTS
            yield [
                *(self.message(number) for number in range(first, first + BATCH)),
                *(self.message(number) for number in range(again, again + BATCH // 10)),
            ]


def key_of(number: int) -> str:
    """The key of an event."""
    return KEYS[number % len(KEYS)]


@dataclass
class Told:
    """What a process' writer reported."""

    counted: int = 0
    unknown: int = 0
    waiting: int = 0
    letters: set[str] = field(default_factory=set)


def rush(given: Rush, process: int, barrier: Barrier, answered: Any, pipe: Pipe) -> None:
    """Write all steps, then what was handed back. `answered` is a number that all raise."""
    try:
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = given.endpoint
        made, queue, told = Pipeline(given.settings), MemoryQueue(SystemEffects()), Told()
        writer = Writer(given.settings, made.store, made.catalog, queue, made.effects)

        def write(messages: Sequence[Message]) -> list[Message]:
            report = writer.write(messages, TIME_LEFT_MS)
            told.counted += report.events
            told.unknown += report.unknown
            with answered.get_lock():
                answered.value += report.events
            failed = {*report.failures}
            return [replace(each, receives=3) for each in messages if each.id in failed]

        back: list[Message] = []
        for step, messages in enumerate(given.steps(process)):
            barrier.wait(STEP_S_MAX)
            if step >= RAISES_IN + 5 * process and step % 5 == 0:
                for key in KEYS:
                    made.store.widen(given.spec, key)
            back += write(messages)
        told.waiting = len(back)
        barrier.wait(STEP_S_MAX)  # all have written
        barrier.wait(STEP_S_MAX)  # the window is sealed
        while back:
            back = write(back)
        told.letters = {letter.message.id for letter in queue.dead_letters}
        pipe.send(told)
    except BaseException:
        barrier.abort()  # nobody waits for this one
        raise
