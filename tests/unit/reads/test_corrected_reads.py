"""Counts and largest keys where events were retracted: net, with what was retracted beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tallyroll.errors import Throttled
from tallyroll.limits import LISTING_BUCKETS
from tallyroll.model.specs import Spec
from tallyroll.model.states import Status
from tallyroll.model.tallies import Stripe, Tally
from tallyroll.model.totals import Correction, Corrections, Listed, Total
from tallyroll.reads.counts import Count, counter_json
from tallyroll.reads.jsonable import top_json
from tests.harness.pipeline import HOUR, START, TIME_LEFT, WINDOW, Pipeline, hour
from tests.unit.reads.test_long_reads import DAY, MICROS, MIDNIGHT, SIX_HOURS, best, lived, voted
from tests.unit.reads.test_lookups import voted as voting

NOON, EVENING, NIGHT, LIVE = "20261120T120000Z", "20261120T180000Z", "20261121T000000Z", "22T06"


def taken(window: str, id_: str, key: str = "k", value: int = 2) -> Correction:
    """The retraction of one event."""
    return Correction(window, id_, (key,), 1, value * MICROS, b"digest", START)


def count(
    pipeline: Pipeline,
    since: int | None = None,
    until: int | None = None,
    *,
    by_window: bool = False,
) -> Count:
    return pipeline.reader().count("k", since, until, 10 * TIME_LEFT, by_window=by_window)


def sums(one: Any) -> tuple[int, int, tuple[int, int]]:
    return one.events, one.amount, one.retracted


def test_a_sealed_window_s_count_is_net_in_any_range_that_has_it() -> None:
    pipeline = lived()
    before = counter_json(count(pipeline))
    assert "retracted" not in str(before)
    pipeline.totals.correct([taken(NOON, "x"), taken(NIGHT, "x")])

    whole = count(pipeline)
    assert sums(whole) == (6, 12 * MICROS, (2, 4 * MICROS))
    assert [sums(day) for day in whole.periods] == [
        (1, 2 * MICROS, (1, 2 * MICROS)),
        (3, 6 * MICROS, (1, 2 * MICROS)),
    ]
    singly = count(pipeline, by_window=True)
    assert sums(singly) == sums(whole)
    assert {one.window: sums(one) for one in singly.windows}[NOON] == (0, 0, (1, 2 * MICROS))
    assert len(singly.windows) == 8  # none of them a row of corrections
    last = count(pipeline, MIDNIGHT, MIDNIGHT + DAY)
    assert [sums(day) for day in last.periods] == [(3, 6 * MICROS, (1, 2 * MICROS))]
    assert sums(count(pipeline, MIDNIGHT + 6 * HOUR, None)) == (5, 10 * MICROS, (0, 0))
    assert sums(count(pipeline, MIDNIGHT - 12 * HOUR, MIDNIGHT - 6 * HOUR))[0] == 0


def test_the_answer_has_what_was_retracted_where_there_is_any() -> None:
    pipeline = lived()
    pipeline.totals.correct([taken(EVENING, "x", value=-3)])
    body = counter_json(count(pipeline))
    assert (body["events"], body["sum"]) == (7, "19")
    assert body["retracted"] == {"events": 1, "sum": "-3"}
    days = [day.get("retracted") for day in body["rolled_up"]]
    assert days == [{"events": 1, "sum": "-3"}, None]
    windows = counter_json(count(pipeline, by_window=True))["windows"]
    assert [one["window"] for one in windows if "retracted" in one] == [EVENING]


def test_a_count_takes_no_further_request_for_corrections() -> None:
    pipeline = lived(replace(SIX_HOURS, settle_ms=60_000))
    asked: list[str] = []
    _noting(pipeline, asked)
    count(pipeline)
    plain = list(asked)
    pipeline.totals.correct([taken(NOON, "x"), taken(NIGHT, "x")])
    asked.clear()
    assert count(pipeline).retracted == (2, 4 * MICROS)
    assert asked == plain


def _noting(pipeline: Pipeline, asked: list[str]) -> None:
    """Note what is asked of catalog and totals."""
    for port in (pipeline.catalog, pipeline.totals):
        for verb in ("periods", "windows", "live", "of_key", "periods_of_key", "of_window"):
            if found := getattr(port, verb, None):

                def noted(*given: Any, verb: str = verb, found: Any = found) -> Any:
                    asked.append(verb)
                    return found(*given)

                setattr(port, verb, noted)


@pytest.mark.parametrize("settle_ms", [0, 60_000])
def test_corrections_of_a_window_that_came_after_the_day_was_read_are_not_taken_from_its_sums(
    settle_ms: int,
) -> None:
    """The day's sums are those of the windows before, and its corrections have those of all."""
    settings = replace(SIX_HOURS, settle_ms=settle_ms)
    pipeline = lived(settings)
    pipeline.totals.correct([taken(NOON, "x")])
    periods_of_key = pipeline.totals.periods_of_key

    def late(*given: Any) -> Any:
        # The morning's window is created, sealed with an event of k, and corrected.
        window = pipeline.catalog.window(NOON)
        assert window
        morning = replace(
            window, id="20261120T060000Z", start=window.start - 6 * HOUR, end=window.start
        )
        if pipeline.catalog.create(replace(morning, status=Status.CREATING, version=0)):
            state = pipeline.catalog.window(morning.id)
            assert state
            sealed = replace(state, status=Status.SEALED, listed=LISTING_BUCKETS)
            pipeline.catalog.advance(sealed)
            pipeline.totals.put([Total("k", morning.id, 2, 4 * MICROS)])
            pipeline.totals.correct([taken(morning.id, "late")])
            pipeline.effects.pass_by(settle_ms)
        return periods_of_key(*given)

    pipeline.totals.periods_of_key = late  # type: ignore[assignment, method-assign]
    answer = count(pipeline)
    assert sums(answer) == (8, 16 * MICROS, (2, 4 * MICROS))
    assert "day#20261120" not in [day.period for day in answer.periods]


