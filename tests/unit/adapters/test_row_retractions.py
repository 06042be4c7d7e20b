"""A store on single rows takes no event back."""

from __future__ import annotations

from tallyroll.model.retractions import Tombstone
from tallyroll.ports.store import Verdict
from tests.harness.pipeline import NOW, spec_of
from tests.harness.row_stage import opened_rows, row


def test_a_retraction_is_refused_and_there_are_no_tombstones() -> None:
    stage = opened_rows()
    stage.commit(row("a"))
    gone = Tombstone("k", "a", 1, NOW, 1, 10**6, b"d", 1, 30, "ann", "")
    outcome = stage.store.retract(spec_of(), [gone])
    assert outcome.verdict is Verdict.INVALID
    assert "no transactions" in outcome.detail
    assert stage.store.tombstones(spec_of(), [gone.name]) == {}
    assert stage.store.tallies(spec_of(), ["k"])["k"].n == 1
