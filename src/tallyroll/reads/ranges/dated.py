"""An event by its id and date: the id gives the shard in each window of a span, so all are asked at
once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

from tallyroll.errors import Absent, Archived, Missing, UsageError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.records import Record, RecordName
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, Window
from tallyroll.model.stored import StoredPacket, packed_id, stored
from tallyroll.model.windows import Span, WindowId, iso
from tallyroll.reads.counts import COUNT_MS
from tallyroll.reads.found import FoundEvent, StoredWhat, least_key
from tallyroll.reads.jsonable import found_json
from tallyroll.reads.merge import BYTES_MAX, event_bytes
from tallyroll.reads.ranges.pages import ArchiveReads, ArchivesRead
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
READS_AT_ONCE = 16
WINDOWS_AT_ONCE = 50  # whose records, of at most 400 KB each, are in memory together


@dataclass(frozen=True, slots=True)
class EventMatches:
    """The events of a key with one id in a span of windows: at least one, ascending by window.

    `archives` has the windows of the span that were dropped, where others may be. `others` are the
    windows of those that an answer has no room for.
    """

    found: tuple[FoundEvent, ...]
    archives: Archives = field(default_factory=dict)
    others: tuple[WindowId, ...] = ()


@dataclass(eq=False)
class _Search:
    """What was `found` in the windows that were `read`; once it has over `size` bytes, `others` are
    the windows of the rest.
    """

    key: str
    event_id: str
    size: int | None
    end: int  # when (ms) the request's time ends
    archives: ArchiveReads | None
    found: dict[WindowId, _Whats] = field(default_factory=dict)
    others: set[WindowId] = field(default_factory=set)
    read: set[WindowId] = field(default_factory=set)
    taken: int = 0

    @property
    def names(self) -> list[RecordName]:
        """The records that may hold the event: its own, and its packet."""
        packed = packed_id(self.event_id)
        return [(self.key, self.event_id)] + ([(self.key, packed[0])] if packed else [])

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another event."""
        return self.size is not None and bool(self.found) and self.taken >= self.size

    def add(self, window: WindowId, whats: _Whats) -> None:
        """Add what a window holds."""
        self.found[window] = whats
        self.taken += sum(map(event_bytes, whats[0]))


