"""Random dead letters, redrives that die at random calls, windows that seal in between: each event
counts at most once at every moment, and exactly once after all has been redriven.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from tallyroll.model.messages import Message, Rejection
from tallyroll.model.states import Status
from tallyroll.reasons import Reason
from tests.harness.pipeline import HOUR, MINUTE, SECOND, TIME_LEFT, hour, opened
from tests.harness.redriving import Operator, drain, records, seal

STEPS = 60
ROUNDS_MAX = 20
HELD_MS = 360 * SECOND


class Story:
    """One random course of things; `events` has for each record's id how many events it holds."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pipeline = opened()
        self.operator = Operator(self.pipeline)
        self.events: dict[str, int] = {}
        self.bodies: list[str] = []
        self.stalled: list[list[Message]] = []

    def step(self) -> None:
        """Something happens."""
        verbs = (
            self.send,
            self.send,
            self.send_again,
            self.write,
            self.die_writing,
            self.stall,
            self.stall,
            self.wake,
            self.blow_the_fuse,
            self.reject_without_cause,
            self.pass_by,
            self.seal_one,
            self.redrive,
            self.redrive_by_half,
        )
        self.random.choice(verbs)()

    def send(self) -> None:
        """A new event, or packet, of any window; its id is its own or its message's."""
        now, chance = self.pipeline.effects.now(), self.random.random
        fields: dict[str, Any] = {"key": "k"}
        number = len(self.events)
        happened = now - int(chance() ** 2 * 5 * HOUR)
        kind = self.random.randrange(4)
        if kind == 0:
            entries = [[0]] * self.random.randrange(1, 4)
            fields |= {"v": 1, "id": f"p{number}", "t0": happened, "events": entries}
        elif kind == 1:
            fields |= {"id": f"e{number}", "ts": happened}
        elif kind == 2:
            fields |= {"ts": happened}
        body = json.dumps(fields)
        message_id = self.pipeline.queue.send(body)
        self.events[str(fields.get("id", message_id))] = len(fields.get("events", [0]))
        if "id" in fields:
            self.bodies.append(body)

    def send_again(self) -> None:
        """What has an id may be sent any number of times."""
        if self.bodies:
            self.pipeline.queue.send(self.random.choice(self.bodies))

    def write(self) -> None:
        """A writer takes all that is visible."""
        drain(self.pipeline)

    def die_writing(self) -> None:
        """A writer is killed after its work, before anything is acknowledged."""
        messages = self.pipeline.queue.receive()
        self.pipeline.writer().write(messages, TIME_LEFT)

    def stall(self) -> None:
        """A writer falls asleep over what it received."""
        if messages := self.pipeline.queue.receive(2):
            self.stalled.append(messages)

    def wake(self) -> None:
        """One of them goes on, whatever has happened meanwhile."""
        if self.stalled:
            messages = self.stalled.pop(self.random.randrange(len(self.stalled)))
            self.pipeline.writer().write(messages, TIME_LEFT)

    def blow_the_fuse(self) -> None:
        """A message, counted or not, goes to the dead letters by the queue's own rule."""
        for held in self.pipeline.queue.held()[:1]:
            held.receives = 1_000
            assert self.pipeline.queue.deliver(held) is None

    def reject_without_cause(self) -> None:
        """A message is given up on, and still in the queue, since its writer died then."""
        for message in self.pipeline.queue.receive(1):
            rejection = Rejection(message, Reason.CRASHES_WRITER, "")
            self.pipeline.queue.reject([rejection])

    def pass_by(self) -> None:
        """Time goes on, and the roller runs."""
        self.pipeline.effects.pass_by(int(self.random.random() * 40 * MINUTE))
        for _ in range(3):
            self.pipeline.roller().run(TIME_LEFT)

    def seal_one(self) -> None:
        """A window is sealed, whatever is on its way to it; the current one seldom."""
        now = self.pipeline.effects.now()
        states = self.pipeline.catalog.windows(0, now + 1)
        found = [state for state in states if state.status is Status.OPEN]
        if found[self.random.random() < 0.8 :]:
            seal(self.pipeline, found[0].id)

    def redrive(self) -> None:
        """The operator redrives all, to the current window or an older one."""
        target = hour(self.random.randrange(6, 20)) if self.random.random() < 0.3 else None
        self.operator.redrive(to=target)

    def redrive_by_half(self) -> None:
        """The operator's process dies at some moment."""
        self.operator.killed_at(int(self.random.random() ** 2 * 200))

    def check(self) -> None:
        """No event is counted twice."""
        found = Counter(name for _, name in records(self.pipeline))
        assert set(found) <= set(self.events)
        assert not [name for name, number in found.items() if number > 1]

    def finish(self) -> None:
        """Write and redrive until nothing is left, as windows are sealed in their time."""
        while self.stalled:
            self.wake()
        for _ in range(ROUNDS_MAX):
            self.pipeline.effects.pass_by(HELD_MS)
            drain(self.pipeline)
            self.operator.redrive()
            drain(self.pipeline)
            if not self.pipeline.queue.dead_letters and not len(self.pipeline.queue):
                return
            self.pass_by()
            states = self.pipeline.catalog.windows(0, self.pipeline.effects.now() - 3 * HOUR)
            for state in states:
                if state.status is Status.OPEN:
                    seal(self.pipeline, state.id)
                if state.status is Status.CLOSING:
                    self.pipeline.move(Status.SEALED, state.id)


@pytest.mark.parametrize("seed", range(60))
def test_each_event_counts_once(seed: int) -> None:
    story = Story(seed)
    for _ in range(STEPS):
        story.step()
        story.check()
    story.finish()
    story.check()
    left = story.pipeline.queue.dead_letters
    assert {letter.reason for letter in left} <= {Reason.NOT_CLAIMED}
    assert {name for _, name in records(story.pipeline)} == set(story.events)
    states = story.pipeline.catalog.windows(0, story.pipeline.effects.now() * 2)
    specs = story.pipeline.catalog.specs([state.id for state in states])
    tallies = [story.pipeline.store.tallies(spec, ["k"])["k"] for spec in specs.values()]
    assert sum(tally.n for tally in tallies) == sum(story.events.values())
