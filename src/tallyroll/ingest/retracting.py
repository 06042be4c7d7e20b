"""Retractions in a batch: each takes an event back, is a duplicate, waits for its event, or is
rejected.

The event is in the window of its redrive's claim, else in its own. A record there is the event's
only if its time lies in the event's own window: in the window of a claim another event may have the
id. So neither a claim nor an id that was used again leads to a wrong event.

While the window is open, one transaction puts the tombstone and lowers the tally. Once it is
sealed, its totals are corrected; once it is dropped, too, if an operator has proven the event in
the archive. A retraction that does not find its event waits for it, without keeping any window
open, until the window is sealed or no copy of the event should come any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tallyroll.errors import Missing, Rejected, StoreError
from tallyroll.ingest.batch_messages import BatchMessage
from tallyroll.ingest.correcting import corrected, correction_of, correction_proven
from tallyroll.ingest.fates import Disposition, Fate, handed_back, rejected
from tallyroll.ingest.locating import Located, Locator
from tallyroll.ingest.tombstone_runs import LATE, Admit, Found, Place, run
from tallyroll.ingest.tombstones import TombstoneMaker, nothing
from tallyroll.model.records import Record, RecordName
from tallyroll.model.retractions import Tombstone, TombstoneName
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import Correction
from tallyroll.model.windows import WindowId
from tallyroll.ports.catalog import Catalog
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Store
from tallyroll.ports.totals import Totals
from tallyroll.reasons import Reason
from tallyroll.settings import Settings

if TYPE_CHECKING:
    from tallyroll.ingest.writer import BatchReport

RECEIVES_MIN = 3  # before an absent event is given up: the first may come before the event
_DROPPED = (Status.DROPPING, Status.DROPPED)
_MOVED = "its event was redriven meanwhile"
_Step = Found | Correction | Fate
"""What is to be done for a retraction: tombstones, a correction, or nothing more."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WindowRead:
    """What is read of a window's events: tombstones only if its `state` was sealed before."""

    state: Window | None
    tombstones: Mapping[TombstoneName, Tombstone] = field(default_factory=dict)
    records: Mapping[RecordName, Record] = field(default_factory=dict)
    is_missing: bool = False


