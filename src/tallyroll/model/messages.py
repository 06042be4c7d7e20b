"""Messages of the event queue, and their rejections."""

from __future__ import annotations

from dataclasses import dataclass

from tallyroll.model.windows import WindowId
from tallyroll.reasons import Reason


@dataclass(frozen=True, slots=True)
class RedriveMark:
    """A message's redrive by its attributes: the target window, and the id and sent time (ms) of
    the original message.
    """

    target: WindowId
    id: str
    sent: int


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery of a queue message.

    All deliveries have the same `sent` (ms); `receives` counts them. An operator's redrive is a new
    message, with its own id and sent time.
    """

    id: str
    body: str
    sent: int
    receives: int
    receipt: str
    redrive: RedriveMark | None = None

    @property
    def first_id(self) -> str:
        """The id of the original message."""
        return self.redrive.id if self.redrive else self.id

    @property
    def first_sent(self) -> int:
        """When the original message was sent, ms."""
        return self.redrive.sent if self.redrive else self.sent

    @property
    def mapped_at(self) -> int:
        """The time (ms) that chooses its mapping: when the original message was sent. A redrive's
        attributes, which anybody can set, cannot name a later time than that of their message.
        """
        return min(self.first_sent, self.sent)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A message that can never count, and why; `window` is the window of its time, if known."""

    message: Message
    reason: Reason
    detail: str
    window: WindowId | None = None
