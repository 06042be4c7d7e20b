"""A queue with dead letters in memory, by SQS's rules.

It has a visibility timeout by the injected clock, sent times that redeliveries keep, receive
counts, a move of messages received too often to the dead letters, and an age metric that leaves out
messages received three times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from tallyroll.limits import RECEIVES_FUSE, VISIBILITY_MS
from tallyroll.model.dead_letters import attributes_of, redrive_of
from tallyroll.model.messages import Message, RedriveMark, Rejection
from tallyroll.model.windows import WindowId
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Backlog, Invocations
from tallyroll.reasons import Reason

# SQS Developer Guide, ApproximateAgeOfOldestMessage: leaves out poison pills.
AGE_RECEIVES_LEFT_OUT = 3
AGES_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message in the dead-letter queue since `at` (ms), with an `id` of its own there.

    `reason` is None if the queue moved it because it was received too often.
    """

    message: Message
    reason: Reason | None = None
    detail: str = ""
    window: WindowId | None = None
    id: str = ""
    at: int = 0


@dataclass(slots=True)
class Held:
    """A message in the queue, visible from `visible_at` (ms) on."""

    id: str
    body: str
    sent: int
    visible_at: float
    redrive: RedriveMark | None = None
    receives: int = 0
    receipt: str = ""


class MemoryQueue:
    """A standard queue and its dead letters; `age_lag_ms` is the delay of the age metric."""

    def __init__(
        self,
        effects: Effects,
        *,
        visibility_ms: float = VISIBILITY_MS,
        max_receives: int = RECEIVES_FUSE,
        age_period_ms: int = 60_000,
        age_lag_ms: int = 0,
    ) -> None:
        self._effects = effects
        self._visibility_ms = visibility_ms
        self._max_receives = max_receives
        self._age_period_ms = age_period_ms
        self._age_lag_ms = age_lag_ms
        self._ages: list[tuple[int, int]] = []
        self._next_age_at: int | None = None
        self._invocations: dict[int, tuple[int, int]] = {}
        self._used = False
        self._held: dict[str, Held] = {}
        self.dead_letters: list[DeadLetter] = []
        self._rejected = 0

    def __len__(self) -> int:
        return len(self._held)

    def send(self, body: str, delay_ms: float = 0, redrive: RedriveMark | None = None) -> str:
        """Send a message, redriven or new; return its id.

        The redrive passes through attributes, as in SQS: a malformed one is dropped.
        """
        now = self._observed()
        redrive = redrive_of(attributes_of(redrive)) if redrive else None
        message_id = str(UUID(int=self._effects.chance.getrandbits(128), version=4))
        self._held[message_id] = Held(message_id, body, now, now + delay_ms, redrive)
        return message_id

    def receive(self, most: int = 10) -> list[Message]:
        """Receive up to `most` visible messages, oldest first; hides them for the timeout."""
        now = self._observed()
        received: list[Message] = []
        for held in [held for held in self._held.values() if held.visible_at <= now]:
            if len(received) == most:
                break
            if message := self.deliver(held):
                received.append(message)
        return received

    def deliver(self, held: Held) -> Message | None:
        """Deliver one message, visible or not; None if it moved to the dead letters instead."""
        if held.receives >= self._max_receives:
            del self._held[held.id]
            self.dead_letters.append(DeadLetter(_message(held), id=held.id, at=held.sent))
            return None
        held.receives += 1
        held.receipt = f"{held.id}#{held.receives}"
        held.visible_at = self._effects.now() + self._visibility_ms
        return _message(held)

    def held(self) -> list[Held]:
        """All messages that are not deleted, in the order in which they were sent."""
        return list(self._held.values())

    def delete(self, receipt: str) -> None:
        """Delete a message, unless it was received again since."""
        self._observed()
        held = self._held.get(receipt.partition("#")[0])
        if held and held.receipt == receipt:
            del self._held[held.id]

    def delay(self, receipts: Sequence[tuple[str, int]]) -> None:
        now = self._observed()
        for receipt, seconds in receipts:
            held = self._held.get(receipt.partition("#")[0])
            if held and held.receipt == receipt and held.visible_at > now:
                held.visible_at = now + seconds * 1000

    def reject(self, rejections: Sequence[Rejection]) -> list[bool]:
        now = self._observed()
        for one in rejections:
            self._rejected += 1
            number = f"dead-{self._rejected}"
            self.dead_letters.append(
                DeadLetter(one.message, one.reason, one.detail, one.window, number, now)
            )
        return [True] * len(rejections)

    def acknowledge(self, receipts: Sequence[str]) -> None:
        for receipt in receipts:
            self.delete(receipt)

    def invoked(self, *, failed: bool) -> None:
        """Record an invocation of the writer; `failed` also if it was throttled."""
        until = self._effects.now() // self._age_period_ms * self._age_period_ms
        until += self._age_period_ms
        total, failures = self._invocations.get(until, (0, 0))
        self._invocations[until] = total + 1, failures + failed

    def counts(self) -> Backlog:
        now = self._effects.now()
        visible = delayed = in_flight = 0
        for held in self._held.values():
            if held.visible_at <= now:
                visible += 1
            elif held.receives:
                in_flight += 1
            else:
                delayed += 1
        return Backlog(visible, in_flight, delayed)

    def backlog(self, since: int, invocations_since: int | None = None) -> Backlog:
        now = self._observed(use=False)
        latest = now - self._age_lag_ms - self._age_period_ms  # the start of the last full period
        return replace(
            self.counts(),
            ages=tuple((at, age) for at, age in self._ages if since <= at <= latest),
            invocations=tuple(
                Invocations(until, *numbers)
                for until, numbers in self._invocations.items()
                if invocations_since is not None
                and invocations_since < until <= latest + self._age_period_ms
            ),
        )

    def _observed(self, *, use: bool = True) -> int:
        """Record the ages due by now, before a change to the queue; return the time.

        An age has the time of its period's start, like CloudWatch's statistics (Amazon CloudWatch
        User Guide, "CloudWatch concepts", Periods).
        """
        now, period = self._effects.now(), self._age_period_ms
        if self._next_age_at is None:
            self._next_age_at = now // period * period + period
        while self._next_age_at <= now:
            if self._held or self._used:
                age = self._oldest_age(self._next_age_at)
                self._ages.append((self._next_age_at - period, age))
                del self._ages[:-AGES_KEPT]
            self._used = False
            self._next_age_at += period
        self._used |= use
        return now

    def _oldest_age(self, at: int) -> int:
        for held in self._held.values():
            if held.receives < AGE_RECEIVES_LEFT_OUT:
                return max(0, at - held.sent)
        return 0


def _message(held: Held) -> Message:
    return Message(held.id, held.body, held.sent, held.receives, held.receipt, held.redrive)
