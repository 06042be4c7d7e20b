"""The states of days and months in the catalog."""

from __future__ import annotations

from typing import Protocol

from tallyroll.model.periods import PeriodName, PeriodState


class Periods(Protocol):
    """The states of days and months in the catalog. Reads are strongly consistent."""

    def periods(self, first: PeriodName, last: PeriodName) -> list[PeriodState]:
        """What is known of the days, or of the months, from `first` to `last`, ascending; of those
        in which no window was ever created, nothing.
        """
        ...

    def unrolled(self) -> list[PeriodName]:
        """The days and months in which windows were created that were not settled since, ascending,
        days first.
        """
        ...

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        """Write a period's state if the stored epoch and version are still those of `state`; give
        it with its new version. If it is `settled`, it is not among the `unrolled` any more.

        Raises StateConflict otherwise.
        """
        ...
