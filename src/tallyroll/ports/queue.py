"""The event queue: what it says of itself, and what is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallyroll import limits
from tallyroll.model.messages import Rejection


@dataclass(frozen=True, slots=True)
class Invocations:
    """How often the writer was invoked in a metric period that ended at `until` (ms): `total`
    times, throttled attempts included, of which `failed` ended in an error or were throttled.
    """

    until: int
    total: int
    failed: int

    @property
    def troubled(self) -> bool:
        """Whether so many failed that messages may have been received three times unseen."""
        return self.failed > limits.FAILED_SHARE_MAX * self.total


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a queue says of itself: counts, and its oldest message's age at some times ((at ms, age
    ms) pairs).

    The ages leave out messages received three times or more, lag, and are absent for an idle queue.
    `invocations` are those of the writer that it feeds, ascending; empty: nothing is known.
    """

    visible: int
    in_flight: int
    delayed: int
    ages: tuple[tuple[int, int], ...] = ()
    invocations: tuple[Invocations, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether no message was counted."""
        return self.total == 0

    @property
    def total(self) -> int:
        """All messages that were counted."""
        return self.visible + self.in_flight + self.delayed


class Queue(Protocol):
    """The queue as the writer and the roller see it."""

    def delay(self, receipts: Sequence[tuple[str, int]]) -> None:
        """Change when handed-back messages are visible again: (receipt, seconds). Best effort."""
        ...

    def reject(self, rejections: Sequence[Rejection]) -> list[bool]:
        """Send each with its reason to the dead-letter queue; say of each if it is surely there."""
        ...

    def acknowledge(self, receipts: Sequence[str]) -> None:
        """Delete messages that are done, before their batch ends. Best effort."""
        ...

    def counts(self) -> Backlog:
        """The queue's counts now, and nothing else."""
        ...

    def backlog(self, since: int, invocations_since: int | None = None) -> Backlog:
        """The queue's counts now, its ages since `since` (ms), and its writer's invocations since
        `invocations_since` (ms); None: not asked for.
        """
        ...


class Backlogged(Protocol):
    """A queue, as far as its backlog goes. It may raise StoreError."""

    def backlog(self, since: int) -> Backlog:
        """The queue's counts now, and its ages since `since` (ms)."""
        ...


@dataclass(frozen=True, slots=True)
class SendFailure:
    """A body that the queue did not certainly take: its place among those given, and why."""

    index: int
    body: str
    detail: str


class Sender(Protocol):
    """The producers' side of the event queue."""

    def send(self, bodies: Iterable[str]) -> list[SendFailure]:
        """Send the bodies in order; give those that the queue did not certainly take.

        A request without an answer is not tried again: its events may have been taken, and sending
        them again is safe only under ids of their own.
        """
        ...
