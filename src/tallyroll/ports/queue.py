"""The event queue: its backlog, the writer's side and the producers' side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallyroll import limits
from tallyroll.model.messages import Rejection


@dataclass(frozen=True, slots=True)
class Invocations:
    """The writer's invocations in a metric period that ended at `until` (ms).

    `total` includes throttled attempts; `failed` are the errors and the throttled attempts.
    """

    until: int
    total: int
    failed: int

    @property
    def troubled(self) -> bool:
        """Whether so many failed that messages may have been received three times without notes."""
        return self.failed > limits.FAILED_SHARE_MAX * self.total


@dataclass(frozen=True, slots=True)
class Backlog:
    """A queue's counts, and the age of its oldest message over time, as (at ms, age ms) pairs.

    The ages lag, ignore messages received three times or more, and are absent for an idle queue.
    `invocations` are those of its writer, ascending; empty if they are unknown.
    """

    visible: int
    in_flight: int
    delayed: int
    ages: tuple[tuple[int, int], ...] = ()
    invocations: tuple[Invocations, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the queue has no messages by its counts."""
        return self.total == 0

    @property
    def total(self) -> int:
        """The number of all messages."""
        return self.visible + self.in_flight + self.delayed


class Queue(Protocol):
    """The writer's and the roller's side of the queue."""

    def delay(self, receipts: Sequence[tuple[str, int]]) -> None:
        """Hide handed-back messages for some time: (receipt, seconds) pairs. Best effort."""

    def reject(self, rejections: Sequence[Rejection]) -> list[bool]:
        """Send rejections to the dead-letter queue; return for each whether it surely arrived."""

    def acknowledge(self, receipts: Sequence[str]) -> None:
        """Delete finished messages before their batch ends. Best effort."""

    def counts(self) -> Backlog:
        """The queue's counts now, without metrics."""

    def backlog(self, since: int, invocations_since: int | None = None) -> Backlog:
        """The counts now, the ages and, if asked for, the invocations since these times (ms)."""


class Backlogged(Protocol):
    """A queue whose backlog can be read."""

    def backlog(self, since: int) -> Backlog:
        """The queue's counts now, and its ages since `since` (ms)."""


@dataclass(frozen=True, slots=True)
class SendFailure:
    """A body that may not be in the queue: its index among the bodies that were sent, and why."""

    index: int
    body: str
    detail: str


class Sender(Protocol):
    """The producers' side of the event queue."""

    def send(self, bodies: Iterable[str]) -> list[SendFailure]:
        """Send the bodies in order; return those that may not be in the queue. A request without an
        answer is not repeated, since a resend is safe only for events with ids of their own.
        """


@dataclass(frozen=True, slots=True)
class Post:
    """A message to send: its body, and its message group if it has one."""

    body: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class PostError:
    """Why the queue did not surely take a message of a request that it answered.

    `final`: it will never take this message. `unknown`: it may have taken it.
    """

    detail: str
    final: bool = False
    unknown: bool = False


class Poster(Protocol):
    """One request to the event queue, for producers that repeat messages under the same ids."""

    def post(self, posts: Sequence[Post]) -> list[PostError | None]:
        """Send at most ten messages and 1 MiB; return for each why it may not be in the queue.

        Raises StoreError if the whole request failed: after Unknown, any of them may be there.
        """
