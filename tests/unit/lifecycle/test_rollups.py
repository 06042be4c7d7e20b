"""How days and months are rolled up, and what undoes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tallyroll.errors import ProofMismatch, StateConflict, Throttled
from tallyroll.lifecycle import rollups
from tallyroll.lifecycle.rollups import RollUps
from tallyroll.lifecycle.runner import Rolled
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import windows_digest
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import Listed, PeriodTotal, Total
from tallyroll.model.windows import table_name, window_id, window_start
from tallyroll.operations.backfill import open_past
from tests.harness.pipeline import HOUR, SMALL, TIME_LEFT, Pipeline, StillEffects

DAY = 24 * HOUR
FIRST = window_start("20261101T000000Z")
KEYS = ("a", "b", "c")
MICROS = 1_000_000


class Days:
    """A pipeline whose windows have passed with totals put, and no roller but for roll-ups."""

    def __init__(self, hours: int = 6) -> None:
        self.pipeline = Pipeline(SMALL, StillEffects(FIRST))
        self.hours = hours
        self.catalog, self.totals = self.pipeline.catalog, self.pipeline.totals
        self._numbers = count(1)

    def window(self, start: int, sums: dict[str, int], *, sealed: bool = True) -> Window:
        """A window that starts at `start` and holds so many events of these keys."""
        name = window_id(start)
        window = Window(name, table_name("t", name), start, start + self.hours * HOUR)
        assert self.catalog.create(window)
        self.totals.put([Total(key, name, n, n * MICROS) for key, n in sums.items()])
        if not sealed:
            return window
        return self.seal(window)

    def seal(self, window: Window) -> Window:
        times: dict[str, int] = {Status.SEALED: self.pipeline.effects.now()}
        sealed = replace(window, status=Status.SEALED, times=times, listed=LISTING_BUCKETS)
        return self.catalog.advance(sealed)

    def day(self, number: int, keys: Sequence[str] = KEYS) -> list[Window]:
        """All windows of a day of November 2026, each with 1, 2, ... events of the keys."""
        starts = range(FIRST + (number - 1) * DAY, FIRST + number * DAY, self.hours * HOUR)
        sums = {key: n for n, key in enumerate(keys, 1)}
        return [self.window(start, sums) for start in starts]

    def roll(self, deadline: int = 10**15, alive: Sequence[Window] | None = None) -> Rolled:
        rolled = Rolled()
        ports = (self.catalog, self.totals, self.pipeline.effects)
        known = self.catalog.windows(0, 10**14) if alive is None else alive
        RollUps(*ports).run(known, deadline, rolled)
        return rolled

    def at(self, day: int) -> None:
        """Let time pass until a day of November begins."""
        effects = self.pipeline.effects
        effects.pass_by(FIRST + (day - 1) * DAY - effects.now())

    def sums(self, period: str) -> dict[str, tuple[int, int]]:
        """What stands of a period, by key."""
        [state] = self.catalog.periods(period, period)
        assert state.complete
        rows = [row for row in self.totals.rolled() if row.period == period]
        assert {row.epoch for row in rows} == {state.epoch}
        assert {(row.windows, row.digest) for row in rows} == {(state.windows, state.digest)}
        return {row.key: (row.n, row.amount) for row in rows}

    def stands(self, period: str) -> bool:
        return any(state.complete for state in self.catalog.periods(period, period))


def test_a_day_is_rolled_up_when_it_is_over_and_all_its_windows_are_sealed() -> None:
    days = Days()
    windows = days.day(1)[:3]
    last = days.catalog.window(window_id(FIRST + 18 * HOUR))
    assert last
    open_again = days.catalog.advance(replace(last, status=Status.OPEN))
    assert days.roll().steps == {}
    days.at(2)
    assert days.roll().steps == {}
    days.seal(open_again)
    assert days.roll().steps == {"roll-up": 1}
    assert days.sums("day#20261101") == {
        key: (4 * n, 4 * n * MICROS) for n, key in enumerate(KEYS, 1)
    }
    [state] = days.catalog.periods("day#20261101", "day#20261101")
    ids = [*(window.id for window in windows), last.id]
    assert (state.windows, state.digest, state.progress) == (4, windows_digest(ids), None)
    assert days.catalog.unrolled() == ["month#202611"]
    assert days.roll().steps == {}


def test_a_month_is_summed_from_its_days_and_the_windows_of_days_that_are_not_rolled_up() -> None:
    days = Days()
    for number in (1, 2, 30):
        days.day(number)
    days.window(FIRST + 8 * DAY, {"a": 100, "z": 7})  # alone in its day
    days.at(31)
    read: list[str] = []
    listing = days.totals.listing

    def noted(name: str, *rest: Any) -> Iterator[list[Listed]]:
        read.append(name)
        return listing(name, *rest)

    days.totals.listing = noted  # type: ignore[assignment, method-assign]
    assert days.roll().steps == {"roll-up": 4}
    assert days.sums("month#202611") == {
        **{key: (12 * n, 12 * n * MICROS) for n, key in enumerate(KEYS, 1)},
        "a": (112, 112 * MICROS),
        "z": (7, 7 * MICROS),
    }
    assert not days.stands("day#20261109")
    assert days.catalog.unrolled() == []
    of_month = read[-4 * LISTING_BUCKETS :]
    assert sorted(set(of_month)) == [
        "20261109T000000Z",
        "day#20261101",
        "day#20261102",
        "day#20261130",
    ]


def test_a_month_waits_for_its_days() -> None:
    days = Days()
    days.day(1)
    days.window(FIRST + DAY, {"a": 1})
    days.window(FIRST + DAY + 6 * HOUR, {"a": 1}, sealed=False)
    days.at(31)
    assert days.roll().steps == {"roll-up": 1}
    assert days.catalog.unrolled() == ["day#20261102", "month#202611"]


def test_a_window_of_the_past_undoes_its_day_and_month() -> None:
    days = Days()
    for number in (2, 3):
        days.day(number)
    days.at(31)
    assert days.roll().steps == {"roll-up": 3}
    days.pipeline.roller().run(TIME_LEFT)  # founds the calendar
    calendar = days.catalog.calendar()
    assert calendar
    late = FIRST + DAY + 3 * HOUR  # beside the windows of six hours, since the grid is of hours
    past = open_past(
        days.catalog, calendar, "t", late, late + HOUR, days.pipeline.effects.now(), HOUR
    )
    assert not days.stands("day#20261102")
    assert not days.stands("month#202611")
    assert days.stands("day#20261103")
    assert days.roll().steps == {}
    days.totals.put([Total("b", past.created[0].id, 5, 5 * MICROS)])
    days.seal(past.created[0])
    assert days.roll().steps == {"roll-up": 2}
    assert days.sums("day#20261102")["b"] == (13, 13 * MICROS)
    assert days.sums("day#20261102")["a"] == (4, 4 * MICROS)
    assert days.sums("month#202611")["b"] == (21, 21 * MICROS)


def test_it_goes_on_where_it_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "KEYS_PER_SLICE", 2)
    monkeypatch.setattr(rollups, "ROWS_HELD", 12)
    days = Days()
    keys = [f"key-{n}" for n in range(40)]
    days.day(1, keys)
    days.at(2)
    effects = days.pipeline.effects
    put: list[str] = []
    roll = days.totals.roll

    def noted(rows: Sequence[PeriodTotal]) -> None:
        effects.pass_by(1_000)
        put.extend(row.key for row in rows)
        roll(rows)

    days.totals.roll = noted  # type: ignore[assignment, method-assign]
    runs = 0
    while days.catalog.unrolled() != ["month#202611"]:
        assert not days.roll(effects.now() + 3_000).problems
        runs += 1
    assert runs >= 40 // 2 // 3
    assert sorted(put) == sorted(keys)
    assert days.sums("day#20261101") == {
        key: (4 * n, 4 * n * MICROS) for n, key in enumerate(keys, 1)
    }


def test_it_begins_anew_when_a_window_came_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far it had come with other windows says nothing of these."""
    monkeypatch.setattr(rollups, "KEYS_PER_SLICE", 1)
    days = Days()
    keys = [f"key-{n}" for n in range(10)]
    days.day(1, keys)
    days.at(2)
    effects, roll = days.pipeline.effects, days.totals.roll

    def slow(rows: Sequence[PeriodTotal]) -> None:
        effects.pass_by(1_000)
        roll(rows)

    days.totals.roll = slow  # type: ignore[assignment, method-assign]
    assert days.roll(effects.now() + 7_000).steps == {}
    days.window(FIRST + HOUR, dict.fromkeys(keys, 100))
    assert days.roll().steps == {"roll-up": 1}
    assert {key: n for key, (n, _) in days.sums("day#20261101").items()} == {
        key: 4 * n + 100 for n, key in enumerate(keys, 1)
    }


