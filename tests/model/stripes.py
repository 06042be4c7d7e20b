"""The raise of a tally's stripes while its window is open, as an explicit-state model of its own.

A writer commits on a stripe that it may know of; a raiser raises S, in the tally's first stripe;
readers read S and the stripes, each in a request of its own, while commits and raises go on. Then
the window closes. No step has a clock or a gate: what is promised follows from the order alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tests.model.search import Found, search

FEWEST, MOST = 1, 3  # stripes in the beginning, and as many as the release before reads
BEYOND = MOST + 1


class Mistake(StrEnum):
    """What could be wrong in the raise of stripes."""

    CACHED = "a reader believes the number of stripes that it knows from before"
    AFTERWARDS = "a reader reads the number after the stripes, and not the rest"
    LOWERED = "the number is lowered while the window is open"
    BEYOND = "the number is raised beyond what the release before reads"
    UNANSWERED = "a writer uses a number before its raise is stored"
    SEALED_BY_NUMBER = "sealing reads the stripes up to a number from before the gates were shut"


class Promise(StrEnum):
    """What must hold in every state."""

    READ = "a read has every event that was answered before it began, and none that was not there"
    READ_BEFORE = "so has a read of the release before"
    TOTAL = "the total is the number of all events"


class Reader(NamedTuple):
    """A read: which stripes are read, how many events that gave, what it must have at least."""

    kind: str  # "" is idle; "new", or "before" of the release before
    known: int  # the number of stripes that it knows
    number: int  # the number that it goes by; 0: not read yet
    next: int  # the stripe that it reads next
    seen: int
    least: int


IDLE = Reader("", 0, 0, 0, 0, 0)


class State(NamedTuple):
    """The stripes' events (number BEYOND is there for mistakes alone), S, what the writers know of
    S, the reader, and the sealing: what it has read of the stripes, or the total.
    """

    stripes: tuple[int, ...]
    number: int
    writers: tuple[int, ...]
    cached: int
    reader: Reader
    shut: bool
    listed: int  # what the sealing goes by; 0: it has not begun
    total: int  # -1: not sealed
    wrong: str


START = State((0,) * BEYOND, FEWEST, (FEWEST, FEWEST), FEWEST, IDLE, False, 0, -1, "")
Step = tuple[str, State]


def explore(mistake: Mistake | None = None, events: int = 3) -> Found[Promise]:
    """All states, breadth first, or those until a promise is broken."""
    return search(START, lambda state: _steps(state, mistake, events), Promise)


def _steps(state: State, mistake: Mistake | None, events: int) -> Iterator[Step]:
    yield from _writers(state, mistake, events)
    if not state.shut:
        yield from _raises(state, mistake)
        yield "shut: the gates", state._replace(shut=True)
    elif state.total < 0:
        yield from _seals(state, mistake)
    yield from _reads(state, mistake)


def _writers(state: State, mistake: Mistake | None, events: int) -> Iterator[Step]:
    """A commit on any stripe that a writer knows of; it may hear of S at any time, or never."""
    for at, known in enumerate(state.writers):
        if at and known == state.writers[0]:
            continue
        if not state.shut and sum(state.stripes) < events:
            for stripe in range(known):
                more = _put(state.stripes, stripe, state.stripes[stripe] + 1)
                yield f"commit: on stripe {stripe + 1} of {known}", state._replace(stripes=more)
        if known < state.number:
            yield f"hear: of {state.number}", _knows(state, at, state.number)
        if mistake is Mistake.UNANSWERED and state.number == known < MOST:
            yield f"hear: of {known + 1}, which is not stored", _knows(state, at, known + 1)


def _knows(state: State, at: int, number: int) -> State:
    return state._replace(writers=tuple(sorted(_put(state.writers, at, number))))


def _raises(state: State, mistake: Mistake | None) -> Iterator[Step]:
    most = BEYOND if mistake is Mistake.BEYOND else MOST
    if state.number < most and state.stripes[0]:
        number = state.number + 1
        yield f"raise: to {number}", state._replace(number=number)
    if mistake is Mistake.LOWERED and state.number > FEWEST:
        yield "raise: down to 1", state._replace(number=FEWEST)


def _reads(state: State, mistake: Mistake | None) -> Iterator[Step]:
    """A reader reads S at any time beside the stripes that it knows, and then the rest."""
    reader = state.reader
    if not reader.kind:
        least = sum(state.stripes)
        for kind in ("new", "before"):
            begun = Reader(kind, state.cached if kind == "new" else MOST, 0, 0, 0, least)
            yield f"begin: a read, {kind}", state._replace(reader=begun)
        return
    if not reader.number:
        yield from _number_reads(state, reader, mistake)
    if reader.next < (reader.number or reader.known):
        seen = reader.seen + state.stripes[reader.next]
        after = reader._replace(next=reader.next + 1, seen=seen)
        yield f"read: stripe {after.next}", state._replace(reader=after)
    elif reader.number:
        yield "end: of the read", _ended(state, reader)


def _number_reads(state: State, reader: Reader, mistake: Mistake | None) -> Iterator[Step]:
    if reader.kind == "before" or mistake is Mistake.CACHED:
        yield "go by: what it knows", state._replace(reader=reader._replace(number=reader.known))
        return
    number = max(state.number, reader.known)
    if mistake is Mistake.AFTERWARDS:
        if reader.next < reader.known:
            return
        number = reader.known
    after = state._replace(reader=reader._replace(number=number), cached=state.number)
    yield f"learn: reads S, {state.number}", after


def _ended(state: State, reader: Reader) -> State:
    fine = reader.least <= reader.seen <= sum(state.stripes)
    broken = Promise.READ if reader.kind == "new" else Promise.READ_BEFORE
    return state._replace(reader=IDLE, wrong="" if fine else broken.name)


def _seals(state: State, mistake: Mistake | None) -> Iterator[Step]:
    """Buckets list every stripe that is there, whatever its number."""
    wide = state.cached if mistake is Mistake.SEALED_BY_NUMBER else BEYOND
    total = sum(state.stripes[:wide])
    wrong = "" if total == sum(state.stripes) else Promise.TOTAL.name
    yield f"seal: {total} events", state._replace(total=total, wrong=wrong)


def _put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])
