"""The catalog: the permanent table of windows, periods, writers' notes and redrive claims.

>>> catalog.advance(replace(window, status=Status.CLOSING)).version - window.version
1
>>> catalog.advance(replace(window, status=Status.CLOSING))  # by another run, which read it before
Traceback (most recent call last):
tallyroll.errors.StateConflict: window 20261120T080000Z: version 4, stored 5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tallyroll.model.foreign.mappings import Mappings
from tallyroll.model.ids import Identity
from tallyroll.model.periods import PeriodName, PeriodState
from tallyroll.model.retractions import Authorization, RetractionTarget
from tallyroll.model.specs import Spec
from tallyroll.model.states import Calendar, LivePointer, Window, Wish, Wishes
from tallyroll.model.windows import WindowId
from tallyroll.ports.writer_notes import WriterNotes

if TYPE_CHECKING:
    from tallyroll.ports.rate import Turn


@dataclass(frozen=True, slots=True)
class Claim:
    """The window in which a redriven event is to count, and the time of the claim (ms).

    `sent` is when a plain event of a logged key was first sent (ms); None for any other event, and
    if an earlier release put the claim. A claim keeps it when it moves.
    """

    target: WindowId
    at: int
    sent: int | None = None


class Ledger(Protocol):
    """The window in which each redriven event is to count, by the event's original identity.

    A redrive claims an event's identity for a target window before it sends the event, and every
    later redrive keeps to that claim. The writer counts a redriven event only in the window of its
    claim. A claim may move only after its target was sealed without the event's record: then no
    copy of the event can count there any more.
    """

    def claims(self, identities: Sequence[Identity]) -> Mapping[Identity, Claim]:
        """The claims that exist of these distinct identities."""

    def claim(self, identity: Identity, wanted: Claim) -> Claim:
        """Put a claim if the identity has none; return the stored claim."""

    def move(self, identity: Identity, read: Claim, wanted: Claim) -> Claim:
        """Replace the claim `read` by `wanted`, if it is still stored; return the stored claim."""


class Authorizations(Protocol):
    """What operators have authorized writers to retract."""

    def authorizations(
        self, targets: Sequence[RetractionTarget]
    ) -> Mapping[RetractionTarget, Authorization]:
        """The authorizations that exist of these distinct targets."""

    def authorize(self, authorization: Authorization) -> None:
        """Put an authorization, or replace that of its target."""


class WishBook(Protocol):
    """Operators' wishes for the shards of keys.

    Who wishes puts the wishes first, and then reads which specs are frozen. The roller reads the
    wishes first, and then puts a spec, if their version is unchanged. So a spec that is put after a
    wish has it, and one that was put before is seen by who wished.
    """

    def wishes(self) -> Wishes:
        """The wishes; of version 0 if there never was one."""

    def put_wishes(self, read: Wishes, wanted: Mapping[str, Wish]) -> Wishes:
        """Replace the wishes `read`, and return them with their new version. Raises StateConflict
        if another version is stored.
        """


class Periods(Protocol):
    """The states of days and months."""

    def periods(self, first: PeriodName, last: PeriodName) -> list[PeriodState]:
        """The states of the days, or of the months, from `first` to `last`, ascending; from a day
        to a month, those of the days from then on, then of the months until then. A period has a
        state if a window was ever created in it.
        """

    def unrolled(self) -> list[PeriodName]:
        """The days and months in which windows were created since they were last settled,
        ascending, days first.
        """

    def advance_period(self, state: PeriodState, *, settled: bool = False) -> PeriodState:
        """Write a period's state, and return it with its new version. A `settled` period leaves the
        `unrolled`. Raises StateConflict if the stored epoch or version is another.
        """


class SharedRate(Protocol):
    """The write rate that writers share, as lines of time (`tallyroll.ports.rate`)."""

    def take_turn(self, turn: Turn) -> int:
        """Append a span to its line; return its start (microseconds). A start after `turn.latest`
        says that nothing was appended. A call that raises StoreError may have appended the span.
        """


class Catalog(Ledger, Authorizations, WishBook, Periods, WriterNotes, SharedRate, Protocol):
    """The permanent table of windows, with periods, writers' notes, the redrive ledger, authorized
    retractions, wishes, and the lines of the write rate.

    All reads are strongly consistent.
    """

    def calendar(self) -> Calendar | None:
        """The calendar, or None before the pipeline's first roll."""

    def found(self, calendar: Calendar) -> Calendar:
        """Put the calendar if there is none; return the stored one."""

    def put_secret(self, secret: str) -> None:
        """Give the calendar this secret, if there is a calendar, and it has none."""

    def extend(self, read: Calendar, extended: Calendar, live: LivePointer) -> bool:
        """Replace the calendar `read` by `extended`; False, without a change, if another calendar
        is stored or a window was created since `live` was read.
        """

    def append_mapping(self, read: Mappings, text: str) -> None:
        """Append a mapping to the calendar's, which holds from their `until` on. Does nothing if
        other mappings than `read` are stored, or another `until`. Raises UsageError.
        """

    def settle_mappings(self, until: int) -> Calendar | None:
        """Raise the `until` of the calendar's mappings, if it is lower; return the calendar as it
        is then.
        """

    def specs(self, windows: Sequence[WindowId]) -> dict[WindowId, Spec]:
        """The specs that exist of these windows."""

    def put_spec(self, spec: Spec, wishes: int | None = None) -> Spec:
        """Put the spec if the window has none; return the stored one.

        `wishes` is the version of the wishes that it takes: if the window has no spec and another
        version is stored, nothing is put. Raises StateConflict then. None: it takes none.
        """

    def window(self, window: WindowId) -> Window | None:
        """A window's state, or None."""

    def windows(self, since: int, until: int) -> list[Window]:
        """The states of the windows that start in [since, until), ascending."""

    def windows_with_specs(
        self, since: int, until: int
    ) -> tuple[list[Window], dict[WindowId, Spec]]:
        """The same windows by one listing that is meant for a short span, and those specs of them
        that it met: it may lack one that was put before the state that it shows.
        """

    def create(self, window: Window, calendar: Calendar | None = None) -> bool:
        """Put a window's first state; False, without a change, if it has one.

        The same transaction makes the live pointer cover the window, and adds one to the epochs of
        its day and month: their sums no longer count, and both are `unrolled`. Raises StateConflict
        if `calendar` is given and another one is stored: windows of two grids would overlap.
        """

    def advance(self, window: Window) -> Window:
        """Write a changed state, and return it with its new version. Raises StateConflict if the
        stored version is not `window.version`.
        """

    def live(self) -> LivePointer | None:
        """The pointer to the windows that are not dropped."""

    def move_live(self, read: LivePointer, moved: LivePointer) -> None:
        """Replace the pointer `read` by `moved`, with the next version. Does nothing if another
        pointer is stored.
        """

    def note_straggler(self, window: WindowId, at: int) -> None:
        """Note that messages of a window may be queued until `at` (ms). The latest is kept."""

    def note_hot(
        self, window: WindowId, keys: Sequence[str], throttled: Sequence[str] = ()
    ) -> None:
        """Note keys that may need more shards, and which of them were throttled; ignored if the
        window has 500 notes.
        """

    def hot(self, window: WindowId) -> list[str]:
        """The keys noted in a window, ascending."""

    def throttled(self, window: WindowId) -> list[str]:
        """Those of the keys noted in a window that were throttled, ascending."""

    def mark(self, key: str) -> None:
        """Mark an uploaded object as referenced by a record, by the object's key, before a store
        without transactions puts the record. A store with transactions does both in one.
        """

    def marked(self, keys: Sequence[str]) -> set[str]:
        """Those of these uploaded objects that records reference, by the objects' keys."""

    def stragglers(self, windows: Sequence[WindowId]) -> dict[WindowId, int]:
        """The latest straggler note (ms) of each of these windows that has one."""
