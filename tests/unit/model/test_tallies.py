"""Tallies: sums of stripes."""

from __future__ import annotations

from tallyroll.model.tallies import Tally, gathered


def test_a_key_s_stripes_are_summed_and_so_is_what_was_retracted_from_them() -> None:
    stripes = [
        Tally("a", 3, 30, ((1, 2), (4, 1)), 7),
        Tally("a", 1, -5, ((4, 1),), 2, retracted=(2, 6)),
        Tally("a", 0, 0, retracted=(1, -9)),
    ]
    summed = Tally("a", 4, 25, ((1, 2), (4, 2)), 9, retracted=(3, -3))
    assert gathered("a", stripes) == summed
    assert gathered("a", []) == Tally("a", 0, 0)
