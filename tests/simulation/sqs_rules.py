"""The queue as strict as SQS: retention, what may be in flight, cohorts, and metrics of its own.

`tallyroll.adapters.memory.queue` keeps the rules that tests of the core need. Here are the others:

- A message is gone when its retention has passed since it was sent (SQS API Reference,
  SetQueueAttributes, MessageRetentionPeriod).
- While as many messages are in flight as may be, a receive gives nothing, and no error (SQS
  Developer Guide, "Amazon SQS standard queue quotas": about 120,000).
- A message is hidden for at most 12 hours since it was received (SQS API Reference,
  ChangeMessageVisibility).
- A receipt of an earlier receive may delete a message, or not (SQS API Reference, DeleteMessage).
- What was received three times is moved to the back of the queue (SQS Developer Guide,
  "Available CloudWatch metrics", ApproximateAgeOfOldestMessage): behind what was sent until it is
  visible again, and before what is sent later.
- What was received together, and not deleted, is visible again at the same moment, and often comes
  together again: healthy messages beside the poison that kills their writer.
- While nothing is sent, that back of the queue is slow where much waits there: a message may be
  `overdue`, and its window closed without it (docs/exactness.md, "What is assumed").
- An idle queue has no ages: who only polls an empty one does not use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tallyroll.adapters.memory.queue import AGE_RECEIVES_LEFT_OUT, Held, MemoryQueue
from tallyroll.model.messages import Message, RedriveMark
from tests.simulation.world import SimEffects, World

HIDDEN_MS_MAX = 43_200_000
IN_FLIGHT_MAX = 40  # in place of 120,000


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs from seed to seed: how many messages may be in flight, whether cohorts stay
    together, and whether polls of an empty queue count as its use.
    """

    in_flight_max: int
    cohorts: bool
    polls_count: bool


def rules(chance: Random) -> Rules:
    """The rules of a seed."""
    return Rules(
        in_flight_max=IN_FLIGHT_MAX if chance.random() < 0.5 else 120_000,
        cohorts=chance.random() < 0.3,
        polls_count=chance.random() < 0.5,
    )


AS_ON_AWS = Rules(in_flight_max=120_000, cohorts=False, polls_count=True)


class StrictQueue(MemoryQueue):
    """A queue in a world, by the `rules` of a seed. `overdue` are the ids of the messages that no
    age told of while they waited, for longer than a visibility timeout.
    """

    def __init__(self, world: World, chosen: Rules, retention_ms: int, **settings: Any) -> None:
        super().__init__(SimEffects(world), **settings)
        self._world = world
        self._retention_ms = retention_ms
        self.rules = chosen
        self._received_at: dict[str, int] = {}
        self._before: dict[str, int] = {}
        self._newest_sent = 0
        self.overdue: set[str] = set()

    def send(self, body: str, delay_ms: float = 0, redrive: RedriveMark | None = None) -> str:
        """Send a message, redriven or new; return its id."""
        self._newest_sent = self._world.now
        return super().send(body, delay_ms, redrive)

    def receive(self, most: int = 10) -> list[Message]:
        """A random choice of what is visible, and now and then of what is not.

        Nothing while too much is in flight.
        """
        world, received = self._world, list[Message]()
        chance = world.random.random
        self._observed(use=self.rules.polls_count)  # before anything changes
        self._expire()
        twice = world.roll(world.weather.duplicate)
        room = self.rules.in_flight_max - self.counts().in_flight
        if room <= 0:
            world.note("flight is full")
        for held in self._in_turn(hidden=twice):
            if len(received) >= min(most, room):
                break
            if held.visible_at > world.now and not (twice and held.receives and chance() < 0.2):
                continue
            if chance() < 0.2 and not self.rules.cohorts:
                continue
            if message := self.deliver(held):
                received.append(message)
        if received:
            self._observed()
        if self.rules.cohorts and self._is_cohort(received):
            world.note("a cohort comes again")
        if world.roll(0.5):
            received.reverse()
        return received

    def of(self, message_id: str) -> Held | None:
        """The message of an id, if it is not deleted."""
        return self._held.get(message_id)

    def _in_turn(self, *, hidden: bool) -> Sequence[Held]:
        """All messages that are visible, or that are not as well, by when they were sent; those
        that were received three times, by when they are visible again.
        """
        now = self._world.now
        return sorted(
            [held for held in self._held.values() if hidden or held.visible_at <= now],
            key=lambda held: (
                held.visible_at if held.receives >= AGE_RECEIVES_LEFT_OUT else held.sent
            ),
        )

    def _is_cohort(self, received: Sequence[Message]) -> bool:
        """Whether messages came together that had been received together."""
        before = [self._before.get(message.id) for message in received if message.receives > 1]
        return len(before) > len({*before})

    def deliver(self, held: Held) -> Message | None:
        """Deliver one message, visible or not; None if the fuse moved it to the dead letters."""
        if self._is_overdue(held):
            self.overdue.add(held.id)
            self._world.note(f"message {held.id[:6]} is overdue")
        if held.id in self._received_at:
            self._before[held.id] = self._received_at[held.id]
        self._received_at[held.id] = self._world.now
        return super().deliver(held)

    def _is_overdue(self, held: Held) -> bool:
        """Whether a message that the ages leave out has waited too long, and none that they tell of
        waited behind it.
        """
        late = self._world.now > held.visible_at + self._visibility_ms
        left_out = held.receives >= AGE_RECEIVES_LEFT_OUT
        return late and left_out and self._newest_sent < held.visible_at

    def delete(self, receipt: str) -> None:
        """Delete a message; with an earlier receipt perhaps, or perhaps not."""
        super().delete(receipt)
        held = self._held.get(receipt.partition("#")[0])
        if held and self._world.current.aside.random() < 0.5:
            super().delete(held.receipt)

    def delay(self, receipts: Sequence[tuple[str, int]]) -> None:
        """Change when messages are visible again, but not to more than 12 hours after a receive."""
        now = self._world.now
        super().delay(
            [
                (receipt, seconds)
                for receipt, seconds in receipts
                if now + seconds * 1000
                <= self._received_at.get(receipt.partition("#")[0], now) + HIDDEN_MS_MAX
            ]
        )

    def expired(self, held: Held) -> None:
        """What becomes of a message whose retention has ended; to be extended."""
        self._world.note(f"message {held.id[:6]} expired")

    def _expire(self) -> None:
        until = self._world.now - self._retention_ms
        for held in [held for held in self._held.values() if held.sent <= until]:
            del self._held[held.id]
            self.expired(held)
