"""The counts of all keys of a stretch, one after the other, from the places where it begins.

The listings of totals, the stripes of live windows and the corrections are merged in the order of
keys. A walk ends at the first read that fails: the keys before it are exact, and a new walk goes on
behind them, with the states of windows as they are then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tallyroll.errors import UsageError
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.totals import Listed, net
from tallyroll.model.windows import Span
from tallyroll.ports.paging import STRIPES_HELD, merged
from tallyroll.reads.ranges.all_keys import (
    ROWS_HELD,
    ROWS_PER_PAGE_MAX,
    AllKeys,
    RangeParts,
    Unread,
    added,
    shown_of,
)
from tallyroll.reads.ranges.order import Stretch, rank, ranked

LISTINGS_MAX = 400
"""Of windows, rolled-up days and corrections: each has 16 buckets, so a page takes at least 6,400
queries, for which a function has time."""
ROWS_PER_PAGE_MIN = 32  # of a Query: 50 rows of 80 bytes take one read unit


@dataclass(eq=False)
class KeyWalk(AllKeys):
    """Walks through the keys of ranges."""

    def checked(self, span: Span, *, rolled: bool) -> RangeParts:
        """What a span is read from. Raises what `parts` does, and UsageError for over
        `LISTINGS_MAX` listings.
        """
        parts = self.parts(span, rolled=rolled)
        corrected = len(parts.corrected)
        found = len(parts.days) + len(parts.sealed) + len(parts.live) + corrected
        if found > LISTINGS_MAX:
            more = ""
            if corrected:
                more = f", {corrected:,} of them for windows in whose months events were retracted"
            raise UsageError(
                f"the keys of this range are read from {found:,} listings of windows and rolled-up"
                f" days{more}: over {LISTINGS_MAX}; give a shorter range, several one after the"
                " other, or ask for the largest keys (top)"
            )
        return parts

    def rows(
        self,
        parts: RangeParts,
        stretch: Stretch,
        apart: Sequence[Listed],
        unread: Unread,
        wanted: int,
    ) -> Iterator[Listed]:
        """The keys of a stretch that have or had events, less their corrections, each once, in the
        order of `rank`; `apart` are the counts of its keys apart. About so many are `wanted`.

        Memory holds what `AllKeys` says. Raises StoreError if a read fails, or the deadline of
        `unread` is reached: the keys before it are all there are, and `unread` names the window.
        """
        names = [*parts.days.items(), *((window.id, 0) for window in parts.sealed)]
        listings = LISTING_BUCKETS * (len(names) + len(parts.corrected))
        likely = max(ROWS_PER_PAGE_MIN, wanted // LISTING_BUCKETS)
        page = max(1, min(ROWS_PER_PAGE_MAX, likely, ROWS_HELD // max(1, listings)))
        numbers = range(1, LISTING_BUCKETS + 1)
        after = stretch.row_before
        pages = [
            (shown_of(name), ranked(stretch.of(self._listing(name, epoch, bucket, page, after))))
            for name, epoch in names
            for bucket in numbers
        ]
        pages += [
            (window.id, ranked(stretch.of(self._of_bucket(window, bucket, after, page))))
            for window in parts.corrected
            for bucket in numbers
        ]
        for name, spec in parts.live.items():
            held = min(
                STRIPES_HELD // len(parts.live), max(ROWS_PER_PAGE_MIN, wanted) * spec.buckets
            )
            pages.append((name, self._tallies(spec, held, stretch)))
        sources = [unread.whole(name, some) for name, some in pages]
        sources.append(iter([sorted(apart, key=rank)]))
        for batch in merged(sources, rank, page, self.effects):
            for key, rows in groupby(batch, lambda row: row.key):
                row = net(added(key, list(rows)))
                if row.n or row.amount or any(row.retracted):
                    yield row
