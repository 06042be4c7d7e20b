"""Reading listings in pages, and merging many of them, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from tallyroll.model.specs import Spec
from tallyroll.model.tallies import Tally
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store

R = TypeVar("R")
PAGES_AT_ONCE = 16
STRIPES_HELD = 8_192  # in the pages of all buckets together; a stripe takes about a kilobyte


def merged(
    listings: Sequence[Iterator[Sequence[R]]],
    place_of: Callable[[R], str],
    page_rows: int,
    effects: Effects,
) -> Iterator[list[R]]:
    """The rows of all listings in ascending order of their places, in batches. Rows of the same
    place are in the same batch.

    Each listing must ascend, in pages of at most `page_rows`. Besides the batch, at most one and a
    half pages of each listing are in memory. Pages are read concurrently. Raises what reading a
    page raises; the caller must then begin again with new listings.
    """
    reading = [_Listing(pages) for pages in listings]
    while True:
        while any(not each.ended and not each.held for each in reading):
            low = [each for each in reading if not each.ended and len(each.held) <= page_rows // 2]
            effects.together([each.read for each in low], PAGES_AT_ONCE)
        # Rows up to the smallest last place are complete: every listing was read at least that far.
        ends = [place_of(each.held[-1]) for each in reading if not each.ended]
        batch: list[R] = []
        for each in reading:
            cut = bisect_right(each.held, min(ends), key=place_of) if ends else len(each.held)
            batch += each.held[:cut]
            del each.held[:cut]
        reading = [each for each in reading if each.held or not each.ended]
        if batch:
            yield sorted(batch, key=place_of)
        if not reading:
            return


def listed_tallies(store: Store, spec: Spec, number: int) -> Iterator[Tally]:
    """The tallies of all stripes in one bucket, 1..spec.buckets."""
    for page in store.stripes(spec, number, "", STRIPES_HELD):
        yield from (stripe.tally for stripe in page)


class _Listing(Generic[R]):
    """One listing, and the rows that were read from it and not yet yielded."""

    def __init__(self, pages: Iterator[Sequence[R]]) -> None:
        self._pages = pages
        self.held: list[R] = []
        self.ended = False

    def read(self) -> None:
        """Read the next page, if there is one."""
        page = next(self._pages, None)
        if page is None:
            self.ended = True
        else:
            self.held += page
