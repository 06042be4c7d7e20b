"""Logs: plain events of a hot key without a record each, as an explicit-state model of its own.

A message without an id of its own is identified by the queue's id, and its place follows from its
time of sending: a slot of the window HOME. A slot is a log of leaves, each put if absent at the
first gap. Once a slot is full, its messages become records. Letters are redriven to HOME while it
is open, then as records to the window OTHER, which stays open. `log_writers.py` has what writers
do, `log_redrives.py` what operators do, `log_worlds.py` the worlds and the mistakes' places.

A message may be delivered at any time, also once it was acknowledged. A writer that stalls takes no
step; one that hands its messages back does as one that dies. HOME is sealed in one step: a writer
that meets a shut gate earlier hands its messages back. No window is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeVar

HOME, OTHER = range(2)
WINDOWS = ("HOME", "OTHER")
NONE = -1
T = TypeVar("T")


class Mistake(StrEnum):
    """What could be wrong."""

    SLOT_BY_DELIVERY = "the slot follows from the time of delivery"
    SLOT_BY_SETTINGS = "a slot's length comes from the settings, not from the spec"
    KIND_BY_SETTINGS = "the settings, not the spec, say what goes into a log"
    HIGHEST = "a leaf is put after the highest position that is seen, not at the first gap"
    DIVIDED = "two leaves of a slot are put side by side"
    LOSER_BLIND = "who loses a position goes on without looking at the leaf that is there"
    TALLY_APART = "the tally is added to apart from the leaf"
    MOVED_ON = "a put without an answer is repeated at the next position"
    FULL_BY_SIZE = "a slot is full if one's own messages no longer fit"
    FULL_OVER_GAP = "a slot is judged full by a leaf that is seen beyond a gap"
    FULL_REMEMBERED = "of a slot that is known to be full, the log is not read before a record"
    AFTER_END = "a leaf is put after an end leaf"
    SLOT_UNREAD = "window-sealed is said without reading the slot"
    SLOT_READ_EVENTUALLY = "window-sealed is said after an eventual read of the slot"
    RECORD_UNREAD = "window-sealed is said without reading the record"
    RECORD_BY_ID = "the record of a given id is taken for that of the message with this id"
    LOG_IDS_TAKEN = "an event may be given the id of a leaf"
    TIME_BELIEVED = "a writer does not compare a redrive's time with the claim's"
    LETTER_BELIEVED = "a redrive reads the slot of the letter's time, and does not compare it"
    CLAIM_SHARED = "a claim without a time, put for a given id, serves the message with this id"
    TIME_ADDED = "a redrive adds its time to a claim that has none"
    GIVEN_MOVES = "a redrive of a given id uses the claim of the message with this id"


class Promise(StrEnum):
    """What must hold in every state."""

    ONCE = "the tally is the number of events in leaves and records, and none is there twice"
    COUNTED = "what is acknowledged, and not rejected, is counted"
    REJECTED = "what HOME counts is not rejected because HOME is sealed"
    GAPLESS = "no gap is below a leaf, and none comes after an end leaf"


class Message(NamedTuple):
    """A message. Those of one id have record and claim in common.

    sent: when it was first sent, of a forged redrive what its attributes say
    given: the producer gave the id, so it is a record
    forged: its attributes say that it was redriven to HOME, and is the message with this id
    leaf: the id that was given is that of this position of the first slot
    """

    name: str
    id: int
    sent: int = 0
    given: bool = False
    forged: bool = False
    leaf: int = NONE


@dataclass(frozen=True)
class World:
    """Surroundings of a run.

    messages, length: what is sent, and how long a slot takes
    positions, capacity: of a slot, and how many entries a leaf holds
    writers, batch: how many work at once, with how many messages each
    ends: whether writers put end leaves
    flights: how many requests may be carried out after they were given up, at once
    moves: the messages that SQS may move to the dead letters
    operators: how many work at once
    """

    name: str
    messages: tuple[Message, ...]
    length: int = 2
    positions: int = 2
    capacity: int = 1
    writers: int = 2
    batch: int = 1
    ends: bool = False
    flights: int = 0
    moves: tuple[int, ...] = ()
    operators: int = 0
    mistake: Mistake | None = None

    @cached_property
    def events(self) -> tuple[int, ...]:
        """Of each message, the one of its event: a forged redrive says that it is another's."""
        numbered = [*enumerate(self.messages)]
        plain = {each.id: at for at, each in numbered if not each.given and not each.forged}
        return tuple(plain[each.id] if each.forged else at for at, each in numbered)

    def slot(self, sent: int) -> int:
        """The slot of a time, by HOME's spec."""
        return sent // self.length

    def start(self) -> State:
        """Nothing is delivered."""
        slots = 2 + max(each.sent for each in self.messages)  # also those of mistakes
        ids = 1 + max(each.id for each in self.messages)
        none = (0,) * ids
        empty: Slot = (NO_LEAF,) * self.positions
        return State((empty,) * slots, (none, none), ((),) * ids)


