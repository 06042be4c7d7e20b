"""Pages of a key's events in a range of windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tallyroll.errors import Archived, UsageError
from tallyroll.model.states import Calendar, Window
from tallyroll.model.windows import Grid, WindowId, iso
from tallyroll.reads.found import FoundEvent
from tallyroll.reads.jsonable import stored_json
from tallyroll.reads.lookups import Lookups
from tallyroll.reads.ranges.cursors import RangePlace, RangeQuery, range_cursor, secret_of

NO_ARCHIVES = (
    "archived: archives are not read here: deploy the aggregator with tallyroll:read_archives=true,"
    " give the command --archived, or in Python Reader.connect(bucket=...)"
)


@dataclass(frozen=True, slots=True)
class ArchivedMatches:
    """The events of one key and id that archives have, ascending by window; and of each window
    whose archive was not read why it was not.
    """

    found: tuple[FoundEvent, ...] = ()
    unread: Mapping[WindowId, Archived] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventsPage:
    """Events (or packets) of a key in [since, until) in ms, ascending by window and id, each with
    its window.

    `then` is the place to go on at, and None at the end. If time ran out, it is not `complete`:
    there are fewer events than asked for, and the place continues without a gap.
    """

    query: RangeQuery
    found: tuple[FoundEvent, ...]
    then: RangePlace | None
    complete: bool
    as_of: int
    cursor: str | None = None


ReadPage = Callable[[Grid, RangeQuery, RangePlace, int, int, int], EventsPage]
"""Gives at most so many events and about so many bytes from a place on, with ms of time."""


class ArchiveReads(Protocol):
    """Reads dropped windows from their archives. Use one per process."""

    def page(
        self, live: ReadPage, grid: Grid, query: RangeQuery, place: RangePlace, most: int, left: int
    ) -> EventsPage:
        """At most so many events from a place on, without a cursor, with `left` ms of time. Windows
        that are not dropped are read by `live`.
        """

    def events_named(
        self, key: str, event_id: str, windows: Sequence[Window], left: int
    ) -> ArchivedMatches:
        """The events with this id in these dropped windows, ascending, within `left` ms; as they
        were found in the windows' tables. Raises ProofMismatch for an archive that is not the
        proven one, and StoreError.
        """


class ArchivesRead(Lookups):
    """Reads that may ask archives, too, if there are `_archives`."""

    _archives: Callable[[], ArchiveReads] | None = None
    _archived: ArchiveReads | None = None

    def _archives_for(self, *, archived: bool) -> ArchiveReads | None:
        """What reads archives, if that is asked for. Raises UsageError if it cannot be had."""
        if not archived:
            return None
        if self._archives is None:
            raise UsageError(NO_ARCHIVES)
        self._archived = self._archived or self._archives()
        return self._archived


def signed(calendar: Calendar, page: EventsPage) -> EventsPage:
    """The page with the cursor of where to go on."""
    if page.then is None:
        return page
    return replace(page, cursor=range_cursor(secret_of(calendar), page.query, page.then))


def events_page_json(page: EventsPage) -> dict[str, Any]:
    """A page as JSON; `cursor` is absent after the last."""
    answer: dict[str, Any] = {
        "key": page.query.key,
        "since": iso(page.query.span.start),
        "until": iso(page.query.span.end),
        "events": [{"window": one.window, **stored_json(one.what)} for one in page.found],
        "as_of": iso(page.as_of),
        "complete": page.complete,
    }
    if page.cursor:
        answer["cursor"] = page.cursor
    return answer
