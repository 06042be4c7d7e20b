"""Marks: what makes a world interesting. Each world names those that some state of it must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.model import state as s
from tests.model.state import State
from tests.model.world import World
from tests.model.writer import ACK, COMMIT, REJECT


def _accepted(state: State) -> set[tuple[int, int]]:
    """The (window, message) of all records."""
    return {
        (place, each - 1)
        for place, window in enumerate(state.windows)
        for each in window.records
        if each
    }


def _elsewhere(state: State, world: World) -> set[tuple[int, int]]:
    return {(place, each) for place, each in _accepted(state) if world.homes[each] != place}


def _lettered(reason: int) -> Callable[[State, World], bool]:
    return lambda state, _: any(each[1] == reason for each in state.letters)


def _commit_not_answered(state: State, _: World) -> bool:
    accepted = _accepted(state)
    return any(
        each.step == COMMIT and (each.place, each.message) in accepted for each in state.writers
    )


def _identity_met(state: State, world: World) -> bool:
    """A message that has an identity's content, or another one, meets it in another window."""
    return any(
        each.step in (ACK, REJECT)
        and identity
        and identity[1] != each.message
        and slot in world.slots[each.message][each.place]
        for each in state.writers
        for slot, identity in enumerate(state.identities)
    )


def _expected_again(state: State, _: World) -> bool:
    """A message is counted while a letter of it exists."""
    accepted = {message for _, message in _accepted(state)}
    return any(message in accepted for message, _ in state.letters)


def _forgotten(state: State, world: World) -> bool:
    return bool(_accepted(state)) and bool(state.identities) and not any(state.identities)


MARKS: Mapping[str, Callable[[State, World], bool]] = {
    "commit-not-answered": _commit_not_answered,
    "conflict": lambda state, _: any(
        each.step == REJECT and each.saw == s.ID_CONFLICT for each in state.writers
    ),
    "half-shut": lambda state, world: any(
        0 < window.gates < world.gates for window in state.windows
    ),
    "unseen": lambda state, _: any(
        window.unseen and window.status == s.SHUT for window in state.windows
    ),
    "sealed-with-events": lambda state, _: any(
        window.status >= s.SEALED and window.tally[0] for window in state.windows
    ),
    "torn-archive": lambda state, _: any(
        window.archive and window.archive[0] != window.records for window in state.windows
    ),
    "table-made-again": lambda state, _: any(
        window.table == s.TABLE_AGAIN and window.status == s.DROPPED for window in state.windows
    ),
    "dropped-with-events": lambda state, _: any(
        window.status == s.DROPPED and any(window.records) for window in state.windows
    ),
    "counted-elsewhere": lambda state, world: bool(_elsewhere(state, world)),
    "counted-next-window": lambda state, _: any(place > 0 for place, _ in _accepted(state)),
    "claim-moved": lambda state, _: state.windows[1].status >= s.SEALED and state.claims[0] == 2,
    "letter-and-effect": _expected_again,
    "identity-met": _identity_met,
    "identity-forgotten": _forgotten,
    "unverified-letter": _lettered(s.UNVERIFIED),
    "not-claimed-letter": _lettered(s.NOT_CLAIMED),
    "too-late-letter": _lettered(s.TOO_LATE),
    "expiring-letter": _lettered(s.EXPIRING),
    "not-proven-letter": _lettered(s.NOT_PROVEN),
    "nothing-letter": _lettered(s.NOTHING_TO_RETRACT),
    "tombstone": lambda state, _: any(any(window.tombs) for window in state.windows),
    "correction": lambda state, _: any(any(window.entries) for window in state.windows),
    "dropped-with-tombstone": lambda state, _: any(
        any(window.tombs) and window.status == s.DROPPED for window in state.windows
    ),
    "corrected-after-drop": lambda state, _: (
        any(any(window.entries) and window.status == s.DROPPED for window in state.windows)
        and any(state.proofs)
    ),
    "tombstone-elsewhere": lambda state, world: any(
        window.tombs[name] and world.homes[window.records[name] - 1] != place
        for place, window in enumerate(state.windows)
        for name in range(len(window.tombs))
        if window.records[name]
    ),
}
