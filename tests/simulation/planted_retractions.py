"""Bugs of retractions, by which what should not be is taken back, or twice, or only in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import tallyroll.ingest.tombstone_runs
import tallyroll.lifecycle.cleanup
import tallyroll.lifecycle.later_corrections
import tallyroll.lifecycle.sealing
import tallyroll.reads.counts
from tallyroll.adapters.dynamodb.items import tombstone_key
from tallyroll.adapters.memory import MemoryStore, MemoryTotals
from tallyroll.ingest.locating import Locator
from tallyroll.ingest.retracting import Retracting, _WindowRead
from tallyroll.ingest.tombstones import TombstoneMaker
from tallyroll.model.retractions import Tombstone
from tallyroll.model.specs import Spec
from tallyroll.model.totals import Correction
from tallyroll.ports.store import Element, Outcome, Verdict

Patch = pytest.MonkeyPatch
RETRACT = MemoryStore.retract
CORRECT = MemoryTotals.correct
ADD = MemoryTotals._add
TOMBSTONE = TombstoneMaker._tombstone


def tombstone_without_a_gate(patch: Patch) -> None:
    """It comes into a window whose tallies are listed already."""

    def retract(self: Any, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        vars(self)["_shut"] = lambda *_: None
        try:
            return RETRACT(self, spec, tombstones)
        finally:
            del vars(self)["_shut"]

    patch.setattr(MemoryStore, "retract", retract)


def tombstone_put_without_condition(patch: Patch) -> None:
    def retract(self: Any, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        if spec.table in self.tables():
            for each in tombstones:
                place = tombstone_key(each.key, each.shard, each.id, each.index)
                self.items(spec.table).pop((place["pk"]["S"], place["sk"]["S"]), None)
        return RETRACT(self, spec, tombstones)

    patch.setattr(MemoryStore, "retract", retract)


def retracted_id_forgotten(patch: Patch) -> None:
    """The record is deleted with its event, which counts again when it comes again."""

    def retract(self: Any, spec: Spec, tombstones: Sequence[Tombstone]) -> Outcome:
        outcome = RETRACT(self, spec, tombstones)
        if outcome.verdict is Verdict.COMMITTED:
            for each in tombstones:
                if each.index is None:
                    place = f"{each.key}.{each.shard}", f"e#{each.id}"
                    self.items(spec.table).pop(place)
        return outcome

    patch.setattr(MemoryStore, "retract", retract)


def tombstone_unknown_taken_for_put(patch: Patch) -> None:
    after = tallyroll.ingest.tombstone_runs.after

    def believed(batch: Any, outcome: Outcome) -> Any:
        if outcome.verdict is Verdict.UNKNOWN:
            outcome = Outcome(Verdict.COMMITTED)
        return after(batch, outcome)

    patch.setattr(tallyroll.ingest.tombstone_runs, "after", believed)


def retracted_without_reading_the_content(patch: Patch) -> None:
    """A message that names no amount is taken to be of one event with the value 1."""

    def guessed(self: Any, spec: Spec, record: Any, retraction: Any) -> Tombstone:
        return TOMBSTONE(self, spec, replace(record, n=1, amount=1_000_000), retraction)

    patch.setattr(TombstoneMaker, "_tombstone", guessed)


def retracted_from_any_stripe(patch: Patch) -> None:
    """A read may see the retraction without its event."""

    def anywhere(self: Any, spec: Spec, record: Any, retraction: Any) -> Tombstone:
        return TOMBSTONE(self, spec, replace(record, stripe=None), retraction)

    patch.setattr(TombstoneMaker, "_tombstone", anywhere)


def one_key_of_a_group_retracted(patch: Patch) -> None:
    patch.setattr(TombstoneMaker, "_group", lambda _self, _spec, record, _retraction: [record])


def retracted_without_an_operators_word(patch: Patch) -> None:
    patch.setattr(Locator, "_authorized", lambda _self, given: given)


def claim_not_read_again(patch: Patch) -> None:
    """What was redriven meanwhile counts, and its retraction is said to be of nothing."""
    patch.setattr(Locator, "is_elsewhere", lambda _self, _located: False)


def record_read_before_the_tombstone(patch: Patch) -> None:
    """Between the two the table may be dropped and made again: a tombstone and a correction."""
    read = Retracting._read

    def hasty(self: Any, group: Sequence[Any], state: Any) -> _WindowRead:
        spec = group[0].spec
        if spec is None or not (state and state.status.sealed):
            return read(self, group, state)
        asked = [each.retraction for each in group]
        records = self.store.lookup(spec, [(each.key, each.id) for each in asked])
        stones = self.store.tombstones(spec, [each.name for each in asked])
        return _WindowRead(state, stones, records)

    patch.setattr(Retracting, "_read", hasty)


def tombstones_of_a_sealed_window_not_read(patch: Patch) -> None:
    """What was retracted while the window was open is corrected once more."""
    read = Retracting._read

    def blind(self: Any, group: Sequence[Any], state: Any) -> _WindowRead:
        return replace(read(self, group, state), tombstones={})

    patch.setattr(Retracting, "_read", blind)


def correction_of_the_total_itself(patch: Patch) -> None:
    def correct(self: Any, corrections: Sequence[Correction]) -> list[Element]:
        for each in corrections:
            name = each.keys[0], each.window, each.id, each.index
            for key in each.keys if name not in self._corrections else ():
                total = self._totals[key, each.window]
                less = replace(total, n=total.n - each.n, amount=total.amount - each.amount)
                self._totals[key, each.window] = less
        return CORRECT(self, corrections)

    patch.setattr(MemoryTotals, "correct", correct)


def correction_without_an_entry(patch: Patch) -> None:
    """Its sums alone do not tell that it was made already."""

    def correct(self: Any, corrections: Sequence[Correction]) -> list[Element]:
        answers = CORRECT(self, corrections)
        self._corrections.clear()
        return answers

    patch.setattr(MemoryTotals, "correct", correct)


def correction_after_which_days_stay(patch: Patch) -> None:
    """The sums of the window are corrected, and those of its day and month are not."""

    def add(self: Any, key: str, window: str, more: Any) -> None:
        before = dict(self._corrected)
        ADD(self, key, window, more)
        mine = self._corrected[key, window]
        self._corrected.clear()
        self._corrected |= {**before, (key, window): mine}

    patch.setattr(MemoryTotals, "_add", add)


def retracted_before_the_seal_not_noted(patch: Patch) -> None:
    patch.setattr(tallyroll.lifecycle.sealing, "_note_retracted", lambda *_: None)


def counted_without_corrections(patch: Patch) -> None:
    patch.setattr(tallyroll.reads.counts, "net", lambda row: row)


def dropped_before_the_copy_of_corrections(patch: Patch) -> None:
    patch.setattr(tallyroll.lifecycle.cleanup, "copy_corrections", lambda *_: None)


def not_copied_after_the_drop(patch: Patch) -> None:
    patch.setattr(tallyroll.lifecycle.later_corrections, "copy_later_ones", lambda *_: None)
