"""A producer's world on a virtual clock: a queue that lies as AWS's does, a file that survives the
process, and a process that is killed at any call.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tallyroll.adapters.dynamodb.items import parse_item
from tallyroll.errors import Refused, Throttled, Unknown
from tallyroll.limits import QUEUE_BATCH_MAX, QUEUE_MESSAGE_BYTES_MAX
from tallyroll.model.messages import Message
from tallyroll.model.records import Record
from tallyroll.model.stored import events_of
from tallyroll.ports.queue import Post, PostError
from tallyroll.reasons import Reason
from tests.harness.pipeline import MINUTE, TIME_LEFT, Pipeline, opened

FAULTS = ("throttled", "lost-before", "lost-after", "partly", "unnamed", "refused")


class Killed(BaseException):
    """The process was killed: nothing of it runs any more."""


@dataclass(slots=True)
class Doom:
    """Kills a process at its call number `at`; none if it is None."""

    at: int | None = None
    calls: int = 0
    dead: bool = False

    def call(self) -> bool:
        """Count a call; return whether the process dies in it. Raises Killed if it is dead."""
        if self.dead:
            raise Killed
        self.calls += 1
        return self.calls == self.at

    def die(self) -> None:
        """End the process."""
        self.dead = True
        raise Killed


@dataclass(slots=True)
class Disk:
    """The bytes of a file that outlives processes."""

    data: bytes = b""


@dataclass(slots=True)
class DiskJournal:
    """A journal on a disk: a kill in the middle of a write leaves any part of it."""

    disk: Disk
    doom: Doom
    chance: Random
    full: float = 0.0

    def read(self) -> bytes:
        if self.doom.call():
            self.doom.die()
        return self.disk.data

    def append(self, data: bytes) -> None:
        if self.doom.call():
            self.disk.data += data[: self.chance.randint(0, len(data))]
            self.doom.die()
        if self.chance.random() < self.full:
            raise OSError(28, "No space left on device")
        self.disk.data += data

    def replace(self, data: bytes) -> None:
        killed = self.doom.call()
        if not killed or self.chance.random() < 0.5:
            self.disk.data = data
        if killed:
            self.doom.die()

    def keep(self, data: bytes) -> None:
        """Damage is counted by the producer: the walk finds it there."""

    def close(self) -> None:
        pass


@dataclass(slots=True)
class Weather:
    """How often a request meets each fault, and how long it takes at most (ms)."""

    faults: dict[str, float] = field(default_factory=dict)
    latency_ms: int = 50
    freeze: float = 0.0
    freeze_ms: int = 90 * MINUTE
    disk_full: float = 0.0
    final: float = 0.0  # of the entries of a partial failure


@dataclass(slots=True)
class LyingQueue:
    """The queue as a producer sees it: what it says is not always what happened."""

    pipeline: Pipeline
    doom: Doom
    chance: Random
    weather: Weather
    met: Counter[str]
    bodies: list[str] = field(default_factory=list)

    def post(self, posts: Sequence[Post]) -> list[PostError | None]:
        assert 1 <= len(posts) <= QUEUE_BATCH_MAX
        assert sum(len(post.body.encode()) for post in posts) <= QUEUE_MESSAGE_BYTES_MAX
        if self.doom.call():
            self.doom.die()
        try:
            answer = self._answer(posts)
        finally:
            self._pass_time()
        if self.doom.call():
            self.doom.die()
        return answer

    def _answer(self, posts: Sequence[Post]) -> list[PostError | None]:
        fault = self._fault()
        self.met[fault] += 1
        match fault:
            case "throttled":
                raise Throttled("SendMessageBatch: RequestThrottled: slow down")
            case "lost-before":
                raise Unknown("SendMessageBatch: ConnectTimeoutError")
            case "lost-after":
                self._take(posts)
                raise Unknown("SendMessageBatch: ReadTimeoutError")
            case "refused":
                raise Refused("SendMessageBatch: AccessDenied: no")
            case "partly" | "unnamed":
                return [self._entry(post, fault) for post in posts]
        self._take(posts)
        return [None] * len(posts)

    def _entry(self, post: Post, fault: str) -> PostError | None:
        if self.chance.random() < 0.5:
            self._take([post])
            return None
        if fault == "unnamed":
            if self.chance.random() < 0.5:
                self._take([post])
            return PostError("not named", unknown=True)
        final = self.chance.random() < self.weather.final
        self.met["final"] += final
        return PostError("InternalError: try again", final=final)

    def _fault(self) -> str:
        drawn = self.chance.random()
        for name, share in self.weather.faults.items():
            drawn -= share
            if drawn < 0:
                return name
        return "fine"

    def _take(self, posts: Sequence[Post]) -> None:
        for post in posts:
            for _ in range(1 + (self.chance.random() < 0.05)):  # at least once
                self.pipeline.queue.send(post.body)
            self.bodies.append(post.body)

    def _pass_time(self) -> None:
        self.pipeline.effects.pass_by(self.chance.randint(1, self.weather.latency_ms))
        if self.chance.random() < self.weather.freeze:
            self.met["frozen"] += 1
            self.pipeline.effects.pass_by(self.chance.randint(1, self.weather.freeze_ms))


@dataclass(slots=True)
class Counted:
    """How often each event's number is in the tables, and for which reasons it was rejected."""

    counted: Counter[int]
    rejected: dict[int, set[Reason | None]]


def numbers_of(body: str) -> list[int]:
    """The numbers of the events in a message."""
    fields = json.loads(body)
    payloads = (
        [entry[2] for entry in fields["events"]] if "events" in fields else [fields["payload"]]
    )
    return [payload["n"] for payload in payloads]


@dataclass(slots=True)
class World:
    """The pipeline behind the queue, which the project's own writer serves."""

    chance: Random
    pipeline: Pipeline = field(default_factory=opened)

    def write(self) -> None:
        """Have writers count what is in the queue; some of it is delivered more than once."""
        pipeline = self.pipeline
        pipeline.roller().run(TIME_LEFT)
        writer = pipeline.writer()
        while messages := pipeline.queue.receive(10):
            self.chance.shuffle(messages)
            again = [each for each in messages if self.chance.random() < 0.1]
            writer.write(messages, TIME_LEFT)
            report = writer.write([*messages, *map(_redelivered, again)][-10:], TIME_LEFT)
            for message in messages:
                if message.id not in report.failures:
                    pipeline.queue.delete(message.receipt)

    def count(self) -> Counted:
        """What the tables and the dead letters hold; a tally must be its records' sum."""
        counted: Counter[int] = Counter()
        store = self.pipeline.store
        for window in self.pipeline.catalog.windows(0, 2**63):
            spec = self.pipeline.catalog.specs([window.id]).get(window.id)
            if not spec or spec.table not in store.tables():
                continue
            records: Counter[str] = Counter()
            for item in store.items(spec.table).values():
                record = parse_item(item)
                if isinstance(record, Record):
                    records[record.key] += record.n
                    counted.update(json.loads(one.payload or "")["n"] for one in events_of(record))
            for key, tally in store.tallies(spec, list(records)).items():
                assert tally.n == records[key], f"{key}: {tally.n} counted, {records[key]} stored"
        rejected: dict[int, set[Reason | None]] = {}
        for letter in self.pipeline.queue.dead_letters:
            for number in numbers_of(letter.message.body):
                rejected.setdefault(number, set()).add(letter.reason)
        return Counted(counted, rejected)


def _redelivered(message: Message) -> Message:
    return Message(message.id, message.body, message.sent, message.receives + 1, message.receipt)
