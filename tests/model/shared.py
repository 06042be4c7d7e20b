"""Counts that processes share by a cache, as an explicit-state model of its own.

A process counts one key. It keeps its count for a while, joins a read of its own that is under way,
and may take what another process put into the cache. A put may come late. In one world the other
process's clock is ahead. In the code: `reads/counting/flights.py`, `shared.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from tests.model.search import Found, search

KEPT = 2  # for so many ticks
TICKS, EVENTS = 4, 1
NONE = -1


class Mistake(StrEnum):
    """What could be wrong in what is kept, taken and joined."""

    FEWER_TAKEN = "an entry with fewer events than an answer is taken, by its time"
    AGED_BY_PUT = "an entry's age is counted from its put"
    FEWER_KEPT = "what has fewer events than an answer is kept, since its read began later"
    STALE_JOINED = "a read is joined that began before counts are kept for"
    CONSISTENT_JOINS = "a consistent read joins one that is under way"


class Promise(StrEnum):
    """What must hold of every answer."""

    GROWS = "it has no fewer events than any that the process gave before it was asked for"
    AGE = "it has all that was counted so long before it was asked for as counts are kept"
    CONSISTENT = "a consistent one has all that was counted before it was asked for"


class Count(NamedTuple):
    """A count: when its read began by its process's clock, and how many events it has."""

    began: int = NONE
    events: int = 0


class State(NamedTuple):
    """Everything at one moment.

    time, counted: now, and when each event was counted
    entry, ends: the cache's entry, and when it ends
    other: the other process's read, or what it has not yet put; its events are NONE until it reads
    kept: what the process keeps
    answered, most: when it last answered, and the most events of any answer
    read: its read; the events are NONE until they are read
    due: what the read must have, by the answers and by the age of what was counted
    joined, waits: what others must have that wait for the read: ordinary ones, by the answers and
        by age; a consistent one
    """

    time: int = 0
    counted: tuple[int, ...] = ()
    entry: Count = Count()
    ends: int = 0
    other: Count = Count()
    kept: Count = Count()
    answered: int = NONE
    most: int = 0
    read: Count = Count()
    due: tuple[int, int] = (0, 0)
    joined: tuple[int, int] = (0, 0)
    waits: int = 0
    wrong: str = ""


Step = tuple[str, State]


def explore_all(mistake: Mistake | None = None) -> Found[Promise]:
    """The states of clocks that agree and of clocks that differ; of a mistake, the first world that
    breaks a promise.
    """
    whole = Found[Promise]()
    for ahead in (0, 1):
        found = search(State(), partial(_steps, ahead=ahead, mistake=mistake), Promise)
        whole.states += found.states
        whole.seen |= found.seen
        if found.broken:
            clocks = "the other clock is ahead" if ahead else "the clocks agree"
            whole.broken, whole.trace = found.broken, [f"world: {clocks}", *found.trace]
            break
    return whole


def _steps(state: State, ahead: int, mistake: Mistake | None) -> Iterator[Step]:
    if state.time < TICKS:
        yield "tick: time passes", state._replace(time=state.time + 1)
    if len(state.counted) < EVENTS:
        yield "count: an event", state._replace(counted=(*state.counted, state.time))
    yield from _other(state, ahead, mistake)
    yield from _asks(state, ahead, mistake)
    if state.read.began == NONE:
        return
    counted = len(state.counted)
    if state.read.events == NONE:
        yield "read: the process", state._replace(read=state.read._replace(events=counted))
    else:
        yield "answer: what was read", _ends(state, mistake)
    if mistake is Mistake.CONSISTENT_JOINS:
        yield "ask consistently: it joins the read", state._replace(waits=counted)
    else:
        yield "ask consistently: it reads", _keep(state, Count(state.time, counted), mistake)


def _other(state: State, ahead: int, mistake: Mistake | None) -> Iterator[Step]:
    other, clock = state.other, state.time + ahead
    if other.began == NONE:
        yield "begin: the other process", state._replace(other=Count(clock, NONE))
    elif other.events == NONE:
        read = other._replace(events=len(state.counted))
        yield "read other: the other process", state._replace(other=read)
    else:
        if mistake is Mistake.AGED_BY_PUT:
            other = other._replace(began=clock)
        done, ends = state._replace(other=Count()), state.time + KEPT - (clock - other.began)
        yield "lose: the other process's put", done
        if ends > state.time:
            yield "put: by the other process", done._replace(entry=other, ends=ends)


def _asks(state: State, ahead: int, mistake: Mistake | None) -> Iterator[Step]:
    """A count is asked for. Of clocks that differ, ages say nothing."""
    old = 0 if ahead else sum(at <= state.time - KEPT for at in state.counted)
    due, read = (state.most, old), state.read
    entry = state.entry if state.ends > state.time else Count()
    if state.kept.began != NONE and _is_fresh(state.kept, state.time):
        after = state._replace(most=max(state.most, state.kept.events))
        yield "ask: it answers what it keeps", _judged(after, state.kept, due)
    elif read.began != NONE:
        if _is_fresh(read, state.time) or mistake is Mistake.STALE_JOINED:
            yield "join: the process's read", state._replace(joined=_most(state.joined, due))
    elif entry.began != NONE and _may_take(state, entry, mistake):
        after = _keep(state, entry, mistake)
        yield "ask: it takes the cache's entry", _judged(after, entry, due)
    else:
        begun = state._replace(read=Count(state.time, NONE), due=due)
        yield "ask: it begins to read", begun


def _is_fresh(count: Count, at: int) -> bool:
    return at - count.began < KEPT


def _may_take(state: State, entry: Count, mistake: Mistake | None) -> bool:
    fewer = entry.events < state.most and mistake is not Mistake.FEWER_TAKEN
    if fewer or entry.began < state.answered:
        return False
    return _is_fresh(entry, state.time) and entry.began <= state.time


def _keep(state: State, count: Count, mistake: Mistake | None) -> State:
    """The process after an answer: it keeps what has all that it has answered."""
    most = max(state.most, count.events)
    some = [each for each in (state.kept, count) if each.events >= most]
    if mistake is Mistake.FEWER_KEPT:
        some = [state.kept, count]
    return state._replace(
        kept=max(some, default=Count()),
        answered=state.time,
        most=most,
    )


def _ends(state: State, mistake: Mistake | None) -> State:
    """A read has ended: it is answered and kept, and who joined it is answered."""
    after = _keep(state, state.read, mistake)
    after = _judged(
        after._replace(read=Count(), due=(0, 0), joined=(0, 0), waits=0), state.read, state.due
    )
    after = _judged(after, state.read, state.joined)
    if state.waits > state.read.events:
        return after._replace(wrong=Promise.CONSISTENT.name)
    return after


def _most(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), max(one[1], other[1])


def _judged(state: State, count: Count, due: tuple[int, int]) -> State:
    answered, old = due
    if count.events < answered:
        return state._replace(wrong=Promise.GROWS.name)
    return state._replace(wrong=Promise.AGE.name) if count.events < old else state
