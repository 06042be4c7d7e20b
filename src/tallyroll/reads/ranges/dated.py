"""An event by its id and date: the id gives the shard in each window of a span, so all are asked at
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tallyroll.errors import Absent, Archived, Missing
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.records import Record, RecordName
from tallyroll.model.states import Window
from tallyroll.model.stored import StoredPacket, packed_id, stored
from tallyroll.model.windows import Span, WindowId, iso
from tallyroll.reads.found import FoundEvent, StoredWhat, least_key
from tallyroll.reads.jsonable import found_json
from tallyroll.reads.lookups import Lookups
from tallyroll.reads.merge import event_bytes
from tallyroll.reads.ranges.spans import (
    Archives,
    archived,
    archives_of,
    calendar_of,
    date_span,
    dropped,
    range_of,
)

_Whats = tuple[list[StoredWhat], dict[str, str]]  # and the least keys, by id


@dataclass(frozen=True, slots=True)
class EventMatches:
    """The events of a key with one id in a span of windows: at least one, ascending by window.

    `archives` has the windows of the span that were dropped, where others may be.
    """

    found: tuple[FoundEvent, ...]
    archives: Archives = field(default_factory=dict)


class DatedReads(Lookups):
    """Events by their ids and dates."""

    def event_on(self, key: str, event_id: str, day: int) -> EventMatches:
        """The events with this id in all windows that hold a part of the day in UTC that begins at
        `day` (ms). See `event_within`.
        """
        return self._matches(key, event_id, date_span(calendar_of(self._catalog).grid, day))

    def event_within(
        self, key: str, event_id: str, since: int | None = None, until: int | None = None
    ) -> EventMatches:
        """The events with this id in the windows that start in [since, until) in ms, both bounds of
        windows; by default from the first window to the current one.

        An event belongs to the window of its time, so one id may be in several. A packed event has
        the id `{packet id}:{index}`, unless a record of the window has exactly this id. Raises
        UsageError for a range off the bounds, backwards or too long; Archived if nothing is found
        and a window of the span was dropped, else Absent; StoreError.
        """
        span = range_of(calendar_of(self._catalog), self._effects.now(), since, until)
        return self._matches(key, event_id, span)

    def _matches(self, key: str, event_id: str, span: Span) -> EventMatches:
        """States are read first and last. A dropped table fails the batch, so only those are asked
        that were there before; and what is not found does not exist if its table was there after.
        """
        found = self._of_alive(key, event_id, span)
        states = self._states(span)
        archives = dict(archives_of(states.values()))
        matches = []
        for window, what in sorted(found.items()):
            try:
                matches.append(self._found(key, states[window], what))
                archives.pop(window, None)
            except Archived as error:
                archives[window] = error.prefix
        archives = dict(sorted(archives.items()))
        if matches:
            return EventMatches(tuple(matches), archives)
        where = f"from {iso(span.start)} to {iso(min(span.end, TS_MS_MAX))}"
        absent = f"there is no event {event_id!r} of key {key!r} {where}"
        if archives:
            raise archived(f"{absent} in a window that is left", archives)
        raise Absent(f"{absent}, in {len(states)} windows")

    def _of_alive(self, key: str, event_id: str, span: Span) -> dict[WindowId, _Whats]:
        states = self._states(span)
        while True:
            alive = [window.id for window in states.values() if not dropped(window)]
            try:
                return self._records(key, event_id, alive)
            except Missing:
                before, states = states, self._states(span)
                if len(archives_of(states.values())) == len(archives_of(before.values())):
                    raise

    def _states(self, span: Span) -> dict[WindowId, Window]:
        return {window.id: window for window in self._catalog.windows(span.start, span.end)}

    def _records(self, key: str, event_id: str, windows: list[WindowId]) -> dict[WindowId, _Whats]:
        """What these windows hold, with the least keys of events of several. Raises Missing."""
        specs = self._specs.specs(windows)
        packed = packed_id(event_id)
        names = [(key, event_id)] + ([(key, packed[0])] if packed else [])
        records = self._store.lookup_across(list(specs.values()), names)
        found = {}
        for window, some in records.items():
            whole = {name: self._whole(specs[window], record) for name, record in some.items()}
            if what := _match(key, event_id, whole):
                found[window] = what
        return found


def _match(key: str, event_id: str, records: Mapping[RecordName, Record]) -> _Whats | None:
    """The event of this id among the records of its own name and of its packet's."""
    if record := records.get((key, event_id)):
        return [stored(record)], least_key(record)
    packed = packed_id(event_id)
    packet = records.get((key, packed[0])) if packed else None
    held = stored(packet) if packet else None
    if packed and isinstance(held, StoredPacket) and packed[1] < len(held.events):
        return [held.events[packed[1]]], {}
    return None


def matches_json(matches: EventMatches, most: int | None = None) -> dict[str, Any]:
    """The earliest event as one that is found by its window; `also` has those of later windows, and
    `archived` the dropped windows of the span, where others may be. Once all have over `most`
    bytes, `also` has the windows of the rest alone.
    """
    answer: dict[str, Any] = {}
    also, taken = list[dict[str, Any]](), 0
    for found in matches.found:
        taken += event_bytes(found.what)
        if not answer:
            answer = dict(found_json(found))
        elif most is None or taken <= most:
            also.append(found_json(found))
        else:
            also.append({"window": found.window})
    if also:
        answer["also"] = also
    if matches.archives:
        answer["archived"] = archives_json(matches.archives)
    return answer


def archives_json(archives: Archives) -> list[dict[str, str]]:
    """Dropped windows, each with the prefix of its archive."""
    return [{"window": window, "archive": prefix} for window, prefix in archives.items()]
