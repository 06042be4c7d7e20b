"""Processes that all write the votes of the same ids, each for one candidate and one window."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Pipe
from threading import Barrier

from tallyroll.adapters.memory import MemoryQueue
from tallyroll.adapters.system import SystemEffects
from tallyroll.ingest.writer import Writer
from tallyroll.model.messages import Message
from tallyroll.pipeline import Pipeline
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

VOTERS = 4
CANDIDATES = ("ann", "bob")
ROUNDS, BATCH = 6, 100
BATCHES = VOTERS + 1  # of a round: each voter is the first with one, and all come at once with one
IDS = ROUNDS * BATCHES * BATCH
STEPS = VOTERS + 2  # of a round
AT_ONCE = VOTERS  # the number of the step in which all write the same votes
STEP_S_MAX = 600.0
TIME_LEFT_MS = 600_000


@dataclass(frozen=True)
class Election:
    """What all voters know: `times` (ms) are one in each window, the closing one's last."""

    settings: Settings
    endpoint: str
    now: int
    times: tuple[int, int]

    def message(self, voter: int, number: int, receives: int = 1) -> Message:
        """A voter's vote under the id of that number: for its candidate, in its window."""
        vote = {
            "id": f"ballot-{number}",
            "key": CANDIDATES[voter % 2],
            "ts": self.times[voter // 2],
        }
        name = f"{voter}-{number}"
        return Message(name, json.dumps(vote), self.now, receives, f"receipt {name}")

    def steps(self, voter: int) -> Iterator[list[Message]]:
        """What a voter writes in each step. Nobody begins with a step before all are there."""
        for first in range(0, IDS, BATCHES * BATCH):
            batches = [range(at, at + BATCH) for at in range(first, first + BATCHES * BATCH, BATCH)]
            for step in range(VOTERS):
                yield [self.message(voter, number) for number in batches[(voter + step) % VOTERS]]
            yield [self.message(voter, number) for number in batches[-1]]
            other = (voter + 1) % VOTERS  # whose messages the queue delivers again, to this one
            yield [self.message(other, number, 2) for number in (*batches[0], *batches[-1])]


@dataclass
class Told:
    """What a voter's writer reported."""

    counted: int = 0
    unknown: int = 0
    waiting: int = 0
    letters: list[tuple[str, Reason | None]] = field(default_factory=list)


def voter(election: Election, number: int, barrier: Barrier, pipe: Pipe) -> None:
    """Write all steps, then what was handed back, and send what was told."""
    try:
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = election.endpoint
        made, queue, told = Pipeline(election.settings), MemoryQueue(SystemEffects()), Told()
        writer = Writer(election.settings, made.store, made.catalog, queue, made.effects)

        def write(messages: Sequence[Message]) -> list[Message]:
            report = writer.write(messages, TIME_LEFT_MS)
            told.counted += report.events
            told.unknown += report.unknown
            failed = {*report.failures}
            return [replace(each, receives=3) for each in messages if each.id in failed]

        back: list[Message] = []
        for messages in election.steps(number):
            barrier.wait(STEP_S_MAX)
            back += write(messages)
        told.waiting = len(back)
        barrier.wait(STEP_S_MAX)  # all have written
        barrier.wait(STEP_S_MAX)  # the window is sealed
        while back:
            back = write(back)
        told.letters = [(letter.message.id, letter.reason) for letter in queue.dead_letters]
        pipe.send(told)
    except BaseException:
        barrier.abort()  # nobody waits for this one
        raise
