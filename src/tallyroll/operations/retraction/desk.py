"""Finds the event that an operator takes back, and authorizes its retraction.

The writer looks for an event in the window that a retraction names, or where the event was redriven
to. So the operator's side names the right one: an event whose id counts once beyond its window may
have come with another time before. Of a dropped window only the archive can tell; what it proves
goes into the authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import cast

from tallyroll.archive.evidence import ArchivedItems, read_archive
from tallyroll.errors import Absent, Missing, Rejected, UsageError
from tallyroll.ingest.tombstones import BeyondPacket, TombstoneMaker
from tallyroll.model.acceptance import too_far_ahead
from tallyroll.model.ids import identity_names
from tallyroll.model.retractions import (
    Authorization,
    Retraction,
    RetractionNote,
    RetractionTarget,
    Tombstone,
)
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.stored import packed_id
from tallyroll.model.windows import Grid, Span, WindowId, window_start
from tallyroll.ports.bucket import ArchiveBucket
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import ItemCodec, Store
from tallyroll.ports.totals import Totals
from tallyroll.settings import Settings
from tallyroll.settings.common import RETRACTION_OFF


@dataclass(frozen=True, slots=True)
class Retractable:
    """What was found of the event that `retraction` is of, whose window is named there.

    `state` is that of the window in which the event counts, or is to count; None if it is not made.
    `tombstones` are those that the retraction puts, one for each key, ascending; none if the event
    is not there. `proven` says that it was found in the archive. `note` is set if it is retracted.
    """

    retraction: Retraction
    window: WindowId
    state: Window | None
    tombstones: tuple[Tombstone, ...] = ()
    proven: bool = False
    note: RetractionNote | None = None

    @property
    def found(self) -> bool:
        """Whether the event is there."""
        return bool(self.tombstones)

    @property
    def hopeless(self) -> bool:
        """Whether the event is not there, and can never come."""
        return not self.tombstones and self.state is not None and self.state.status.sealed

    @property
    def target(self) -> RetractionTarget:
        """What the retraction is of."""
        asked = self.retraction
        assert asked.window
        return asked.window, asked.key, asked.id, asked.index


@dataclass(eq=False)
class RetractionDesk:
    """Finds events and authorizes their retractions. Use one per retraction."""

    settings: Settings
    store: Store
    catalog: Catalog
    totals: Totals
    bucket: Callable[[], ArchiveBucket]
    codec: ItemCodec
    effects: Effects
    on_items: Callable[[int, int], object] = lambda *_: None
    """Called with the numbers of an archive's items that were read, and of all."""

    _read: dict[WindowId, ArchivedItems] = field(default_factory=dict)

    def find(self, asked: Retraction) -> Retractable:
        """What is there of the event: in the named window, or where it was redriven to; else where
        its id is taken. An id such as `p:3` is also that of an event of the packet `p`.

        The retraction in the answer names the window in which the event happened, and all its keys.
        Raises Rejected for what cannot be retracted, Absent if there is no such window,
        ProofMismatch and StoreError.
        """
        calendar = self.catalog.calendar()
        if calendar is None:
            name = self.settings.name
            raise Missing(f"the pipeline {name!r} has no calendar: its roller has not run yet")
        home = _home(asked, calendar.grid)
        now, skew = self.effects.now(), self.settings.skew_ms
        if home.start > now + skew:
            raise too_far_ahead(now, skew)
        first = self._at(asked, home, self._claimed(asked, home))
        for found in chain([first], self._elsewhere(asked, home, calendar.grid)):
            if found and found.found:
                return found
        assert first
        made = home.start >= calendar.genesis and calendar.grid.at(home.start) == home
        if first.state is None and not made:
            raise Absent(f"there is no window {home.id}: tallyroll windows list")
        return first

    def _elsewhere(self, asked: Retraction, home: Span, grid: Grid) -> Iterator[Retractable | None]:
        """What else the id may mean: an event of a packet, and events where the ids are taken."""
        packed, beyond = _packed(asked), None
        if packed:
            try:
                yield self._at(packed, home, self._claimed(packed, home))
            except BeyondPacket as rejected:
                beyond = rejected
            except Rejected:
                pass  # it is no packet
        for each in filter(None, (asked, packed)):
            for window in self._taken(each, home):
                yield self._at(each, grid, window)
        if beyond:
            raise beyond

    def authorize(self, found: Retractable) -> None:
        """Let writers retract what was found."""
        asked, proven = found.retraction, None
        if found.proven:
            first = found.tombstones[0]
            proven = (first.n, first.amount, first.digest)
        keys = asked.keys if asked.other_keys else ()
        now = self.effects.now()
        given = Authorization(found.target, asked.by, asked.why, now, keys, proven)
        self.catalog.authorize(given)

    def _claimed(self, asked: Retraction, home: Span) -> WindowId:
        identities = [(home.id, key, asked.id) for key in asked.keys]
        claims = self.catalog.claims(identities)
        return next((claims[one].target for one in identities if one in claims), home.id)

    def _taken(self, asked: Retraction, home: Span) -> list[WindowId]:
        """The windows in which the id is taken by the rule of the named window."""
        spec = self._spec(home.id)
        names = identity_names(spec, asked.keys, asked.id) if spec else ()
        taken = self.store.identities(names) if names else {}
        return [*dict.fromkeys(taken[name].window for name in names if name in taken)]

    def _spec(self, window: WindowId) -> Spec | None:
        return self.catalog.specs([window]).get(window)

    def _at(self, asked: Retraction, where: Span | Grid, window: WindowId) -> Retractable | None:
        """What `window` holds of an event that happened in the window `where`; by the grid, of any
        event under the key and id, else None.
        """
        while True:
            state = self.catalog.window(window)
            try:
                return self._in(asked, where, window, state)
            except Missing:
                after = self.catalog.window(window)
                if not _dropped(after) or _dropped(state):
                    raise

    def _in(
        self, asked: Retraction, where: Span | Grid, window: WindowId, state: Window | None
    ) -> Retractable | None:
        spec = self._spec(window) if state and state.status is not Status.CREATING else None
        place: Store | ArchivedItems = self.store
        if state and _dropped(state):
            place = self._evidence(state, asked)
        if isinstance(where, Grid):
            record = place.record(spec, asked.key, asked.id) if spec else None
            if record is None:
                return None
            where = where.at(record.ts)
        nothing = Retractable(_named(asked, where), window, state)
        if state is None or spec is None:
            return nothing
        # The maker asks its store for nothing that evidence does not have.
        maker = TombstoneMaker(cast("Store", place), self.effects)
        tombstones = maker.of(spec, nothing.retraction, where)
        if not tombstones:
            return nothing
        named = _named(asked, where, *(each.key for each in tombstones))
        note = self._note(place, spec, state, tombstones[0])
        return Retractable(named, window, state, tombstones, _dropped(state), note)

    def _note(
        self, place: Store | ArchivedItems, spec: Spec, state: Window, first: Tombstone
    ) -> RetractionNote | None:
        """Who retracted the event of the first tombstone, and why, if that is done."""
        if stored := place.tombstones(spec, [first.name]).get(first.name):
            return stored.note
        return self.correction_note(state, first) if state.status.sealed else None

    def correction_note(self, state: Window, first: Tombstone) -> RetractionNote | None:
        """Who retracted an event after its window was sealed, and why, if that is done."""
        for each in self.totals.corrections(first.key, state.id):
            same_name = (each.id, each.index) == (first.id, first.index)
            if same_name and each.digest == first.digest:
                return each.note
        return None

    def _evidence(self, window: Window, asked: Retraction) -> ArchivedItems:
        if window.id not in self._read:
            ids = {each.id for each in (asked, _packed(asked)) if each}
            self._read[window.id] = read_archive(
                window,
                self.settings.name,
                self.bucket(),
                self.codec,
                ArchivedItems(asked.keys, ids),
                self.on_items,
            )
        return self._read[window.id]


