"""The largest keys of a range, for somebody who asks again and again.

What was sealed changes no more, and is kept: only live windows are read each time. Windows that may
have corrections are read each time, too. At most four ranges of 50,000 keys are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from tallyroll.model.totals import Listed
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedSpecs
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.reads.ranges.all_keys import AllKeys, RangeParts, Unread, added, shown_of
from tallyroll.reads.ranges.largest import TopOfRange, top_of
from tallyroll.reads.ranges.spans import calendar_of, range_of
from tallyroll.reads.top import Largest
from tallyroll.settings import Settings

KEPT_KEYS_MAX, KEPT_RANGES_MAX = 50_000, 4
WINDOWS_AT_ONCE = 2  # so that each read gets on, however slow the store is

Sums = Mapping[str, Listed]
Kept = tuple[Mapping[str, int], AbstractSet[WindowId], Sums]
"""Of rolled-up days, by their names with their epochs, and of windows: the sums by key."""
_NONE: Kept = ({}, frozenset(), {})


class Ranking:
    """Reads the largest keys."""

    def __init__(
        self, settings: Settings, store: Store, catalog: Catalog, totals: Totals, effects: Effects
    ) -> None:
        self._rollups, self._effects, self._catalog = settings.rollups, effects, catalog
        self._reads = AllKeys(store, catalog, totals, effects, CachedSpecs(catalog))
        self._kept: list[Kept] = []  # replaced, never changed: several threads read it

    def top(
        self, since: int | None, until: int | None, n: int, time_left_ms: int, *, by_amount: bool
    ) -> TopOfRange:
        """What `Reader.top_within` gives, and raises."""
        now = self._effects.now()
        span = range_of(calendar_of(self._catalog), now, since, until)
        unread = Unread(self._effects, now + time_left_ms)
        parts = self._reads.parts(span, rolled=self._rollups)
        if parts.corrected:
            sums = self._sums(parts, unread, {})
        else:
            live = self._sums(RangeParts({}, (), parts.live, ()), unread, {})
            sums = _joined(self._settled(parts, unread), live)
        found = Largest(n, by_amount)
        found.add([*sums.values()])
        return top_of(span, found, unread, now)

    def _settled(self, parts: RangeParts, unread: Unread) -> Sums:
        """The sums of what is sealed, of which only what is new is read, some windows at a time:
        what was read before time ran out is kept, too.
        """
        days, wanted = parts.days.items(), {each.id for each in parts.sealed}
        fits = (one for one in self._kept if one[0].items() <= days and one[1] <= wanted)
        known = next(fits, _NONE)
        for some in _apart(parts, known):
            if unread.names:
                unread.names.update(map(shown_of, some.days), (each.id for each in some.sealed))
                continue
            sums = self._sums(some, unread, known[2])
            if unread.names or len(sums) > KEPT_KEYS_MAX:
                known = (*known[:2], sums)
                continue
            ids = known[1] | {each.id for each in some.sealed}
            before, known = known, ({**known[0], **some.days}, ids, sums)
            others = [one for one in self._kept if one is not before]
            self._kept = [known, *others][:KEPT_RANGES_MAX]
        return known[2]

    def _sums(self, parts: RangeParts, unread: Unread, more: Sums) -> Sums:
        found = {row.key: row for batch in self._reads.sums(parts, unread) for row in batch}
        return _joined(more, found) if more else found


def _joined(some: Sums, others: Sums) -> Sums:
    sums = dict(some)
    for key, row in others.items():
        before = sums.get(key)
        sums[key] = row if before is None else added(key, [before, row])
    return sums


def _apart(parts: RangeParts, known: Kept) -> Iterator[RangeParts]:
    """What is not known of the parts, some windows at a time."""
    days = dict(parts.days.items() - known[0].items())
    sealed = [each for each in parts.sealed if each.id not in known[1]]
    if days:
        yield RangeParts(days, (), {}, ())
    for at in range(0, len(sealed), WINDOWS_AT_ONCE):
        yield RangeParts({}, sealed[at : at + WINDOWS_AT_ONCE], {}, ())
