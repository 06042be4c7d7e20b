"""What the event queue delivers, and what becomes of a message that cannot be counted."""

from __future__ import annotations

from dataclasses import dataclass

from tallyroll.errors import Reason
from tallyroll.model.windows import WindowId


@dataclass(frozen=True, slots=True)
class Redrive:
    """What a message's attributes say of its redrive: the window in which it is to count, and the
    id and sent time (ms) that it had when it was new.
    """

    target: WindowId
    id: str
    sent: int


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery of a queue message; `sent` in ms is kept over redeliveries, `receives` counts
    them. An operator's redrive is a new message, with an id and a sent time of its own.
    """

    id: str
    body: str
    sent: int
    receives: int
    receipt: str
    redrive: Redrive | None = None

    @property
    def first_id(self) -> str:
        """The id that the message had when it was new."""
        return self.redrive.id if self.redrive else self.id

    @property
    def first_sent(self) -> int:
        """When it was sent for the first time, ms."""
        return self.redrive.sent if self.redrive else self.sent


@dataclass(frozen=True, slots=True)
class Rejection:
    """A message that can never count, and why; `window` if it was known."""

    message: Message
    reason: Reason
    detail: str
    window: WindowId | None = None