def _home(asked: Retraction, grid: Grid) -> Span:
    """The window that a retraction names, perhaps one that the calendar does not have."""
    start = window_start(asked.window) if asked.window else asked.ts
    assert start is not None
    span = grid.at(start)
    return span if asked.window in (None, span.id) else Span(start, span.end)


def _dropped(state: Window | None) -> bool:
    return state is not None and state.status in (Status.DROPPING, Status.DROPPED)


def _packed(asked: Retraction) -> Retraction | None:
    """The retraction of an event of a packet, if its id may be the id of one."""
    packed = packed_id(asked.id) if asked.index is None and not asked.other_keys else None
    return replace(asked, id=packed[0], index=packed[1]) if packed else None


def _named(asked: Retraction, home: Span, *keys: str) -> Retraction:
    """The retraction with the window of its event, and its keys, if they are known."""
    least, *others = keys or asked.keys
    return replace(asked, key=least, other_keys=tuple(others), window=home.id, ts=None)


def check_allowed(settings: Settings) -> None:
    """Raise UsageError if the pipeline lets nobody take events back."""
    if settings.retraction == RETRACTION_OFF:
        raise UsageError(
            "retraction off: nobody may take events of this pipeline back: deploy it with the"
            " setting tallyroll:retraction=operator; on a local engine, start it and this command"
            " with TALLYROLL_RETRACTION=operator"
        )
