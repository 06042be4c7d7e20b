"""Which days and months a range is read by, and what is left to be read by windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tallyroll.adapters.memory import MemoryCatalog
from tallyroll.model.periods import DAY_MS, PeriodName, PeriodState, day_of, month_of
from tallyroll.model.windows import window_start
from tallyroll.ports.effects import T
from tallyroll.reads.coverage import GAPS_AT_ONCE, rolled_within, uncovered
from tests.harness.pipeline import StillEffects

OCTOBER = month_of(window_start("20261001T000000Z"))
NOVEMBER = month_of(window_start("20261101T000000Z"))
DECEMBER = month_of(window_start("20261201T000000Z"))
HALLOWEEN = day_of(NOVEMBER.start - 1)
FIRST, SECOND = day_of(DECEMBER.start), day_of(DECEMBER.start + DAY_MS)
MONTHS = "month#202610", "month#202611", "month#202612"
LATER = DECEMBER.end + 1


class _Catalog(MemoryCatalog):
    """The sums of all days and months of these names stand; `asked` are the reads."""

    def __init__(self, *standing: PeriodName) -> None:
        super().__init__()
        self._periods = {name: PeriodState(name, 3, rolled=3) for name in standing}
        self.asked: list[tuple[PeriodName, PeriodName]] = []

    def periods(self, first: PeriodName, last: PeriodName) -> list[PeriodState]:
        self.asked.append((first, last))
        return super().periods(first, last)


class _Together(StillEffects):
    at_once = 0

    def together(self, jobs: Sequence[Callable[[], T]], at_once: int) -> list[T]:
        self.at_once = at_once
        return super().together(jobs, at_once)


def read_by(catalog: _Catalog, since: int, until: int, now: int = LATER) -> list[str]:
    return [state.name for state in rolled_within(catalog, StillEffects(now), since, until)]


def test_a_range_under_a_day_is_read_by_windows_without_asking() -> None:
    catalog = _Catalog(FIRST.name, *MONTHS)
    assert read_by(catalog, FIRST.start, FIRST.end - 1) == []
    assert catalog.asked == []


def test_a_day_that_is_the_whole_range() -> None:
    catalog = _Catalog(HALLOWEEN.name, FIRST.name, SECOND.name, *MONTHS)
    assert read_by(catalog, FIRST.start, FIRST.end) == [FIRST.name]
    assert catalog.asked == [("month#202612", "month#202612"), (FIRST.name, FIRST.name)]
    for since, until in ((1, 0), (0, -1), (1, 1), (-1, -1)):
        assert read_by(catalog, FIRST.start + since, FIRST.end + until) == []


def test_a_month_that_is_the_whole_range() -> None:
    catalog = _Catalog(HALLOWEEN.name, FIRST.name, *MONTHS)
    assert read_by(catalog, NOVEMBER.start, NOVEMBER.end) == ["month#202611"]
    november = day_of(NOVEMBER.start).name, day_of(NOVEMBER.end - 1).name
    assert catalog.asked == [("month#202611", "month#202611"), november]
    assert read_by(catalog, NOVEMBER.start + 1, NOVEMBER.end) == []
    assert read_by(catalog, NOVEMBER.start, NOVEMBER.end - 1) == []


def test_what_the_months_leave_is_read_by_days() -> None:
    catalog = _Catalog(HALLOWEEN.name, FIRST.name, SECOND.name, *MONTHS)
    found = read_by(catalog, HALLOWEEN.start, SECOND.end - 1)
    assert found == ["month#202611", HALLOWEEN.name, FIRST.name]
    assert catalog.asked == [
        ("month#202610", "month#202612"),
        (HALLOWEEN.name, HALLOWEEN.name),
        (day_of(NOVEMBER.start).name, SECOND.name),
    ]


def test_a_range_that_ends_with_the_first_instant_of_a_month_asks_for_it() -> None:
    catalog = _Catalog(*MONTHS)
    assert read_by(catalog, NOVEMBER.start, DECEMBER.start + 1) == ["month#202611"]
    november = day_of(NOVEMBER.start).name
    assert catalog.asked == [("month#202611", "month#202612"), (november, FIRST.name)]


def test_days_of_months_that_are_not_rolled_up_though_they_are_old_are_asked_for_after() -> None:
    first = day_of(OCTOBER.start)
    catalog = _Catalog(first.name, HALLOWEEN.name, "month#202611")
    found = read_by(catalog, month_of(OCTOBER.start - 1).start, DECEMBER.end)
    assert found == ["month#202611", first.name, HALLOWEEN.name]
    assert len(catalog.asked) == 3


@pytest.mark.parametrize(
    ("genesis", "asked"), [(OCTOBER.start + DAY_MS, 3), (NOVEMBER.start + 1, 2), (DECEMBER.end, 2)]
)
def test_nothing_is_asked_for_after_the_months_of_a_pipeline_without_a_past(
    genesis: int, asked: int
) -> None:
    """Some windows were opened in the past, in a month that is not rolled up."""
    opened = day_of(month_of(OCTOBER.start - 1).start)
    months = [name for name in MONTHS[:2] if name >= month_of(genesis).name]
    catalog = _Catalog(opened.name, FIRST.name, *months)
    found = rolled_within(catalog, StillEffects(LATER), 0, SECOND.end, genesis=genesis)
    assert [state.name for state in found] == [*months, opened.name, FIRST.name]
    assert len(catalog.asked) == asked


@pytest.mark.parametrize("now", [SECOND.end - 1, SECOND.end, SECOND.end + 1])
def test_months_and_the_days_up_to_now_are_asked_for_by_one_request(now: int) -> None:
    catalog = _Catalog(HALLOWEEN.name, FIRST.name, day_of(SECOND.end).name, *MONTHS)
    before = month_of(OCTOBER.start - 1)
    found = read_by(catalog, before.start, SECOND.end, now)
    assert found == ["month#202610", "month#202611", FIRST.name]
    november = day_of(NOVEMBER.start).name
    first = (before.name, november)[now <= SECOND.end]
    asked = [(first, "month#202612")]
    asked += [(november, SECOND.name)] if now > SECOND.end else []
    assert [each for each in catalog.asked if each[0] in (first, november)] == asked


def test_sums_that_do_not_stand_are_not_read() -> None:
    catalog = _Catalog(FIRST.name)
    catalog._periods[SECOND.name] = PeriodState(SECOND.name, 4, rolled=3)
    assert read_by(catalog, FIRST.start, SECOND.end) == [FIRST.name]


def test_gaps_are_asked_for_side_by_side() -> None:
    effects = _Together()
    rolled_within(_Catalog(), effects, HALLOWEEN.start, SECOND.end)
    assert effects.at_once == GAPS_AT_ONCE


@pytest.mark.parametrize(
    ("since", "until", "gaps"),
    [
        (FIRST.start, SECOND.end, []),
        (FIRST.start, None, [(SECOND.end, None)]),
        (FIRST.start - 1, SECOND.end, [(FIRST.start - 1, FIRST.start)]),
        (FIRST.start, SECOND.end + 1, [(SECOND.end, SECOND.end + 1)]),
        (0, None, [(0, FIRST.start), (SECOND.end, None)]),
    ],
)
def test_what_periods_leave(since: int, until: int | None, gaps: list[Any]) -> None:
    assert uncovered(since, until, [SECOND, FIRST]) == gaps
    assert uncovered(OCTOBER.start, OCTOBER.end, []) == [(OCTOBER.start, OCTOBER.end)]
