"""Follows a key's events as they count.

Ids are in no order of time, so an event may count below what was listed. Therefore each look reads
the key's tally in every window that is not sealed, and lists a window again if the number of events
that were stored in it has changed: events and retracted ones together, since a retraction lowers
the first. The tally is read before the listing, so that what it counts is listed. A sealed window
that seems to have no events may have been dropped just now, and its table made again: its state is
read once more. `tests/model/ranges.py` is a model of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from tallyroll.errors import Missing, Throttled, Unknown
from tallyroll.limits import SKEW_MS_MAX
from tallyroll.model.states import Window
from tallyroll.model.stored import StoredPacket
from tallyroll.model.windows import Span, WindowId
from tallyroll.reads.found import FoundEvent, StoredWhat
from tallyroll.reads.ranges.cursors import RangePlace, RangeQuery
from tallyroll.reads.ranges.events import RangeReads
from tallyroll.reads.ranges.spans import archived, archives_of, calendar_of, range_of

FOLLOW_MS = 2_000


@dataclass(slots=True)
class _Followed:
    """What was listed of a window: how many events were stored, and the digests of their names."""

    stored: int = 0
    seen: set[bytes] = field(default_factory=set)


class FollowingReads(RangeReads):
    """Events as they count."""

    def follow(self, key: str, since: int | None = None) -> Iterator[FoundEvent]:
        """The events of a key in the windows that start from `since` on (ms, a bound of windows; by
        default the current window's start), and then each that counts, for ever: each once.

        Looks every two seconds, sleeping in between. Holds 16 bytes of each event of the windows
        that are not sealed. Raises what `events_within` raises.
        """
        calendar = calendar_of(self._catalog)
        now = self._effects.now()
        start = calendar.grid.at(now).start if since is None else since
        range_of(calendar, now, start, None if start < now else calendar.grid.at(start).end)
        open_ones: dict[WindowId, _Followed] = {}
        ended: set[WindowId] = set()
        while True:
            yield from self._counted_since(key, start, open_ones, ended)
            self._effects.sleep(FOLLOW_MS)

    def _counted_since(
        self, key: str, since: int, open_ones: dict[WindowId, _Followed], ended: set[WindowId]
    ) -> Iterator[FoundEvent]:
        """The events that counted since the last look, in the order of their windows and ids."""
        windows = self._catalog.windows(since, self._effects.now() + SKEW_MS_MAX)
        windows = [window for window in windows if window.id not in ended]
        if archives := archives_of(windows):
            raise archived(f"events of {key!r}", archives, windows, remedy=True)
        specs = self._specs.specs([window.id for window in windows])
        empty: list[Window] = []
        for window in windows:
            if window.id not in specs:
                continue
            followed = open_ones.setdefault(window.id, _Followed())
            try:
                stored = self._store.tallies(specs[window.id], [key])[key].stored
                if stored != followed.stored:
                    yield from self._news(key, window, followed)
                    followed.stored = stored
            except Missing:
                self._raise_if_dropped(key, [window])
                raise
            except (Throttled, Unknown):
                continue  # the next look reads it again
            if window.status.sealed:  # it was before its tally was read
                ended.add(window.id)
                del open_ones[window.id]
                if not stored:
                    empty.append(window)
        if empty:
            self._raise_if_dropped(key, empty)

    def _news(self, key: str, window: Window, followed: _Followed) -> Iterator[FoundEvent]:
        query = RangeQuery(key, Span(window.start, window.end))
        for page in self.pages_of(query, RangePlace(window.start)):
            for found in page.found:
                name = _digest(found.what)
                if name not in followed.seen:
                    followed.seen.add(name)
                    yield found

    def _raise_if_dropped(self, key: str, windows: Sequence[Window]) -> None:
        names = {window.id for window in windows}
        after = self._catalog.windows(windows[0].start, self._effects.now() + SKEW_MS_MAX)
        if archives := archives_of([window for window in after if window.id in names]):
            raise archived(f"events of {key!r}", archives, after, remedy=True)


def _digest(what: StoredWhat) -> bytes:
    """A digest of an event's name: an event and one of a packet may have the same id."""
    packet = "" if isinstance(what, StoredPacket) else what.packet
    return blake2b(f"{packet or ''}\0{what.id}".encode(), digest_size=16).digest()
