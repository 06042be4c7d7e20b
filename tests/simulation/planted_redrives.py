"""Bugs of redriving dead letters, by which an event counts in two windows, or in none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.ledger import Claim, Identity
from tallyroll.memory import MemoryCatalog
from tallyroll.placing import Placer
from tallyroll.redrive import Redriver
from tallyroll.whereabouts import Place, Whereabouts
from tallyroll.windows import Span

Patch = pytest.MonkeyPatch


def sent_before_it_is_claimed(patch: Patch) -> None:
    """The claim is put when the message has gone, by a process that may be killed before."""
    redrive = Redriver.redrive

    def hasty(self: Any, letters: Any) -> Any:
        catalog, claims = self._catalog, list[tuple[Identity, Claim]]()

        class Later:
            def __getattr__(self, verb: str) -> Any:
                return getattr(catalog, verb)

            def claim(self, identity: Identity, wanted: Claim) -> Claim:
                claims.append((identity, wanted))
                return wanted

        self._catalog = Later()
        try:
            return redrive(self, letters)
        finally:
            self._catalog = catalog
            for identity, wanted in claims:
                catalog.claim(identity, wanted)

    patch.setattr(Redriver, "redrive", hasty)


def redriven_without_a_ledger(patch: Patch) -> None:
    """Each redrive chooses a window of its own, and the writer believes what a message says."""

    def believing(self: Any, timed: Any) -> None:
        for case, _, _ in timed:
            case.target = case.message.redrive.target if case.message.redrive else None

    patch.setattr(MemoryCatalog, "claims", lambda *_: {})
    patch.setattr(MemoryCatalog, "claim", lambda self, identity, wanted: wanted)
    patch.setattr(Placer, "_find_targets", believing)


def redriven_while_its_window_is_closing(patch: Patch) -> None:
    """It is not there yet: but a copy that is on its way may still come."""
    place = Whereabouts.place

    def hasty(self: Any, *asked: Any, home: Span) -> Place:
        found = place(self, *asked, home=home)
        return Place.ABSENT if found is Place.CLOSING else found

    patch.setattr(Whereabouts, "place", hasty)


def claim_moved_past_another_content(patch: Patch) -> None:
    """What stands in the target has the same identity: copies of it count where the claim goes."""
    place = Whereabouts.place

    def careless(self: Any, *asked: Any, home: Span) -> Place:
        return place(self, *asked, home=replace(home, start=0, end=0))

    patch.setattr(Whereabouts, "place", careless)
