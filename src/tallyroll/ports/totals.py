"""The permanent table of totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tallyroll.model.periods import PeriodName
from tallyroll.model.totals import Listed, PeriodTotal, Total
from tallyroll.model.windows import WindowId


class Totals(Protocol):
    """The permanent table of totals, by key and, for every window and day, listed."""

    def put(self, totals: Sequence[Total]) -> None:
        """Put each total if absent, by key and in its window's listing at once.

        Raises ProofMismatch if one stands with another value.
        """
        ...

    def roll(self, totals: Sequence[PeriodTotal]) -> None:
        """Put each period's total over that of an earlier epoch; that of a day in its listing, too.

        Raises StateConflict if one of a later epoch stands, ProofMismatch if one of the same
        epoch stands with another value.
        """
        ...

    def listing(
        self, name: WindowId | PeriodName, bucket: int, after: str, limit: int
    ) -> Iterator[list[Listed]]:
        """The totals of a window or day whose keys lie in one bucket, 1..LISTING_BUCKETS, and
        follow `after`, ascending by key, in pages of at most `limit`, strongly consistent.
        """
        ...

    def periods_of_key(self, key: str, first: PeriodName, last: PeriodName) -> list[PeriodTotal]:
        """A key's totals of the days, or of the months, from `first` to `last`, ascending, strongly
        consistent; also such as do not count any more.
        """
        ...

    def of_key(self, key: str, since: WindowId, until: WindowId) -> list[Total]:
        """The totals of a key in the windows [since, until), ascending, strongly consistent."""
        ...

    def of_window(self, window: WindowId, keys: Sequence[str]) -> dict[str, Total]:
        """The totals of these keys in one window that exist, strongly consistent."""
        ...
