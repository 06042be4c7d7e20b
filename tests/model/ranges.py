"""Reads over a range of two windows, as an explicit-state model of its own.

The first window W is sealed, archived and dropped meanwhile, and a late roller may make its table
again, empty. The second one, V, stays open. W has an event; one with a lower id may come into W,
and one with the same id into V. A world has one of three readers: of all events, of an event by its
id, and one who follows W. In the code: `reads/ranges/events.py`, `dated.py` and `follow.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from tests.model.search import Found, search

OPEN, SEALED, DROPPED, REMADE = range(4)  # W; REMADE: its table is there again, and empty
IDLE, STATES, EVENTS, STATES_AFTER, EVENTS_AGAIN, TALLY, ENDED = range(7)  # what a reader does next
LOW, HIGH, SECOND = 1, 2, 4  # the events: W's two, and V's
ARCHIVED = 8  # the answer says that W is archived
NONE = -1


class Mistake(StrEnum):
    """What could be wrong in the order of reads, and in what they prove."""

    STATE_BEFORE = "a listing: the states are read before the events alone"
    STATES_ONCE = "an event by its id: the states are read before the events alone"
    GONE_IS_ABSENT = "an event by its id: what a dropped table held does not exist"
    FIRST_ALONE = "an event by its id: the first window that holds it answers for all"
    BELOW_MISSED = "who follows lists only what comes after the last id"
    TALLY_AFTER = "who follows goes by a tally that is read after the listing"
    STATE_AFTER = "who follows lets go of a window whose state says sealed after its tally was read"
    UNCHECKED_END = "who follows lets go of a window without events, and does not look at its state"


class Promise(StrEnum):
    """What must hold of every answer."""

    LISTED = "a listing has all events that were there before, or says that they are archived"
    FOUND = "an id is found in each window that had it before, or it is said that it is archived"
    FOLLOWED = "who lets go of a window has told all its events, or says that they are archived"


class State(NamedTuple):
    """Everything at one moment: W, the events there are; of the reader what it does next, W's state
    as it was read, what it has got, what it must have, the part of W that it has still to read, the
    tally that it has read and the one that its last listing goes by.
    """

    status: int = OPEN
    there: int = HIGH
    step: int = IDLE
    seen: int = OPEN
    got: int = 0
    due: int = 0
    left: int = 0
    tally: int = NONE
    listed: int = 0
    wrong: str = ""


Step = tuple[str, State]
Reader = Callable[[State, Mistake | None], Iterator[Step]]


def explore_all(mistake: Mistake | None = None) -> Found[Promise]:
    """The states of the three readers; of a mistake, the first world that breaks a promise."""
    whole = Found[Promise]()
    for name, reader in (("listing", _lists), ("an event", _finds), ("following", _follows)):
        steps = partial(_steps, reader=reader, mistake=mistake)
        found = search(State(), steps, Promise)
        whole.states += found.states
        whole.seen |= found.seen
        if found.broken:
            whole.broken, whole.trace = found.broken, [f"world: {name}", *found.trace]
            break
    return whole


def _steps(state: State, reader: Reader, mistake: Mistake | None) -> Iterator[Step]:
    for event, name, may in (
        (LOW, "the lower id in W", state.status == OPEN),
        (SECOND, "the same id in V", True),
    ):
        if may and not state.there & event:
            yield f"commit: {name}", state._replace(there=state.there | event)
    if state.status < REMADE:
        name = ("seal: W", "drop: W", "make: W's table again")[state.status]
        yield name, state._replace(status=state.status + 1)
    yield from reader(state, mistake)


def _in_table(state: State, events: int) -> int:
    """Of these events, those that a read finds now."""
    return state.there & events & ~(LOW | HIGH if state.status == REMADE else 0)


def _lists(state: State, mistake: Mistake | None) -> Iterator[Step]:
    """All events of W, from two shards."""
    match state.step:
        case 0:  # IDLE
            yield "begin: a listing", state._replace(step=STATES, due=state.there & (LOW | HIGH))
        case 1:  # STATES
            after = state._replace(step=EVENTS, left=LOW | HIGH)
            yield "read the states: before", _or_archived(after, Promise.LISTED)
        case 2:  # EVENTS
            for shard in (LOW, HIGH):
                if not state.left & shard:
                    continue
                if state.status == DROPPED:
                    yield "read: no table", state._replace(step=STATES_AFTER, left=0, got=0)
                    continue
                left, got = state.left & ~shard, state.got | _in_table(state, shard)
                after = state._replace(left=left, got=got)
                if not left:
                    after = after._replace(step=STATES_AFTER)
                    if mistake is Mistake.STATE_BEFORE:
                        after = _answered(after, Promise.LISTED)
                yield "read: a shard", after
        case 3:  # STATES_AFTER
            after = _or_archived(state, Promise.LISTED)
            yield (
                "read the states: after",
                after if after.step == ENDED else _answered(after, Promise.LISTED),
            )


def _finds(state: State, mistake: Mistake | None) -> Iterator[Step]:
    """The event by its id in W and V, at once: a table that is gone fails both reads."""
    match state.step:
        case 0:  # IDLE
            step = STATES if mistake is Mistake.STATES_ONCE else EVENTS
            yield "begin: an event by its id", state._replace(step=step, due=state.there & ~LOW)
        case 1:  # STATES
            step = EVENTS_AGAIN if state.status > SEALED else EVENTS
            yield "read the states: before", state._replace(step=step, seen=state.status)
        case 2 if state.status == DROPPED:  # EVENTS
            yield "read: no table", state._replace(step=STATES_AFTER, left=HIGH | SECOND)
        case 2:
            after = state._replace(got=_in_table(state, HIGH | SECOND), left=0, step=STATES_AFTER)
            if mistake is Mistake.FIRST_ALONE and after.got & HIGH:
                after = _answered(after._replace(got=after.got & ~SECOND), Promise.FOUND)
            elif mistake is Mistake.STATES_ONCE:
                after = _found(after, mistake)
            yield "read: both windows", after
        case 3:  # STATES_AFTER
            after = state._replace(seen=state.status)
            if not state.left:
                after = _found(after, mistake)
            else:
                after = after._replace(step=EVENTS_AGAIN if state.status > SEALED else EVENTS)
            yield "read the states: after", after
        case 4:  # EVENTS_AGAIN
            got = state.got | _in_table(state, SECOND)
            yield "read: V alone", _found(state._replace(got=got, left=0), mistake)


def _found(state: State, mistake: Mistake | None) -> State:
    """The answer of an event by its id."""
    says = state.seen > SEALED and mistake is not Mistake.GONE_IS_ABSENT
    return _answered(state._replace(got=state.got | (ARCHIVED if says else 0)), Promise.FOUND)


def _follows(state: State, mistake: Mistake | None) -> Iterator[Step]:
    """Looks at W again and again, until it lets go of it: its state, its tally, and if that has
    changed its events, whose listing reads the state after them.
    """
    begins = TALLY if mistake is Mistake.STATE_AFTER else STATES
    match state.step:
        case 0:  # IDLE
            yield "look: at W", state._replace(step=begins, left=LOW | HIGH, tally=NONE)
        case 1:  # STATES
            after = _or_archived(state._replace(step=TALLY, seen=state.status), Promise.FOLLOWED)
            if mistake is Mistake.STATE_AFTER and after.step != ENDED:
                after = _looked(after)
            yield "read the states: before", after
        case 5:  # TALLY
            if state.status == DROPPED:
                after = state._replace(step=STATES_AFTER)
            else:
                tally = _in_table(state, LOW | HIGH).bit_count()
                after = _counted(state._replace(tally=tally), mistake)
            yield "read: the tally", after
        case 2:  # EVENTS
            yield from _news(state, mistake)
        case 3:  # STATES_AFTER
            after = _or_archived(state, Promise.FOLLOWED)
            yield "read the states: after", after if after.step == ENDED else _looked(after)


def _counted(state: State, mistake: Mistake | None) -> State:
    """The follower has read the tally."""
    if not state.left:  # after the listing: the mistake TALLY_AFTER
        return _looked(state)
    if state.tally != state.listed:
        return state._replace(step=EVENTS)
    if mistake is Mistake.STATE_AFTER:
        return state._replace(step=STATES)
    if not state.tally and state.seen == SEALED and mistake is not Mistake.UNCHECKED_END:
        return state._replace(step=STATES_AFTER)
    return _looked(state)


def _news(state: State, mistake: Mistake | None) -> Iterator[Step]:
    for shard in (LOW, HIGH):
        if not state.left & shard:
            continue
        if state.status == DROPPED:
            yield "read: no table", state._replace(step=STATES_AFTER, left=0)
            continue
        left, got = state.left & ~shard, state.got
        if not (mistake is Mistake.BELOW_MISSED and got & HIGH):
            got |= _in_table(state, shard)
        after = state._replace(left=left, got=got)
        if not left:
            step = TALLY if mistake is Mistake.TALLY_AFTER else STATES_AFTER
            step = STATES if mistake is Mistake.STATE_AFTER else step
            after = after._replace(step=step)
        yield "read: a shard", after


def _looked(state: State) -> State:
    """A look has ended. A window that was sealed before its tally was read is let go."""
    listed = state.listed if state.tally == NONE else state.tally
    after = state._replace(step=IDLE, left=0, tally=NONE, listed=listed)
    if state.seen == SEALED:
        due = state.there & (LOW | HIGH)
        return _answered(after._replace(due=due), Promise.FOLLOWED)
    return after


def _or_archived(state: State, promise: Promise) -> State:
    """The reader, which ends if W's state says that it is dropped."""
    if state.status <= SEALED:
        return state
    return _answered(state._replace(got=state.got | ARCHIVED), promise)


def _answered(state: State, promise: Promise) -> State:
    """The end of a read. What is said to be archived need not be there, but V's event must."""
    due = state.due & ~(LOW | HIGH if state.got & ARCHIVED else 0)
    wrong = promise.name if due & ~state.got else ""
    return state._replace(step=ENDED, wrong=wrong)
