"""A model of its own: a wish for a key's shards, and the freezing of specs that it may meet.

The state has nothing in common with the others, so its search is here, too. One operator splits a
key from the first of two windows on. Other commands change the wishes meanwhile. Two rollers freeze
both windows. Each step is one call of the catalog; replies of puts may be lost, and the command's
process may end at any step. In the code: `operations/heat/wishes.py`, `lifecycle/freezing.py`.
"""

# ruff: noqa: T201 (the command prints what is found)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

OTHERS_MAX = 2  # changes of the wishes by other commands
OPEN, WITHOUT, WITH = range(3)  # a window's spec: not frozen, frozen without the wish, with it
# What the command does next, or how it ended.
READ, PUT, REPEAT, LOOK, WITHDRAW, DONE, REFUSED, DEAD = range(8)
NOTHING_READ = (-1, -1, False)


class WishMistake(StrEnum):
    """A rule that is broken."""

    TAKEN_AFTER_FREEZE = "a wish is put after the specs were read"
    LOST_BEFORE_PUT = "a spec is put without a check of the wishes' version"


class WishPromise(StrEnum):
    """What is judged in each state."""

    KEPT = "a wish that was answered with success is in every window's spec from then on"
    REFUSED = "a wish that was refused does not stand, and one of its windows is frozen without it"
    ENDS = "from every state the windows can be frozen, and the command can end"


class WishState(NamedTuple):
    """Everything at one moment.

    version, stands: of the wishes, and whether the wish is among them
    specs: of the two windows
    rollers: of each, the window that it freezes, and the version and wish that it read
    step, saw: the command's, and the version that it read
    others: how often other commands changed the wishes
    """

    version: int = 0
    stands: bool = False
    specs: tuple[int, int] = (OPEN, OPEN)
    rollers: tuple[tuple[int, int, bool], ...] = (NOTHING_READ, NOTHING_READ)
    step: int = READ
    saw: int = -1
    others: int = 0


@dataclass
class WishesExplored:
    """All states, or those until the first violation, to which the shortest `trace` leads."""

    states: int = 0
    broken: WishPromise | None = None
    trace: list[str] = field(default_factory=list)
    ends: set[int] = field(default_factory=set)


def explore_wishes(mistake: WishMistake | None = None) -> WishesExplored:
    """Search breadth first, until a promise is broken."""
    start = WishState(step=LOOK if mistake is WishMistake.TAKEN_AFTER_FREEZE else READ)
    came: dict[WishState, tuple[WishState, str] | None] = {start: None}
    before: dict[WishState, list[WishState]] = {start: []}
    todo, result = [start], WishesExplored()
    for state in todo:
        result.ends.add(state.step)
        if broken := _broken(state):
            result.broken, result.trace = broken, _trace(came, state)
            break
        for call, after in successors(state, mistake):
            before.setdefault(after, []).append(state)
            if after not in came:
                came[after] = (state, call)
                todo.append(after)
    result.states = len(came)
    if result.broken is None and (hanging := _hanging(came, before)):
        result.broken, result.trace = WishPromise.ENDS, _trace(came, hanging)
    return result


def successors(state: WishState, mistake: WishMistake | None) -> Iterator[tuple[str, WishState]]:
    """Every call that can come next, and the state after it."""
    yield from _command(state, looks_first=mistake is WishMistake.TAKEN_AFTER_FREEZE)
    if state.others < OTHERS_MAX:
        changed = state._replace(version=state.version + 1, others=state.others + 1)
        yield "another command changes the wishes", changed
    for number, (window, version, wished) in enumerate(state.rollers):
        if window < 0:
            for each in (0, 1):
                if state.specs[each] == OPEN:
                    read = (each, state.version, state.stands)
                    yield (
                        f"a roller reads the wishes for window {each}",
                        _rolls(state, number, read),
                    )
            continue
        done = _rolls(state, number, NOTHING_READ)
        if state.specs[window] != OPEN:
            yield f"a roller finds window {window} frozen", done
        elif version != state.version and mistake is not WishMistake.LOST_BEFORE_PUT:
            yield f"a roller puts window {window}'s spec: the wishes have changed", done
        else:
            specs = list(state.specs)
            specs[window] = WITH if wished else WITHOUT
            frozen = (specs[0], specs[1])
            yield f"a roller freezes window {window}", done._replace(specs=frozen)
            yield (
                f"a roller freezes window {window}, and its reply is lost",
                state._replace(specs=frozen),
            )


def _command(state: WishState, *, looks_first: bool) -> Iterator[tuple[str, WishState]]:
    """The command's next call. With `looks_first` it looks before it puts, and not after it."""
    if state.step >= DONE:
        return
    yield "the command's process ends", state._replace(step=DEAD)
    put_done = DONE if looks_first else LOOK
    match state.step:
        case 0:  # READ
            yield "the command reads the wishes", state._replace(step=PUT, saw=state.version)
        case 1 if state.version != state.saw:  # PUT
            yield "the command puts its wish: they have changed", state._replace(step=READ)
        case 1:
            put = state._replace(version=state.version + 1, stands=True)
            yield "the command puts its wish", put._replace(step=put_done)
            yield "the command puts its wish, and the reply is lost", put._replace(step=REPEAT)
        case 2:  # REPEAT
            own = state.version == state.saw + 1 and state.stands
            step = put_done if own else READ
            yield "the command puts again, and finds what stands", state._replace(step=step)
        case 3:  # LOOK
            late = WITHOUT in state.specs
            found = (REFUSED if late else READ) if looks_first else (WITHDRAW if late else DONE)
            yield "the command reads the specs", state._replace(step=found)
        case _:  # WITHDRAW
            gone = state._replace(version=state.version + 1, stands=False, step=REFUSED)
            yield "the command withdraws its wish", gone


def _rolls(state: WishState, number: int, after: tuple[int, int, bool]) -> WishState:
    rollers = list(state.rollers)
    rollers[number] = after
    return state._replace(rollers=tuple(sorted(rollers)))


def _broken(state: WishState) -> WishPromise | None:
    if state.step == DONE and WITHOUT in state.specs:
        return WishPromise.KEPT
    if state.step == REFUSED and (state.stands or WITHOUT not in state.specs):
        return WishPromise.REFUSED
    return None


def _hanging(
    came: dict[WishState, tuple[WishState, str] | None], before: dict[WishState, list[WishState]]
) -> WishState | None:
    ends = (DONE, REFUSED, DEAD)
    todo = [state for state in came if OPEN not in state.specs and state.step in ends]
    reached = set(todo)
    while todo:
        for each in before[todo.pop()]:
            if each not in reached:
                reached.add(each)
                todo.append(each)
    return next((state for state in came if state not in reached), None)


def _trace(came: dict[WishState, tuple[WishState, str] | None], state: WishState) -> list[str]:
    calls = []
    while step := came[state]:
        state, call = step
        calls.append(call)
    return calls[::-1]


def tell_wishes() -> int:
    """Print the states, and each mistake with its shortest trace; 1 if a promise is broken, or a
    mistake is not found.
    """
    failed = 0
    for mistake in (None, *WishMistake):
        result = explore_wishes(mistake)
        print(f"\nwishes: {mistake or 'no mistake'}\n  {result.states:,} states")
        if result.broken:
            print(f"  broken: {result.broken}")
            for number, call in enumerate(result.trace, 1):
                print(f"    {number}. {call}")
        failed |= (result.broken is None) is (mistake is not None)
    return failed
