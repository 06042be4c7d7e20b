"""What every totals table promises of its listings, and of days and months."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tallyroll.errors import ProofMismatch, StateConflict
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.totals import Listed, PeriodTotal, Total
from tallyroll.model.windows import window_id
from tests.contract.engines import HOUR, START, Engine

WINDOW, NEXT = window_id(START), window_id(START + HOUR)
DAY, MONTH = "day#20261120", "month#202611"
KEYS = [*(f"key-{n:03}" for n in range(50)), "a", "a.1", "é", "日本", "~not reserved here", "Z"]


def rolled(key: str, n: int = 1, *, period: str = DAY, epoch: int = 3) -> PeriodTotal:
    return PeriodTotal(key, period, n, n * 500_000, epoch, 24, "d1" * 16)


def listed(
    engine: Engine, name: str, *, after: str = "", limit: int = 3
) -> dict[int, list[list[Listed]]]:
    """The pages of every bucket that has any rows."""
    numbers = range(1, LISTING_BUCKETS + 1)
    pages = {n: list(engine.totals.listing(name, n, after, limit)) for n in numbers}
    return {n: [page for page in of if page] for n, of in pages.items() if any(of)}


def flat(pages: Iterable[list[Listed]]) -> list[Listed]:
    return [row for page in pages for row in page]


def test_totals_are_listed_by_window_in_the_order_of_their_keys(engine: Engine) -> None:
    totals = [Total(key, WINDOW, n, -n * 10**20) for n, key in enumerate(KEYS)]
    engine.totals.put(totals)
    engine.totals.put([Total("other", NEXT, 1, 1)])

    found = listed(engine, WINDOW)
    assert all(len(page) <= 3 for pages in found.values() for page in pages)
    for pages in found.values():
        keys = [row.key for row in flat(pages)]
        assert keys == sorted(keys)
    rows = [row for pages in found.values() for row in flat(pages)]
    assert len(rows) == len(KEYS)
    assert {row.key: row for row in rows} == {
        total.key: Listed(total.key, total.n, total.amount) for total in totals
    }
    assert [flat(pages) for pages in listed(engine, NEXT).values()] == [[Listed("other", 1, 1)]]
    assert listed(engine, window_id(START + 5 * HOUR)) == {}


def test_a_listing_goes_on_after_any_key(engine: Engine) -> None:
    engine.totals.put([Total(key, WINDOW, 1, 1) for key in KEYS])
    for bucket, pages in listed(engine, WINDOW).items():
        keys = [row.key for row in flat(pages)]
        for after in [*keys[::5], keys[-1], keys[0] + "\0", "日本x"]:
            rest = flat(engine.totals.listing(WINDOW, bucket, after, 3))
            assert [row.key for row in rest] == [key for key in keys if key > after]


def test_a_total_that_differs_is_not_listed_either(engine: Engine) -> None:
    engine.totals.put([Total("a", WINDOW, 1, 1)])
    with pytest.raises(ProofMismatch):
        engine.totals.put([Total("a", WINDOW, 2, 1), Total("b", WINDOW, 3, 3)])
    rows = [row for pages in listed(engine, WINDOW).values() for row in flat(pages)]
    assert sorted(rows, key=lambda row: row.key) == [Listed("a", 1, 1), Listed("b", 3, 3)]


def test_a_day_s_sums_are_put_by_key_and_listed_a_month_s_by_key(engine: Engine) -> None:
    days = [rolled(key, n) for n, key in enumerate(KEYS, 1)]
    engine.totals.roll(days)
    engine.totals.roll(days)
    engine.totals.roll([rolled("a", 7, period=MONTH)])

    assert engine.totals.periods_of_key("a", DAY, DAY) == [rolled("a", KEYS.index("a") + 1)]
    assert engine.totals.periods_of_key("a", MONTH, MONTH) == [rolled("a", 7, period=MONTH)]
    assert engine.totals.periods_of_key("none", DAY, DAY) == []
    rows = [row for pages in listed(engine, DAY).values() for row in flat(pages)]
    assert {row.key: row for row in rows} == {
        day.key: Listed(day.key, day.n, day.amount, day.epoch) for day in days
    }
    assert listed(engine, MONTH) == {}


def test_a_key_s_days_are_ascending(engine: Engine) -> None:
    days = [rolled("a", n, period=f"day#202611{n:02}") for n in (30, 2, 11, 1)]
    engine.totals.roll([*days, rolled("a", 5, period=MONTH), rolled("b", period="day#20261102")])
    engine.totals.put([Total("a", WINDOW, 1, 1)])
    found = engine.totals.periods_of_key("a", "day#20261102", "day#20261129")
    assert [day.n for day in found] == [2, 11]
    assert engine.totals.of_key("a", window_id(0), "99999999T999999Z") == [Total("a", WINDOW, 1, 1)]


def test_a_later_epoch_takes_the_place_of_an_earlier_one_and_never_the_reverse(
    engine: Engine,
) -> None:
    engine.totals.roll([rolled("a", 1), rolled("b", 1)])
    engine.totals.roll([rolled("a", 2, epoch=5)])
    with pytest.raises(StateConflict):
        engine.totals.roll([rolled("a", 1)])
    with pytest.raises(StateConflict):
        engine.totals.roll([rolled("b", 1), rolled("a", 3, epoch=4)])
    assert engine.totals.periods_of_key("a", DAY, DAY) == [rolled("a", 2, epoch=5)]
    rows = [row for pages in listed(engine, DAY).values() for row in flat(pages)]
    assert sorted((row.key, row.n, row.epoch) for row in rows) == [("a", 2, 5), ("b", 1, 3)]


def test_another_value_of_the_same_epoch_is_a_mismatch(engine: Engine) -> None:
    engine.totals.roll([rolled("a", 2)])
    with pytest.raises(ProofMismatch):
        engine.totals.roll([replace(rolled("a", 2), amount=1)])
    with pytest.raises(ProofMismatch):
        engine.totals.roll([rolled("a", 3)])
    assert engine.totals.periods_of_key("a", DAY, DAY) == [rolled("a", 2)]
