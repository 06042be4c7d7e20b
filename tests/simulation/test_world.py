"""The scheduler itself: whose chance is whose, what strikes, and whose errors count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallyroll.adapters.memory import MemoryStore
from tallyroll.adapters.rows.statements import Rows
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.dead_letters import DeadLetters
from tallyroll.ports.queue import Queue, Sender
from tallyroll.ports.totals import Totals
from tests.simulation.rows.wires import ROW_WRITES
from tests.simulation.weather import Risk
from tests.simulation.world import Bounds, Group, Violation, World

CERTAIN = Risk(1.0, "crash")


def drawn(*, others: int) -> list[float]:
    """What a task draws that starts first, beside others which draw as well."""
    world, numbers = World(1, 0), list[float]()
    life = Group("life", mortal=False)

    def draw(into: list[float]) -> Callable[[], None]:
        def body() -> None:
            for _ in range(3):
                into.append(world.random.random())
                world.pause(1)

        return body

    world.spawn("first", draw(numbers), life)
    for _ in range(others):
        world.spawn("other", draw([]), life)
    world.run()
    return numbers


def test_a_task_draws_the_same_whoever_runs_beside_it() -> None:
    alone = drawn(others=0)
    assert len(set(alone)) == 3
    assert drawn(others=5) == alone


def test_siblings_draw_differently() -> None:
    world, first = World(1, 0), list[float]()
    for _ in range(50):
        world.spawn("task", lambda: first.append(world.random.random()), Group("life"))
    world.run()
    assert len(set(first)) == 50


def test_a_fault_is_named_by_its_draw_and_noted() -> None:
    world = World(1, 0)
    assert world.roll(CERTAIN, 0.5)
    assert world.roll(CERTAIN, 0.5)
    assert world.roll(CERTAIN, 0.75 + 2**-53)
    once, again, other = world.faults
    assert once == again != other
    assert f"crash #{once.name}" in world.trace[0]


def test_a_fault_out_of_bounds_is_drawn_and_does_not_strike() -> None:
    free, bound = World(1, 0), World(1, 0, Bounds(faults=frozenset()))
    assert free.roll(CERTAIN)
    assert not bound.roll(CERTAIN)
    assert bound.faults == []
    assert bound.random.random() == free.random.random()


def test_a_chance_that_is_no_risk_knows_no_bounds() -> None:
    world = World(1, 0, Bounds(faults=frozenset()))
    assert world.roll(1.0)
    assert world.faults == []


def test_no_chance_draws_as_well() -> None:
    calm, rough = World(1, 0), World(1, 0)
    calm.roll(Risk(0.0, "crash"))
    rough.roll(CERTAIN)
    assert calm.random.random() == rough.random.random()


def test_an_error_that_nobody_awaits_is_a_violation() -> None:
    world = World(1, 0)

    def body() -> None:
        raise KeyError("lost")

    world.spawn("producer", body, Group("life", mortal=False))
    with pytest.raises(Violation, match="producer raised KeyError"):
        world.run()
    assert "VIOLATION" in world.trace[-1]


def test_an_error_is_the_affair_of_whoever_awaits_it() -> None:
    world, seen = World(1, 0), list[Exception | None]()
    life = Group("life", mortal=False)

    def child() -> None:
        world.pause(1)
        raise KeyError("found")

    def parent() -> None:
        task = world.spawn("child", child, life)
        assert world.join([task])
        seen.append(task.error)

    world.spawn("parent", parent, life)
    world.run()
    assert [type(error) for error in seen] == [KeyError]


def test_each_write_that_may_come_late_is_a_verb_of_a_port() -> None:
    """A verb that was renamed would never come late any more."""
    ports = (MemoryStore, Catalog, Totals, Queue, Sender, ArchiveBucket, DeadLetters, Rows)
    verbs = {name for port in ports for name in dir(port)}
    assert verbs >= ROW_WRITES
