"""The permanent table of windows, and the redrive ledger in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallyroll.model.ids import Identity
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Window
from tallyroll.model.windows import WindowId
from tallyroll.ports.periods import Periods
from tallyroll.ports.writer_notes import WriterNotes


@dataclass(frozen=True, slots=True)
class Claim:
    """The window in which an event is to count, and when that was claimed (ms)."""

    target: WindowId
    at: int


class Ledger(Protocol):
    """In which window each redriven event is to count, by the identity that it had at first.

    A redrive claims an event's identity for a target window before it sends the event, and every
    later redrive keeps to that claim. The writer counts a redriven event only in the window that
    its claim names. A claim may move only once its target was sealed without the event's record:
    then no copy of the event can count there any more. Reads are strongly consistent.
    """

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        """The claims of these distinct identities that stand."""
        ...

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        """Put a claim if the identity has none; give the one that stands."""
        ...

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        """Put a claim in the place of `read`, if that still stands; give the one that stands."""
        ...


class Catalog(Ledger, Periods, WriterNotes, Protocol):
    """The permanent table of windows, with the redrive ledger. Reads are strongly consistent."""

    def calendar(self) -> Calendar | None:
        """The calendar, or None before the pipeline's first roll."""
        ...

    def found(self, calendar: Calendar) -> Calendar:
        """Put the calendar if there is none; give the one that stands."""
        ...

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        """Put `extended` in the place of the calendar `read`, if that still stands and no window
        was created since `live` was read; else False.
        """
        ...

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        """The specs, of at most 100 windows, that exist."""
        ...

    def put_spec(self, spec: Spec) -> Spec:
        """Put the spec if the window has none; give the one that stands."""
        ...

    def window(self, window: WindowId) -> Window | None:
        """A window's state."""
        ...

    def windows(self, since: int, until: int) -> list[Window]:
        """The states of the windows that start in [since, until), ascending."""
        ...

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        """Put a first state if the window has none, with which the live pointer covers it; False if
        it has.

        The sums of its day and month stand no more: the epoch of each grows by one with it, and
        both are among the `unrolled`. Raises StateConflict unless `calendar`, where given, still
        stands: a window of another grid would overlap with its neighbours.
        """
        ...

    def advance(self, window: Window) -> Window:
        """Write a changed state if the stored version is still `window.version`; give it with its
        new version.

        Raises StateConflict otherwise.
        """
        ...

    def live(self) -> LivePointer | None:
        """The pointer to the windows that are not dropped."""
        ...

    def move_live(self, read: LivePointer, moved: LivePointer) -> None:
        """Put `moved`, under the next version, in the place of the pointer if that is still as it
        was read; else do nothing.
        """
        ...

    def note_straggler(self, window: WindowId, at: int) -> None:
        """Note that messages of the window are about until `at` (ms); a later note stands."""
        ...

    def note_hot(self, window: WindowId, keys: Sequence[str]) -> None:
        """Note keys that may need more shards; of a window with 500 notes no more are taken."""
        ...

    def hot(self, window: WindowId) -> list[str]:
        """The keys that were noted in a window, ascending."""
        ...

    def stragglers(self, windows: Sequence[WindowId]) -> dict[WindowId, int]:
        """The latest note, in ms, of each of these windows that has one."""
        ...
