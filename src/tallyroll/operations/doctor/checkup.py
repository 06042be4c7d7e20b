"""What the doctor says: signs, how bad they are and what to do, and the case that it looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

from tallyroll.errors import StoreError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.states import Calendar, LivePointer, Window
from tallyroll.model.windows import WindowId
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.queue import Backlogged
from tallyroll.ports.store import Store
from tallyroll.ports.tables import TableListing
from tallyroll.ports.totals import Totals
from tallyroll.resources import Resources, declare
from tallyroll.settings import Settings


class Level(IntEnum):
    """How bad it is, the worst last; a finding breaks an invariant or will soon."""

    OK = 0
    WARNING = 1
    UNCHECKED = 2
    FINDING = 3

    @property
    def word(self) -> str:
        """For people and JSON: `ok`, `warning`, `unchecked`, `finding`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that was seen; `remedy` says what to do about it, if anything is to be done."""

    level: Level
    text: str
    remedy: str = ""
    window: WindowId | None = None


def fine(text: str) -> Sign:
    """All is well."""
    return Sign(Level.OK, text)


@dataclass(frozen=True, slots=True)
class Check:
    """A check's signs; those that are not OK count, else the first one says that all is well."""

    name: str
    signs: tuple[Sign, ...]

    @property
    def level(self) -> Level:
        """That of the worst sign."""
        return max(sign.level for sign in self.signs)

    @property
    def bad(self) -> tuple[Sign, ...]:
        """The signs of what is not well, the worst first."""
        bad = [sign for sign in self.signs if sign.level is not Level.OK]
        return tuple(sorted(bad, key=lambda sign: -sign.level))

    @property
    def text(self) -> str:
        """The check in one line."""
        bad = self.bad
        if not bad:
            return self.signs[0].text
        more = f" (and {len(bad) - 1:,} more)" if len(bad) > 1 else ""
        return bad[0].text + more


@dataclass
class Checkup:
    """A pipeline before the doctor: its ports, and what was read of it once.

    `queue` and `dead_letters` are None if there are none, `bucket` if it is not known. `deep` asks
    for everything to be read; `handed_back` gives, since a time (ms), the ages (ms) of the oldest
    message that writers handed back; `settings` are the deployment's, `wished` those of the
    environment in which the command runs, `deployed` says whether the functions are there.
    """

    settings: Settings
    catalog: Catalog
    store: Store
    totals: Totals
    tables: TableListing
    queue: Backlogged | None
    dead_letters: Backlogged | None
    bucket: ArchiveBucket | None
    effects: Effects
    handed_back: Callable[[int], Sequence[tuple[int, int]]] | None = None
    deep: bool = False
    deployed: bool | None = None
    wished: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def read(self) -> None:
        """Read what all checks begin with. Raises StoreError."""
        _ = self.calendar, self.pointer, self.windows

    @cached_property
    def resources(self) -> Resources:
        """The pipeline's declarations."""
        return declare(self.settings)

    @cached_property
    def calendar(self) -> Calendar | None:
        """The calendar."""
        return self.catalog.calendar()

    @cached_property
    def pointer(self) -> LivePointer | None:
        """The live pointer, read before the windows: what it may pass is in them."""
        return self.catalog.live()

    @cached_property
    def windows(self) -> dict[WindowId, Window]:
        """The states of all windows, ascending."""
        return {window.id: window for window in self.catalog.windows(0, TS_MS_MAX + 1)}

    @cached_property
    def names(self) -> list[str]:
        """The names of all tables, read after the windows: a table is made after its state."""
        _ = self.windows
        return list(self.tables.names())

    def stands(self, window: Window) -> bool:
        """Whether a window's state is still the one that was read: what looks wrong with a window
        may be another run's step since.
        """
        return self.catalog.window(window.id) == window


def unchecked(error: StoreError) -> Sign:
    """A check that an error ended."""
    denied = "AccessDenied" in error.code or "UnauthorizedOperation" in error.code
    remedy = "Let this identity read it (AWS_PROFILE)." if denied else "Try again later."
    return Sign(Level.UNCHECKED, f"could not be checked to its end: {error}", remedy)
