"""Largest keys and totals over ranges, against sums by hand: rolled-up days, sealed windows, live
ones, corrections, keys that begin others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled, UsageError
from tallyroll.model.states import Status
from tallyroll.model.totals import Correction
from tallyroll.model.windows import window_id
from tallyroll.reads.ranges import all_keys
from tallyroll.reads.ranges.all_keys import AllKeys
from tests.harness.pipeline import HOUR, TIME_LEFT, Pipeline, hour
from tests.unit.lifecycle.test_rollups import DAY, FIRST, MICROS, Days
from tests.unit.reads.conftest import KEYS, LAST, by_hand


def corrected_since(days: Days, since: int) -> int:
    """How many events were corrected."""
    listed = (days.totals.of_key(key, window_id(since), window_id(LAST)) for key in KEYS)
    return sum(total.corrections.n for some in listed for total in some)


@pytest.mark.parametrize("held", [1, 50_000])
@pytest.mark.parametrize("shift", [0, 5])
def test_the_sums_are_those_by_hand(
    days: Days, monkeypatch: pytest.MonkeyPatch, held: int, shift: int
) -> None:
    monkeypatch.setattr(all_keys, "ROWS_HELD", held)
    since, until = FIRST + shift * HOUR, LAST
    expected = by_hand(days, since, until)
    reader = days.pipeline.reader()
    top = reader.top_within(since, until, 100)
    assert {key.key: key.n for key in top.largest} == {k: n for k, n in expected.items() if n}
    assert (top.keys, top.events, top.complete) == (len(expected), expected.total(), True)
    assert top.retracted[0] == corrected_since(days, since)
    total = reader.total(since, until)
    assert (total.events, total.amount) == (top.events, top.amount)
    assert total.retracted == top.retracted
    assert top.largest[0].n == max(expected.values())


def test_a_missed_correction_is_found(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AllKeys, "_corrections", lambda *_: {})
    top = days.pipeline.reader().top_within(FIRST, LAST, 100)
    assert top.events == by_hand(days).total() + 3


def test_a_window_counts_whose_roller_has_yet_to_say_that_it_is_open() -> None:
    """Its gates are open before its state says so."""
    pipeline = Pipeline()
    pipeline.roller().run(TIME_LEFT)
    pipeline.write(*({"id": f"e{n}", "key": "k"} for n in range(3)))
    pipeline.catalog._windows[hour(8)] = replace(pipeline.state(hour(8)), status=Status.CREATING)
    reader = pipeline.reader()
    assert reader.total().events == 3
    assert reader.top_within(None, None, 10).events == 3
    assert [(row.key, row.events) for row in reader.keys_page().keys] == [("k", 3)]
    assert sum(point.events for point in reader.minutes("k").points) == 3


def test_a_window_that_is_being_sealed_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline()
    pipeline.roller().run(TIME_LEFT)
    pipeline.write(*({"id": f"{k}{n}", "key": k} for k in KEYS for n in range(2)))
    pipeline.move(Status.CLOSING, hour(8))
    pipeline.roller().run(TIME_LEFT)
    sealed = pipeline.state(hour(8))
    assert sealed.status is Status.SEALED
    again = pipeline.catalog.advance(replace(sealed, status=Status.CLOSING, listed=None))
    top = pipeline.reader().top_within(sealed.start, sealed.end, 100)
    assert {key.key: key.n for key in top.largest} == dict.fromkeys(KEYS, 2)
    assert pipeline.reader().total(sealed.start, sealed.end).events == 2 * len(KEYS)

    real = AllKeys.parts

    def twice(self: AllKeys, *given: Any, **more: Any) -> Any:
        return replace(real(self, *given, **more), sealed=[again])

    monkeypatch.setattr(AllKeys, "parts", twice)
    wrong = pipeline.reader().top_within(sealed.start, sealed.end)
    assert wrong.events == 4 * len(KEYS), "counted twice, and seen"


def test_what_cannot_be_read_is_named(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    real = days.totals.listing

    def fails(name: str, *rest: Any) -> Any:
        if name == "day#20261101":
            raise Throttled("slow down")
        return real(name, *rest)

    monkeypatch.setattr(days.totals, "listing", fails)
    top = days.pipeline.reader().top_within(FIRST, LAST)
    assert (top.complete, top.missing) == (False, ("2026-11-01",))
    late = days.pipeline.reader().top_within(FIRST, LAST, 10, 0)
    assert len(late.missing) > 1
    assert not days.pipeline.reader().total(FIRST, LAST, 0).complete


def test_where_corrections_cannot_be_read_nothing_is_counted(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a day nor a window is counted with events that were taken back."""
    real, truth = days.totals.corrected, by_hand(days)
    last = window_id(LAST - HOUR)

    def fails(window: str, *rest: Any) -> Any:
        if window in (window_id(FIRST), last):
            raise Throttled("slow down")
        return real(window, *rest)

    monkeypatch.setattr(days.totals, "corrected", fails)
    top = days.pipeline.reader().top_within(FIRST, LAST, 100)
    assert {"2026-11-01", last} <= {*top.missing}
    assert 0 < top.events < truth.total()
    assert all(0 < key.n <= truth[key.key] for key in top.largest)
    total = days.pipeline.reader().total(FIRST, LAST)
    assert total.missing == (window_id(FIRST), last)


