"""The doctor's results (signs with their level and remedy), and the pipeline that it checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, partial

from tallyroll.errors import StoreError
from tallyroll.limits import TS_MS_MAX
from tallyroll.model.states import Calendar, LivePointer, Window
from tallyroll.model.windows import WindowId
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects, T
from tallyroll.ports.queue import Backlogged
from tallyroll.ports.stack import FunctionCard, Rights, Stack
from tallyroll.ports.store import Store
from tallyroll.ports.table_listing import TableListing
from tallyroll.ports.totals import Totals
from tallyroll.resources import Resources, declare
from tallyroll.settings import Settings

READS_AT_ONCE = 16


class Level(IntEnum):
    """How bad a sign is, the worst last; a finding breaks an invariant or will soon."""

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
    """One result of a check; `remedy` says what to do about it, if anything."""

    level: Level
    text: str
    remedy: str = ""
    window: WindowId | None = None


def restoring(table: str) -> str:
    """How to read a permanent table as it was before: a command, and where to read on."""
    return (
        f"`aws dynamodb restore-table-to-point-in-time --source-table-name {table}"
        f" --target-table-name {table}-restored --restore-date-time TIME`"
        " (docs/operations.md, Restoring the catalog or the totals)"
    )


# Those of EC2 and SNS are their own.
_DENIED = ("AccessDenied", "UnauthorizedOperation", "AuthorizationError")


def denied(error: StoreError) -> bool:
    """Whether a read failed for want of a permission."""
    return any(word in error.code for word in _DENIED)


fine = partial(Sign, Level.OK)
warning = partial(Sign, Level.WARNING)
finding = partial(Sign, Level.FINDING)


def finding_of(window: WindowId, text: str, remedy: str) -> Sign:
    """A finding of a window, whose text begins with the window's id."""
    return finding(f"{window}: {text}", remedy, window)


@dataclass(frozen=True, slots=True)
class Check:
    """A check and its signs. If all are OK, the first one is shown."""

    name: str
    signs: tuple[Sign, ...]

    @property
    def level(self) -> Level:
        """The level of the worst sign."""
        return max(sign.level for sign in self.signs)

    @property
    def bad(self) -> tuple[Sign, ...]:
        """The signs that are not OK, the worst first."""
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
    """A pipeline to check: its ports, and cached reads.

    `settings` are the deployment's; `configured` has those that differ in the command's
    environment, as variable to (here, there). `queue` and `dead_letters` are None if they do not
    exist, `bucket` if it is not known, `deployed` if it is not known whether the functions exist.
    `handed_back` gives, since a time (ms), the ages (ms) of the oldest message that writers handed
    back; `counted` gives how many events they counted, both as (at ms, number) pairs. `stack` and
    `rights` show what was deployed, where the store has such things. `deep` asks to read
    everything.
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
    counted: Callable[[int], Sequence[tuple[int, int]]] | None = None
    deep: bool = False
    deployed: bool | None = None
    stack: Stack | None = None
    rights: Rights | None = None
    configured: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    _functions: dict[str, FunctionCard | None] = field(default_factory=dict)

    def read(self) -> None:
        """Read what all checks need. Raises StoreError."""
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
        """The live pointer, read before the windows, so that they include all it has passed."""
        return self.catalog.live()

    @cached_property
    def windows(self) -> dict[WindowId, Window]:
        """The states of all windows, ascending."""
        return {window.id: window for window in self.catalog.windows(0, TS_MS_MAX + 1)}

    @cached_property
    def names(self) -> list[str]:
        """The names of all tables, read after the windows: tables are made after their states."""
        _ = self.windows
        return list(self.tables.names())

    def function(self, package: str) -> FunctionCard | None:
        """A function of the deployment, read once; None if there is none."""
        if self.stack is None or not self.deployed:
            return None
        if package not in self._functions:
            self._functions[package] = self.stack.function(package)
        return self._functions[package]

    def each(self, windows: Iterable[Window], look: Callable[[Window], T]) -> list[T]:
        """What `look` gives for each window, looked at concurrently."""
        return self.effects.together([partial(look, window) for window in windows], READS_AT_ONCE)

    def unchanged(self, window: Window) -> bool:
        """Whether a window's state is still the one that was read. If not, what looks wrong may be
        a function's step since.
        """
        return self.catalog.window(window.id) == window
