"""Retractions in a batch: each takes an event back, is a duplicate, waits for its event, or is
rejected.

The event is in the window of its redrive's claim, else in its own. A record there is the event's
only if its time lies in the event's own window: in the window of a claim another event may have the
id. So neither a claim nor an id that was used again leads to a wrong event.

While the window is open, one transaction puts the tombstone and lowers the tally. A retraction that
does not find its event waits for it, without keeping any window open, until the window is sealed or
no copy of the event should come any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tallyroll.errors import Missing, Rejected, StoreError
from tallyroll.ingest.cost import WriteCost
from tallyroll.ingest.fates import Disposition, Fate, handed_back, rejected
from tallyroll.ingest.placement import BatchMessage
from tallyroll.ingest.tombstones import TombstoneMaker, nothing
from tallyroll.model.ids import Identity
from tallyroll.model.retractions import (
    Authorization,
    Retraction,
    Tombstone,
    TombstoneName,
    decrements_of,
)
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status, Window
from tallyroll.model.windows import Span, WindowId
from tallyroll.ports.backoff import COMMIT_CONFLICT
from tallyroll.ports.catalog import Catalog, Claim
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.ports.effects import Effects
from tallyroll.ports.store import Answer, Metering, Outcome, Store, Verdict
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tallyroll.settings.common import RETRACTION_OPERATOR

RECEIVES_MIN = 3  # before an absent event is given up: the first may come before the event
_DROPPED = (Status.DROPPING, Status.DROPPED)
_LATE = handed_back("no time left to retract it")
T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Located:
    """A message's retraction of an event that happened in the window `home`, and the window in
    which the event counts, if at all; its spec, if it is made.
    """

    case: BatchMessage
    retraction: Retraction
    home: Span
    window: WindowId
    spec: Spec | None = None

    @property
    def identities(self) -> list[Identity]:
        """The event's identities, by which it may be claimed for another window."""
        return [(self.home.id, key, self.retraction.id) for key in self.retraction.keys]


@dataclass(frozen=True, slots=True)
class Found:
    """An event that was found: its tombstones, one for each of its keys, ascending."""

    spec: Spec
    tombstones: tuple[Tombstone, ...]

    @property
    def place(self) -> tuple[WindowId, TombstoneName]:
        """What no other event has."""
        return self.spec.window, self.tombstones[0].name


