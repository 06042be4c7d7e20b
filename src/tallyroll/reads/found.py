"""Events that a read found in one window, and which of them were retracted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from tallyroll.model.records import Record
from tallyroll.model.retractions import RetractionNote, TombstoneName
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.stored import StoredEvent, StoredPacket
from tallyroll.model.windows import WindowId, window_id
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals

KEYS_AT_ONCE = 16

StoredWhat = StoredEvent | StoredPacket


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """An event, or a packet found by its own id, and the window that holds it."""

    key: str
    window: WindowId
    status: Status
    what: StoredWhat


@dataclass(frozen=True, slots=True)
class FoundSingle(FoundEvent):
    """The type of what is found where packets are unpacked: an event, and the window that holds it.
    Its values are made as `FoundEvent`.
    """

    what: StoredEvent


@dataclass(frozen=True, slots=True)
class Events:
    """Events (or packets) of a key in one window, in the order of their ids.

    `cursor` continues after them; None means the end. If time ran out, `complete` is False: there
    are fewer events than asked for, perhaps none, and the cursor continues without a gap.
    """

    key: str
    window: WindowId
    status: Status
    found: tuple[StoredWhat, ...]
    cursor: str | None
    complete: bool
    as_of: int


def least_key(record: Record) -> dict[str, str]:
    """The least key of an event of several, by its id."""
    return {record.id: record.keys[0]} if record.keys else {}


class RetractionMarks:
    """Marks the events that were retracted.

    That costs one request: for many events of a live window the key's tally, which says whether
    there are tombstones; else the events' tombstones; of a sealed window the key's total. What was
    retracted is read only if there is any.
    """

    def __init__(self, store: Store, totals: Totals, effects: Effects) -> None:
        self._store = store
        self._totals = totals
        self._effects = effects

    def marked(
        self,
        spec: Spec,
        status: Status,
        key: str,
        found: Sequence[StoredWhat],
        least_keys: Mapping[str, str],
    ) -> tuple[StoredWhat, ...]:
        """The events and packets of a window of this status, marked. `least_keys` are those of the
        events of several keys, by their ids. Raises Missing if the table was dropped.

        An event of several keys that an earlier release stored is marked under its least key alone,
        if it was retracted after the window was sealed.
        """
        names = names_of(key, found)
        if status.sealed:
            notes = self._of_sealed(spec, key, names, least_keys)
        elif len(names) > spec.stripes_of(key) and self._store.metering_of(spec.table).tallied:
            retracted, _ = self._store.tallies(spec, [key])[key].retracted
            notes = self._stones(spec, names) if retracted else {}
        else:
            notes = self._stones(spec, names)
        return marked(key, found, notes)

    def _stones(
        self, spec: Spec, names: Sequence[TombstoneName]
    ) -> dict[TombstoneName, RetractionNote]:
        stones = self._store.tombstones(spec, names) if names else {}
        return {name: stone.note for name, stone in stones.items()}

    def _of_sealed(
        self,
        spec: Spec,
        key: str,
        names: Sequence[TombstoneName],
        least_keys: Mapping[str, str],
    ) -> dict[TombstoneName, RetractionNote]:
        notes: dict[TombstoneName, RetractionNote] = {}
        if not names:
            return notes
        for total in self._totals.of_key(key, spec.window, window_id(spec.end)):
            if total.corrections.before[0]:
                notes |= self._stones(spec, names)
            if total.corrections.n:
                ports = (self._totals, self._effects)
                notes |= corrected(*ports, spec.window, names, least_keys)
        return notes


def names_of(key: str, found: Sequence[StoredWhat]) -> list[TombstoneName]:
    """The names of events of a key, also of those in packets."""
    return [(key, *_name(event)) for what in found for event in _apart(what)]


def corrected(
    totals: Totals,
    effects: Effects,
    window: WindowId,
    names: Sequence[TombstoneName],
    least_keys: Mapping[str, str],
) -> dict[TombstoneName, RetractionNote]:
    """What was retracted of some events of a key since their window was sealed."""
    key = names[0][0]
    least = dict.fromkeys(least_keys.get(record_id, key) for _, record_id, _ in names)
    jobs = [partial(totals.corrections, each, window) for each in least]
    made = chain.from_iterable(effects.together(jobs, KEYS_AT_ONCE))
    return {(key, one.id, one.index): one.note for one in made if key in one.keys}


def marked(
    key: str, found: Sequence[StoredWhat], notes: Mapping[TombstoneName, RetractionNote]
) -> tuple[StoredWhat, ...]:
    """Events and packets of a key, those marked of which there are notes."""
    return tuple(_marked(what, key, notes) for what in found) if notes else tuple(found)


def _marked(
    what: StoredWhat, key: str, notes: Mapping[TombstoneName, RetractionNote]
) -> StoredWhat:
    if isinstance(what, StoredPacket):
        events = tuple(
            replace(event, retracted=notes.get((key, *_name(event)))) for event in what.events
        )
        return replace(what, events=events)
    return replace(what, retracted=notes.get((key, *_name(what))))


def _apart(what: StoredWhat) -> Sequence[StoredEvent]:
    return what.events if isinstance(what, StoredPacket) else (what,)


def _name(event: StoredEvent) -> tuple[str, int | None]:
    """The id of the event's record, and its index in a packet."""
    return event.packet or event.id, event.index
