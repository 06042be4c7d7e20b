"""Bugs of ids that outlive their windows, by which an event counts twice, or is said not to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

import tallyroll.ingest.writer
import tallyroll.model.ids
from tallyroll.adapters.memory import MemoryStore
from tallyroll.errors import StoreError
from tallyroll.ingest.stored_events import StoredEvents
from tallyroll.ingest.writer import Writer
from tallyroll.limits import IDENTITY_COPIES_DAYS
from tallyroll.model.records import Increment, Record
from tallyroll.model.specs import Spec
from tallyroll.operations import redrive
from tallyroll.operations.event_status import EventStatus
from tallyroll.operations.redrive import Redriver
from tallyroll.ports.store import Outcome, Verdict
from tests.simulation import stale
from tests.simulation.watched import SimStore

Patch = pytest.MonkeyPatch
ANSWER = MemoryStore._answer


def identity_put_after_the_transaction(patch: Patch) -> None:
    """Between the two, another copy may count; and a writer that dies never puts it."""

    commit_all = SimStore.commit

    def commit(
        self: Any, spec: Spec, records: Sequence[Record], increments: Sequence[Increment]
    ) -> Outcome:
        outcome = commit_all(self, spec, records, increments)
        names = [each.name for record in records for each in record.identities]
        if outcome.verdict is Verdict.COMMITTED and names:
            put = {name: self.identity_items.pop(name) for name in names}
            self._system.world.step()
            self.identity_items.update(put)
        return outcome

    patch.setattr(SimStore, "commit", commit)


def identity_put_without_condition(patch: Patch) -> None:
    def careless(self: Any, record: Record, item: Any) -> Any:
        return ANSWER(self, replace(record, identities=()), item)

    patch.setattr(MemoryStore, "_answer", careless)


def identity_put_over_one_whose_days_are_over(patch: Patch) -> None:
    """A writer judges an identity by its own clock. Copies of its message may still be about."""
    ids = tallyroll.model.ids

    def aged(self: Any, record: Record, item: Any) -> Any:
        copies_ms = IDENTITY_COPIES_DAYS * ids._DAY_SECONDS * 1000
        fresh = [
            each
            for each in record.identities
            if (found := self.identity_items.get(each.name))
            and int(found["expires"]["N"]) * 1000 - copies_ms > self._effects.now()
        ]
        return ANSWER(self, replace(record, identities=tuple(fresh)), item)

    patch.setattr(MemoryStore, "_answer", aged)


def identity_forgotten_while_copies_come(patch: Patch) -> None:
    """It goes when its days are over, without the weeks that copies spend in queues."""
    patch.setattr(tallyroll.model.ids, "IDENTITY_COPIES_DAYS", 0)


def identities_read_eventually(patch: Patch) -> None:
    patch.setattr(stale, "EVENTUAL", stale.EVENTUAL | {"identities"})


def rejected_before_its_identity_is_read(patch: Patch) -> None:
    """A copy of what counts in another hour, or in a dropped one, becomes a dead letter."""
    patch.setattr(StoredEvents, "beside_identities", lambda _self, cases: cases)


def absent_identity_taken_as_proof(patch: Patch) -> None:
    """What a dropped window counted by its own rule has none."""
    passes_over = Redriver._passes_over

    def proven(self: Any, event: Any, window: str, place: EventStatus, page: Any) -> bool:
        if place is EventStatus.UNVERIFIED and redrive._identities(event, page.default, page.specs):
            return True
        return passes_over(self, event, window, place, page)

    patch.setattr(Redriver, "_passes_over", proven)


def follower_takes_over_the_fate_in_another_window(patch: Patch) -> None:
    """What came after its window was sealed decides on a copy whose window is open."""
    fates_of = Writer._fates

    def followed(self: Any, placed: Sequence[Any], *rest: Any) -> Any:
        fates = fates_of(self, placed, *rest)
        keepers = tallyroll.ingest.writer._keepers(placed)
        kept = [next(at for at, one in enumerate(placed) if one is keeper) for keeper in keepers]
        return [
            fates[at] if each.record.digest == placed[at].record.digest else fate
            for each, at, fate in zip(placed, kept, fates, strict=True)
        ]

    patch.setattr(Writer, "_fates", followed)


def identities_missing_taken_for_none(patch: Patch) -> None:
    """While their table is away, nothing is known to count."""
    read = SimStore.identities

    def blind(self: Any, names: Sequence[str]) -> Mapping[str, Any]:
        try:
            return read(self, names)
        except StoreError:
            return {}

    patch.setattr(SimStore, "identities", blind)
