"""Mistakes with logs, each with a seed from which on it is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.ingest import appending
from tallyroll.ingest.fates import Disposition, Fate
from tallyroll.ingest.placement import Placer
from tallyroll.ingest.tombstones import TombstoneMaker
from tallyroll.logs import entries, slots
from tallyroll.logs.entries import entry_of
from tallyroll.logs.slots import Slot, SlotStep
from tallyroll.model.specs import log_rule
from tallyroll.model.stored import events_of
from tests.simulation.logs.system import POSITIONS
from tests.simulation.planted import Planted

Patch = pytest.MonkeyPatch


def slot_by_the_time_of_delivery(patch: Patch) -> None:
    def delivered(envelope: Any, message: Any, *rest: Any) -> Any:
        entry = entry_of(envelope, message, *rest)
        return entry and entry._replace(sent=entry.sent + 20_000 * (message.receives - 1))

    patch.setattr(entries, "entry_of", delivered)


def slot_by_the_writers_own_settings(patch: Patch) -> None:
    """As if a rate were looked up in the settings, and not in the spec."""
    assign = Placer._assign

    def assigned(self: Any, case: Any, envelope: Any, ts: int, spec: Any) -> Any:
        rates = self.settings.logs
        own = {key: log_rule(rates.get(key, 60)) for key in spec.logs}
        return assign(self, case, envelope, ts, replace(spec, logs=own))

    patch.setattr(Placer, "_assign", assigned)


def full_judged_by_the_batch(patch: Patch) -> None:
    """Full is what has no room for a batch, which comes otherwise the next time."""
    next_step = slots.next_step

    def crowded(slot: Any, some: Any, most: int) -> Any:
        if len(slot.entries) + len(some) > 4:
            fresh = tuple(each for each in some if each.message not in slot.entries)
            known = tuple(each for each in some if each.message in slot.entries)
            return SlotStep(stored=known, records=fresh)
        return next_step(slot, some, most)

    patch.setattr(appending, "next_step", crowded)


def record_without_reading_the_full_log(patch: Patch) -> None:
    next_step = slots.next_step

    def careless(slot: Any, some: Any, most: int) -> Any:
        return SlotStep(records=tuple(some)) if slot.full else next_step(slot, some, most)

    patch.setattr(appending, "next_step", careless)


def leaf_after_an_end(patch: Patch) -> None:
    patch.setattr(Slot, "full", property(lambda self: self.free >= POSITIONS))


def lost_race_taken_for_won(patch: Patch) -> None:
    """Who loses a position takes what stands there for its own leaf."""
    after = appending._Work.after

    def won(self: Any, fate: Any) -> bool:
        if after(self, fate):
            self.settle(self.step.appended, Fate(Disposition.DUPLICATE))
        return False

    patch.setattr(appending._Work, "after", won)


def retracted_event_taken_for_the_first_of_its_leaf(patch: Patch) -> None:
    """Its leaf and index are right, what it takes back is another's."""
    packed = TombstoneMaker._packed

    def first(self: Any, spec: Any, record: Any, retraction: Any, index: int) -> Any:
        found = packed(self, spec, record, retraction, index)
        if not record.logged:
            return found
        return replace(found, amount=events_of(record)[0].amount)

    patch.setattr(TombstoneMaker, "_packed", first)


PLANTED = (
    Planted(slot_by_the_time_of_delivery, 0),
    Planted(slot_by_the_writers_own_settings, 0),
    Planted(full_judged_by_the_batch, 0),
    Planted(record_without_reading_the_full_log, 0),
    Planted(leaf_after_an_end, 0),
    Planted(lost_race_taken_for_won, 0),
    Planted(retracted_event_taken_for_the_first_of_its_leaf, 1),
)
