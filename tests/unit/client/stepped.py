"""A producer without threads, on a clock that moves only when it sleeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tallyroll.client.producer import PortProducer
from tallyroll.client.receipts import Delivery
from tallyroll.client.rules import Limits, ProducerRules
from tallyroll.client.spool import Spool
from tallyroll.ports.queue import Post, PostError
from tests.harness.pipeline import StillEffects

Answer = Callable[[Sequence[Post]], list[PostError | None]]


class Bytes:
    """A journal in memory. It takes no more than `room` bytes."""

    def __init__(self, data: bytes = b"", room: float = float("inf")) -> None:
        self.data = data
        self.kept = b""
        self.room = room

    def read(self) -> bytes:
        return self.data

    def append(self, data: bytes) -> None:
        if len(self.data) + len(data) > self.room:
            raise OSError(28, "No space left on device")
        self.data += data

    def replace(self, data: bytes) -> None:
        self.data = data

    def keep(self, data: bytes) -> None:
        self.kept += data

    def close(self) -> None:
        pass


@dataclass
class Poster:
    """Answers its first requests as told, and takes all others."""

    answers: list[Answer | Exception] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)

    def post(self, posts: Sequence[Post]) -> list[PostError | None]:
        self.bodies += [post.body for post in posts]
        answer = self.answers.pop(0) if self.answers else all_taken
        if isinstance(answer, Exception):
            raise answer
        return answer(posts)

    @property
    def messages(self) -> list[Any]:
        """The fields of each message that was posted."""
        return [json.loads(body) for body in self.bodies]


def all_taken(posts: Sequence[Post]) -> list[PostError | None]:
    return [None] * len(posts)


def refused(detail: str) -> Answer:
    """An answer by which the queue refuses each message for good."""
    return lambda posts: [PostError(detail, final=True)] * len(posts)


def busy(posts: Sequence[Post]) -> list[PostError | None]:
    """An answer by which the queue takes none of the messages now."""
    return [PostError("InternalError: try again")] * len(posts)


@dataclass
class Stepped:
    """What a producer without threads is made of, and what it told."""

    poster: Poster = field(default_factory=Poster)
    effects: StillEffects = field(default_factory=StillEffects)
    told: list[Delivery] = field(default_factory=list)

    def producer(self, *, journal: Bytes | None = None, **changes: Any) -> PortProducer:
        limits = {name: changes.pop(name) for name in ("blocks", "block_ms") if name in changes}
        buffer_bytes = changes.pop("buffer_bytes", 1_000_000)
        return PortProducer(
            self.poster,
            self.effects,
            ProducerRules(**{"linger_ms": 200, "give_up_ms": None, **changes}),
            Limits(buffer_bytes=buffer_bytes, workers=0, **limits),
            spool=None if journal is None else Spool(journal),
            on_delivery=self.told.append,
            monotonic=lambda: self.effects.now() / 1000,
        )
