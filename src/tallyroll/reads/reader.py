"""Counts: one exact number per key, from the sums of rolled-up days and months, the totals of other
sealed windows, and the tallies of live windows (`counting/counter.py`). Next on the reading path:
`archive/recount.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tallyroll.errors import UsageError
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.counting.glances import Glances
from tallyroll.ports.counting.shared_cache import SharedCache
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.reads.counting.counter import Counter
from tallyroll.reads.counting.flights import KeptCounts
from tallyroll.reads.counting.plans import Range
from tallyroll.reads.counting.shared import Asked, SharedCounts, SharedUse
from tallyroll.reads.counting.singly import SingleGlances
from tallyroll.reads.counts import COUNT_MS, Count
from tallyroll.reads.coverage import every
from tallyroll.reads.lookups import deadline_of
from tallyroll.reads.minutes import MinuteReads
from tallyroll.reads.ranges.dated import DatedReads
from tallyroll.reads.ranges.follow import FollowingReads
from tallyroll.reads.ranges.keys import KeyReads
from tallyroll.reads.ranges.pages import ArchiveReads
from tallyroll.reads.series import SeriesReads
from tallyroll.settings import Settings

KEYS_MAX = 100  # of one read of several keys


class PortReader(SeriesReads, MinuteReads, DatedReads, FollowingReads, KeyReads):
    """Reads a pipeline: counts of keys, single events, all events of a key, all keys, the largest.

    Use one per process, since it caches counts.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        catalog: Catalog,
        totals: Totals,
        effects: Effects,
        glances: Glances | None = None,
        cache: SharedCache | None = None,
        archives: Callable[[], ArchiveReads] | None = None,
    ) -> None:
        """A `cache` shares counts with other processes, if they may be kept at all. `archives`
        gives what reads dropped windows.
        """
        super().__init__(store, catalog, totals, effects)
        self._settings = settings
        kept_ms, calendar_ms = settings.cache_live_ms, settings.cache_calendar_ms
        self._shared = None
        if cache and kept_ms:
            self._shared = SharedCounts(cache, catalog, effects.now, kept_ms, calendar_ms)
        self._kept = KeptCounts(kept_ms, effects.now, self._shared)
        glances = glances or SingleGlances(store, catalog, totals, effects)
        ports = (store, catalog, totals, effects, self._specs)
        self._counter = Counter(*ports, glances, settings.settle_ms)
        self._archives = archives

    def count(
        self,
        key: str,
        since: int | None = None,
        until: int | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        consistent: bool = False,
        by_window: bool = False,
        eventual: bool = False,
    ) -> Count:
        """Count a key over [since, until) in ms, both on bounds of windows; None is open.

        `events` of the answer is the number of events, `value` their sum as a decimal number, and
        `amount` the same in millionths. What cannot be read within `time_left_ms` is `missing`.

        With `by_window`, counts every window singly, even in rolled-up days and months. Reads are
        strongly consistent, but the answer may come from the cache unless `consistent`. An
        `eventual` one takes half the read units where the range was counted before: it may lack
        what was counted a moment ago, and go back behind an earlier answer; its `source` is
        "eventual" then. Raises UsageError, naming the nearest bound, if the range is off the bounds
        or backwards, and for both of `consistent` and `eventual`.
        """
        [count] = self.counts(
            [key],
            since,
            until,
            time_left_ms,
            consistent=consistent,
            by_window=by_window,
            eventual=eventual,
        )
        return count

    def counts(
        self,
        keys: Sequence[str],
        since: int | None = None,
        until: int | None = None,
        time_left_ms: int = COUNT_MS,
        *,
        consistent: bool = False,
        by_window: bool = False,
        eventual: bool = False,
    ) -> list[Count]:
        """Count 1 to 100 distinct keys over one range by one read, in their order: what `count`
        gives of each. Raises UsageError for other numbers of keys, and for a key that comes twice.
        """
        check_distinct(keys)
        if consistent and eventual:
            raise UsageError("a count is read consistently or eventually: give one of the two")
        fits = every if self._settings.rollups and not by_window else None
        of = Range(since, until, bool(fits), fits)

        began = self._effects.now()
        deadline = deadline_of(began, time_left_ms)

        def read(asked: Sequence[Asked]) -> dict[Asked, Count]:
            names, now = [key for key, *_ in asked], self._effects.now()
            counts = self._counter.counts(
                names, of, now, deadline, afresh=consistent, eventual=eventual
            )
            return dict(zip(asked, counts, strict=True))

        asked: list[Asked] = [(key, since, until, by_window) for key in keys]
        if consistent:
            found = self._kept.read(asked, read)
        elif eventual:
            found = self._kept.unkept(asked, read)
        else:
            found = self._kept.counts(asked, read, deadline - began)
        return [found[each] for each in asked]

    def age_ms(self, counts: Sequence[Count]) -> int:
        """How old the oldest of some counts is."""
        return max(0, self._effects.now() - min(count.as_of for count in counts))

    def shared_use(self) -> SharedUse | None:
        """How the shared cache was used since this was last asked for; None: there is none."""
        return self._shared.use() if self._shared else None

    @property
    def kept_ms(self) -> int:
        """How old a count may be that is not asked for consistently."""
        return self._settings.cache_live_ms

    def _count(self, key: str, of: Range, now: int, deadline: int) -> Count:
        [count] = self._counter.counts([key], of, now, deadline)
        return count


def check_distinct(keys: Sequence[str]) -> None:
    """Raise UsageError unless these are 1 to 100 keys, none of them twice."""
    if not 1 <= len(keys) <= KEYS_MAX:
        raise UsageError(
            f"{len(keys)} keys: one read counts from 1 to {KEYS_MAX}; ask for the rest"
            " by another read"
        )
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise UsageError(f"key {key!r} comes twice: give each key once")
        seen.add(key)
