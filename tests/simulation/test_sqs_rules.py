"""The simulated queue keeps the rules of SQS that the plain one does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallyroll.adapters.memory.queue import Held
from tests.simulation.sqs_rules import HIDDEN_MS_MAX, Rules, StrictQueue
from tests.simulation.world import Group, World

VISIBILITY_MS = 20_000
PERIOD_MS = 10_000
RETENTION_MS = 600_000
LOOSE = Rules(in_flight_max=120_000, cohorts=True, polls_count=False)


class Queue(StrictQueue):
    """A queue that keeps what expired."""

    def __init__(self, world: World, chosen: Rules = LOOSE) -> None:
        super().__init__(
            world, chosen, RETENTION_MS, visibility_ms=VISIBILITY_MS, age_period_ms=PERIOD_MS
        )
        self.lost: list[str] = []

    def expired(self, held: Held) -> None:
        self.lost.append(held.id)


def run(body: Callable[[World], object]) -> None:
    """Run a task of a world to its end."""
    world = World(1, 0)
    world.spawn("test", lambda: body(world), Group("life", mortal=False))
    world.run()


def test_a_full_flight_delivers_nothing_and_no_error() -> None:
    def body(world: World) -> None:
        queue = Queue(world, Rules(in_flight_max=3, cohorts=True, polls_count=True))
        for number in range(5):
            queue.send(f"{number}")
        first = queue.receive(10)
        assert len(first) == 3
        assert queue.receive(10) == []
        assert queue.counts().visible == 2
        queue.delete(first[0].receipt)
        assert len(queue.receive(10)) == 1
        world.pause(VISIBILITY_MS)
        assert len(queue.receive(10)) == 3

    run(body)


def test_a_message_is_gone_when_its_retention_has_passed() -> None:
    def body(world: World) -> None:
        queue = Queue(world)
        sent = queue.send("old")
        world.pause(RETENTION_MS - 1)
        assert [message.id for message in queue.receive()] == [sent]
        assert queue.lost == []
        world.pause(1)
        queue.send("new")
        assert [message.body for message in queue.receive()] == ["new"]
        assert queue.lost == [sent]

    run(body)


def test_what_was_received_three_times_goes_to_the_back_of_those_sent_before() -> None:
    """Else it would have no turn for as long as others are sent."""

    def body(world: World) -> None:
        queue = Queue(world)
        queue.send("stubborn")
        for _ in range(3):
            world.pause(VISIBILITY_MS)
            assert len(queue.receive(1)) == 1
        world.pause(VISIBILITY_MS - 1)
        queue.send("meanwhile")
        world.pause(2)
        queue.send("later")
        assert [message.body for message in queue.receive(1)] == ["meanwhile"]
        assert [message.body for message in queue.receive(1)] == ["stubborn"]
        assert [message.body for message in queue.receive(1)] == ["later"]

    run(body)


@pytest.mark.parametrize(
    ("receives", "waits_ms", "is_sent", "overdue"),
    [
        (3, VISIBILITY_MS + 1, False, True),
        (3, VISIBILITY_MS, False, False),
        (3, VISIBILITY_MS + 1, True, False),
        (2, VISIBILITY_MS + 1, False, False),
    ],
)
def test_overdue_is_what_waited_while_no_age_told_of_it(
    receives: int, waits_ms: int, is_sent: bool, overdue: bool
) -> None:
    def body(world: World) -> None:
        queue = Queue(world)
        sent = queue.send("stubborn")
        for _ in range(receives):
            world.pause(VISIBILITY_MS)
            assert len(queue.receive(1)) == 1
        world.pause(VISIBILITY_MS)
        if is_sent:
            queue.send("meanwhile")
        world.pause(waits_ms)
        assert len(queue.receive(1)) == 1
        assert queue.overdue == ({sent} if overdue else set())

    run(body)


def test_a_killed_batch_comes_again_together() -> None:
    def body(world: World) -> None:
        queue = Queue(world)
        cohorts = []
        for _ in range(2):
            for number in range(4):
                queue.send(f"{number}")
            cohorts.append({message.id for message in queue.receive(4)})
            world.pause(1_000)
        world.pause(VISIBILITY_MS)
        assert [{message.id for message in queue.receive(4)} for _ in range(2)] == cohorts

    run(body)


def test_nothing_is_hidden_for_over_twelve_hours_since_it_was_received() -> None:
    def body(world: World) -> None:
        queue = Queue(world)
        queue.send("body")
        [message] = queue.receive()
        [held] = queue.held()
        world.pause(10_000)
        queue.delay([(message.receipt, HIDDEN_MS_MAX // 1000 - 9)])
        assert held.visible_at == VISIBILITY_MS
        queue.delay([(message.receipt, HIDDEN_MS_MAX // 1000 - 10)])
        assert held.visible_at == HIDDEN_MS_MAX

    run(body)


def test_an_earlier_receipt_deletes_or_does_not() -> None:
    left: list[int] = []

    def body(world: World) -> None:
        queue = Queue(world)
        for number in range(40):
            queue.send(f"{number}")
        first = queue.receive(40)
        world.pause(VISIBILITY_MS)
        assert len(queue.receive(40)) == 40
        for message in first:
            queue.delete(message.receipt)
        left.append(len(queue))

    run(body)
    assert 10 < left[0] < 30


@pytest.mark.parametrize("polls_count", [True, False])
def test_an_idle_queue_has_no_ages(polls_count: bool) -> None:
    def body(world: World) -> None:
        queue = Queue(world, Rules(in_flight_max=9, cohorts=True, polls_count=polls_count))
        queue.send("body")
        world.pause(PERIOD_MS)
        [message] = queue.receive()
        queue.delete(message.receipt)
        used_until = world.now + PERIOD_MS
        for _ in range(6):
            queue.receive()
            world.pause(PERIOD_MS)
        ages = queue.backlog(0).ages
        assert [at for at, _ in ages if at >= used_until] == (
            [20_000, 30_000, 40_000, 50_000, 60_000] if polls_count else []
        )

    run(body)
