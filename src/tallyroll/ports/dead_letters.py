"""The operator's side of the dead-letter queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.messages import RedriveMark
from tallyroll.ports.queue import Backlog


@dataclass(frozen=True, slots=True)
class Resend:
    """A message to send again, verbatim, with its redrive."""

    body: str
    redrive: RedriveMark


class DeadLetters(Protocol):
    """The dead-letter queue, and the way back to the event queue."""

    def peek(self, most: int, seconds: int) -> list[ReceivedLetter]:
        """At most `most` letters, and at most 10, hidden from other receivers for `seconds`. The
        list may be empty although the queue is not.
        """

    def give_back(self, letters: Sequence[ReceivedLetter]) -> None:
        """Make these letters visible again now. Best effort: they reappear later by themselves."""

    def delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        """Delete letters; return for each whether it is certainly deleted."""

    def count(self) -> Backlog:
        """The approximate numbers of letters."""

    def body(self, letter: ReceivedLetter) -> str:
        """The letter's body, read from the bucket if it is there. Raises Missing."""

    def resend(self, resends: Sequence[Resend]) -> list[str]:
        """Send messages to the event queue; return for each why it may not be there, or ""."""
