"""The doctor on what is derived from totals: listings by window, days and months."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.periods import day_of, month_of
from tallyroll.model.sharding import calculated
from tallyroll.model.states import Status
from tallyroll.model.totals import Listed
from tallyroll.operations.doctor import derived_checks
from tallyroll.operations.doctor.checkup import Level
from tallyroll.operations.doctor.derived_checks import rollups
from tests.harness.doctoring import CLEAN, bad, case_of, examined, first, grown, only
from tests.harness.pipeline import HOUR, MINUTE, NOW, TIME_LEFT, Pipeline, StillEffects
from tests.unit.lifecycle.test_rollups import FIRST, Days

DAY = day_of(NOW - 24 * HOUR)


@pytest.fixture(scope="module")
def aged() -> Pipeline:
    """Days of an hourly pipeline that stand rolled up, and the doctor has nothing to say of it."""
    pipeline = grown(34, Pipeline(CLEAN, StillEffects(NOW - 34 * HOUR)))
    assert [state.name for state in pipeline.catalog.periods(DAY.name, DAY.name)] == [DAY.name]
    assert bad(pipeline) == bad(pipeline, deep=True) == {}
    assert (
        examined(pipeline)["rollups"].text
        == "days and months (the last) that are the sums of their windows: 2"
    )
    return pipeline


@pytest.fixture
def pipeline(aged: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """The same, whose totals may be spoiled."""
    totals = aged.totals
    monkeypatch.setattr(totals, "_rolled", dict(totals._rolled))
    listings = {name: dict(rows) for name, rows in totals._listings.items()}
    monkeypatch.setattr(totals, "_listings", listings)
    return aged


def change(pipeline: Pipeline, name: str, key: str, **changes: Any) -> None:
    rows = pipeline.totals._listings[name, calculated(key, LISTING_BUCKETS)]
    rows[key] = replace(rows[key], **changes)


def newest(pipeline: Pipeline) -> str:
    windows = pipeline.catalog.windows(0, NOW)
    return [window.id for window in windows if window.listed][-1]


def test_a_listing_that_lacks_a_key(pipeline: Pipeline) -> None:
    window = newest(pipeline)
    del pipeline.totals._listings[window, calculated("k1", LISTING_BUCKETS)]["k1"]
    sign = only(pipeline, "listing")
    assert "(keys, events, amount) by its listing (2, 2, 3000000), when sealed (3, 3" in sign.text
    assert (sign.window, f"~w.{window}." in sign.remedy) == (window, True)


def test_listed_values_that_change_no_sum(pipeline: Pipeline) -> None:
    window = newest(pipeline)
    change(pipeline, window, "k0", n=0, amount=0)
    change(pipeline, window, "k1", n=2, amount=3_000_000)
    texts = bad(pipeline, deep=True)["listing"]
    assert f"{window}: key 'k1': listed (2, 3000000), its total (1, 1500000)" in texts
    # A look at one of sixteen buckets at a time meets one before long.
    assert any("listing" in bad(pipeline) for _ in range(100))


def test_a_window_of_many_keys_is_left_to_a_deep_look(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived_checks, "LISTED_ROWS", 7)
    change(pipeline, first(pipeline, Status.DROPPED), "k0", n=2)
    text = examined(pipeline)["listing"].text
    assert text.startswith("listings of sealed windows that are whole: 2; ")
    assert "were not looked at (--deep)" in text
    assert "listing" in bad(pipeline, deep=True)


def test_a_day_whose_listing_is_not_the_sum_of_its_windows(pipeline: Pipeline) -> None:
    key = "extra"
    bucket = (DAY.name, calculated(key, LISTING_BUCKETS))
    pipeline.totals._listings.setdefault(bucket, {})[key] = Listed(key, 1, 1, 24)
    sign = only(pipeline, "rollups")
    by_listing, by_windows = (73, 108_000_001), (72, 108_000_000)
    assert sign.text == (
        f"2026-11-19: (events, amount) by its listing {by_listing}, by its windows {by_windows}"
    )
    assert "TALLYROLL_ROLLUPS=false" in sign.remedy


@pytest.mark.parametrize("lost", [True, False])
def test_a_key_of_a_day_that_is_not_the_sum_of_its_windows(
    pipeline: Pipeline, *, lost: bool
) -> None:
    rolled = pipeline.totals._rolled
    total = rolled.pop(("k1", DAY.name))
    if not lost:
        rolled["k1", DAY.name] = replace(total, n=total.n + 1)
    shown = "none" if lost else (25, 36_000_000)
    assert only(pipeline, "rollups").text == (
        f"2026-11-19: key 'k1': (events, amount) {shown}, by its windows (24, 36000000)"
    )


def test_a_day_that_names_other_windows(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = pipeline.catalog._periods
    [state] = pipeline.catalog.periods(DAY.name, DAY.name)
    monkeypatch.setattr(
        pipeline.catalog, "_periods", {**states, DAY.name: replace(state, digest="another")}
    )
    assert "it names 24 windows, and has 24, or others" in only(pipeline, "rollups").text


def test_a_day_that_is_rolled_up_anew_meanwhile(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_period = derived_checks._of_period
    catalog = pipeline.catalog
    monkeypatch.setattr(catalog, "_periods", dict(catalog._periods))
    pipeline.totals._rolled.pop(("k1", DAY.name))

    def meanwhile(*known: object) -> object:
        texts = list(of_period(*known))  # type: ignore[arg-type]
        state = catalog._periods[DAY.name]
        catalog._periods[DAY.name] = replace(state, epoch=state.epoch + 1)
        return texts

    monkeypatch.setattr(derived_checks, "_of_period", meanwhile)
    assert "rollups" not in bad(pipeline)


def test_a_key_of_a_month(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(hours=24)
    for number in range(1, 31):
        days.day(number)
    days.at(31)
    days.roll()
    case = case_of(days.pipeline)
    assert next(rollups(case)).text.endswith("the sums of their windows: 1")
    name = month_of(FIRST).name
    total = days.totals._rolled["b", name]
    monkeypatch.setitem(days.totals._rolled, ("b", name), replace(total, n=total.n - 1))
    [sign, _] = rollups(case)
    assert sign.text.startswith("2026-11: key 'b': (events, amount) (59, 60000000), by its windows")


@pytest.mark.parametrize("apart_ms", [0, HOUR])
def test_keys_that_differ_only_by_normalization(apart_ms: int) -> None:
    """In one window or in two."""
    pipeline = grown(3)
    roller = pipeline.roller()
    keys = ("caf\u00e9", "cafe", "cafe\u0301")
    for number in range(24):
        at = pipeline.effects.now() - NOW
        pipeline.write(*({"key": key} for key in keys[:2] if at == 0))
        pipeline.write(*({"key": key} for key in keys[2:] if at == apart_ms))
        pipeline.effects.pass_by(10 * MINUTE)
        roller.run(TIME_LEFT)
        assert number or "listing" not in bad(pipeline), "the window is not sealed yet"
    (sign,) = examined(pipeline)["listing"].bad
    assert sign.level is Level.WARNING
    assert sign.text == r"2 keys differ only by Unicode normalization: 'cafe\u0301', 'caf\xe9'"
    assert "NFC" in sign.remedy
