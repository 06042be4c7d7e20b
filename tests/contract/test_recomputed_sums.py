"""Sums of corrections are computed anew from the corrections, on every totals table."""

from __future__ import annotations

from typing import Any

import pytest

from tallyroll.archive.corrections import listed_corrections, sums_unlike_corrections
from tallyroll.errors import StateConflict
from tallyroll.model.states import Status, Window
from tallyroll.model.totals import NO_CORRECTIONS, Correction, Corrections, PeriodTotal, Total
from tallyroll.model.windows import window_id, window_start
from tallyroll.operations.retraction.sums import SumChange, SumsAnew
from tests.contract.engines import HOUR, START, Engine

WINDOWS = [window_id(START + index * HOUR) for index in range(2)]
DAY, MONTH = "day#20261120", "month#202611"
KEYS = ("a", "b", "c")
WRONG = Corrections(9, 9, (5, 5))


def event(id_: str, window: str, *keys: str) -> Correction:
    return Correction(window, id_, keys, 1, 2_000_000, id_.encode(), START, "ann", "a test")


@pytest.fixture
def corrected(engine: Engine) -> Engine:
    """Two sealed windows with corrections of `a` and `b`, and what was retracted before of `a`."""
    for window in WINDOWS:
        engine.totals.put([Total(key, window, 300, 10**9) for key in KEYS])
        engine.totals.correct([event("x", window, "a"), event("y", window, "a", "b")])
        engine.totals.put_retracted(window, {"a": (4, 7)})
    names = DAY, MONTH
    engine.totals.roll([PeriodTotal(key, name, 1, 1, 1, 2, "d") for key in KEYS for name in names])
    return engine


def anew(engine: Engine, *windows: str, dry_run: bool = False) -> list[SumChange]:
    made = [
        Window(window, "t", window_start(window), window_start(window) + HOUR, Status.SEALED)
        for window in windows or WINDOWS[:1]
    ]
    return list(SumsAnew(engine.totals, engine.effects, made, dry_run).changes())


def read(engine: Engine, key: str, window: str = WINDOWS[0]) -> tuple[Any, ...]:
    """What counts see: by window, day, month and listing."""
    rows = engine.totals.of_window(window, [key], corrected=True)
    periods = [engine.totals.periods_of_key(key, name, name)[0] for name in (DAY, MONTH)]
    listing = listed_corrections(engine.totals, window).get(key, NO_CORRECTIONS)
    return (rows[key].corrections, *(each.corrections for each in periods), listing)


def spoil(engine: Engine, key: str, *sums: Corrections) -> None:
    engine.totals.put_sums(key, WINDOWS[0], sums, engine.totals.revision(MONTH))


def test_sums_are_read_as_counts_see_them(corrected: Engine) -> None:
    for key in KEYS:
        assert corrected.totals.sums(key, WINDOWS[0]) == read(corrected, key)


def test_nothing_is_changed_where_nothing_is_wrong(corrected: Engine) -> None:
    revision = corrected.totals.revision(MONTH)
    assert anew(corrected) == anew(corrected, *WINDOWS) == []
    assert corrected.totals.revision(MONTH) == revision


@pytest.mark.parametrize("place", range(4))
def test_each_sum_is_that_of_the_corrections_again(corrected: Engine, place: int) -> None:
    if place == 3:
        has_listing(corrected)
    right = {key: read(corrected, key) for key in KEYS}
    for key in KEYS:
        of_key = list(right[key])
        noted = of_key[place].before  # which only the totals know, unless the listing does
        of_key[place] = replace_before(WRONG, noted)
        spoil(corrected, key, *of_key)
    revision = corrected.totals.revision(MONTH)
    assert [each.key for each in anew(corrected, dry_run=True)] == [*KEYS]
    assert read(corrected, "a") != right["a"]
    assert [each.key for each in anew(corrected)] == [*KEYS]
    assert {key: read(corrected, key) for key in KEYS} == right
    assert corrected.totals.revision(MONTH) == revision + 3, "what readers keep is read anew"
    listed = listed_corrections(corrected.totals, WINDOWS[0])
    assert not list(sums_unlike_corrections(corrected.totals, WINDOWS[0], listed))
    assert anew(corrected) == []


def has_listing(engine: Engine) -> None:
    if engine.name == "memory":
        pytest.skip("in memory the sums of a window are its listing")


def replace_before(sums: Corrections, before: tuple[int, int]) -> Corrections:
    return sums._replace(before=before)


def test_all_sums_of_a_window_may_be_gone_but_what_the_listing_noted(corrected: Engine) -> None:
    has_listing(corrected)
    right = {key: read(corrected, key) for key in KEYS}
    spoil(corrected, "a", *[NO_CORRECTIONS] * 3, Corrections(before=(4, 7)))
    spoil(corrected, "b", *[NO_CORRECTIONS] * 4)
    changes = {each.key: each for each in anew(corrected)}
    right_b = Corrections(2, 4_000_000)
    assert changes["b"] == SumChange("b", MONTH, Corrections(), right_b)
    assert {key: read(corrected, key) for key in KEYS} == right
    corrected.totals.put_retracted(WINDOWS[0], {"b": (2, 2)})  # by a proof, as if it came first
    assert read(corrected, "b")[0] == Corrections(1, 2_000_000, (2, 2))


def test_a_correction_that_comes_meanwhile_is_not_lost(corrected: Engine) -> None:
    """All is read; then an event is corrected; and only then are the sums replaced."""
    spoil(corrected, "a", *[NO_CORRECTIONS] * 4)
    ask = corrected.totals.sums
    late = event("z", WINDOWS[0], "a")

    def slow(*args: Any) -> Any:
        corrected.totals.correct([late])
        return ask(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corrected.totals, "sums", slow)
        with pytest.raises(StateConflict):
            anew(corrected)
    changes = {each.name: each.after for each in anew(corrected)}
    assert changes[WINDOWS[0]] == Corrections(3, 6_000_000)
    assert changes[DAY] == changes[MONTH] == Corrections(5, 10_000_000, (4, 7))


def test_sums_are_not_replaced_by_an_older_revision(corrected: Engine) -> None:
    revision, before = corrected.totals.revision(MONTH), read(corrected, "a")
    for other in (revision - 1, revision + 1, 0):
        with pytest.raises(StateConflict):
            corrected.totals.put_sums("a", WINDOWS[0], [WRONG] * 4, other)
    assert read(corrected, "a") == before


def test_a_day_is_summed_up_once_its_windows_are_right(corrected: Engine) -> None:
    """Whichever window comes first; also those that nobody asked for are in it."""
    right = read(corrected, "b", WINDOWS[1])
    own = right[0]
    corrected.totals.put_sums(
        "b", WINDOWS[1], [NO_CORRECTIONS, *right[1:3], own], corrected.totals.revision(MONTH)
    )
    assert [each.name for each in anew(corrected, *WINDOWS)] == [WINDOWS[1]]
    assert read(corrected, "b", WINDOWS[1]) == right
