"""Bugs that break no promise where they are seen here: a step is left out that this time was not
needed, or knows more than it can. Only the comparison with the model finds them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

import tallyroll.ingest.tombstone_runs
import tallyroll.ingest.transactions
from tallyroll.errors import Missing
from tallyroll.ingest.locating import Locator
from tallyroll.ingest.placement import Placer
from tallyroll.ingest.retracting import Retracting
from tallyroll.ingest.stored_events import StoredEvents
from tallyroll.operations.redrive import Redriver
from tallyroll.ports.store import Outcome, Verdict

Patch = pytest.MonkeyPatch


def state_not_read_again(patch: Patch) -> None:
    """A record that is absent is taken for one that never was: its table may be another one."""
    stored = StoredEvents._by_stored_records

    def hasty(self: StoredEvents, placed: Sequence[Any]) -> Any:
        logged = self._in_logs(placed)
        found = [self._stored(*each) for each in zip(placed, logged, strict=True)]
        if all(answer is None for answer in found):
            return ["this record is not in it"] * len(placed)
        return stored(self, placed)

    patch.setattr(StoredEvents, "_by_stored_records", hasty)


def claim_not_read_anew(patch: Patch) -> None:
    """A redriven message is believed."""

    def believed(_self: Placer, found: Any) -> Any:
        return [
            each._replace(
                case=each.case.__class__(
                    each.case.message, each.span, each.case.message.redrive.target
                )
            )
            if hasattr(each, "envelope") and each.case.message.redrive
            else each
            for each in found
        ]

    patch.setattr(Placer, "_find_targets", believed)


def identity_read_before_the_state(patch: Patch) -> None:
    """What counts between the two reads is rejected."""
    behind = StoredEvents.behind_shut_gates

    def early(self: StoredEvents, placed: Sequence[Any], deadline: int) -> Any:
        names = [item.name for each in placed for item in each.record.identities]
        if names:
            self.store.identities(names)
        return behind(self, placed, deadline)

    patch.setattr(StoredEvents, "behind_shut_gates", early)


def lost_answer_taken_for_success(patch: Patch) -> None:
    """An outcome is unknown, and the writer guesses right."""
    after = tallyroll.ingest.transactions.after

    def lucky(commit: Any, outcome: Outcome, *rest: Any) -> Any:
        if outcome.detail == "simulated: reply lost":
            outcome = Outcome(Verdict.COMMITTED)
        return after(commit, outcome, *rest)

    patch.setattr(tallyroll.ingest.transactions, "after", lucky)


def sent_without_a_claim(patch: Patch) -> None:
    """The claim is put after the message was sent."""
    send, claimed = Redriver._send, Redriver._claimed

    def hasty(self: Redriver, decisions: list[Any]) -> None:
        plans = list(decisions)
        send(self, decisions)
        for plan in plans:
            claimed(self, plan)

    patch.setattr(Redriver, "_claimed", lambda _self, plan: plan)
    patch.setattr(Redriver, "_send", hasty)


def retraction_answer_guessed(patch: Patch) -> None:
    """The outcome of a transaction of tombstones is unknown, and the writer guesses right."""
    after = tallyroll.ingest.tombstone_runs.after

    def lucky(batch: Any, outcome: Outcome) -> Any:
        if outcome.detail == "simulated: reply lost":
            outcome = Outcome(Verdict.COMMITTED)
        return after(batch, outcome)

    patch.setattr(tallyroll.ingest.tombstone_runs, "after", lucky)


def claim_not_read_again(patch: Patch) -> None:
    """A retraction is rejected though its event may have been redriven meanwhile."""
    patch.setattr(Locator, "is_elsewhere", lambda _self, _located: False)


def record_read_before_the_tombstone(patch: Patch) -> None:
    """Between the two reads the table may be dropped, and made again without the tombstone."""
    read = Retracting._read

    def hasty(self: Retracting, group: Sequence[Any], state: Any) -> Any:
        spec = group[0].spec
        if spec and state and state.status.sealed:
            with suppress(Missing):
                asked = [each.retraction for each in group]
                self.store.lookup(spec, [(each.key, each.id) for each in asked])
        return read(self, group, state)

    patch.setattr(Retracting, "_read", hasty)
