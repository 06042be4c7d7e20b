"""Where a roll-up stops: at its deadline, at a period that is not ready, at one that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tallyroll.errors import ProofMismatch, StateConflict, StoreError, Throttled
from tallyroll.lifecycle import rollups, runner
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import windows_digest
from tallyroll.model.states import Window
from tallyroll.model.totals import Listed, PeriodTotal
from tests.harness.pipeline import HOUR
from tests.unit.lifecycle.test_rollups import DAY, FIRST, KEYS, MICROS, Days

DAY_1, DAY_2, MONTH = "day#20261101", "day#20261102", "month#202611"


def ended(*numbers: int, keys: Sequence[str] = KEYS) -> Days:
    """These days of November, whose windows are sealed, on the first of December."""
    days = Days()
    for number in numbers:
        days.day(number, keys)
    days.at(31)
    return days


def slow(days: Days) -> None:
    """Let each slice that is put take a second."""
    roll = days.totals.roll

    def later(rows: Sequence[PeriodTotal]) -> None:
        days.pipeline.effects.pass_by(1_000)
        roll(rows)

    days.totals.roll = later  # type: ignore[assignment, method-assign]


def on_listing(days: Days, seen: Callable[..., None]) -> None:
    """Call `seen` with the name, bucket, place and limit of each listing that is read."""
    listing = days.totals.listing

    def watched(*asked: Any) -> Iterator[list[Listed]]:
        seen(*asked)
        return listing(*asked)

    days.totals.listing = watched  # type: ignore[assignment, method-assign]


def test_at_its_deadline_nothing_is_begun() -> None:
    days = ended(1)
    days.roll(days.pipeline.effects.now())
    assert days.totals.rolled() == []
    assert days.roll(days.pipeline.effects.now() + 1).steps == {"roll-up": 1}


def test_a_slice_that_ends_at_the_deadline_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "KEYS_PER_SLICE", 1)
    days = ended(1)
    slow(days)
    for slices in (1, 2, 3):
        days.roll(days.pipeline.effects.now() + 1_000)
        assert len(days.totals.rolled()) == slices


def test_a_place_is_kept_as_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "KEYS_PER_SLICE", 1)
    days = ended(1, keys=["日"])
    slow(days)
    days.roll(days.pipeline.effects.now() + 1_000)
    [state] = days.catalog.periods(DAY_1, DAY_1)
    assert state.progress
    assert state.progress.endswith(', "日"]')


def test_keys_of_every_bucket_are_summed_from_the_first_on() -> None:
    keys = [f"{n:02}" for n in range(100)]
    days = ended(1, keys=keys)
    assert days.roll().steps == {"roll-up": 1}
    assert days.sums(DAY_1) == {key: (4 * n, 4 * n * MICROS) for n, key in enumerate(keys, 1)}


@pytest.mark.parametrize(("held", "page"), [(12, 3), (1, 1)])
def test_pages_of_all_parts_together_are_bounded(
    held: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "ROWS_HELD", held)
    days = ended(1)
    asked: list[tuple[int, int]] = []
    on_listing(days, lambda _, bucket, __, limit: asked.append((bucket, limit)))
    assert days.roll().steps == {"roll-up": 1}
    buckets = range(1, LISTING_BUCKETS + 1)
    assert asked == [(bucket, page) for bucket in buckets for _ in range(4)]


@pytest.mark.parametrize(("most", "stands"), [(3, False), (4, True)])
def test_as_many_windows_as_are_read_side_by_side_are_rolled_up(
    most: int, stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "PARTS_MAX", most)
    days = ended(1)
    days.roll()
    assert days.stands(DAY_1) is stands


def test_a_period_that_is_left_alone_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was begun while it had fewer windows."""
    monkeypatch.setattr(rollups, "KEYS_PER_SLICE", 1)
    days = ended(1)
    slow(days)
    days.roll(days.pipeline.effects.now() + 1_000)
    monkeypatch.setattr(rollups, "PARTS_MAX", 3)
    days.roll()
    [state] = days.catalog.periods(DAY_1, DAY_1)
    assert (state.complete, state.progress) == (False, None)
    assert days.catalog.unrolled() == []


