"""The permanent table of totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tallyroll.model.periods import PeriodName
from tallyroll.model.totals import Listed, PeriodTotal, Total
from tallyroll.model.windows import WindowId


class Totals(Protocol):
    """The permanent table of totals: by key, and listed for every window and day.

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
        `after`, ascending by key, in pages of at most `limit`.
        """

    def periods_of_key(self, key: str, first: PeriodName, last: PeriodName) -> list[PeriodTotal]:
        """A key's totals of the days, or of the months, from `first` to `last`, ascending,
        including those that no longer count.
        """

    def of_key(self, key: str, since: WindowId, until: WindowId) -> list[Total]:
        """The totals of a key in the windows [since, until), ascending."""

    def of_window(self, window: WindowId, keys: Sequence[str]) -> dict[str, Total]:
        """The totals that exist of these keys in one window."""
