"""Where a batch's retractions are to look for their events, and whether they may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tallyroll.ingest.batch_messages import BatchMessage
from tallyroll.ingest.fates import Fate, handed_back, rejected
from tallyroll.model.ids import Identity
from tallyroll.model.retractions import Authorization, Retraction, RetractionTarget
from tallyroll.model.specs import Spec
from tallyroll.model.windows import Span, WindowId
from tallyroll.ports.catalog import Catalog, Claim
from tallyroll.ports.catalog_cache import CachedCatalog
from tallyroll.reasons import Reason
from tallyroll.settings import Settings
from tallyroll.settings.common import RETRACTION_OPERATOR


@dataclass(frozen=True, slots=True)
class Located:
    """A message's retraction of an event that happened in the window `home`, and the window in
    which the event counts, if at all; its spec, if it is made. `authorized` is what an operator
    said of it, where only operators may retract.
    """

    case: BatchMessage
    retraction: Retraction
    home: Span
    window: WindowId
    claimed_at: int = 0
    spec: Spec | None = None
    authorized: Authorization | None = None

    @property
    def identities(self) -> list[Identity]:
        """The event's identities, by which it may be claimed for another window."""
        return [(self.home.id, key, self.retraction.id) for key in self.retraction.keys]

    @property
    def target(self) -> RetractionTarget:
        """What an operator may have authorized."""
        return self.home.id, self.retraction.key, self.retraction.id, self.retraction.index

    def as_authorized(self, found: Authorization) -> Located:
        """The retraction as it was authorized: the message's own words count for nothing."""
        least, *others = sorted({self.retraction.key, *found.keys})
        given = replace(
            self.retraction, key=least, other_keys=tuple(others), by=found.by, why=found.why
        )
        return replace(self, retraction=given, authorized=found)


@dataclass(frozen=True, eq=False)
class Locator:
    """Finds the windows of retractions. Authorizations and claims are read anew each time."""

    settings: Settings
    catalog: Catalog
    cached: CachedCatalog

    def located(self, cases: Sequence[BatchMessage]) -> list[Located | Fate]:
        """Where to look for the events; or why a retraction is refused. Raises StoreError."""
        given = self._authorized([_given(case) for case in cases])
        asked = [each for each in given if isinstance(each, Located)]
        identities = dict.fromkeys(one for each in asked for one in each.identities)
        claims = self.catalog.claims([*identities])
        found = [_claimed(each, claims) if isinstance(each, Located) else each for each in given]
        windows = dict.fromkeys(
            window
            for each in found
            if isinstance(each, Located)
            for window in (each.window, each.home.id)
        )
        specs = self.cached.specs([*windows])
        return [
            self._with_spec(each, specs) if isinstance(each, Located) else each for each in found
        ]

    def _with_spec(self, located: Located, specs: Mapping[WindowId, Spec]) -> Located | Fate:
        """The retraction with its spec; or to come again, by a newer calendar: another event may
        have the id in a window that the old one takes for longer than it is.
        """
        home, spec = located.home, specs.get(located.home.id)
        if spec and (spec.start, spec.end) != (home.start, home.end):
            # The window length changed after the calendar was cached.
            self.cached.forget_calendar()
            return handed_back("the calendar has changed")
        return replace(located, spec=specs.get(located.window))

    def is_elsewhere(self, located: Located) -> bool:
        """Whether the event was claimed for another window since the claims were read."""
        claims = self.catalog.claims(located.identities)
        return _claimed(located, claims).window != located.window

    def _authorized(self, given: Sequence[Located]) -> Sequence[Located | Fate]:
        """The retractions as their authorizations say them, where only operators may retract."""
        if self.settings.retraction != RETRACTION_OPERATOR:
            return given
        known = self.catalog.authorizations([*dict.fromkeys(each.target for each in given)])
        refused = rejected(
            Reason.RETRACTION_NOT_AUTHORIZED, "no operator has authorized it: `tallyroll retract`"
        )
        return [
            each.as_authorized(found) if (found := known.get(each.target)) else refused
            for each in given
        ]

    def with_proof(self, located: Located) -> Located:
        """The retraction as an operator authorized it, also where everybody may retract; the same
        if no operator did.
        """
        if located.authorized:
            return located
        found = self.catalog.authorizations([located.target]).get(located.target)
        return located.as_authorized(found) if found else located


def _given(case: BatchMessage) -> Located:
    assert case.retraction
    assert case.span
    return Located(case, case.retraction, case.span, case.span.id)


def _claimed(located: Located, claims: Mapping[Identity, Claim]) -> Located:
    """The retraction with the window for which the event was claimed, else its own."""
    found = next((claims[one] for one in located.identities if one in claims), None)
    target, at = (found.target, found.at) if found else (located.home.id, 0)
    return replace(located, window=target, claimed_at=at)