def test_no_sum_is_negative_where_a_listing_breaks_off(
    days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Corrections are subtracted from what they correct, and from nothing else."""
    real = days.totals.listing

    def fails(name: str, *rest: Any) -> Any:
        if name.startswith("day#"):
            raise Throttled("slow down")
        return real(name, *rest)

    at = next(at for at in range(FIRST, LAST, HOUR) if by_hand(days, at, at + HOUR)["b"] > 1)
    more = by_hand(days, at, at + HOUR)["b"]
    days.totals.correct([Correction(window_id(at), "y", ("b",), more, 0, b"digest", at)])
    monkeypatch.setattr(days.totals, "listing", fails)
    top = days.pipeline.reader().top_within(FIRST, LAST, 100)
    assert not top.complete
    assert all(key.n >= 0 for key in top.largest)
    assert top.events == by_hand(days, FIRST + 2 * DAY).total()


def test_a_sealed_window_without_listings_is_read_less_its_corrections() -> None:
    """As an earlier release sealed it, with tombstones from before the seal, too."""
    pipeline = Pipeline()
    pipeline.roller().run(TIME_LEFT)
    pipeline.write(*({"id": f"e{n}", "key": "a"} for n in range(5)))
    pipeline.move(Status.CLOSING, hour(8))
    pipeline.roller().run(TIME_LEFT)
    sealed = pipeline.state(hour(8))
    pipeline.catalog.advance(replace(sealed, listed=None))
    pipeline.totals.correct([Correction(sealed.id, "e1", ("a",), 1, MICROS, b"digest", 1)])
    pipeline.totals.put_retracted(sealed.id, {"a": (7, 0)})
    top = pipeline.reader().top_within(sealed.start, sealed.end)
    assert [(key.key, key.n) for key in top.largest] == [("a", 4)]
    total = pipeline.reader().total(sealed.start, sealed.end)
    assert (total.events, total.retracted, top.retracted) == (4, (1, MICROS), (1, MICROS))


def test_a_total_from_a_time_to_come_is_refused(days: Days) -> None:
    with pytest.raises(UsageError, match="is not before"):
        days.pipeline.reader().total(LAST + 400 * DAY)


def test_a_range_of_too_many_parts(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_keys, "PARTS_MAX", 3)
    with pytest.raises(UsageError, match="windows and rolled-up days, over 3"):
        days.pipeline.reader().top_within(FIRST, LAST)