def test_a_month_waits_for_a_day_whose_last_window_was_just_sealed() -> None:
    """Sealed after the day was looked at, and before the month is: the month comes later too."""
    days = Days()
    days.day(1)
    days.window(FIRST + DAY, {"a": 1})
    open_still = days.window(FIRST + DAY + 6 * HOUR, {"a": 1}, sealed=False)
    days.at(31)
    windows = days.catalog.windows

    def listed(since: int, until: int) -> list[Window]:
        found = windows(since, until)
        if since == FIRST + DAY and open_still in found:
            days.seal(open_still)
        return found

    days.catalog.windows = listed  # type: ignore[method-assign]
    known = [each for each in windows(0, 10**14) if each != open_still]
    assert days.roll(alive=known).steps == {"roll-up": 1}
    assert days.catalog.unrolled() == [DAY_2, MONTH]
    assert days.roll().steps == {"roll-up": 2}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Throttled("slow down"), "slow down"),
        (ProofMismatch(["it differs"]), "it differs"),
        (RuntimeError("unforeseen"), "unexpected: RuntimeError('unforeseen')"),
        (StateConflict("another was faster"), None),
    ],
)
def test_what_fails_holds_up_its_month_and_no_other_day(
    error: StoreError | ProofMismatch | RuntimeError | StateConflict,
    told: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    days = ended(1, 2)
    caplog.set_level(logging.INFO, logger=runner.__name__)

    def fails(name: str, *_: object) -> None:
        if name.startswith("20261101"):
            raise error

    on_listing(days, fails)
    rolled = days.roll()
    assert rolled.steps == {"roll-up": 1}
    assert days.catalog.unrolled() == [DAY_1, MONTH]
    assert rolled.problems == ([f"{DAY_1} (not rolled up): {told}"] if told else [])
    assert rolled.mismatches == isinstance(error, ProofMismatch)
    if isinstance(error, RuntimeError):
        assert caplog.messages == [f"{DAY_1} (not rolled up): unexpected"]
    if isinstance(error, StateConflict):
        [message] = caplog.messages
        assert DAY_1 in message
        assert message.endswith("changed meanwhile: another was faster")


def test_every_sum_that_differs_is_an_alarm() -> None:
    days = ended(1, 2)
    for number, name in enumerate((DAY_1, DAY_2)):
        start = FIRST + number * DAY
        named = windows_digest(window.id for window in days.catalog.windows(start, start + DAY))
        days.totals.roll([PeriodTotal("b", name, 9, 9, 4, 4, named)])
    assert days.roll().mismatches == 2


def test_a_day_whose_listing_lags_behind_its_state_is_an_alarm() -> None:
    """Its sums stand by its state, and rows of an earlier epoch are listed."""
    days = ended(1, 2)
    assert days.roll().steps == {"roll-up": 3}
    days.window(FIRST + HOUR, {"a": 1})
    roll = days.totals.roll

    def forgets(rows: Sequence[PeriodTotal]) -> None:
        if rows[0].period == MONTH:
            roll(rows)

    days.totals.roll = forgets  # type: ignore[assignment, method-assign]
    rolled = days.roll()
    assert (rolled.steps, rolled.mismatches) == ({"roll-up": 1}, 1)
    [problem] = rolled.problems
    assert problem == (
        f"{MONTH} (not rolled up): {DAY_1} is rolled up, and rows of its listing are not"
    )


def test_a_day_that_is_rolled_up_again_meanwhile_holds_up_its_month(
    caplog: pytest.LogCaptureFixture,
) -> None:
    days = ended(1, 2)
    caplog.set_level(logging.INFO, logger=runner.__name__)

    def overtakes(name: str, *_: object) -> None:
        if name == DAY_1:
            days.totals.roll([PeriodTotal("a", DAY_1, 9, 9, 5, 5, "x")])

    on_listing(days, overtakes)
    assert days.roll().steps == {"roll-up": 2}
    [message] = caplog.messages
    assert message.endswith(f"{DAY_1} is being rolled up again")