@dataclass(eq=False)
class Retracting:
    """Carries out the retractions of batches; one per writer."""

    settings: Settings
    store: Store
    catalog: Catalog
    cached: CachedCatalog
    effects: Effects

    def __post_init__(self) -> None:
        self._maker = TombstoneMaker(self.store, self.effects)

    def settle(
        self, cases: Sequence[BatchMessage], deadline: int, cost: WriteCost
    ) -> list[BatchMessage]:
        """The cases; those of retractions that have no fate get theirs, and `cost` what it took. It
        comes after the events of the batch, among which may be theirs.
        """
        asked = [case for case in cases if case.retraction and not case.fate]
        fates = iter(self._fates(asked, deadline, cost) if asked else ())
        return [
            replace(case, fate=next(fates)) if case.retraction and not case.fate else case
            for case in cases
        ]

    def _fates(self, cases: Sequence[BatchMessage], deadline: int, cost: WriteCost) -> list[Fate]:
        try:
            located = self._located(cases)
        except StoreError as error:
            return [handed_back(str(error))] * len(cases)
        fates: dict[int, Fate] = {}
        looks: dict[int, Callable[[], Found | Fate]] = {}
        for number, each in enumerate(located):
            if isinstance(each, Located):
                looks[number] = _guarded(partial(self._look, each, deadline), each.case)
            else:
                fates[number] = each
        found: dict[int, Found] = {}
        for number, result in self._together(looks).items():
            if isinstance(result, Found):
                found[number] = result
            else:
                fates[number] = result
        # Messages of one event are one transaction: of two, one would only exclude the other.
        firsts: dict[tuple[WindowId, TombstoneName], int] = {}
        keepers = {number: firsts.setdefault(each.place, number) for number, each in found.items()}
        costs = {number: WriteCost() for number in firsts.values()}
        jobs: dict[int, Callable[[], Fate]] = {}
        for number, spent in costs.items():
            each = located[number]
            assert isinstance(each, Located)
            step = partial(self._retract, each, found[number], deadline, spent)
            jobs[number] = _guarded(step, each.case)
        done = self._together(jobs)
        for spent in costs.values():
            cost += spent
        for number, keeper in keepers.items():
            fates[number] = _shared(done[keeper], kept=keeper == number)
        return [fates[number] for number in range(len(cases))]

    def _together(self, jobs: Mapping[int, Callable[[], T]]) -> dict[int, T]:
        done = self.effects.together([*jobs.values()], self.settings.transactions_at_once)
        return dict(zip(jobs, done, strict=True))

    # --- where an event is

    def _located(self, cases: Sequence[BatchMessage]) -> list[Located | Fate]:
        """Where to look for the events; or why a retraction is refused. Authorizations and claims
        are read anew each time.
        """
        given = self._authorized([_given(case) for case in cases])
        asked = [each for each in given if isinstance(each, Located)]
        identities = dict.fromkeys(one for each in asked for one in each.identities)
        claims = self.catalog.claims([*identities])
        windows = {each.case.message.id: _claimed(each, claims) for each in asked}
        specs = self.cached.specs([*dict.fromkeys(windows.values())])
        return [
            replace(each, window=window, spec=specs.get(window))
            if isinstance(each, Located) and (window := windows[each.case.message.id])
            else each
            for each in given
        ]

    def _authorized(self, given: Sequence[Located]) -> Sequence[Located | Fate]:
        """The retractions as their authorizations say them, where only operators may retract."""
        if self.settings.retraction != RETRACTION_OPERATOR:
            return given
        targets = [
            (each.home.id, each.retraction.key, each.retraction.id, each.retraction.index)
            for each in given
        ]
        known = self.catalog.authorizations([*dict.fromkeys(targets)])
        refused = rejected(
            Reason.RETRACTION_NOT_AUTHORIZED, "no operator has authorized it: `tallyroll retract`"
        )
        return [
            replace(each, retraction=_ordered(each.retraction, found))
            if (found := known.get(target))
            else refused
            for each, target in zip(given, targets, strict=True)
        ]

    def _look(self, located: Located, deadline: int) -> Found | Fate:
        """What is found of an event while its window is open; else what becomes of the message."""
        if self.effects.now() >= deadline:
            return _LATE
        if located.spec is None:
            return self._unmade(located)
        try:
            found = self._found(located, located.spec)
        except Missing:
            found = None
        return found or self._behind(located, is_absent=True)

    def _found(self, located: Located, spec: Spec) -> Found | None:
        """An event that is stored. Raises Rejected for what cannot be retracted, and Missing
        without a table.
        """
        tombstones = self._maker.of(spec, located.retraction, located.home)
        return Found(spec, tombstones) if tombstones else None

    # --- an open window

    def _retract(self, located: Located, found: Found, deadline: int, cost: WriteCost) -> Fate:
        """Repeat the transaction until it is decided; `cost` grows with each attempt."""
        for _ in COMMIT_CONFLICT.attempts(self.effects):
            if self.effects.now() >= deadline:
                break
            outcome = self.store.retract(found.spec, found.tombstones)
            cost += _cost(found, self.store.metering_of(found.spec.table))
            if fate := self._fate(located, found, outcome):
                return fate
        return _LATE

    def _fate(self, located: Located, found: Found, outcome: Outcome) -> Fate | None:
        """What follows from an outcome; None: to be tried again."""
        answers = {each.answer for each in (*outcome.records, *outcome.increments)}
        match outcome.verdict:
            case Verdict.COMMITTED:
                return Fate(Disposition.RETRACTED, found.tombstones[0].digest)
            case Verdict.GATE_SHUT | Verdict.GATE_MISSING:
                return self._behind(located)
            case Verdict.CANCELLED if Answer.DUPLICATE in answers:
                return Fate(Disposition.DUPLICATE, found.tombstones[0].digest)
            case Verdict.CANCELLED if Answer.INVALID not in answers:
                return None
            case Verdict.UNKNOWN | Verdict.THROTTLED:
                return None
        return rejected(Reason.REFUSED_BY_STORE, outcome.detail)

    # --- an absent event, and a window that is not open

    def _unmade(self, located: Located) -> Fate:
        """Of a window without a spec: it will be made, or the event cannot be there."""
        calendar, home = self.cached.calendar(), located.home
        begun = calendar and home.start >= calendar.genesis
        regular = calendar and begun and calendar.grid.at(home.start) == home
        if located.window != home.id or regular or self.catalog.window(home.id):
            return handed_back(f"window {located.window} is not made yet", waits=True)
        self.cached.forget_calendar()
        return self._given_up(located, 0, f"there is no window {home.id}")

    def _behind(self, located: Located, *, is_absent: bool = False) -> Fate:
        """What becomes of a retraction by the state of a window that did not take it; or that does
        not hold the event, if `is_absent`.
        """
        state = self.catalog.window(located.window)
        if state and state.status.sealed:
            return self._behind_seal(located, state)
        what = f"window {located.window} is {state.status if state else 'not made yet'}"
        if is_absent and located.spec:
            return self._given_up(located, located.spec.accept_until, f"{what}, without the event")
        return handed_back(what, waits=state is None or state.status is not Status.CLOSING)

    def _given_up(self, located: Located, accept_until: int, what: str) -> Fate:
        """Of an absent event: its retraction waits until no copy of the event should come."""
        due = accept_until + 2 * self.settings.visibility_ms
        early = located.case.message.receives < RECEIVES_MIN or self.effects.now() <= due
        return handed_back(what, waits=True) if early else self._rejected(located, what)

    def _behind_seal(self, located: Located, state: Window) -> Fate:
        """Of a window whose state was sealed before anything else is read of it: so its tombstones
        are final. They are read before the record, in a request of their own. If the table is
        dropped and made again between the two, the record is missing, too.
        """
        if state.status in _DROPPED or located.spec is None:
            return self._by_archive(located, state)
        spec, retraction = located.spec, located.retraction
        name = (retraction.key, retraction.id, retraction.index)
        try:
            stone = self.store.tombstones(spec, [name]).get(name)
            if stone and stone.ts in located.home:
                return Fate(Disposition.DUPLICATE, stone.digest)
            found = self._found(located, spec)
        except Missing as error:
            return handed_back(f"{error}: its window's state is to be read again")
        if found:
            return self._corrected(located, found, state)
        now = self.catalog.window(located.window)
        if now is None or now.status in _DROPPED:
            return handed_back("its window was dropped meanwhile")
        return self._rejected(located, f"window {state.id} is {state.status}, without the event")

    def _corrected(self, located: Located, found: Found, state: Window) -> Fate:  # noqa: ARG002
        """Of an event that is stored in a sealed window, without a tombstone: its totals are to be
        corrected. Until writers can do that, the message waits.
        """
        return handed_back(f"window {state.id} is {state.status}: its totals are not corrected yet")

    def _by_archive(self, located: Located, state: Window) -> Fate:  # noqa: ARG002
        """Of a window whose table is gone: an operator proves the event in the archive, and puts
        that into the authorization. Until writers can correct its totals, the message waits.
        """
        return handed_back(f"window {state.id} is {state.status}: its totals are not corrected yet")

    def _rejected(self, located: Located, what: str) -> Fate:
        """That there is nothing to retract; unless the event was claimed for another window since
        the claims were read, and may count there.
        """
        if _claimed(located, self.catalog.claims(located.identities)) != located.window:
            return handed_back("its event was redriven meanwhile")
        raise nothing(what)


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


def _given(case: BatchMessage) -> Located:
    assert case.retraction
    assert case.span
    return Located(case, case.retraction, case.span, case.span.id)


def _ordered(retraction: Retraction, found: Authorization) -> Retraction:
    """The retraction as it was authorized: the message's own words count for nothing."""
    least, *others = sorted({retraction.key, *found.keys})
    keys = tuple(others)
    return replace(retraction, key=least, other_keys=keys, by=found.by, why=found.why)


def _claimed(located: Located, claims: Mapping[Identity, Claim]) -> WindowId:
    """The window for which the event was claimed, else its own."""
    found = (claims[one].target for one in located.identities if one in claims)
    return next(found, located.home.id)


def _cost(found: Found, metering: Metering) -> WriteCost:
    """The cost of one attempt."""
    stones = sum(map(metering.tombstone_cost, found.tombstones))
    shared = metering.shared_cost(len(decrements_of(found.tombstones)))
    return WriteCost(single=stones + shared, requests_single=1)


def _shared(fate: Fate, *, kept: bool) -> Fate:
    """The fate of a message whose event another message of the batch retracts, unless `kept`."""
    if kept or fate.kind is not Disposition.RETRACTED:
        return fate
    return replace(fate, kind=Disposition.DUPLICATE)