class DatedReads(ArchivesRead):
    """Events by their ids and dates."""

    _calendar_seen: Calendar | None = None  # by the last of these reads

    def event(
        self,
        key: str,
        event_id: str,
        window: WindowId | None,
        ts: int | None,
        time_left_ms: int = COUNT_MS,
        *,
        archived: bool = False,
    ) -> FoundEvent:
        """See `Lookups.event`. If it may be `archived`, of a dropped window from its archive."""
        archives, began = self._archives_for(archived=archived), self._effects.now()
        try:
            return super().event(key, event_id, window, ts)
        except Archived as error:
            if archives is None:
                raise
            gone = (error.window, *error.also)
        windows = sorted(filter(None, map(self._catalog.window, gone)), key=attrgetter("start"))
        left = began + time_left_ms - self._effects.now()
        there = archives.events_named(key, event_id, windows, left)
        if there.found:
            return there.found[0]
        for unread in there.unread.values():
            raise unread
        raise Absent(f"there is no event {event_id!r} of key {key!r} in {', '.join(gone)}")

    def event_on(
        self,
        key: str,
        event_id: str,
        day: int,
        time_left_ms: int = COUNT_MS,
        *,
        archived: bool = False,
    ) -> EventMatches:
        """The events with this id in all windows that hold a part of the day in UTC that begins at
        `day` (ms). See `event_within`.
        """
        search = self._search(key, event_id, None, time_left_ms, archived=archived)
        return self._matches(search, partial(self._span, day, None, None))

    def _search(
        self, key: str, event_id: str, size: int | None, left: int, *, archived: bool
    ) -> _Search:
        archives = self._archives_for(archived=archived)
        return _Search(key, event_id, size, self._effects.now() + left, archives)

    def event_within(
        self,
        key: str,
        event_id: str,
        since: int | None = None,
        until: int | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        archived: bool = False,
    ) -> EventMatches:
        """The events with this id in the windows that start in [since, until) in ms, both bounds of
        windows; by default from the first window to the current one.

        An event belongs to the window of its time, so one id may be in several. A packed event has
        the id `{packet id}:{index}`, unless a record of the window has exactly this id. Raises
        UsageError for a range off the bounds, backwards or too long; Archived if nothing is found
        and a window of the span was dropped, else Absent; StoreError. If they may be `archived`,
        dropped windows are read from their archives, within `time_left_ms`; one that is too large
        for that, or not to be read, stays in `archives`.
        """
        search = self._search(key, event_id, None, time_left_ms, archived=archived)
        return self._matches(search, partial(self._span, None, since, until))

    def _span(
        self, day: int | None, since: int | None, until: int | None, calendar: Calendar
    ) -> Span:
        if day is not None:
            return date_span(calendar.grid, day)
        return range_of(calendar, self._effects.now(), since, until)

    def _matches(self, search: _Search, span_of: Callable[[Calendar], Span]) -> EventMatches:
        """The calendar may be that of an earlier read: it is read again beside the states, and with
        another one all is.
        """
        known = self._calendar_seen
        calendar = known or calendar_of(self._catalog)
        try:
            span = span_of(calendar)
        except UsageError:
            if not known:
                raise
            calendar = calendar_of(self._catalog)
            span = span_of(calendar)
        states, latest = self._read_span(search, span)
        self._calendar_seen = latest
        if latest != calendar:
            of = (search.key, search.event_id, search.size, search.end, search.archives)
            return self._matches(_Search(*of), span_of)
        return self._matched(search, span, states)

    def _read_span(
        self, search: _Search, span: Span
    ) -> tuple[dict[WindowId, Window], Calendar | None]:
        """Read the windows of a span; their states and the calendar, as they were afterwards.

        A dropped table fails the whole batch, so if states are known, only those are asked that
        were there; else those whose specs this process has. What is not found does not exist if its
        table was there after. A window that is listed afterwards alone is read then.
        """
        states: dict[WindowId, Window] | None = None
        calendar: Calendar | None = None
        windows = self._specs.cached(span.start, span.end)
        while True:
            gone = None
            try:
                begun = self._read_windows(search, windows)
            except Missing as missing:
                gone = missing
            else:
                if states is not None and not begun:
                    return states, calendar
            before, (states, calendar) = states, self._look(span)
            dropped_now = archives_of(states.values())
            if gone and before and len(dropped_now) == len(archives_of(before.values())):
                raise gone
            self._specs.forget(dropped_now)
            windows = [
                window.id
                for window in states.values()
                if not dropped(window) and window.id not in search.read
            ]
            if not windows:
                return states, calendar

    def _look(self, span: Span) -> tuple[dict[WindowId, Window], Calendar | None]:
        """The states of a span's windows, and the calendar."""
        listed: Callable[[], list[Window] | Calendar | None] = partial(
            self._catalog.windows, span.start, span.end
        )
        windows, calendar = self._effects.together([listed, self._catalog.calendar], READS_AT_ONCE)
        assert isinstance(windows, list)
        assert not isinstance(calendar, list)
        return {window.id: window for window in windows}, calendar

    def _read_windows(self, search: _Search, windows: Sequence[WindowId]) -> bool:
        """Read windows; whether one of them has begun. Raises Missing."""
        specs = self._specs.specs(windows) if windows else {}
        search.read.update(window for window in windows if window not in specs)
        begun = sorted(specs)
        at_once = len(begun) if search.size is None else WINDOWS_AT_ONCE
        for at in range(0, len(begun), at_once or 1):
            some = begun[at : at + at_once]
            names = search.names
            records = self._store.lookup_across([specs[window] for window in some], names)
            for window in some:
                self._add(search, specs[window], records.get(window, {}))
            search.read.update(some)
        return bool(begun)

    def _add(self, search: _Search, spec: Spec, records: Mapping[RecordName, Record]) -> None:
        """Add the event among the records of its own name and of its packet's."""
        own, *packets = (records.get(name) for name in search.names)
        index = None
        record = own
        if own is None and packets and (packet := packets[0]):
            record, index = packet, int(search.event_id.rpartition(":")[2])
            if not packet.packed or index >= packet.n:
                return
        if record is None:
            return
        if search.is_full:
            search.others.add(spec.window)
            return
        held = stored(self._whole(spec, record))
        if index is None:
            search.add(spec.window, ([held], least_key(record)))
        elif isinstance(held, StoredPacket):
            search.add(spec.window, ([held.events[index]], {}))

    def _matched(
        self, search: _Search, span: Span, states: Mapping[WindowId, Window]
    ) -> EventMatches:
        """The answer: what was found, with what was retracted of it."""
        archives = dict(archives_of(states.values()))
        found = sorted(search.found.items())
        jobs = [
            partial(self._marked_event, search.key, states[window], what) for window, what in found
        ]
        matches = []
        for (window, _), one in zip(
            found, self._effects.together(jobs, READS_AT_ONCE), strict=True
        ):
            if isinstance(one, Archived):
                archives[window] = one.prefix
            else:
                matches.append(one)
                archives.pop(window, None)
        archives = dict(sorted(archives.items()))
        if search.archives and archives:
            windows, left = [states[each] for each in archives], search.end - self._effects.now()
            there = search.archives.events_named(search.key, search.event_id, windows, left)
            matches = sorted([*matches, *there.found], key=attrgetter("window"))
            archives = {each: prefix for each, prefix in archives.items() if each in there.unread}
            if archives and not matches:
                raise there.unread[next(iter(archives))]
        if matches:
            return EventMatches(tuple(matches), archives, tuple(sorted(search.others)))
        if search.others:
            raise Missing("a window was dropped just now: ask again", "Dropped")
        where = f"from {iso(span.start)} to {iso(min(span.end, TS_MS_MAX))}"
        absent = f"there is no event {search.event_id!r} of key {search.key!r} {where}"
        if archives:
            raise archived(f"{absent} in a window that is left", archives)
        logged = self._in_logs(search.key, self._specs.cached(span.start, span.end))
        raise Absent(f"{absent}, in {len(states)} windows{logged}")

    def _marked_event(self, key: str, window: Window, what: _Whats) -> FoundEvent | Archived:
        try:
            return self._found(key, window, what)
        except Archived as error:
            return error


