"""A message of a batch, with what the writer's steps have found about it so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tallyroll.ingest.fates import FINAL, Fate, handed_back, rejected
from tallyroll.model.ids import Identity, IdentityItem
from tallyroll.model.messages import Message, Rejection
from tallyroll.model.records import Record
from tallyroll.model.retractions import Retraction
from tallyroll.model.specs import Spec
from tallyroll.model.windows import Span, WindowId
from tallyroll.reasons import Reason

if TYPE_CHECKING:
    from tallyroll.logs.entries import LogEntry


@dataclass(slots=True, eq=False)
class Placed:
    """A message with its window, and the identity and the content of its record. A message with an
    `entry` gets a record only if its log has no room: it is made when it is first asked for.
    """

    message: Message
    spec: Spec
    identity: Identity
    content: Record | Callable[[], Record]
    entry: LogEntry | None = None

    @property
    def record(self) -> Record:
        """The record."""
        if not isinstance(self.content, Record):
            self.content = self.content()
        return self.content

    @property
    def identities(self) -> list[Identity]:
        """The identities of all records of the event."""
        return [(self.spec.window, each.key, each.id) for each in self.record.group]

    @property
    def unique(self) -> list[Identity | str]:
        """What no other event has: these identities, and the names of those beyond the window."""
        return [*self.identities, *(each.name for each in self.record.identities)]


class BatchMessage(NamedTuple):
    """A message of a batch, and what the steps so far found. Each step returns new ones.

    `span` is the window of its time, `target` the window to which it was redriven, and
    `claimed_sent` when its claim says it was first sent (ms). `undated` events
    have an id of their own but no time. After placement a message has either its place or a fate.
    A `retraction` gets neither: what it finds decides.
    `sought` are the identities beyond the window by which it may be known, of a message without a
    place, or with two windows.
    """

    message: Message
    span: Span | None = None
    target: WindowId | None = None
    claimed_sent: int | None = None
    undated: bool = False
    sought: tuple[IdentityItem, ...] = ()
    retraction: Retraction | None = None
    placed: Placed | None = None
    fate: Fate | None = None

    @property
    def window(self) -> WindowId | None:
        """The window in which it is to count, if known; none for a retraction, which no window need
        wait for.
        """
        if self.retraction:
            return None
        return self.target or (self.span.id if self.span else None)

    @property
    def identities(self) -> tuple[IdentityItem, ...]:
        """The identities beyond the window that keep its id taken, if it counts or has counted."""
        return self.sought or (self.placed.record.identities if self.placed else ())

    @property
    def comes_again(self) -> bool:
        """Whether the queue must deliver it again."""
        return self.fate is None or self.fate.kind not in FINAL

    @property
    def rejection(self) -> Rejection | None:
        """What goes to the dead-letter queue, if it can never count."""
        if self.fate is None or self.fate.reason is None:
            return None
        window = self.span.id if self.span else None
        return Rejection(self.message, self.fate.reason, self.fate.detail, window)

    def decided(self, fate: Fate) -> BatchMessage:
        """The message with its fate; faster than `_replace`."""
        return BatchMessage(*self[:-1], fate)

    def at(self, placed: Placed) -> BatchMessage:
        """The message with its place; faster than `_replace`."""
        return BatchMessage(*self[:-2], placed)

    def handed_back(self, detail: str, *, waits: bool = False) -> BatchMessage:
        """The message, to come again; `waits`: once its window takes it."""
        return self.decided(handed_back(detail, waits=waits))

    def rejected(self, reason: Reason, detail: str) -> BatchMessage:
        """The message, to go to the dead-letter queue."""
        return self.decided(rejected(reason, detail))
