"""Roll-ups that are interrupted, or overtaken by a window that is made meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tallyroll.errors import Throttled
from tallyroll.lifecycle import rollups
from tallyroll.model.totals import PeriodTotal
from tests.harness.pipeline import HOUR, TIME_LEFT, opened
from tests.unit.lifecycle.test_rollups import FIRST, KEYS, MICROS, Days


def test_sums_that_could_not_be_put_are_put_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How far it has come is noted after the sums are put, not before."""
    monkeypatch.setattr(rollups, "KEYS_PER_SLICE", 1)
    days = Days()
    days.day(1)
    days.at(2)
    roll = days.totals.roll

    def fails(rows: Sequence[PeriodTotal]) -> None:
        if rows[0].key == "b":
            raise Throttled("slow down")
        roll(rows)

    days.totals.roll = fails  # type: ignore[assignment, method-assign]
    assert days.roll().problems == ["day#20261101 (not rolled up): slow down"]
    days.totals.roll = roll  # type: ignore[method-assign]
    assert days.roll().steps == {"roll-up": 1}
    assert days.sums("day#20261101") == {
        key: (4 * n, 4 * n * MICROS) for n, key in enumerate(KEYS, 1)
    }


def test_a_month_is_not_summed_from_a_day_that_was_undone_meanwhile() -> None:
    """The day was settled when the run asked what is due; a window is made and sealed in it before
    the month's turn comes.
    """
    days = Days()
    days.day(1)
    days.day(2)
    days.at(4)
    days.roll()
    days.at(31)
    unrolled = days.catalog.unrolled

    def asked() -> list[str]:
        due = unrolled()
        days.window(FIRST + HOUR, {"a": 5})
        return due

    days.catalog.unrolled = asked  # type: ignore[method-assign]
    rolled = days.roll()
    assert (rolled.problems, rolled.mismatches) == ([], 0)
    assert days.sums("month#202611")["a"] == (8 + 5, (8 + 5) * MICROS)


def test_what_is_due_and_cannot_be_read_is_a_problem_of_the_roller() -> None:
    """It makes and closes windows nevertheless."""
    pipeline = opened()

    def refuse() -> list[str]:
        raise Throttled("Query: too much")

    pipeline.catalog.unrolled = refuse  # type: ignore[method-assign]
    pipeline.effects.pass_by(HOUR)
    rolled = pipeline.roller().run(TIME_LEFT)
    assert rolled.problems == ["what is to be rolled up is not known: Query: too much"]
    assert rolled.steps
