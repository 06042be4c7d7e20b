"""The port of dead letters on a memory queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyroll.adapters.memory.queue import DeadLetter, MemoryQueue
from tallyroll.limits import QUEUE_BATCH_MAX
from tallyroll.model.dead_letters import ReceivedLetter
from tallyroll.ports.dead_letters import Resend
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Backlog


@dataclass(slots=True)
class _Handling:
    receives: int = 0
    visible_at: float = 0


class MemoryDeadLetters:
    """The dead letters of `queue`, by SQS's rules.

    A received letter is hidden for a while; only its last receipt deletes it or makes it visible.
    """

    def __init__(self, queue: MemoryQueue, effects: Effects) -> None:
        self._queue = queue
        self._effects = effects
        self._handled: dict[str, _Handling] = {}

    def peek(self, most: int, seconds: int) -> list[ReceivedLetter]:
        now = self._effects.now()
        found: list[ReceivedLetter] = []
        for letter in self._queue.dead_letters:
            if len(found) == min(most, QUEUE_BATCH_MAX):
                break
            handling = self._handled.get(letter.id)
            if not handling:
                handling = self._handled[letter.id] = _Handling()
            if handling.visible_at > now:
                continue
            handling.receives += 1
            handling.visible_at = now + seconds * 1000
            found.append(_received(letter, handling.receives))
        return found

    def give_back(self, letters: Sequence[ReceivedLetter]) -> None:
        for letter in letters:
            if self._is_last(letter):
                self._handled[letter.id].visible_at = 0

    def delete(self, letters: Sequence[ReceivedLetter]) -> list[bool]:
        gone = [self._is_last(letter) for letter in letters]
        ids = {letter.id for letter, last in zip(letters, gone, strict=True) if last}
        kept = [letter for letter in self._queue.dead_letters if letter.id not in ids]
        self._queue.dead_letters[:] = kept
        return gone

    def _is_last(self, letter: ReceivedLetter) -> bool:
        return letter.receipt == f"{letter.id}#{self._handled[letter.id].receives}"

    def count(self) -> Backlog:
        now = self._effects.now()
        handled = self._handled
        hidden = sum(
            letter.id in handled and handled[letter.id].visible_at > now
            for letter in self._queue.dead_letters
        )
        return Backlog(len(self._queue.dead_letters) - hidden, hidden, 0)

    def body(self, letter: ReceivedLetter) -> str:
        return letter.body

    def resend(self, resends: Sequence[Resend]) -> list[str]:
        for resend in resends:
            self._queue.send(resend.body, redrive=resend.redrive)
        return [""] * len(resends)


def _received(letter: DeadLetter, receives: int) -> ReceivedLetter:
    message = letter.message
    return ReceivedLetter(
        id=letter.id,
        receipt=f"{letter.id}#{receives}",
        receives=receives,
        arrived=letter.at,
        body=message.body,
        reason=letter.reason,
        detail=letter.detail,
        window=letter.window,
        first_id=message.first_id,
        first_sent=message.first_sent,
        target=message.redrive.target if message.redrive else None,
    )