class Leaf(NamedTuple):
    """The events of a leaf, by their messages, and whether it is an end."""

    events: tuple[int, ...] = ()
    ends: bool = False


class Put(NamedTuple):
    """A leaf at a position of a slot, or without a slot a record at its id."""

    window: int
    slot: int
    at: int
    leaf: Leaf


class Item(NamedTuple):
    """A message that a writer has: its event, its redrive's target or NONE, its slot or NONE if it
    is to be a record.
    """

    message: int
    event: int
    target: int
    slot: int


class Writer(NamedTuple):
    """A writer: its messages, by slot the positions that it has seen (as bits), its puts without an
    answer, and whether it has still to read claims. What it has seen is any old subset.
    """

    items: tuple[Item, ...]
    known: tuple[int, ...]
    undecided: tuple[Put, ...] = ()
    asks: bool = False


class Operator(NamedTuple):
    """A redrive of a letter: the claim as read, the target (NONE: counted already), and whether the
    claim is put and the message is sent.
    """

    message: int
    claim: tuple[int, ...]
    target: int
    claimed: bool = False
    sent: bool = False


Slot = tuple[Leaf, ...]
NO_LEAF = Leaf()


class State(NamedTuple):
    """Everything at one moment.

    records: by window and id, 1 + the event, or 0
    claims: by id, target and time (NONE if it has none), or ()
    queue: the copies that were redriven, with their targets; originals are always there
    flights: transactions that may still be carried out
    """

    slots: tuple[Slot, ...]
    records: tuple[tuple[int, ...], tuple[int, ...]]
    claims: tuple[tuple[int, ...], ...]
    tally: int = 0
    sealed: bool = False
    queue: tuple[tuple[int, int], ...] = ()
    letters: tuple[int, ...] = ()
    writers: tuple[Writer, ...] = ()
    operators: tuple[Operator, ...] = ()
    flights: tuple[tuple[Put, ...], ...] = ()
    wrong: str = ""


Step = tuple[str, State]


def stored(state: State, put: Put) -> Leaf:
    """What is at the place of a put, if anything."""
    if put.slot != NONE:
        return state.slots[put.slot][put.at]
    record = state.records[put.window][put.at]
    return Leaf((record - 1,)) if record else NO_LEAF


def carried_out(world: World, state: State, puts: tuple[Put, ...]) -> State | None:
    """The state after a transaction in one window; None if a gate or a condition cancels it."""
    if (state.sealed and puts[0].window == HOME) or any(stored(state, put).events for put in puts):
        return None
    slots, records = [*state.slots], [*state.records]
    for put in puts:
        if put.slot != NONE:
            slots[put.slot] = replaced(slots[put.slot], put.at, put.leaf)
        else:
            records[put.window] = replaced(records[put.window], put.at, 1 + put.leaf.events[0])
    tally = state.tally + sum(len(put.leaf.events) for put in puts)
    if world.mistake is Mistake.TALLY_APART:
        tally = state.tally
    after = state._replace(slots=tuple(slots), records=(records[0], records[1]), tally=tally)
    return after._replace(wrong=_broken(after))


def _broken(state: State) -> str:
    counted = [*_counted(state, HOME), *_counted(state, OTHER)]
    if not len({*counted}) == len(counted) == state.tally:
        return Promise.ONCE.name
    for slot in state.slots:
        for before, leaf in pairwise(slot):
            if leaf.events and (before.ends or not before.events):
                return Promise.GAPLESS.name
    return ""


def _counted(state: State, window: int) -> list[int]:
    """The events in the records, and in HOME's leaves."""
    slots = state.slots if window == HOME else ()
    leaves = [event for slot in slots for leaf in slot for event in leaf.events]
    return [*leaves, *(record - 1 for record in state.records[window] if record)]


def acknowledged(world: World, state: State, message: int) -> State:
    """The state, judged: somebody takes the message for counted."""
    fine = world.events[message] in (*_counted(state, HOME), *_counted(state, OTHER))
    return state if fine else state._replace(wrong=Promise.COUNTED.name)


def rejected(world: World, state: State, message: int, *, sealed: bool = False) -> State:
    """The state with a letter; `sealed`: for that reason."""
    after = state._replace(letters=tuple(sorted({*state.letters, message})))
    if sealed and world.events[message] in _counted(state, HOME):
        return after._replace(wrong=Promise.REJECTED.name)
    return after


def fits(world: World, claim: tuple[int, ...], message: Message, unless: Mistake) -> bool:
    """Whether a claim has the time of this message's redrive: of a plain event when it was first
    sent, of an event with a given id none.
    """
    if message.given:
        return claim[1] == NONE or world.mistake is Mistake.GIVEN_MOVES
    without_time = claim[1] == NONE and world.mistake in (Mistake.CLAIM_SHARED, Mistake.TIME_ADDED)
    return claim[1] == message.sent or without_time or world.mistake is unless


def replaced(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    """The values with this one at its place."""
    return (*values[:at], value, *values[at + 1 :])