def test_a_window_created_while_a_roll_up_begins_is_summed_in_the_end() -> None:
    """It comes between the reads of the period's state and of its windows: sums without it must
    not stand.
    """
    days = Days()
    days.day(1)
    days.at(2)
    windows, late = days.catalog.windows, FIRST + HOUR

    def listed(since: int, until: int) -> list[Window]:
        found = windows(since, until)
        if (since, until) == (FIRST, FIRST + DAY) and late not in [each.start for each in found]:
            days.window(late, {"a": 5})
        return found

    days.catalog.windows = listed  # type: ignore[method-assign]
    assert days.roll().steps == {}
    assert not days.stands("day#20261101")
    assert days.roll().steps == {"roll-up": 1}
    assert days.sums("day#20261101")["a"] == (4 + 5, (4 + 5) * MICROS)


def test_a_month_waits_for_a_day_whose_sums_cannot_be_put() -> None:
    days = Days()
    days.day(1)
    days.day(2)
    days.at(31)
    roll = days.totals.roll

    def fails(rows: Sequence[PeriodTotal]) -> None:
        if rows[0].period == "day#20261101":
            raise Throttled("slow down")
        roll(rows)

    days.totals.roll = fails  # type: ignore[assignment, method-assign]
    assert days.roll().steps == {"roll-up": 1}
    assert days.catalog.unrolled() == ["day#20261101", "month#202611"]
    days.totals.roll = roll  # type: ignore[method-assign]
    assert days.roll().steps == {"roll-up": 2}


