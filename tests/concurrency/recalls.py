"""Processes that count events, and then all take the same ones back, two of them each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from threading import Barrier
from typing import Any

from tallyroll.adapters.memory import MemoryQueue
from tallyroll.adapters.system import SystemEffects
from tallyroll.ingest.writer import BatchReport, Writer
from tallyroll.model.messages import Message
from tallyroll.model.retractions import Retraction
from tallyroll.pipeline import Pipeline
from tallyroll.settings import Settings

PROCESSES = 4
KEYS = ("ann", "bob", "cyd")
SINGLE, PACKED = 20_000, 1_000  # events alone, and in each process' packet
EVENTS = SINGLE + PROCESSES * PACKED
RECALLED = 2_000
RECALLED_ALONE, EVERY = 1_800, 11
RECALLED_OF_PACKET, OF_PACKET_EVERY = 50, 20
BATCH = 50
STEPS = 2 * RECALLED // PROCESSES // BATCH
STEP_S_MAX = 600.0
TIME_LEFT_MS = 600_000

Name = tuple[str, str, int | None]


@dataclass(frozen=True)
class Recall:
    """What all processes know."""

    settings: Settings
    endpoint: str
    now: int

    def message(self, name: str, body: str) -> Message:
        return Message(name, body, self.now, 1, f"receipt {name}")

    def event(self, number: int) -> Message:
        key, id_, _ = single(number)
        body = {"id": id_, "key": key, "ts": self.now, "value": worth(number)}
        return self.message(id_, json.dumps(body))

    def packet(self, number: int) -> Message:
        key, id_, _ = packed(number, 0)
        entries = [[0, worth(index)] for index in range(PACKED)]
        body = {"v": 1, "key": key, "id": id_, "t0": self.now, "events": entries}
        return self.message(id_, json.dumps(body))

    def retraction(self, number: int) -> Message:
        key, id_, index = recalled(number)
        more: dict[str, Any] = {} if index is None else {"index": index}
        asked = Retraction.of(key, id_, ts=self.now, by="ann", why=f"number {number}", **more)
        return self.message(f"retraction-{number}", asked.body)

    def events(self, process: int) -> Iterator[list[Message]]:
        """What a process counts."""
        share = SINGLE // PROCESSES
        for first in range(process * share, (process + 1) * share, 2 * BATCH):
            yield [self.event(number) for number in range(first, first + 2 * BATCH)]
        yield [self.packet(process)]

    def retractions(self, process: int) -> Iterator[list[Message]]:
        """What a process takes back in each step: the next one takes half of it back, too."""
        both = (process, (process + 1) % PROCESSES)
        mine = [number for number in range(RECALLED) if number % PROCESSES in both]
        for first in range(0, len(mine), BATCH):
            yield [self.retraction(number) for number in mine[first : first + BATCH]]


def worth(number: int) -> int:
    """An event's value."""
    return number % 7 - 2


def single(number: int) -> Name:
    """The name of an event."""
    return KEYS[number % len(KEYS)], f"e{number}", None


def packed(number: int, index: int) -> Name:
    """The name of an event of a packet."""
    return KEYS[number % len(KEYS)], f"p{number}", index


def recalled(number: int) -> Name:
    """The name of the event that this retraction is of."""
    if number < RECALLED_ALONE:
        return single(number * EVERY)
    packet, place = divmod(number - RECALLED_ALONE, RECALLED_OF_PACKET)
    return packed(packet, place * OF_PACKET_EVERY)


@dataclass
class Heard:
    """What a process' writer reported."""

    counted: int = 0
    retracted: int = 0
    duplicates: int = 0
    rejected: int = 0
    waiting: int = 0

    def add(self, report: BatchReport) -> None:
        self.counted += report.events
        self.retracted += report.retracted
        self.duplicates += report.duplicates
        self.rejected += report.rejected.total()


def take_part(recall: Recall, process: int, barrier: Barrier, pipe: Pipe) -> None:
    """Count, take back step by step, then what was handed back; send what was heard."""
    try:
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = recall.endpoint
        made, heard = Pipeline(recall.settings), Heard()
        queue = MemoryQueue(SystemEffects())
        ports = (made.store, made.catalog, queue, made.effects, made.totals)
        writer = Writer(recall.settings, *ports)

        def write(messages: Sequence[Message]) -> list[Message]:
            report = writer.write(messages, TIME_LEFT_MS)
            heard.add(report)
            failed = {*report.failures}
            return [replace(each, receives=3) for each in messages if each.id in failed]

        for messages in recall.events(process):
            while messages:
                messages = write(messages)  # noqa: PLW2901 - until all are counted
        back: list[Message] = []
        for messages in recall.retractions(process):
            barrier.wait(STEP_S_MAX)
            back += write(messages)
        heard.waiting = len(back)
        barrier.wait(STEP_S_MAX)  # all have written, and the window is sealed
        while back:
            back = write(back)
        pipe.send(heard)
    except BaseException:
        barrier.abort()  # nobody waits for this one
        raise
