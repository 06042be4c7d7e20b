"""Many ascending listings read as one, without holding any of them whole."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from tallyroll.ports.effects import Effects

R = TypeVar("R")
PAGES_AT_ONCE = 16


class _Listing(Generic[R]):
    """One listing, some pages of which were read and not yet given."""

    def __init__(self, pages: Iterator[Sequence[R]]) -> None:
        self._pages = pages
        self.held: list[R] = []
        self.whole = False

    def read(self) -> None:
        """Read one page more, if there is one."""
        page = next(self._pages, None)
        if page is None:
            self.whole = True
        else:
            self.held += page


def merged(
    listings: Sequence[Iterator[Sequence[R]]],
    place_of: Callable[[R], str],
    page_rows: int,
    effects: Effects,
) -> Iterator[list[R]]:
    """The rows of all listings, each of which ascends by place in pages of at most `page_rows`, in
    one ascending order, in batches; rows of one place are in one batch.

    At most one and a half pages of each listing are in memory, besides the batch. Pages are read
    side by side. Raises what reading a page raises; then the listings are to be made anew.
    """
    reading = [_Listing(pages) for pages in listings]
    while True:
        while due := [each for each in reading if not each.whole and not each.held]:
            low = [each for each in reading if not each.whole and len(each.held) <= page_rows // 2]
            effects.together([partial(each.read) for each in low or due], PAGES_AT_ONCE)
        # What follows the least of the last places read may follow something not read yet.
        ends = [place_of(each.held[-1]) for each in reading if not each.whole]
        batch: list[R] = []
        for each in reading:
            cut = bisect_right(each.held, min(ends), key=place_of) if ends else len(each.held)
            batch += each.held[:cut]
            del each.held[:cut]
        reading = [each for each in reading if each.held or not each.whole]
        if batch:
            yield sorted(batch, key=place_of)
        if not reading:
            return


STRIPES_HELD = 8_192  # pages of all buckets together; a stripe takes about a kilobyte
