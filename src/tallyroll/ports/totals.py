"""The permanent table of totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from tallyroll.model.periods import PeriodName
from tallyroll.model.totals import Correction, Corrections, Listed, PeriodTotal, Total
from tallyroll.model.windows import WindowId
from tallyroll.ports.store import Element


class Totals(Protocol):
    """The permanent table of totals: by key, and listed for every window and day; and corrections,
    which never change a total.

    All reads are strongly consistent.
    """

    def put(self, totals: Sequence[Total]) -> None:
        """Put each total by key and in its window's listing, in one transaction, if absent. Raises
        ProofMismatch if a total exists with another value.
        """

    def roll(self, totals: Sequence[PeriodTotal]) -> None:
        """Put each period's total, also over one of an earlier epoch; that of a day also in the
        day's listing.

        Raises StateConflict if a total of a later epoch exists, and ProofMismatch if a total of the
        same epoch exists with another value.
        """

    def listing(
        self, name: WindowId | PeriodName, bucket: int, after: str, limit: int
    ) -> Iterator[list[Listed]]:
        """The totals of a window or day in one bucket, 1..LISTING_BUCKETS, whose keys follow
        `after`, ascending by key, in pages of at most `limit`; without their corrections.
        """

    def periods_of_key(self, key: str, first: PeriodName, last: PeriodName) -> list[PeriodTotal]:
        """A key's totals of the days, or of the months, from `first` to `last`, ascending,
        including those that no longer count, with their corrections; from a day to a month, those
        of the days from then on, then of the months until then.
        """

    def of_key(self, key: str, since: WindowId, until: WindowId) -> list[Total]:
        """The totals of a key in the windows [since, until), ascending, with their corrections."""

    def of_window(
        self, window: WindowId, keys: Sequence[str], *, corrected: bool = False
    ) -> dict[str, Total]:
        """The totals that exist of these keys in one window; with their corrections if `corrected`,
        for which twice as many rows are read.
        """

    def correct(self, corrections: Sequence[Correction]) -> list[Element]:
        """Add corrections of sealed windows to the sums of their keys, each exactly once however
        often it is given; one answer each, FINE or DUPLICATE. The corrections of one key and window
        are cheapest together.

        A correction with its sums is one transaction. Raises StoreError; then some may be added,
        which are duplicates when all are given again.
        """

    def put_retracted(self, window: WindowId, retracted: Mapping[str, tuple[int, int]]) -> None:
        """Note for each key the (events, amount) that were retracted before the window was sealed,
        in the corrections' sums of window, day and month, unless that is noted already.

        Raises ProofMismatch for keys of which another value is noted, after all others are noted.
        """

    def sums(self, key: str, window: WindowId) -> tuple[Corrections, ...]:
        """A key's sums of corrections of a window, its day, its month, and in the window's listing,
        as they are stored; zeros where none is.
        """

    def put_sums(
        self, key: str, window: WindowId, sums: Sequence[Corrections], revision: int
    ) -> None:
        """Replace these four sums, and raise the month's revision by one. Raises StateConflict,
        and replaces none, unless the revision is still this one.
        """

    def corrections(self, key: str, window: WindowId) -> list[Correction]:
        """The corrections in a window of the events whose least key this is, in no order. The sums
        can be computed anew from all keys' corrections.
        """

    def corrected(
        self, window: WindowId, bucket: int, after: str, limit: int
    ) -> Iterator[list[Listed]]:
        """The keys of a window that have corrections, in one bucket, 1..LISTING_BUCKETS, in pages
        as those of `listing`. The rows hold nothing but the sums of the corrections.
        """

    def revision(self, month: PeriodName) -> int:
        """A number that grows whenever the corrections of a window of this month change; 0 if none
        of them has any.
        """

    def revisions(self) -> Mapping[PeriodName, int]:
        """The revisions of all months that have one."""
