"""The days and months of UTC, by name and bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import blake2b

import pytest

from tallyroll.model.periods import (
    DAY_MS,
    Period,
    day_of,
    month_of,
    period_of,
    periods_at,
    shown_name,
    windows_digest,
)
from tallyroll.model.windows import window_start

NOVEMBER = window_start("20261101T000000Z")
DECEMBER = window_start("20261201T000000Z")
TWENTIETH = window_start("20261120T000000Z")
DAY = Period(TWENTIETH, TWENTIETH + DAY_MS, "day#20261120")
MONTH = Period(NOVEMBER, DECEMBER, "month#202611")


@pytest.fixture(params=["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def _somewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own time is 14 hours ahead, or 11 hours behind."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_somewhere")
@pytest.mark.parametrize("ts", [TWENTIETH, TWENTIETH + 1_501, TWENTIETH + DAY_MS - 1])
def test_a_time_is_in_its_day_and_month_of_utc(ts: int) -> None:
    assert periods_at(ts) == (day_of(ts), month_of(ts)) == (DAY, MONTH)
    bounds = [bound for period in periods_at(ts) for bound in (period.start, period.end)]
    assert {type(bound) for bound in bounds} == {int}


@pytest.mark.usefixtures("_somewhere")
def test_the_bounds_of_days_and_months() -> None:
    for ts, month in ((NOVEMBER, MONTH), (DECEMBER - 1, MONTH)):
        assert month_of(ts) == month
    assert month_of(DECEMBER).name == "month#202612"
    assert day_of(TWENTIETH - 1).name == "day#20261119"
    february = month_of(window_start("20280229T120000Z"))
    assert (february.end - february.start) // DAY_MS == 29


def test_a_period_by_its_name() -> None:
    assert period_of("day#20261120") == DAY
    assert period_of("month#202611") == MONTH
    assert (DAY.is_day, MONTH.is_day) == (True, False)
    assert [shown_name(each.name) for each in (DAY, MONTH)] == ["2026-11-20", "2026-11"]


def test_the_digest_of_windows_is_the_same_for_ever() -> None:
    """It stands in the catalog and beside the sums."""
    expected = blake2b(b"20261120T080000Z\n20261120T090000Z", digest_size=16).hexdigest()
    assert windows_digest(["20261120T080000Z", "20261120T090000Z"]) == expected
    assert len(expected) == 32
