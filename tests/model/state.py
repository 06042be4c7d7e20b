"""The state of a small pipeline: tuples of tuples of small numbers, which are quick to hash.

Windows, messages and names are numbers: places in the tuples of the world (`world.py`).
"""

from __future__ import annotations

from typing import NamedTuple

# The states of a window, in their order. SHUT is the moment of that name: all gates are shut.
OPEN, CLOSING, SHUT, SEALED, EXPORTING, PROVEN, DROPPING, DROPPED = range(8)
STATUS_NAMES = (
    *("open", "closing", "closing, all gates shut", "sealed", "exporting", "proven"),
    *("dropping", "dropped"),
)
NO_TABLE, TABLE, TABLE_AGAIN = range(3)  # AGAIN: made once more, empty, by a roller that slept
NO_GATE = -1
NOWHERE = -1

# Why a message was rejected.
WINDOW_SEALED, UNVERIFIED, ID_CONFLICT, TOO_LATE, EXPIRING, NOT_CLAIMED = range(6)
NOTHING_TO_RETRACT, NOT_PROVEN = range(6, 8)
REASONS = (
    *("window-sealed", "window-sealed (unverified)", "id-conflict", "too-late", "expiring"),
    *("not-claimed", "nothing-to-retract", "not-proven"),
)

Numbers = tuple[int, ...]
Queued = tuple[int, int, int]
"""A message in the queue: its number, the target of its redrive or NOWHERE, the day of sending."""
Action = tuple[str, int, int, str]
"""A call of a port: its name, the message (or -1), the window (or -1), the answer."""


class Window(NamedTuple):
    """A window, with its table, its totals and its archive. By name of a record:

    records: 1 + the message that stored it, or 0. They stay here when the table is dropped: what
        was accepted. `table` says whether they can be read
    tombs, entries: 1 + the retraction that put the tombstone or the correction, or 0

    gates: how many are open; NO_GATE: there are none
    tally: n, v, rn, rv: how many events count and their sum, how many are retracted and their sum.
        `unseen` is the part of it that a listing may not see yet, or ()
    total: n, v, rn, rv, as listed; () if there is none
    corrected: how many events corrections retract, and their sum
    archive: its records and tombstones; () if there is none
    proven: whether the archive was proven
    """

    status: int
    table: int
    gates: int
    records: Numbers
    tombs: Numbers
    entries: Numbers
    tally: Numbers = (0, 0, 0, 0)
    unseen: Numbers = ()
    total: Numbers = ()
    corrected: Numbers = (0, 0)
    archive: tuple[Numbers, ...] = ()
    proven: bool = False


class Writer(NamedTuple):
    """A writer with a message. It may stall at any step, and die at any step.

    place: the window in which it works
    step: what it does next
    saw: what it knows: 1 + the message of a record, or a reason for rejection
    counted: not known to the writer: whether the event was counted already when the writer decided
        that it cannot count it
    stale: the message was redriven since it was delivered, so to acknowledge it deletes another
        copy than the one that is queued
    """

    message: int
    target: int
    sent: int
    place: int
    step: int
    saw: int = 0
    counted: bool = False
    stale: bool = False


class Operator(NamedTuple):
    """A redrive of one letter; `claim` is the claim as read, `target` where it is to count."""

    message: int
    reason: int
    step: int
    claim: int = NOWHERE
    place: int = NOWHERE
    before: int = 0
    target: int = NOWHERE


class State(NamedTuple):
    """Everything at one moment. `identities` holds (window, message, day until which it stays) or
    (). `proofs` holds, of each message, 1 + the window whose archive proves what it retracts, or 0.
    Queue, letters (message, reason) and writers are sorted: their order means nothing.
    """

    day: int
    windows: tuple[Window, ...]
    identities: tuple[Numbers, ...]
    claims: Numbers
    proofs: Numbers
    queue: tuple[Queued, ...]
    letters: tuple[tuple[int, int], ...]
    writers: tuple[Writer, ...]
    operator: Operator | None


def plus(numbers: Numbers, others: Numbers) -> Numbers:
    """The sums, place by place; () is zero."""
    if not others:
        return numbers
    return tuple(map(int.__add__, numbers, others))


def with_window(state: State, number: int, window: Window) -> tuple[Window, ...]:
    """The windows, one of them replaced."""
    windows = state.windows
    return (*windows[:number], window, *windows[number + 1 :])


def with_writer(state: State, index: int, writer: Writer | None) -> tuple[Writer, ...]:
    """The writers, one of them replaced, or gone. Writers differ by their state alone, so their
    order is of no account: states that differ by it alone are one.
    """
    writers = state.writers
    rest = (*writers[:index], *writers[index + 1 :])
    return rest if writer is None else tuple(sorted((*rest, writer)))


def at(numbers: Numbers, places: Numbers, value: int) -> Numbers:
    """The numbers with this value at these places."""
    return tuple(value if place in places else each for place, each in enumerate(numbers))
