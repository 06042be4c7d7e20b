"""Counts that keep what they have read: the promises hold, and each planted mistake is found."""

from __future__ import annotations

import pytest

from tests.model.counting import Mistake, Promise, explore_all

BROKEN = {
    Mistake.TOTALS_BESIDE: Promise.ACCEPTED,
    Mistake.POINTER_AFTER: Promise.ACCEPTED,
    Mistake.CORRECTION_MISSED: Promise.CORRECTED,
    Mistake.STRIPES_KEPT: Promise.ACCEPTED,
    Mistake.ABSENCE_KEPT: Promise.ACCEPTED,
    Mistake.STATE_BELIEVED: Promise.ACCEPTED,
}


def test_promises_hold_in_every_state() -> None:
    found = explore_all()
    assert not found.broken, "\n".join(found.trace)
    assert found.states > 5_000
    assert found.seen == {
        *("commit", "shut", "put", "seal", "drop", "correct"),
        *("create", "open", "commit past", "begin", "read"),
    }


@pytest.mark.parametrize("mistake", Mistake, ids=lambda each: each.name.lower())
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    found = explore_all(mistake)
    assert found.broken is BROKEN[mistake]
    assert 1 < len(found.trace) < 30


def test_every_promise_is_broken_by_a_mistake() -> None:
    assert set(BROKEN.values()) == set(Promise)
    assert BROKEN.keys() == set(Mistake)
