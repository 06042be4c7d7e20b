"""Bugs of redriving dead letters, by which an event counts in two windows, or in none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.errors import StoreError
from tallyroll.ingest.placement import Placer
from tallyroll.operations.event_status import EventStatus, Sight, Sought, Whereabouts
from tallyroll.operations.letter_events import Decision
from tallyroll.operations.redrive import Redriver

Patch = pytest.MonkeyPatch


def sent_before_it_is_claimed(patch: Patch) -> None:
    """The claim is put when the message has gone, by a process that may be killed before."""
    send = Redriver._send

    def unclaimed(_self: Any, plan: Decision) -> Decision:
        return plan

    def hasty(self: Any, decisions: list[Decision]) -> None:
        plans = list(decisions)
        send(self, decisions)
        for plan in plans:
            claimed(self, plan)

    claimed = Redriver._claimed
    patch.setattr(Redriver, "_claimed", unclaimed)
    patch.setattr(Redriver, "_send", hasty)


def redriven_without_a_ledger(patch: Patch) -> None:
    """Each redrive chooses a window of its own, and the writer believes what a message says."""

    def believing(self: Any, found: Any) -> Any:
        return [
            each._replace(case=each.case._replace(target=each.case.message.redrive.target))
            if hasattr(each, "envelope") and each.case.message.redrive
            else each
            for each in found
        ]

    patch.setattr(MemoryCatalog, "claims", lambda *_: {})
    patch.setattr(MemoryCatalog, "claim", lambda self, identity, wanted: wanted)
    patch.setattr(Placer, "_find_targets", believing)


def redriven_while_its_window_is_closing(patch: Patch) -> None:
    """It is not there yet: but a copy that is on its way may still come."""
    judge = Whereabouts.judge

    def hasty(self: Any, event: Sought, sight: Sight | StoreError) -> EventStatus | StoreError:
        found = judge(self, event, sight)
        return EventStatus.ABSENT if found is EventStatus.CLOSING else found

    patch.setattr(Whereabouts, "judge", hasty)


def claim_moved_past_another_content(patch: Patch) -> None:
    """What stands in the target has the same identity: copies of it count where the claim goes."""
    judge = Whereabouts.judge

    def careless(self: Any, event: Sought, sight: Sight | StoreError) -> EventStatus | StoreError:
        nowhere = replace(event.home, start=0, end=0)
        return judge(self, replace(event, home=nowhere), sight)

    patch.setattr(Whereabouts, "judge", careless)
