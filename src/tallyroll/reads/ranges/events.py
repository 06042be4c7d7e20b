"""The events of a key in a range of windows, in one order: by window, and then by id.

A page reads windows from its place on. The state of each is read after its shards: if its table is
not being dropped then, it was there during the read, and what was not found does not exist. Of
sealed windows only those are read in which the key has a total: without one it has no events there,
now and for ever. A window of which nothing is left to list cannot end a later page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice

from tallyroll.errors import Archived, Missing, Throttled, UsageError
from tallyroll.model.states import Calendar, Status, Window
from tallyroll.model.stored import StoredPacket
from tallyroll.model.windows import Grid, Span, WindowId, iso, window_id
from tallyroll.reads.counts import COUNT_MS
from tallyroll.reads.found import FoundEvent, StoredWhat
from tallyroll.reads.lookups import deadline_of
from tallyroll.reads.merge import BYTES_MAX, EVENTS_MAX, LAST_BYTES_MAX, event_bytes
from tallyroll.reads.parts import ListedPart, PartAsked
from tallyroll.reads.ranges.cursors import (
    BEGIN,
    RangePlace,
    RangeQuery,
    check_query,
    read_range_cursor,
    secret_of,
)
from tallyroll.reads.ranges.pages import ArchivesRead, EventsPage, signed
from tallyroll.reads.ranges.spans import archived, archives_of, calendar_of, dropped, range_of

LISTED_AT_ONCE = 48  # windows whose states are listed together
WINDOWS_AT_ONCE = 4  # that are read side by side, each from up to 16 shards
STREAMED_EVENTS, STREAMED_BYTES = 10_000, 8 * 1024 * 1024  # of a page that no answer has to hold
STREAMED_AT_ONCE = 2  # windows of so many events
ORDERED_MAX = EVENTS_MAX


class RangeReads(ArchivesRead):
    """Events over ranges of windows."""

    def events_page(
        self,
        key: str,
        since: int | None = None,
        until: int | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        limit: int = 100,
        cursor: str | None = None,
        packed: bool = False,
        archived: bool = False,
    ) -> EventsPage:
        """Up to `limit` events of a key in the windows that start in [since, until) in ms, both
        bounds of windows, from `cursor` on; fewer if they are large. By default from the pipeline's
        first window to the current one.

        An event that is written meanwhile appears if its place lies after the cursor. Raises
        Archived if a window was dropped: of the whole range without a cursor, later of the windows
        that are still to be listed. An `archived` page reads such windows from their archives, and
        raises Archived for an archive that is too large, or not to be read. Raises UsageError,
        Absent and StoreError, Missing also until a roller has put the secret of cursors.
        """
        calendar = calendar_of(self._catalog)
        query, place = self._asked(calendar, key, since, until, limit, cursor, packed=packed)
        if self._archives_for(archived=archived) and self._archived:
            live = (self._page_of, calendar.grid)
            page = self._archived.page(*live, query, place, limit, time_left_ms)
            return signed(calendar, page)
        if cursor is None:
            self._check_whole(query)
        with self._remedied(query):
            page = self._page_of(calendar.grid, query, place, limit, BYTES_MAX, time_left_ms)
        return signed(calendar, page)

    def _asked(
        self,
        calendar: Calendar,
        key: str,
        since: int | None,
        until: int | None,
        limit: int,
        cursor: str | None,
        *,
        packed: bool,
    ) -> tuple[RangeQuery, RangePlace]:
        """The query of a page, and the place at which the page begins. Raises UsageError, and
        Missing until a roller has put the secret of cursors.
        """
        if not 1 <= limit <= EVENTS_MAX:
            raise UsageError(f"limit {limit}: must be from 1 to {EVENTS_MAX}")
        secret = secret_of(calendar)
        if cursor is None:
            span = range_of(calendar, self._effects.now(), since, until)
            return RangeQuery(key, span, packed), RangePlace(span.start)
        query, place = read_range_cursor(cursor, secret)
        check_query(RangeQuery(key, query.span, packed), query, since, until)
        if calendar.grid.at(place.window).start != place.window:
            raise UsageError("the cursor is of a window that there is not: begin again")
        return query, place

    def events_within(
        self, key: str, since: int | None = None, until: int | None = None, *, packed: bool = False
    ) -> Iterator[FoundEvent]:
        """All events of a key in the windows that start in [since, until) in ms, both bounds of
        windows, ascending by window and id. Holds a page of them in memory.

        Raises what `events_page` does; a window that is dropped meanwhile ends it with Archived.
        """
        calendar = calendar_of(self._catalog)
        query = self._whole_query(calendar, key, since, until, packed=packed)
        for page in self.pages_of(query, RangePlace(query.span.start)):
            yield from page.found

    def pages_of(self, query: RangeQuery, place: RangePlace) -> Iterator[EventsPage]:
        """The events of a query from a place on, in large pages."""
        grid = calendar_of(self._catalog).grid
        then: RangePlace | None = place
        while then:
            streamed = then.position == BEGIN  # a large window is read by itself
            with self._remedied(query):
                page = self._page_of(
                    grid, query, then, STREAMED_EVENTS, STREAMED_BYTES, COUNT_MS, streamed=streamed
                )
            if page.then == then:
                raise Throttled("events: nothing of a page could be read in time", "NoProgress")
            yield page
            then = page.then

    def _whole_query(
        self, calendar: Calendar, key: str, since: int | None, until: int | None, *, packed: bool
    ) -> RangeQuery:
        """The query of a range. Raises Archived if one of its windows was dropped."""
        span = range_of(calendar, self._effects.now(), since, until)
        query = RangeQuery(key, span, packed)
        self._check_whole(query)
        return query

    def _check_whole(self, query: RangeQuery) -> None:
        windows = self._catalog.windows(query.span.start, query.span.end)
        if archives := archives_of(windows):
            raise archived(f"events of {query.key!r}", archives, windows, remedy=True)

    @contextmanager
    def _remedied(self, query: RangeQuery) -> Iterator[None]:
        """Let an error that a window was dropped say since when none of the range was."""
        try:
            yield
        except Archived as gone:
            windows = self._catalog.windows(query.span.start, query.span.end)
            archives = gone.archives or {gone.window: gone.prefix}
            what = f"events of {query.key!r}"
            raise archived(what, archives, windows, remedy=True) from None

    def _page_of(
        self,
        grid: Grid,
        query: RangeQuery,
        place: RangePlace,
        most: int,
        size: int,
        time_left_ms: int,
        *,
        streamed: bool = False,
    ) -> EventsPage:
        """At most so many events and about so many bytes from a place on, without a cursor; if it
        is `streamed`, so many of each of some windows that are read side by side. Raises what
        `events_page` does.
        """
        now = self._effects.now()
        deadline = deadline_of(now, time_left_ms)
        found: list[FoundEvent] = []

        def page(then: RangePlace | None, *, complete: bool = True) -> EventsPage:
            return EventsPage(query, tuple(found), then, complete, now)

        for first, windows in self._groups(grid, query, place, most, found, streamed=streamed):
            if self._effects.now() >= deadline:
                return page(place if first == place.window else RangePlace(first), complete=False)
            if not windows:
                continue
            asked = PartAsked(query.key, BEGIN, most - len(found), deadline, query.packed, size)
            for window, part, marked in self._parts_of(windows, asked, place):
                taken = sum(map(event_bytes, part.found))
                if found and taken > size + LAST_BYTES_MAX and not streamed:
                    return page(RangePlace(window.start))
                found += [FoundEvent(query.key, window.id, window.status, one) for one in marked]
                size -= taken
                if part.then:
                    return page(RangePlace(window.start, part.then), complete=part.complete)
                if (len(found) >= most or size <= 0) and not streamed:
                    ended = window.end >= query.span.end
                    return page(None if ended else RangePlace(window.end))
            if streamed and found:
                end = windows[-1].end
                return page(RangePlace(end) if end < query.span.end else None)
        return page(None)

    def _groups(
        self,
        grid: Grid,
        query: RangeQuery,
        place: RangePlace,
        most: int,
        found: Sequence[FoundEvent],
        *,
        streamed: bool,
    ) -> Iterator[tuple[int, list[Window]]]:
        """The windows from a place on that may hold events of the key, in groups to be read side by
        side, each with its start (ms): as many as are known to hold no more than a page of `most`
        events has room for beside those `found` so far. Before each listing of windows comes an
        empty group. For a `streamed` page: as many as have two pages, and one of an unknown number
        of events has one.
        """
        at = place.window
        while at < query.span.end:
            yield at, []
            span = Span(at, query.span.end)
            last = next(islice(grid.over(span.start, span.end), LISTED_AT_ONCE, None), None)
            span = Span(at, last.start if last else query.span.end)
            windows = self._catalog.windows(span.start, span.end)
            known = self._known(query.key, windows, span)
            group: list[Window] = []
            held = 0
            for window in windows:
                n = known.get(window.id)
                if window.status.sealed and not dropped(window) and n is None:
                    continue
                room = most - len(found) - held
                if streamed:
                    room = STREAMED_AT_ONCE * most - held
                    n = most if n is None else n if n <= most else STREAMED_AT_ONCE * most
                if group and (n is None or n > room or len(group) == WINDOWS_AT_ONCE):
                    yield group[0].start, group
                    group, held = [], 0
                group.append(window)
                held += n or 0
                if n is None:
                    yield group[0].start, group
                    group, held = [], 0
            if group:
                yield group[0].start, group
            at = span.end

    def _known(self, key: str, windows: Sequence[Window], span: Span) -> Mapping[WindowId, int]:
        """How many events of the key each sealed window holds that has any. Read after the states:
        a window that is sealed has its totals.
        """
        if not any(window.status.sealed for window in windows):
            return {}
        totals = self._totals.of_key(key, window_id(span.start), window_id(span.end))
        return {total.window: total.n + total.corrections.before[0] for total in totals}

    def _parts_of(
        self, windows: Sequence[Window], asked: PartAsked, place: RangePlace
    ) -> list[tuple[Window, ListedPart, Sequence[StoredWhat]]]:
        """A part of each window, and the windows' states after they were read; with each part what
        of it was retracted: before the page began, while the window had the state that is known.
        Raises Archived.
        """
        specs = self._specs.specs([window.id for window in windows])
        begun = [window for window in windows if window.id in specs]
        reads = [
            partial(self._parts.read, specs[window.id], replace(asked, position=place.position))
            if window.start == place.window
            else partial(self._parts.read, specs[window.id], asked)
            for window in begun
        ]
        gone = None
        parts: list[ListedPart] = []
        try:
            parts = self._effects.together(reads, WINDOWS_AT_ONCE)
        except Missing as missing:
            gone = missing
        span = (windows[0].start, windows[-1].end)
        jobs: list[Callable[[], list[Window] | tuple[StoredWhat, ...]]] = [
            partial(self._catalog.windows, *span)
        ]
        jobs += [
            partial(self._marked, asked.key, window, (part.found, part.least_keys))
            for window, part in zip(begun, parts, strict=False)  # no parts, if a table is gone
        ]
        found = self._effects.together(jobs, 1 + WINDOWS_AT_ONCE)
        after = {window.id: window for some in found if isinstance(some, list) for window in some}
        marked = [some for some in found if isinstance(some, tuple)]
        states = [after[window.id] for window in windows]
        if archives := archives_of(states):
            raise archived(f"events of {asked.key!r}", archives)
        if gone:
            raise gone
        for window, state in zip(windows, states, strict=True):
            if window.id not in specs and state.status is not Status.CREATING:
                raise Missing(f"window {window.id} has opened just now: ask again", "NoSpec")
        begun = [after[window.id] for window in begun]
        return list(zip(begun, parts, marked, strict=True))

    def events_by_time(
        self,
        key: str,
        since: int | None = None,
        until: int | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        packed: bool = False,
    ) -> EventsPage:
        """All events of a key in a range of windows by their times, at most `ORDERED_MAX` of them
        and a megabyte. Raises UsageError if there are more, and what `events_page` raises.
        """
        calendar = calendar_of(self._catalog)
        query = self._whole_query(calendar, key, since, until, packed=packed)
        place = RangePlace(query.span.start)
        most = ORDERED_MAX + 1
        with self._remedied(query):
            page = self._page_of(calendar.grid, query, place, most, BYTES_MAX, time_left_ms)
        if page.complete and (page.then or len(page.found) > ORDERED_MAX):
            raise UsageError(
                f"order time: there are more than {ORDERED_MAX:,} events, or than a megabyte of"
                f" them, from {iso(query.span.start)} to {iso(query.span.end)}: give a shorter"
                f" range, leave order out, or use tallyroll events --order time"
            )
        return EventsPage(query, by_time(page.found), None, page.complete, page.as_of)


def by_time(found: Sequence[FoundEvent]) -> tuple[FoundEvent, ...]:
    """Events by their times, then by windows and ids; a packet is where its first event is."""
    return tuple(sorted(found, key=lambda one: (time_of(one), one.window, one.what.id)))


def time_of(found: FoundEvent) -> int:
    """When (ms) an event happened, or the first of a packet."""
    what = found.what
    return min(one.ts for one in what.events) if isinstance(what, StoredPacket) else what.ts
