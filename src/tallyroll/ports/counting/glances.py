"""One look at all that a count depends on, if the process knows the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallyroll.model.periods import PeriodName
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Window
from tallyroll.model.tallies import Tally
from tallyroll.model.windows import WindowId


@dataclass(frozen=True, slots=True)
class Glance:
    """What to look at beside the live pointer and the calendar: the revisions of `months`, the
    states of `windows`, the specs of the windows `unbegun`, and the tallies of `keys` in the
    windows of the specs `begun`. An `eventual` one may see each item as it was a moment ago, where
    the store has such reads, and costs half as much there.
    """

    keys: Sequence[str]
    months: Sequence[PeriodName]
    windows: Sequence[WindowId]
    unbegun: Sequence[WindowId]
    begun: Sequence[Spec]
    eventual: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is of that. A month without a revision has 0; every key has a tally."""

    pointer: LivePointer | None
    calendar: Calendar | None
    revisions: Mapping[PeriodName, int]
    windows: Mapping[WindowId, Window]
    specs: Mapping[WindowId, Spec]
    tallies: Mapping[WindowId, Mapping[str, Tally]]


class Glances(Protocol):
    """Reads from the catalog, the totals and window tables at once."""

    @property
    def has_eventual(self) -> bool:
        """Whether a look can see what was a moment ago; if not, each is consistent."""
        ...

    def look(self, at: Glance) -> Seen:
        """Read it all, each item consistently unless `eventual`, in no order. Raises StoreError:
        Missing if a window's table does not exist.
        """
        ...