def test_each_run_does_one_slice_at_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "KEYS_PER_SLICE", 1)
    days = Days()
    days.day(1)
    days.at(2)
    effects = days.pipeline.effects
    roll = days.totals.roll

    def slow(rows: Sequence[PeriodTotal]) -> None:
        effects.pass_by(1_000)
        roll(rows)

    days.totals.roll = slow  # type: ignore[assignment, method-assign]
    for _ in range(3):
        assert days.roll(effects.now() + 1).steps == {}
    assert days.roll(effects.now() + 1).steps == {"roll-up": 1}
    assert len(days.sums("day#20261101")) == 3


def test_what_cannot_be_read_is_told_and_the_others_have_their_turn() -> None:
    days = Days()
    days.day(1)
    days.day(2)
    days.at(3)
    listing = days.totals.listing

    def fails(name: str, *rest: object) -> object:
        if name.startswith("20261101"):
            raise Throttled("slow down")
        return listing(name, *rest)  # type: ignore[arg-type]

    days.totals.listing = fails  # type: ignore[assignment, method-assign]
    rolled = days.roll()
    assert rolled.steps == {"roll-up": 1}
    assert rolled.problems == ["day#20261101 (not rolled up): slow down"]
    assert not rolled.mismatches
    days.totals.listing = listing  # type: ignore[method-assign]
    assert days.roll().steps == {"roll-up": 1}