@dataclass(eq=False)
class Retracting:
    """Carries out the retractions of batches; one per writer. `admit` waits for the write rate."""

    settings: Settings
    store: Store
    catalog: Catalog
    cached: CachedCatalog
    totals: Totals
    effects: Effects
    admit: Admit | None = None

    def __post_init__(self) -> None:
        self._locator = Locator(self.settings, self.catalog, self.cached)
        self._maker = TombstoneMaker(self.store, self.effects)

    def settle(
        self, cases: Sequence[BatchMessage], deadline: int, report: BatchReport
    ) -> list[BatchMessage]:
        """The cases; those of retractions that have no fate get theirs, and the report what it
        took. It comes after the events of the batch, among which may be theirs.
        """
        asked = [case for case in cases if case.retraction and not case.fate]
        fates = iter(self._fates(asked, deadline, report) if asked else ())
        return [
            case._replace(fate=next(fates)) if case.retraction and not case.fate else case
            for case in cases
        ]

    def _fates(
        self, cases: Sequence[BatchMessage], deadline: int, report: BatchReport
    ) -> list[Fate]:
        try:
            located = self._locator.located(cases)
        except StoreError as error:
            return [handed_back(str(error))] * len(cases)
        steps: dict[int, _Step] = {}
        sought: dict[int, Located] = {}
        for number, each in enumerate(located):
            if isinstance(each, Located):
                sought[number] = each
            else:
                steps[number] = each
        reads = self._reads(sought, deadline)
        steps |= self._each(sought, lambda each: self._look(each, reads[each.window]))
        found = {number: step for number, step in steps.items() if isinstance(step, Found)}
        steps |= self._taken(sought, found, deadline, report)
        made = {number: step for number, step in steps.items() if isinstance(step, Correction)}
        fates = {number: step for number, step in steps.items() if isinstance(step, Fate)}
        fates |= self._corrected(made, deadline, report)
        return [fates[number] for number in range(len(cases))]

    def _each(
        self, some: Mapping[int, Located], step: Callable[[Located], T]
    ) -> dict[int, T | Fate]:
        """What a step makes of each, concurrently."""
        jobs = [_guarded(partial(step, each), each.case) for each in some.values()]
        done = self.effects.together(jobs, self.settings.transactions_at_once)
        return dict(zip(some, done, strict=True))

    def _taken(
        self,
        sought: Mapping[int, Located],
        found: Mapping[int, Found],
        deadline: int,
        report: BatchReport,
    ) -> dict[int, Correction | Fate]:
        """What becomes of the retractions of these events: those of one event are one."""
        firsts: dict[Place, int] = {}
        keepers = {number: firsts.setdefault(each.place, number) for number, each in found.items()}
        events = [found[number] for number in firsts.values()]
        at_once = self.settings.transactions_at_once
        done = run(self.store, events, self.effects, deadline, at_once, self.admit)
        report.cost += done.cost
        report.contended += done.contended
        report.throttled.update(done.throttled)
        report.unknown += done.unknown
        fates = {number: done.fates[each.place] for number, each in found.items()}
        shut_out = {
            number: sought[number]
            for number, fate in fates.items()
            if keepers[number] == number and fate.kind is Disposition.SHUT_OUT
        }
        behind = self._each(shut_out, self._behind)
        return {
            number: behind[keeper]
            if keeper in behind
            else _shared(fates[number], kept=keeper == number)
            for number, keeper in keepers.items()
        }

    def _corrected(
        self, made: Mapping[int, Correction], deadline: int, report: BatchReport
    ) -> dict[int, Fate]:
        given = list(made.values())
        fates, spent = corrected(self.totals, given, deadline, self.effects, self.admit)
        report.cost += spent
        return dict(zip(made, fates, strict=True))

    def _reads(
        self, sought: Mapping[int, Located], deadline: int
    ) -> dict[WindowId, _WindowRead | Fate]:
        """What is read at once of each window's events; or the fate of all its retractions."""
        groups: dict[WindowId, list[Located]] = {}
        for each in sought.values():
            groups.setdefault(each.window, []).append(each)
        jobs = [partial(self._first_read, group, deadline) for group in groups.values()]
        done = self.effects.together(jobs, self.settings.transactions_at_once)
        return dict(zip(groups, done, strict=True))

    def _first_read(self, group: Sequence[Located], deadline: int) -> _WindowRead | Fate:
        """Of a window that should be closed, its state is read first, so that nothing is tried in
        vain.
        """
        now, spec, state = self.effects.now(), group[0].spec, None
        if now >= deadline:
            return LATE
        try:
            if spec and now > spec.accept_until:
                state = self.catalog.window(spec.window)
            return self._read(group, state)
        except StoreError as error:
            return handed_back(str(error))
        except Exception as error:  # noqa: BLE001 (a window's that a later release froze, alone)
            _log.exception("retractions: unexpected")
            return handed_back(f"the writer failed on it: {type(error).__name__}")

    def _read(self, group: Sequence[Located], state: Window | None) -> _WindowRead:
        """Read the records of a window's events, and before them, in a request of their own, the
        tombstones, if its state is sealed: so they are final. If the table is dropped and made
        again between the two, the records are missing, too.
        """
        spec = group[0].spec
        if spec is None or (state and state.status in _DROPPED):
            return _WindowRead(state)
        asked = [each.retraction for each in group]
        try:
            stones: Mapping[TombstoneName, Tombstone] = {}
            if state and state.status.sealed:
                stones = self.store.tombstones(spec, [each.name for each in asked])
            records = self.store.lookup(spec, [(each.key, each.id) for each in asked])
        except Missing:
            return _WindowRead(state, is_missing=True)
        return _WindowRead(state, stones, records)

    def _look(self, located: Located, read: _WindowRead | Fate) -> _Step:
        """What is found of an event while its window is open; else what becomes of the message."""
        if isinstance(read, Fate):
            return read
        if located.spec is None:
            return self._unmade(located)
        if read.state and read.state.status.sealed:
            return self._behind_seal(located, read.state, read)
        found = self._found(located, located.spec, read)
        return found or self._behind(located, is_absent=True)

    def _found(self, located: Located, spec: Spec, read: _WindowRead) -> Found | None:
        """An event that is stored. Raises Rejected for what cannot be retracted, and Missing
        without a table.
        """
        retraction = located.retraction
        record = read.records.get((retraction.key, retraction.id))
        tombstones = self._maker.of_record(spec, record, retraction, located.home)
        return Found(spec, tombstones) if tombstones else None

    # --- an absent event, and a window that is not open

    def _unmade(self, located: Located) -> Correction | Fate:
        """Of a window without a spec: it will be made, it was dropped, or the event cannot be
        there.
        """
        calendar, home = self.cached.calendar(), located.home
        begun = calendar and home.start >= calendar.genesis
        regular = calendar and begun and calendar.grid.at(home.start) == home
        state = self.catalog.window(located.window)
        if state and state.status in _DROPPED:
            return self._by_archive(located, state)
        if located.window != home.id or regular or state:
            return handed_back(f"window {located.window} is not made yet", waits=True)
        self.cached.forget_calendar()
        if located.retraction.window is None and begun:
            return handed_back("the calendar has changed since its window was chosen")
        return self._given_up(located, 0, f"there is no window {home.id}")

    def _behind(self, located: Located, *, is_absent: bool = False) -> Correction | Fate:
        """What becomes of a retraction by the state of a window that did not take it; or that does
        not hold the event, if `is_absent`.
        """
        state = self.catalog.window(located.window)
        if state and state.status.sealed:
            return self._behind_seal(located, state, self._read([located], state))
        what = f"window {located.window} is {state.status if state else 'not made yet'}"
        if is_absent and located.spec:
            return self._given_up(located, located.spec.accept_until, f"{what}, without the event")
        return handed_back(what, waits=state is None or state.status is not Status.CLOSING)

    def _given_up(self, located: Located, accept_until: int, what: str) -> Fate:
        """Of an absent event: its retraction waits until no copy of the event should come."""
        due = accept_until + 2 * self.settings.visibility_ms
        early = located.case.message.receives < RECEIVES_MIN or self.effects.now() <= due
        return handed_back(what, waits=True) if early else self._rejected(located, nothing(what))

    def _behind_seal(self, located: Located, state: Window, read: _WindowRead) -> Correction | Fate:
        """Of a window whose state was sealed before anything else was read of it."""
        spec, retraction = located.spec, located.retraction
        if state.status in _DROPPED or spec is None:
            return self._by_archive(located, state)
        if read.is_missing:
            return handed_back(f"{spec.table} is missing: its window's state is to be read again")
        stone = read.tombstones.get(retraction.name)
        if stone and stone.ts in located.home:
            return Fate(Disposition.DUPLICATE, stone.digest)
        found = self._found(located, spec, read)
        if found:
            return correction_of(found, self.effects.now())
        now = self.catalog.window(located.window)
        if now is None or now.status in _DROPPED:
            return handed_back("its window was dropped meanwhile")
        what = f"window {state.id} is {state.status}, without the event"
        return self._rejected(located, nothing(what))

    def _by_archive(self, located: Located, state: Window) -> Correction | Fate:
        """Of a window whose table is gone: its totals are corrected if an operator has proven the
        event, and that no tombstone of it is there, in the archive.
        """
        authorized = self._locator.with_proof(located)
        if made := correction_proven(authorized, self.effects.now()):
            # A proof that came after the claims were read may be of the window of a later claim.
            elsewhere = self._locator.is_elsewhere(located)
            return handed_back(_MOVED) if elsewhere else made
        what = f"window {state.id} is {state.status}: `tallyroll retract` proves it in the archive"
        return self._rejected(located, Rejected(Reason.RETRACTION_UNPROVEN, what))

    def _rejected(self, located: Located, refused: Rejected) -> Fate:
        """The rejection; unless the event was claimed for another window since the claims were
        read, and may count there.
        """
        if self._locator.is_elsewhere(located):
            return handed_back(_MOVED)
        raise refused


def _guarded(step: Callable[[], T], case: BatchMessage) -> Callable[[], T | Fate]:
    """The step, with the fate that an exception makes of its message alone."""

    def guarded() -> T | Fate:
        try:
            return step()
        except Rejected as refused:
            return rejected(refused.reason, refused.detail)
        except StoreError as error:
            return handed_back(str(error))
        except Exception as error:  # noqa: BLE001  (see above)
            _log.exception("message %s: unexpected", case.message.id)
            return handed_back(f"the writer failed on it: {type(error).__name__}")

    return guarded


def _shared(fate: Fate, *, kept: bool) -> Fate:
    """The fate of a message whose event another message of the batch retracts, unless `kept`."""
    if kept or fate.kind is not Disposition.RETRACTED:
        return fate
    return replace(fate, kind=Disposition.DUPLICATE)
