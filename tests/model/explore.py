"""Breadth-first search through all states of a world."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.model import lifecycle, redrive, retraction, writer
from tests.model.promises import Judge, Promise, is_settled
from tests.model.state import Action, State
from tests.model.world import World

Seen = Callable[[State, World], bool]
LINE_EVERY = 5.0


@dataclass
class Explored:
    """All states of a world, or those until the first violation.

    `trace` leads from the start to the violation, and no trace is shorter. `calls` are the names of
    all calls; `unseen` are the marks that no state had.
    """

    world: World
    states: int = 0
    steps: int = 0
    seconds: float = 0.0
    broken: Promise | None = None
    trace: list[Action] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)


def successors(world: World, state: State) -> Iterator[tuple[Action, State]]:
    """Every call that can come next, and the state after it."""
    yield from writer.deliver(world, state)
    last = None
    for index, each in enumerate(state.writers):
        if each == last:
            continue  # writers in one state do the same
        last = each
        if each.step >= writer.FIRST_OF_RETRACTION:
            yield from retraction.steps(world, state, index, each)
        else:
            yield from writer.steps(world, state, index, each)
        yield from writer.finish(world, state, index, each)
    yield from redrive.steps(world, state)
    yield from lifecycle.steps(world, state)


def explore(
    world: World,
    marks: Mapping[str, Seen],
    *,
    settling: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Explored:
    """All states of a world, until a promise is broken.

    `settling` also asks whether every message can still come to its end from every state.
    """
    began = time.perf_counter()
    told = began
    judge = Judge(world)
    start = world.start()
    found: dict[State, int] = {start: 0}
    states = [start]
    parents, actions = [-1], [("start", -1, -1, "")]
    edges: list[tuple[int, list[int]]] = []
    result = Explored(world, unseen=set(world.marks))
    at = 0
    while at < len(states):
        state = states[at]
        next_ones = []
        for action, after in successors(world, state):
            result.steps += 1
            result.calls.add(action[0])
            number = found.get(after)
            if number is None:
                number = found[after] = len(states)
                states.append(after)
                parents.append(at)
                actions.append(action)
                for mark in [each for each in result.unseen if marks[each](after, world)]:
                    result.unseen.remove(mark)
                if broken := judge.broken(after):
                    result.broken = broken
                    result.trace = _trace(parents, actions, number)
                    break
            next_ones.append(number)
        if result.broken:
            break
        if settling:
            edges.append((at, next_ones))
        at += 1
        if progress and (now := time.perf_counter()) - told > LINE_EVERY:
            told = now
            progress(f"{world.name}: {len(states):,} states, {len(states) - at:,} to look at")
    if settling and not result.broken:
        _judge_settling(result, states, edges, parents, actions)
    result.states = len(states)
    result.seconds = time.perf_counter() - began
    return result


def _judge_settling(
    result: Explored,
    states: list[State],
    edges: list[tuple[int, list[int]]],
    parents: list[int],
    actions: list[Action],
) -> None:
    """Go back from the states in which all messages are settled; whatever is not reached hangs."""
    before: list[list[int]] = [[] for _ in states]
    for number, next_ones in edges:
        for each in next_ones:
            before[each].append(number)
    todo = [number for number, state in enumerate(states) if is_settled(state)]
    reached = bytearray(len(states))
    for number in todo:
        reached[number] = 1
    while todo:
        for each in before[todo.pop()]:
            if not reached[each]:
                reached[each] = 1
                todo.append(each)
    hanging = reached.find(0)
    if hanging >= 0:
        result.broken = Promise.ENDS
        result.trace = _trace(parents, actions, hanging)


def _trace(parents: list[int], actions: list[Action], number: int) -> list[Action]:
    trace = []
    while number > 0:
        trace.append(actions[number])
        number = parents[number]
    return trace[::-1]
