"""Processes that write plain events of one logged key, and the troubles they have."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection as Pipe
from threading import Lock, get_ident
from typing import Any

from tallyroll.adapters.memory import MemoryQueue
from tallyroll.adapters.system import SystemEffects
from tallyroll.ingest.cost import LogCounts
from tallyroll.ingest.writer import Writer
from tallyroll.model.messages import Message
from tallyroll.model.specs import Spec
from tallyroll.pipeline import Pipeline
from tallyroll.ports.store import Outcome
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

TIME_LEFT_MS = 240_000


class Trouble(StrEnum):
    """What happens to a writer at one of its commits."""

    NONE = "none"
    DIES_BEFORE = "dies before the commit"
    DIES_AFTER = "dies before it hears what came of the commit"
    STOPS = "is stopped before the commit"


DEATHS = (Trouble.DIES_BEFORE, Trouble.DIES_AFTER)


@dataclass(frozen=True)
class Batch:
    """Messages to write; the trouble comes with the commit of this number."""

    messages: tuple[Message, ...]
    trouble: Trouble = Trouble.NONE
    at: int = 1


class State(StrEnum):
    """What a writer says of itself."""

    ASLEEP = "asleep"
    AWAKE = "awake"


@dataclass
class Told:
    """What a writer says of a batch: the ids that it acknowledged and handed back, its letters, and
    what it reported.
    """

    acknowledged: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    letters: list[tuple[str, Reason | None]] = field(default_factory=list)
    counted: int = 0
    logs: LogCounts = field(default_factory=LogCounts)


class Troubled:
    """Commits of a writer that has troubles, and says when it is stopped."""

    def __init__(self, made: Pipeline, pipe: Pipe) -> None:
        self._commit = made.store.commit
        made.store.commit = self  # type: ignore[method-assign, assignment]
        self._pipe = pipe
        self._lock = Lock()
        self._trouble, self._left = Trouble.NONE, 0

    def expect(self, batch: Batch) -> None:
        """Have the trouble of a batch."""
        self._trouble, self._left = batch.trouble, batch.at

    def __call__(self, spec: Spec, *what: Any) -> Outcome:
        with self._lock:
            self._left -= 1
            trouble = Trouble.NONE if self._left else self._trouble
        if trouble is Trouble.STOPS:
            self._pipe.send(State.ASLEEP)
            _signal(signal.SIGSTOP)
            self._pipe.send(State.AWAKE)
        if trouble is Trouble.DIES_BEFORE:
            _signal(signal.SIGKILL)
        outcome: Outcome = self._commit(spec, *what)
        if trouble is Trouble.DIES_AFTER:
            _signal(signal.SIGKILL)
        return outcome


def _signal(number: signal.Signals) -> None:
    """Sent to this thread, since one to the process may strike another thread, and later."""
    signal.pthread_kill(get_ident(), number)


def writer(settings: Settings, endpoint: str, pipe: Pipe) -> None:
    """Write batches, and say what came of each, until the process is killed."""
    os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = endpoint
    made, queue = Pipeline(settings), MemoryQueue(SystemEffects())
    troubled = Troubled(made, pipe)
    mine = Writer(settings, made.store, made.catalog, queue, made.effects)
    while True:
        batch: Batch = pipe.recv()
        troubled.expect(batch)
        pipe.send(_written(mine, queue, batch.messages))


def _written(mine: Writer, queue: MemoryQueue, messages: Sequence[Message]) -> Told:
    queue.dead_letters.clear()
    report = mine.write(messages, TIME_LEFT_MS)
    letters = [(letter.message.id, letter.reason) for letter in queue.dead_letters]
    open_ = {*report.failures, *(name for name, _ in letters)}
    done = [each.id for each in messages if each.id not in open_]
    return Told(done, report.failures, letters, report.events, report.logs)
