"""The promises: what must hold in every state.

The numbers are those of docs/exactness.md. Two judgements need more than a state: that a total
never changes follows from promise 4 in every state, since the tally of a sealed window is compared
with it; and `explore.py` asks whether every message can still come to its end.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from tests.model import state as s
from tests.model.state import Numbers, State, Window
from tests.model.world import Event, World
from tests.model.writer import REJECT


class Promise(StrEnum):
    """What is promised, by its number."""

    TALLY = "1: the tally is the number and sum of accepted events, less those retracted"
    ALL_KEYS = "1: an event counts under all of its keys"
    COUNTED_OR_LETTER = "2: what is acknowledged is counted, a duplicate, or a letter"
    NO_FALSE_LETTER = "2: what was counted is not rejected as if it were not"
    ENDS = "2: every message can still come to its end"
    PROVEN = "3: no table is dropped before its archive is proven"
    ARCHIVED = "3: the archive of a dropped window holds what was counted and retracted"
    FINAL = "4: a total is the sum of the tallies, and never changes after sealing"
    PLACE = "5: a message counts in its own window, or in that of its claim"
    ONCE = "6: two messages of one identity never both count"
    COUNTED_FIRST = "7: only what was counted is retracted"
    ONE_WAY = "7: an event has at most one of tombstone and correction"
    CORRECTIONS = "7: the corrections' sums are those of the corrected events, each once"
    MEANT = "7: a retraction retracts the event of the window that it names"
    ALL_KEYS_RETRACTED = "7: an event is retracted under all of its keys"
    RETRACTED_OR_LETTER = "7: a retraction that is acknowledged has its effect, or is a letter"


_SAY_NOT_COUNTED = (s.WINDOW_SEALED, s.TOO_LATE, s.EXPIRING, s.NOTHING_TO_RETRACT)
_Places = frozenset[tuple[int, int]]
"""Windows with a message that has a record there."""


class Judge:
    """Judges the states of one world; remembers its verdicts on parts of them, which come again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._of_window = cache(self._judge_window)
        self._of_records = cache(self._judge_records)
        self._of_messages = cache(self._judge_messages)
        self._of_retractions = cache(self._judge_retractions)
        self._retracts = not all(world.is_event)

    def broken(self, state: State) -> Promise | None:
        """The first promise that does not hold."""
        for window in state.windows:
            if broken := self._of_window(window):
                return broken
        records = tuple([window.records for window in state.windows])
        waiting = {each[0] for each in (*state.queue, *state.letters)}
        if state.operator:
            waiting.add(state.operator.message)
        ended = frozenset(range(len(self._world.messages))) - waiting
        broken = self._of_records(records, state.claims) or self._of_messages(records, ended)
        if not broken and self._retracts:
            withdrawn = tuple([(window.tombs, window.entries) for window in state.windows])
            broken = self._of_retractions(records, withdrawn, ended)
        if broken:
            return broken
        for each in state.writers:
            if each.counted and each.step == REJECT and each.saw in _SAY_NOT_COUNTED:
                return Promise.NO_FALSE_LETTER
        return None

    def _judge_window(self, window: Window) -> Promise | None:
        """The promises that concern one window alone."""
        left: list[int] = []
        retracted: list[int] = []
        corrected: list[int] = []
        for record, tomb, entry in zip(window.records, window.tombs, window.entries, strict=True):
            if (tomb or entry) and not record:
                return Promise.COUNTED_FIRST
            if tomb and entry:
                return Promise.ONE_WAY
            if record:
                (retracted if tomb else left).append(record)
            if entry:
                corrected.append(record)
        if window.tally != self._sums(left) + self._sums(retracted):
            return Promise.TALLY
        if window.corrected != self._sums(corrected):
            return Promise.CORRECTIONS
        if window.status >= s.SEALED and window.total != window.tally:
            return Promise.FINAL
        if window.status >= s.DROPPING and window.table != s.TABLE:
            if not window.proven:
                return Promise.PROVEN
            if window.archive != (window.records, window.tombs):
                return Promise.ARCHIVED
        return None

    def _sums(self, records: list[int]) -> Numbers:
        return len(records), sum(self._world.values[each - 1] for each in records)

    def _judge_records(self, records: tuple[Numbers, ...], claims: Numbers) -> Promise | None:
        """The promises that concern all records."""
        world = self._world
        counted = sorted(_places(records))
        for place, number in counted:
            event = world.messages[number]
            assert isinstance(event, Event)
            if any(records[place][name] != number + 1 for name in event.names):
                return Promise.ALL_KEYS
            if place not in (event.home, claims[world.claim_of[number]]):
                return Promise.PLACE
        for first, one in enumerate(counted):
            if any((one, other) in world.excluded for other in counted[first + 1 :]):
                return Promise.ONCE
        return None

    def _judge_messages(
        self, records: tuple[Numbers, ...], ended: frozenset[int]
    ) -> Promise | None:
        """An event of which there is neither a message nor a letter is counted, or an equal one."""
        for number in ended:
            covered = self._world.covered[number]
            counted = any(covered[at] & {*window} for at, window in enumerate(records))
            if self._world.is_event[number] and not counted:
                return Promise.COUNTED_OR_LETTER
        return None

    def _judge_retractions(
        self,
        records: tuple[Numbers, ...],
        withdrawn: tuple[tuple[Numbers, Numbers], ...],
        ended: frozenset[int],
    ) -> Promise | None:
        """Tombstones and corrections belong to the events that are meant."""
        world = self._world
        reached: set[tuple[int, int]] = set()
        for place, kinds in enumerate(withdrawn):
            for kind in kinds:
                for stored, retraction in zip(records[place], kind, strict=True):
                    if not retraction:
                        continue
                    if world.homes[stored - 1] != world.homes[retraction - 1]:
                        return Promise.MEANT
                    if not all(kind[name] for name in world.messages[stored - 1].names):
                        return Promise.ALL_KEYS_RETRACTED
                    reached.add((place, stored - 1))
        for number in ended:
            if not world.is_event[number] and not self._meant(records, number) & reached:
                return Promise.RETRACTED_OR_LETTER
        return None

    def _meant(self, records: tuple[Numbers, ...], retraction: int) -> _Places:
        """The records that a retraction means: of its name, and of the time that it names."""
        homes, name = self._world.homes, self._world.messages[retraction].names[0]
        return frozenset(
            (place, number)
            for place, number in _places(records)
            if homes[number] == homes[retraction] and records[place][name] == number + 1
        )


def _places(records: tuple[Numbers, ...]) -> _Places:
    return frozenset(
        (place, each - 1) for place, window in enumerate(records) for each in window if each
    )


def is_settled(state: State) -> bool:
    """Whether every message has come to its end, if none of its letters is redriven."""
    return not state.queue and not state.writers and state.operator is None