def test_what_was_retracted_before_the_seal_stands_beside_the_net_total() -> None:
    pipeline = lived()
    pipeline.totals.put_retracted(NOON, {"k": (3, -5)})
    assert sums(count(pipeline)) == (8, 16 * MICROS, (3, -5))
    pipeline.totals.correct([taken(NOON, "x")])
    assert sums(count(pipeline)) == (7, 14 * MICROS, (4, 2 * MICROS - 5))
    assert sums(count(pipeline, by_window=True)) == sums(count(pipeline))


def test_a_live_window_s_retractions_are_those_of_its_tally(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = lived()
    live = [one.window for one in count(pipeline).windows if one.status is not Status.SEALED]
    tallies = pipeline.store.tallies

    def retracted(spec: Spec, keys: list[str]) -> dict[str, Tally]:
        some = (2, 3) if spec.window == live[0] else (0, 0)
        return {key: replace(one, retracted=some) for key, one in tallies(spec, keys).items()}

    monkeypatch.setattr(pipeline.store, "tallies", retracted)
    answer = count(pipeline)
    assert sums(answer) == (8, 16 * MICROS, (2, 3))
    assert [one.window for one in answer.windows if any(one.retracted)] == live[:1]


def test_a_total_that_was_sealed_and_corrected_while_a_window_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its state is read as live, and its table is gone when the tallies are read."""
    pipeline = voting()
    key = best_key(pipeline)
    events = pipeline.reader().count(key, None, None, TIME_LEFT).events
    tallies = pipeline.store.tallies

    def gone(spec: Spec, keys: list[str]) -> dict[str, Tally]:
        if spec.window == WINDOW and pipeline.state().status is Status.OPEN:
            pipeline.move(Status.CLOSING, WINDOW)
            pipeline.roller().run(TIME_LEFT)
            pipeline.totals.correct([taken(WINDOW, "x", key)])
            pipeline.store.drop_table(pipeline.state().table)
            pipeline.move(Status.DROPPED, WINDOW)
        return tallies(spec, keys)

    monkeypatch.setattr(pipeline.store, "tallies", gone)
    answer = pipeline.reader().count(key, None, None, TIME_LEFT)
    assert (answer.complete, answer.events, answer.retracted[0]) == (True, events - 1, 1)


def best_key(pipeline: Pipeline) -> str:
    return pipeline.reader().top(WINDOW, 1, TIME_LEFT).largest[0].key


def test_the_largest_keys_are_chosen_by_their_net_sums() -> None:
    pipeline = voted(Status.SEALED)
    assert "retracted" not in str(top_json(best(pipeline)))
    window = hour(8)
    taken_of_a = [taken(window, f"a{n}", "a", 0) for n in range(4)]
    pipeline.totals.correct([*taken_of_a, taken(window, "b2", "b", -2)])
    pipeline.totals.put_retracted(window, {"c": (7, 9 * MICROS)})

    top = best(pipeline)
    assert [(key.key, key.n) for key in top.largest] == [("c", 3), ("b", 2), ("é", 2)]
    assert (top.keys, top.events, top.amount) == (5, 9, -15 * MICROS)
    assert top.retracted == (12, 7 * MICROS)
    before = Corrections(before=(7, 9 * MICROS))
    assert top.largest[0] == Listed("c", 3, -3 * MICROS, corrections=before)
    body = top_json(top)
    assert body["retracted"] == {"events": 12, "sum": "7"}
    assert body["top"][0]["retracted"] == {"events": 7, "sum": "9"}
    assert "retracted" not in body["top"][2]
    assert [key.key for key in best(pipeline, 5).largest] == ["c", "b", "é", "a", "d"]


def test_a_sealed_window_that_an_earlier_release_did_not_list_is_read_less_its_corrections() -> (
    None
):
    pipeline, window = voted(Status.SEALED), hour(8)
    pipeline.move(Status.SEALED, window, listed=None)
    before = best(pipeline)
    assert [(key.key, key.n) for key in before.largest] == [("a", 5), ("b", 3), ("c", 3)]
    tallies = pipeline.store.stripes

    def with_retracted(*known: Any) -> Iterator[list[Stripe]]:
        for page in tallies(*known):
            retracted = [(int(each.tally.key == "c"), 0) for each in page]
            yield [
                replace(each, tally=replace(each.tally, retracted=of))
                for each, of in zip(page, retracted, strict=True)
            ]

    pipeline.store.stripes = with_retracted  # type: ignore[assignment, method-assign]
    pipeline.totals.correct([taken(window, f"a{n}", "a", 0) for n in range(4)])
    top = best(pipeline)
    assert [(key.key, key.n, key.retracted[0]) for key in top.largest] == [
        ("b", 3, 0),
        ("c", 3, 1),
        ("é", 2, 0),
    ]
    assert (top.keys, top.events, top.retracted) == (5, 10, (5, 0))
    with pytest.raises(Throttled, match="the corrections of 20261120T080000Z take too long"):
        best(pipeline, time_left=0)


def test_many_corrections_are_joined_with_their_totals_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tallyroll.reads.lookups.LISTED_PER_PAGE", 2)
    pipeline = voted(Status.SEALED)
    window, keys = hour(8), [f"key-{n:03}" for n in range(200)]
    pipeline.totals.put([Total(key, window, n, 0) for n, key in enumerate(keys)])
    pipeline.totals.correct([taken(window, "x", key, 0) for key in keys[::3]])
    top = best(pipeline, 1_000)
    found = {key.key: (key.n, key.retracted[0]) for key in top.largest if key.key in keys}
    assert found == {key: (n, 0) if n % 3 else (n - 1, 1) for n, key in enumerate(keys)}


def test_corrections_of_a_key_whose_total_is_put_meanwhile_are_left_out() -> None:
    pipeline = voted(Status.SEALED)
    pipeline.totals.correct([taken(hour(8), "x", "nobody")])
    top = best(pipeline, 1_000)
    assert "nobody" not in [key.key for key in top.largest]
    assert (top.events, top.retracted) == (14, (0, 0))


def test_the_largest_keys_of_a_live_window_have_what_was_retracted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = voting()
    key = best_key(pipeline)
    stripes = pipeline.store.stripes

    def retracted(*given: Any) -> Iterator[list[Stripe]]:
        for page in stripes(*given):
            yield [
                replace(each, tally=replace(each.tally, retracted=(1, 5)))
                if each.tally.key == key
                else each
                for each in page
            ]

    monkeypatch.setattr(pipeline.store, "stripes", retracted)
    top = pipeline.reader().top(WINDOW, 3, TIME_LEFT)
    n, amount = top.largest[0].retracted
    assert (top.largest[0].key, amount) == (key, 5 * n)
    assert n > 0
    assert top.retracted == (n, amount)
    assert not any(any(other.retracted) for other in top.largest[1:])