def event_shown(
    reads: DatedReads,
    key: str,
    event_id: str,
    day: int | None = None,
    since: int | None = None,
    until: int | None = None,
    time_left_ms: int = COUNT_MS,
    *,
    archived: bool = False,
) -> EventMatches:
    """What `event_on` gives for a day, or else `event_within`, as far as one answer shows it: holds
    about a megabyte of events, and one more, in memory.
    """
    search = reads._search(key, event_id, BYTES_MAX, time_left_ms, archived=archived)  # noqa: SLF001
    return reads._matches(search, partial(reads._span, day, since, until))  # noqa: SLF001


def matches_json(matches: EventMatches, most: int | None = None) -> dict[str, Any]:
    """The earliest event as one that is found by its window; `also` has those of later windows, and
    `archived` the dropped windows of the span, where others may be. Of what there is no room for,
    because all have over `most` bytes, `also` has the windows alone.
    """
    first, *later = map(found_json, matches.found)
    answer, taken = dict(first), len(json.dumps(first)) if most else 0
    also: list[dict[str, Any]] = [{"window": window} for window in matches.others]
    for shown in later:
        taken += len(json.dumps(shown)) if most else 0
        also.append(shown if most is None or taken <= most else {"window": shown["window"]})
    also.sort(key=lambda one: str(one["window"]))
    if also:
        answer["also"] = also
    if matches.archives:
        answer["archived"] = archives_json(matches.archives)
    return answer


def archives_json(archives: Archives) -> list[dict[str, str]]:
    """Dropped windows, each with the prefix of its archive."""
    return [{"window": window, "archive": prefix} for window, prefix in archives.items()]
