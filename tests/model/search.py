"""The breadth-first search of the models whose states say themselves what is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar


class JudgedState(Protocol):
    """A state; `wrong` is the name of the promise that is broken in it, or empty."""

    @property
    def wrong(self) -> str: ...


S = TypeVar("S", bound=JudgedState)
P = TypeVar("P", bound=StrEnum)


@dataclass
class Found(Generic[P]):
    """The states that were reached; the promise that is broken, and the way there."""

    states: int = 0
    broken: P | None = None
    trace: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


def search(start: S, steps: Callable[[S], Iterable[tuple[str, S]]], promises: type[P]) -> Found[P]:
    """All states, breadth first, or those until a promise is broken."""
    came: dict[S, tuple[S, str] | None] = {start: None}
    todo, found = [start], Found[P]()
    for state in todo:
        for step, after in steps(state):
            found.seen.add(step.partition(":")[0])
            if after in came:
                continue
            came[after] = state, step
            todo.append(after)
            if after.wrong:
                found.broken, found.states = promises[after.wrong], len(came)
                at = after
                while way := came[at]:
                    at, led = way
                    found.trace.insert(0, led)
                return found
    found.states = len(came)
    return found
