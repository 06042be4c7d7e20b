"""The worlds of the model of logs, and its mistakes with the worlds in which they are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tests.model.log_redrives import redrives
from tests.model.log_writers import deliver, writes
from tests.model.logs import Message, Mistake, Promise, State, Step, World
from tests.model.search import Found, search

A, B, C = Message("a", 0), Message("b", 1), Message("c", 2)
ODD, LATER = Message("odd", 0, sent=1), Message("later", 1, sent=2)
GIVEN = Message("given", 0, given=True)  # its id is that of the message a
FORGED = Message("forged", 0, sent=2, forged=True)  # it says that it is a, and was sent later
ALL = (A, GIVEN, FORGED)
LIKE_LEAF = Message("like a leaf", 1, given=True, leaf=1)

SMALL = (
    World("two-messages", (A, B), positions=3, batch=2, ends=True),
    World("two-to-a-leaf", (A, B), capacity=2, batch=2),
    World("late-requests", (A, B), batch=2, flights=1),
    World("three-writers", (A, B), writers=3),
    World("two-slots", (ODD, LATER), batch=2),
    World("id-of-a-leaf", (A, LIKE_LEAF)),
    World("given-id", (A, GIVEN), positions=1, writers=1, moves=(0, 1), operators=1),
    World("forged-time", (A, FORGED), positions=1, writers=1, moves=(0, 1), operators=1),
)
LARGE = (
    World("three-messages", (A, B, C), positions=3, batch=2, ends=True),
    World("three-at-three", (A, B, C), positions=3, writers=3),
    World("late-requests-two", (A, B), capacity=2, batch=2, ends=True, flights=2),
    World("given-id-full", (A, B, GIVEN), positions=1, moves=(0, 2), operators=1),
    World("forged-time-full", (A, B, FORGED), positions=1, moves=(0, 2), operators=1),
    World("two-operators", ALL, positions=1, writers=1, moves=(0, 1, 2), operators=2),
)
PLANTED = {
    Mistake.SLOT_BY_DELIVERY: ("two-messages", Promise.ONCE),
    Mistake.SLOT_BY_SETTINGS: ("two-slots", Promise.ONCE),
    Mistake.KIND_BY_SETTINGS: ("two-messages", Promise.ONCE),
    Mistake.HIGHEST: ("two-messages", Promise.ONCE),
    Mistake.DIVIDED: ("two-messages", Promise.GAPLESS),
    Mistake.LOSER_BLIND: ("two-messages", Promise.ONCE),
    Mistake.TALLY_APART: ("two-messages", Promise.ONCE),
    Mistake.MOVED_ON: ("two-messages", Promise.ONCE),
    Mistake.FULL_BY_SIZE: ("two-messages", Promise.ONCE),
    Mistake.FULL_OVER_GAP: ("two-messages", Promise.ONCE),
    Mistake.FULL_REMEMBERED: ("two-messages", Promise.ONCE),
    Mistake.AFTER_END: ("two-messages", Promise.GAPLESS),
    Mistake.SLOT_UNREAD: ("two-messages", Promise.REJECTED),
    Mistake.SLOT_READ_EVENTUALLY: ("two-messages", Promise.REJECTED),
    Mistake.RECORD_UNREAD: ("two-messages", Promise.REJECTED),
    Mistake.RECORD_BY_ID: ("given-id", Promise.COUNTED),
    Mistake.LOG_IDS_TAKEN: ("id-of-a-leaf", Promise.GAPLESS),
    Mistake.TIME_BELIEVED: ("forged-time", Promise.ONCE),
    Mistake.LETTER_BELIEVED: ("forged-time", Promise.ONCE),
    Mistake.CLAIM_SHARED: ("given-id", Promise.ONCE),
    Mistake.TIME_ADDED: ("given-id", Promise.ONCE),
    Mistake.GIVEN_MOVES: ("given-id", Promise.ONCE),
}


def explore(world: World) -> Found[Promise]:
    """All states of a world, or those until a promise is broken."""
    return search(world.start(), partial(_steps, world=world), Promise)


def find(mistake: Mistake) -> Found[Promise]:
    """The states of a mistake's world, until a promise is broken."""
    name, _ = PLANTED[mistake]
    found = explore(replace(next(each for each in SMALL if each.name == name), mistake=mistake))
    found.trace.insert(0, f"world: {name}")
    return found


def _steps(state: State, world: World) -> Iterator[Step]:
    yield from deliver(world, state)
    yield from writes(world, state)
    yield from redrives(world, state)
    if not state.sealed:
        yield "seal: HOME", state._replace(sealed=True)
