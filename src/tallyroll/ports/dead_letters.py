"""The dead-letter queue as an operator uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.model.messages import Redrive
from tallyroll.ports.queue import Backlog


@dataclass(frozen=True, slots=True)
class Resend:
    """A message to be sent again, verbatim, to where it was redriven."""

    body: str
    redrive: Redrive


class DeadLetters(Protocol):
    """The dead-letter queue as the operator sees it. Its methods may raise StoreError."""

    def peek(self, most: int, seconds: int) -> list[ReceivedLetter]:
        """Some letters, at most `most` and 10, nobody else sees for so long; maybe none of many."""
        ...

    def give_back(self, letters: Sequence[ReceivedLetter]) -> None:
        """Let others see these letters again at once. Best effort: they reappear by themselves."""
        ...

    def delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        """Delete letters; say of each if it is surely gone."""
        ...

    def count(self) -> Backlog:
        """How many there are, roughly."""
        ...

    def body(self, letter: ReceivedLetter) -> str:
        """The letter's body, from the bucket if it is there. Raises Missing."""
        ...

    def resend(self, resends: Sequence[Resend]) -> list[str]:
        """Send messages to the event queue; say of each what kept it from being surely there, or
        nothing.
        """
        ...