def test_another_sum_that_stands_is_an_alarm() -> None:
    days = Days()
    windows = days.day(1)
    days.at(2)
    named = windows_digest(window.id for window in windows)
    days.totals.roll([PeriodTotal("b", "day#20261101", 9, 9, 4, 4, named)])
    rolled = days.roll()
    assert rolled.mismatches == 1
    assert not days.stands("day#20261101")


@pytest.mark.parametrize("hours", [24, 24 * 3, 24 * 40])
def test_windows_of_a_day_and_longer_need_no_days(hours: int) -> None:
    days = Days(hours)
    for start in range(FIRST, FIRST + 30 * DAY, hours * HOUR):
        days.window(start, {"a": 1})
    days.at(80)
    assert days.roll().steps == ({"roll-up": 1} if hours < 24 * 30 else {})
    assert days.stands("month#202611") is (hours < 24 * 30)
    assert days.catalog.unrolled() == []


def test_lengths_that_change_within_a_day() -> None:
    """A window belongs to the day in which it starts, also if it ends in the next one."""
    days = Days(7)
    for number in range(2):
        days.window(FIRST + number * 7 * HOUR, {"a": 1})
    days.hours = 5
    for number in range(2, 5):
        days.window(FIRST + (14 + (number - 2) * 5) * HOUR, {"a": 10})
    days.at(3)
    assert days.roll().steps == {"roll-up": 1}
    assert days.sums("day#20261101") == {"a": (22, 22 * MICROS)}
    assert days.catalog.unrolled() == ["month#202611"]


def test_windows_without_a_listing_are_left_alone() -> None:
    """Those sealed before there were listings."""
    days = Days()
    [window, *_] = days.day(1)
    days.catalog.advance(replace(window, version=window.version, listed=None))
    days.at(2)
    assert days.roll().steps == {}
    assert days.catalog.unrolled() == ["month#202611"]
    assert not days.stands("day#20261101")


def test_too_many_windows_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "PARTS_MAX", 3)
    days = Days()
    days.day(1)
    days.at(2)
    assert days.roll().steps == {}
    assert not days.stands("day#20261101")


@pytest.mark.parametrize("late", [False, True])
def test_two_runs_at_once_do_no_harm(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """One stalls before it puts a slice, another does all, and a window undoes it meanwhile."""
    monkeypatch.setattr(rollups, "KEYS_PER_SLICE", 1)
    days = Days()
    days.day(1)
    days.at(2)
    roll = days.totals.roll
    stalled: list[Sequence[PeriodTotal]] = []

    def stalls(rows: Sequence[PeriodTotal]) -> None:
        if not stalled:
            stalled.append(rows)
            assert days.roll().steps == {"roll-up": 1}
            if late:
                days.window(FIRST + HOUR, {"a": 50, "d": 1})
                assert days.roll().steps == {"roll-up": 1}
        roll(rows)

    days.totals.roll = stalls  # type: ignore[assignment, method-assign]
    assert days.roll().problems == []
    assert stalled
    events = 54 if late else 4
    assert days.sums("day#20261101")["a"] == (events, events * MICROS)


def test_a_stale_sum_never_takes_the_place_of_a_later_one() -> None:
    days = Days()
    now = PeriodTotal("a", "day#20261101", 2, 2, 7, 5, "x")
    days.totals.roll([now])
    with pytest.raises(StateConflict):
        days.totals.roll([replace(now, n=1, epoch=6)])
    with pytest.raises(ProofMismatch):
        days.totals.roll([replace(now, n=1)])
    days.totals.roll([now])
    later = replace(now, n=3, epoch=8)
    days.totals.roll([later])
    assert days.totals.periods_of_key("a", "day#20261101", "day#20261101") == [later]
